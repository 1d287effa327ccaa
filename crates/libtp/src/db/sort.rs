//! Sorts more records than memory holds: writes sorted runs to one file of the environment's directory, and merges
//! them.
//!
//! The file is unlinked as soon as it is open. A process that dies before that leaves an empty file, which the next
//! sort for the same database takes over. A run whose first key is not below the last key of the previous run extends
//! the previous run, so sorted input makes one run of any length.
//!
//! Of records with equal keys, the record that was pushed last comes last.

use libtp_record::copies::{append_copy, copy_of, make_room};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::{failpoint, planted};

use crate::{Error, Pair, Result};

/// In front of each record of a run: the lengths of key and value.
const HEAD_BYTES: usize = 8;
/// The number of bytes of one write.
const WRITE_BYTES: usize = 1 << 20;
/// The least and the largest number of bytes of one read of a run. The more runs there are, the shorter the reads.
const READ_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=1 << 20;

/// A record that waits in memory.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// A sorted part of the file.
#[derive(Clone, Copy)]
struct Run {
    from: u64,
    to: u64,
}

/// A sorter of records that come in any order.
pub(crate) struct Sorter<'d> {
    directory: &'d dyn Directory,
    name: String,
    memory: usize,
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    file: Option<Arc<dyn File>>,
    runs: Vec<Run>,
    /// The last key of the last run.
    last: Vec<u8>,
}

impl<'d> Sorter<'d> {
    /// Returns a sorter for a database of that name, which uses about `memory` bytes.
    pub(crate) fn new(directory: &'d dyn Directory, database: &str, memory: u64) -> Sorter<'d> {
        Sorter {
            directory,
            name: format!("{database}.tp.sort"),
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            bytes: Vec::new(),
            waiting: Vec::new(),
            file: None,
            runs: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The disk's errors.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let more = key.len() + value.len();
        let used = self.bytes.len() + self.waiting.len() * size_of::<Waiting>();
        if used + more > self.memory && !self.waiting.is_empty() {
            self.write_run()?;
        }
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| Error::Length {
                what: "a key or a value that is sorted",
                bytes: bytes.len(),
                limit: "up to 4 GiB where records are sorted".into(),
            })
        };
        let waiting = Waiting { at: self.bytes.len(), key_bytes: length(key)?, value_bytes: length(value)? };
        make_room(&mut self.bytes, more)?;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.waiting.push(waiting);
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.waiting.sort_by(|one, other| one.key(bytes).cmp(other.key(bytes)));
    }

    fn open(&mut self) -> Result<Arc<dyn File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = self.directory.open(&self.name, OpenMode::Create)?;
        failpoint("sort: file made");
        self.directory.remove(&self.name)?;
        file.set_len(0)?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn write_run(&mut self) -> Result<()> {
        self.sort();
        let file = self.open()?;
        let from = self.runs.last().map_or(0, |run| run.to);
        let (mut to, mut piece) = (from, Vec::with_capacity(WRITE_BYTES + HEAD_BYTES));
        for record in &self.waiting {
            piece.extend_from_slice(&record.key_bytes.to_le_bytes());
            piece.extend_from_slice(&record.value_bytes.to_le_bytes());
            append_copy(&mut piece, record.all(&self.bytes))?;
            if piece.len() >= WRITE_BYTES {
                file.write_at(&piece, to)?;
                to += piece.len() as u64;
                piece.clear();
            }
        }
        file.write_at(&piece, to)?;
        to += piece.len() as u64;
        let goes_on = self.waiting.first().is_some_and(|first| first.key(&self.bytes) >= &self.last[..]);
        match self.runs.last_mut().filter(|_| goes_on) {
            Some(run) => run.to = to,
            None => self.runs.push(Run { from, to }),
        }
        if let Some(last) = self.waiting.last() {
            self.last = last.key(&self.bytes).to_vec();
        }
        self.bytes.clear();
        self.waiting.clear();
        Ok(())
    }

    /// Ends the input; returns the records in order.
    ///
    /// # Errors
    /// The disk's errors.
    pub(crate) fn finish(mut self) -> Result<Merge> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Merge::Memory { bytes: self.bytes, waiting: self.waiting.into_iter() });
        }
        if !self.waiting.is_empty() {
            self.write_run()?;
        }
        let file = self.open()?;
        let read_bytes = (self.memory / (self.runs.len() + 1)).clamp(*READ_BYTES.start(), *READ_BYTES.end());
        let mut readers: Vec<RunReader> = self
            .runs
            .iter()
            .map(|run| {
                let (file, name) = (Arc::clone(&file), self.directory.describe(&self.name));
                RunReader { file, name, run: *run, read_bytes, buffer: Vec::new(), at: 0 }
            })
            .collect();
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (index, reader) in readers.iter_mut().enumerate() {
            if let Some((key, value)) = reader.next()? {
                heads.push(Reverse((key, order_of(index), value)));
            }
        }
        Ok(Merge::Runs { readers, heads })
    }
}

/// Returns the rank of a run's records among records with equal keys: the records of a later run come later.
fn order_of(index: usize) -> usize {
    if planted("libtp: a merge of runs reverses equal keys") {
        usize::MAX - index
    } else {
        index
    }
}

impl Waiting {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at..self.at + self.key_bytes as usize]
    }

    fn all<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at..self.at + self.key_bytes as usize + self.value_bytes as usize]
    }
}

