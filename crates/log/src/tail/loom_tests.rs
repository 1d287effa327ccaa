//! The publication of a record, and a reader without a latch, under every interleaving.
//!
//! The model has a ring of one chunk of two words. The appender uses the chunk for one position after the other, like a
//! chunk that was moved. The orderings are those of `Region::copy_in`, `Region::copy_out` and `Word::publish`.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;

/// Returns a record: its number, and a checksum over its number and place.
fn record(lsn: u64) -> [u64; 2] {
    [lsn * 7, (lsn * 7).wrapping_mul(0x9E37_79B9).wrapping_add(lsn)]
}

fn place(lsn: u64) -> usize {
    usize::try_from(lsn).expect("the model has three places")
}

fn verifies(words: [u64; 2], lsn: u64) -> bool {
    words == record(lsn)
}

struct Model {
    chunk: [AtomicU64; 2],
    tail: AtomicU64,
    durable: AtomicU64,
    file: [[AtomicU64; 2]; 3],
}

impl Model {
    fn new() -> Arc<Model> {
        let words = || [AtomicU64::new(0), AtomicU64::new(0)];
        let file = [words(), words(), words()];
        Arc::new(Model { chunk: words(), tail: AtomicU64::new(0), durable: AtomicU64::new(0), file })
    }

    /// Appends record `lsn` into the only chunk.
    fn append(&self, lsn: u64) {
        for (word, value) in self.chunk.iter().zip(record(lsn)) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail.store(lsn + 1, Ordering::Release);
    }

    /// Writes and syncs the ring's contents; only then may the chunk be used again.
    fn flush(&self, lsn: u64) {
        for (to, from) in self.file[place(lsn)].iter().zip(&self.chunk) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.durable.fetch_max(lsn + 1, Ordering::AcqRel);
    }

    /// As `LogManager::read`: reads the ring, then the files, and repeats until one of them has the record.
    fn read(&self, lsn: u64) -> Option<[u64; 2]> {
        if lsn >= self.tail.load(Ordering::Acquire) {
            return None;
        }
        loop {
            let copied = [0, 1].map(|word| self.chunk[word].load(Ordering::Relaxed));
            if verifies(copied, lsn) {
                return Some(copied);
            }
            if lsn < self.durable.load(Ordering::Acquire) {
                let copied = [0, 1].map(|word| self.file[place(lsn)][word].load(Ordering::Relaxed));
                assert!(verifies(copied, lsn), "durable records are whole in the files");
                return Some(copied);
            }
            loom::thread::yield_now();
        }
    }
}

#[test]
fn loom_a_reader_that_sees_the_tail_sees_the_whole_record() {
    loom::model(|| {
        let model = Model::new();
        let appender = model.clone();
        let thread = loom::thread::spawn(move || appender.append(0));
        if let Some(words) = model.read(0) {
            assert!(verifies(words, 0));
        }
        thread.join().expect("no appender panics");
    });
}

#[test]
fn loom_a_reader_never_returns_bytes_of_a_chunk_that_is_reused() {
    loom::model(|| {
        let model = Model::new();
        model.append(0);
        let appender = model.clone();
        let thread = loom::thread::spawn(move || {
            appender.flush(0);
            appender.append(1);
            appender.flush(1);
            appender.append(2);
        });
        assert!(model.read(0).is_some_and(|words| verifies(words, 0)));
        if let Some(words) = model.read(1) {
            assert!(verifies(words, 1));
        }
        thread.join().expect("no appender panics");
    });
}
