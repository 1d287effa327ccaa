//! Several threads change one segment. Each range has one owner at a time. Each thread's undo log is rolled back. A
//! forgotten transaction does not block other threads, and its stores are undone.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vista::{Error, Guard, Options, Segment};

struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let file = std::env::temp_dir().join(format!("vista-threads-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        File(file)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const BYTES: u64 = 1 << 20;

fn fill(worker: &mut vista::Worker<'_>, at: u64, bytes: usize, with: u8) {
    let mut txn = worker.begin();
    txn.set_range(at, bytes).unwrap().fill(with);
    txn.end().unwrap();
}

#[test]
fn the_stores_of_two_threads_are_kept_and_an_abort_undoes_only_its_own_stores() {
    let file = File::new("two");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    std::thread::scope(|scope| {
        for nth in 0..2_u8 {
            let threads = &threads;
            scope.spawn(move || {
                let mut worker = threads.worker().unwrap();
                for round in 0..1000 {
                    let mut txn = worker.begin();
                    for line in 0..4 {
                        let at = u64::from(nth) * 100_000 + line * 9000;
                        txn.set_range(at, 100).unwrap().fill(nth + 1);
                    }
                    if round % 3 == 1 {
                        txn.set_range(500_000 + u64::from(nth) * 100_000, 5000).unwrap().fill(9);
                        txn.abort();
                    } else {
                        txn.end().unwrap();
                    }
                }
            });
        }
    });
    let segment = threads.into_segment();
    for nth in 0..2_u8 {
        let from = usize::from(nth) * 100_000;
        assert!((0..4).all(|line| segment.bytes()[from + line * 9000..][..100].iter().all(|&byte| byte == nth + 1)));
        assert!(segment.bytes()[500_000 + from..][..5000].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn every_log_is_rolled_back_when_the_segment_is_mapped() {
    let file = File::new("logs");
    for is_written_back in [false, true] {
        let options = Options::new(BYTES).write_back(is_written_back);
        let threads = options.open(&file.0).unwrap().share().unwrap();
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap(), threads.worker().unwrap()];
        for (worker, at) in workers.iter_mut().zip((0..).step_by(100_000)) {
            fill(worker, at, 20_000, 1);
            // The transaction's before-images are longer than the initial log.
            let mut txn = worker.begin();
            txn.set_range(at, 20_000).unwrap().fill(2);
            txn.set_range(at + 30_000, 8).unwrap().fill(3);
            std::mem::forget(txn);
        }
        // The copy is the file that this process would leave if it died now.
        let copy = File::new("logs-copy");
        std::fs::copy(&file.0, &copy.0).unwrap();
        let segment = Options::new(BYTES).anywhere().open(&copy.0).unwrap();
        assert!(segment.rolled_back() >= 6, "{} ranges", segment.rolled_back());
        segment.verify().unwrap();
        for at in [0, 100_000, 200_000] {
            assert!(segment.bytes()[at..at + 20_000].iter().all(|&byte| byte == 1));
            assert!(segment.bytes()[at + 30_000..][..8].iter().all(|&byte| byte == 0));
        }
        drop(segment);
        let again = Options::new(BYTES).anywhere().open(&copy.0).unwrap();
        assert_eq!(again.rolled_back(), 0);
        // The next threads use the existing logs, and the file does not grow.
        let (used, threads) = (again.file_used(), again.share().unwrap());
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap(), threads.worker().unwrap()];
        fill(&mut workers[2], 0, 8, 7);
        drop(workers);
        assert_eq!(threads.into_segment().file_used(), used);
    }
}

#[test]
fn a_forgotten_transaction_and_a_forgotten_worker_are_undone() {
    let file = File::new("forgotten");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let mut worker = threads.worker().unwrap();
    let mut txn = worker.begin();
    txn.set_range(0, 8).unwrap().fill(1);
    std::mem::forget(txn);
    // This call undoes the forgotten transaction, and commits none of its stores.
    fill(&mut worker, 8, 8, 2);
    let mut other = threads.worker().unwrap();
    // No worker holds the range of the forgotten transaction any more.
    fill(&mut other, 16, 8, 3);
    let mut txn = worker.begin();
    txn.set_range(24, 8).unwrap().fill(4);
    std::mem::forget(txn);
    std::mem::forget(worker);
    drop(other);
    let mut segment = threads.into_segment();
    assert_eq!(segment.bytes()[..32], [[0; 8], [2; 8], [3; 8], [0; 8]].concat());
    let mut txn = segment.begin();
    txn.set_range(24, 8).unwrap().fill(5);
    txn.end().unwrap();
    segment.close().unwrap();
    // The forgotten worker's log does not undo a later store, either.
    assert_eq!(Segment::open(&file.0, BYTES).unwrap().bytes()[24..32], [5; 8]);
}

#[test]
fn a_kept_range_is_refused_to_another_worker() {
    let file = File::new("contended");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let stripe = threads.stripe_bytes();
    let (mut left, mut right) = (threads.worker().unwrap(), threads.worker().unwrap());
    left.keep(0, 10 * stripe).unwrap();
    left.keep(0, 10 * stripe).unwrap();
    assert!(matches!(right.keep(9 * stripe, stripe), Err(Error::Kept { .. })));
    assert!(matches!(right.keep(BYTES, 1), Err(Error::OutOfRange { .. })));
    fill(&mut left, 9 * stripe, 8, 1);
    let told = right.begin().set_range(9 * stripe, 8).map(|_| ()).unwrap_err();
    assert!(matches!(told, Error::Kept { .. }), "{told}");
    assert!(told.to_string().contains("until that worker is dropped") && told.to_string().contains("abort"), "{told}");
    // A transaction that locks out of order waits only for a moment. In order, it waits until the lock is released.
    let mut first = left.begin();
    first.set_range(20 * stripe, 8).unwrap();
    let mut second = right.begin();
    second.set_range(30 * stripe, 8).unwrap();
    assert!(matches!(second.set_range(20 * stripe, 8), Err(Error::Contended { .. })));
    assert!(matches!(second.get(20 * stripe + 1, 3), Err(Error::Contended { .. })));
    first.end().unwrap();
    second.set_range(20 * stripe, 8).unwrap().fill(8);
    second.end().unwrap();
    drop(left);
    fill(&mut right, 9 * stripe, 8, 2);
    drop(right);
    let segment = threads.into_segment();
    let at = |stripes: u64| segment.get(stripes * stripe, 1).unwrap()[0];
    assert_eq!((at(9), at(20)), (2, 8));
}

#[test]
fn threads_allocate_and_free_blocks_concurrently() {
    let file = File::new("heap");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let kept: Vec<u64> = std::thread::scope(|scope| {
        let work = |nth: u8| {
            let mut worker = threads.worker().unwrap();
            let mut blocks = Vec::new();
            for round in 0..300_u64 {
                let block = worker.run(|txn| {
                    let block = txn.malloc(40 + round * 7 % 90_000)?;
                    txn.set_range(block, 40)?.fill(nth);
                    Ok(block)
                });
                blocks.push(block.unwrap());
                if round % 2 == 1 {
                    let block = blocks.swap_remove(usize::try_from(round * 31).unwrap() % blocks.len());
                    worker.run(|txn| txn.free(block)).unwrap();
                }
                if round % 5 == 0 {
                    let mut txn = worker.begin();
                    let _ = txn.malloc(100).and_then(|_| txn.free(blocks[0]));
                }
            }
            let mut txn = worker.begin();
            for &block in &blocks {
                while let Err(error) = txn.get(block, 40).map(|bytes| assert_eq!(bytes, [nth; 40])) {
                    assert!(matches!(error, Error::Contended { .. }), "{error}");
                }
            }
            txn.abort();
            blocks
        };
        let threads: Vec<_> = (1..3).map(|nth| scope.spawn(move || work(nth))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let segment = threads.into_segment();
    assert_eq!(segment.verify().unwrap().blocks, kept.len() as u64);
    drop(segment);
    assert_eq!(Segment::open(&file.0, BYTES).unwrap().verify().unwrap().blocks, kept.len() as u64);
}

#[test]
fn impossible_requests_are_refused() {
    let file = File::new("refused");
    let guarded = Options::new(BYTES).guard(Guard::Pages).open(&file.0).unwrap();
    assert!(matches!(guarded.share(), Err(Error::Guarded { .. })));
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let mut worker = threads.worker().unwrap();
    let mut txn = worker.begin();
    for (at, bytes) in [(BYTES, 1), (BYTES - 1, 2), (u64::MAX, 1), (u64::MAX - 7, 8), (1 << 50, 8), (0, usize::MAX)] {
        assert!(matches!(txn.set_range(at, bytes), Err(Error::OutOfRange { .. })), "{at} {bytes}");
        assert!(matches!(txn.get(at, bytes), Err(Error::OutOfRange { .. })), "{at} {bytes}");
    }
    assert!(txn.set_range(5, 0).unwrap().is_empty());
    assert!(matches!(txn.free(64), Err(Error::NotAllocated { .. })));
    let block = txn.malloc(10).unwrap();
    txn.free(block).unwrap();
    assert!(matches!(txn.free(block), Err(Error::NotAllocated { .. })));
    txn.end().unwrap();
}

#[test]
fn a_panic_in_a_transaction_undoes_its_stores_and_releases_its_locks() {
    let file = File::new("panic");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let mut worker = threads.worker().unwrap();
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut txn = worker.begin();
        txn.set_range(0, 8).unwrap().fill(1);
        panic!("in a transaction");
    }));
    assert!(died.is_err());
    let mut other = threads.worker().unwrap();
    assert_eq!(other.begin().get(0, 8).unwrap(), [0; 8]);
    fill(&mut other, 0, 8, 2);
}

/// Returns the processor time that this thread has used.
fn worked() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_worker_that_waits_for_long_uses_little_processor_time() {
    let file = File::new("waits");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let stripe = threads.stripe_bytes();
    // A transaction that locks in order waits for the lock. Out of order, the transaction is refused and retried.
    for is_in_order in [true, false] {
        let (began, begin) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let mut worker = threads.worker().unwrap();
            let mut first = worker.begin();
            first.set_range(10 * stripe, 8).unwrap();
            let waits = scope.spawn(|| {
                let mut worker = threads.worker().unwrap();
                began.send(()).unwrap();
                let (start, before) = (Instant::now(), worked());
                worker
                    .run(|txn| {
                        if !is_in_order {
                            txn.set_range(20 * stripe, 8)?;
                        }
                        txn.set_range(10 * stripe, 8).map(drop)
                    })
                    .unwrap();
                (start.elapsed(), worked() - before)
            });
            begin.recv().unwrap();
            std::thread::sleep(Duration::from_millis(400));
            first.end().unwrap();
            let (waited, worked) = waits.join().unwrap();
            assert!(waited >= Duration::from_millis(300), "{waited:?}");
            assert!(
                worked < waited / 4,
                "in order: {is_in_order}: in {waited:?} the worker used {worked:?} of processor time"
            );
        });
    }
}

#[test]
fn a_range_that_another_worker_keeps_is_refused_at_once_until_that_worker_is_dropped() {
    let file = File::new("kept");
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let (mut left, mut right) = (threads.worker().unwrap(), threads.worker().unwrap());
    left.keep(0, 1).unwrap();
    let (mut tries, start) = (0, Instant::now());
    let told = right.run(|txn| {
        tries += 1;
        assert!(tries < 100 && start.elapsed() < Duration::from_secs(5), "the transaction does not end");
        txn.set_range(8, 8).map(drop)
    });
    assert!(matches!(told, Err(Error::Kept { .. })) && tries == 1, "{told:?} after {tries}");
    drop(left);
    right.run(|txn| txn.set_range(8, 8).map(drop)).unwrap();
}

/// A copy of a segment in use, whose words the test damages.
struct Words(std::fs::File);

impl Words {
    fn get(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, at).unwrap();
        u64::from_ne_bytes(word)
    }

    fn set(&self, at: u64, word: u64) {
        self.0.write_all_at(&word.to_ne_bytes(), at).unwrap();
    }

    /// Returns the offsets of the undo logs' headers (docs/formats/region.md and vista.md).
    fn logs(&self) -> Vec<u64> {
        let first = self.get(self.get(128 + 6 * 8) + 24);
        std::iter::successors(Some(first), |log| Some(self.get(log + 32)).filter(|next| *next != 0)).collect()
    }
}