/// The first record of a run: its key, its rank among equal keys, its value.
type Head = Reverse<(Vec<u8>, usize, Vec<u8>)>;

/// Records in the order of their keys.
pub(crate) enum Merge {
    /// All records are in memory.
    Memory { bytes: Vec<u8>, waiting: std::vec::IntoIter<Waiting> },
    /// The first record of each run that has records left, and the readers of the further records.
    Runs { readers: Vec<RunReader>, heads: BinaryHeap<Head> },
}

impl Merge {
    /// Returns the next record, `None` after the last.
    ///
    /// # Errors
    /// The disk's errors.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>> {
        match self {
            Merge::Memory { bytes, waiting } => {
                let Some(record) = waiting.next() else { return Ok(None) };
                let (key, value) = record.all(bytes).split_at(record.key_bytes as usize);
                Ok(Some((copy_of(key)?, copy_of(value)?)))
            }
            Merge::Runs { readers, heads } => {
                let Some(Reverse((key, order, value))) = heads.pop() else { return Ok(None) };
                // `order_of` is its own inverse.
                let index = order_of(order);
                if let Some((key, value)) = readers[index].next()? {
                    heads.push(Reverse((key, order, value)));
                }
                Ok(Some((key, value)))
            }
        }
    }
}

/// A reader of one run.
pub(crate) struct RunReader {
    file: Arc<dyn File>,
    name: String,
    /// The part of the run that is not in the buffer yet.
    run: Run,
    read_bytes: usize,
    buffer: Vec<u8>,
    at: usize,
}

impl RunReader {
    /// Makes sure that the buffer holds `bytes` bytes.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        if self.buffer.len() - self.at >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = usize::try_from(self.run.to - self.run.from).unwrap_or(usize::MAX);
        let had = self.buffer.len();
        let wanted = self.read_bytes.max(bytes - had).min(left);
        make_room(&mut self.buffer, wanted)?;
        self.buffer.resize(had + wanted, 0);
        let read = self.file.read_at(&mut self.buffer[had..], self.run.from)?;
        self.run.from += read as u64;
        if read < wanted || self.buffer.len() < bytes {
            let name = &self.name;
            let what =
                format!("the temporary file {name}, in which records are sorted, became shorter; nothing was changed. Leave such files alone, and run the load again");
            return Err(Error::Corrupt(what.into()));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Pair>> {
        if self.at == self.buffer.len() && self.run.from == self.run.to {
            return Ok(None);
        }
        self.fill(HEAD_BYTES)?;
        let length = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let head = &self.buffer[self.at..self.at + HEAD_BYTES];
        let (key_bytes, value_bytes) = (length(head), length(&head[4..]));
        self.at += HEAD_BYTES;
        self.fill(key_bytes + value_bytes)?;
        let record = &self.buffer[self.at..self.at + key_bytes + value_bytes];
        let (key, value) = record.split_at(key_bytes);
        self.at += record.len();
        Ok(Some((copy_of(key)?, copy_of(value)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_io::PosixDirectory;

    fn sorted(pairs: &[Pair], memory: u64) -> (Vec<Pair>, usize) {
        let place = tempfile::tempdir().unwrap();
        let directory = PosixDirectory::create(place.path()).unwrap();
        let mut sorter = Sorter::new(&directory, "words", memory);
        for (key, value) in pairs {
            sorter.push(key, value).unwrap();
        }
        let mut merge = sorter.finish().unwrap();
        let runs = match &merge {
            Merge::Memory { .. } => 0,
            Merge::Runs { readers, .. } => readers.len(),
        };
        assert_eq!(directory.list().unwrap(), Vec::<String>::new(), "no file is left");
        let mut out = Vec::new();
        while let Some(pair) = merge.next().unwrap() {
            out.push(pair);
        }
        (out, runs)
    }

    fn pairs(count: u64, step: u64) -> Vec<Pair> {
        let numbers = (0..count).map(|number| number * step % count);
        numbers.map(|number| (number.to_be_bytes().to_vec(), vec![7; usize::try_from(number % 50).unwrap()])).collect()
    }

    #[test]
    fn sorting_in_runs_and_in_memory_gives_the_same_records() {
        let input = pairs(5000, 1237);
        let mut expected = input.clone();
        expected.sort();
        assert_eq!(sorted(&input, 1 << 30), (expected.clone(), 0));
        let (found, runs) = sorted(&input, 20_000);
        assert!(runs > 5, "{runs}");
        assert_eq!(found, expected);
    }

    #[test]
    fn sorted_input_makes_one_run() {
        let input = pairs(5000, 1);
        assert_eq!(sorted(&input, 10_000), (input, 1));
    }

    #[test]
    fn of_equal_keys_the_record_that_was_pushed_last_comes_last() {
        let input: Vec<Pair> =
            (0..1000u64).map(|at| ((at % 7).to_be_bytes().to_vec(), at.to_be_bytes().to_vec())).collect();
        let mut expected = input.clone();
        expected.sort();
        for memory in [300, 2000, 1 << 30] {
            assert_eq!(sorted(&input, memory).0, expected);
        }
    }

    #[test]
    fn a_value_longer_than_the_memory_is_sorted_like_any_other() {
        let input = vec![(b"b".to_vec(), vec![1; 3_000_000]), (b"a".to_vec(), vec![2; 10]), (b"c".to_vec(), vec![])];
        let mut expected = input.clone();
        expected.sort();
        assert_eq!(sorted(&input, 100).0, expected);
    }
}