#[test]
fn logs_that_were_damaged_so_that_two_have_the_same_bytes_are_refused() {
    let (file, copy) = (File::new("same"), File::new("same-copy"));
    let threads = Segment::open(&file.0, BYTES).unwrap().share().unwrap();
    let mut workers = [threads.worker().unwrap(), threads.worker().unwrap()];
    for (worker, at) in workers.iter_mut().zip([100_000, 200_000]) {
        let mut txn = worker.begin();
        // One log may have two images of the same bytes.
        for at in [at, at + 500, at] {
            txn.set_range(at, 1000).unwrap().fill(2);
        }
        std::mem::forget(txn);
    }
    // The copy is the file that this process would leave if it died now.
    std::fs::copy(&file.0, &copy.0).unwrap();
    let words = Words(std::fs::OpenOptions::new().read(true).write(true).open(&copy.0).unwrap());
    let logs = words.logs();
    assert_eq!(logs.len(), 3, "the segment's log and a log for each worker");
    let (area, next) = (8, 32);
    let [of_first, of_second, of_third] = [0, 1, 2].map(|nth| words.get(logs[nth] + area));
    let damages = [
        ("two logs have one area", logs[2] + area, of_second, "share the bytes"),
        ("an area in the middle of another area", logs[1] + area, of_first + 64, "share the bytes"),
        ("an area over another log's header", logs[2] + area, logs[1], "share the bytes"),
        ("an area over its own header", logs[2] + area, logs[2], "share the bytes"),
        ("a log in the area of another log", logs[1] + next, of_first + 8, "undo log"),
        ("an image of the other log's bytes", of_third, words.get(of_second), "images of the bytes"),
        ("an image of a log's header", of_third, 1000 << 40 | logs[1], "undo log's own"),
        ("an image of a log's records", of_third, 1000 << 40 | (of_first + 800), "undo log's own"),
        ("a circle", logs[2] + next, logs[1], "circle"),
    ];
    let before = std::fs::read(&copy.0).unwrap();
    for (damage, at, with, told) in damages {
        let was = words.get(at);
        words.set(at, with);
        let damaged = std::fs::read(&copy.0).unwrap();
        let refused = Options::new(BYTES).anywhere().open(&copy.0).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }) && refused.to_string().contains(told), "{damage}: {refused}");
        assert!(damaged == std::fs::read(&copy.0).unwrap(), "{damage}: the refused opening wrote to the file");
        words.set(at, was);
    }
    assert!(before == std::fs::read(&copy.0).unwrap());
    let whole = Options::new(BYTES).anywhere().open(&copy.0).unwrap();
    assert_eq!(whole.rolled_back(), 6);
    assert!(whole.bytes().iter().all(|byte| *byte == 0));
}
