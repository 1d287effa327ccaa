//! Sorting more records than memory holds: sorted runs in one file of the environment's directory, which are merged.
//!
//! The file's name is taken away as soon as it is open, so nobody who dies leaves it behind but in that moment; then it is
//! empty, and the next who sorts for the same database takes it over. A run that begins where the one before ended makes it longer:
//! what comes sorted is one run, however long.
//!
//! Of records with equal keys the one that came last comes out last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::{failpoint, planted};

use crate::{Error, Pair, Result};

/// In front of each record of a run: the lengths of key and value.
const HEAD_BYTES: usize = 8;
/// What is written at once.
const WRITE_BYTES: usize = 1 << 20;
/// A run is read by pieces of these sizes, the more runs the smaller.
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

/// Takes records in any order.
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
    /// Sorts for a database of that name, with about so many bytes of memory.
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

    /// Takes a record.
    ///
    /// # Errors
    /// The disk's.
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
        self.waiting.push(Waiting { at: self.bytes.len(), key_bytes: length(key)?, value_bytes: length(value)? });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
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
        failpoint("sort: file there");
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
            piece.extend_from_slice(record.all(&self.bytes));
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

    /// All has come: it is to be had in order.
    ///
    /// # Errors
    /// The disk's.
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

/// Of equal keys that of the later run comes later.
fn order_of(index: usize) -> usize {
    if planted("libtp: of equal keys in several runs any counts") {
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

/// The first record of a run: its key, its place among equal keys, its value.
type Head = Reverse<(Vec<u8>, usize, Vec<u8>)>;

/// Records in the order of their keys.
pub(crate) enum Merge {
    /// All were in memory.
    Memory { bytes: Vec<u8>, waiting: std::vec::IntoIter<Waiting> },
    /// The first record of each run that has any left, and where the others are.
    Runs { readers: Vec<RunReader>, heads: BinaryHeap<Head> },
}

impl Merge {
    /// The next record, none after the last.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>> {
        match self {
            Merge::Memory { bytes, waiting } => Ok(waiting.next().map(|record| {
                let (key, value) = record.all(bytes).split_at(record.key_bytes as usize);
                (key.to_vec(), value.to_vec())
            })),
            Merge::Runs { readers, heads } => {
                let Some(Reverse((key, order, value))) = heads.pop() else { return Ok(None) };
                // Its own inverse.
                let index = order_of(order);
                if let Some((key, value)) = readers[index].next()? {
                    heads.push(Reverse((key, order, value)));
                }
                Ok(Some((key, value)))
            }
        }
    }
}

/// Reads one run.
pub(crate) struct RunReader {
    file: Arc<dyn File>,
    name: String,
    /// What is not in the buffer yet.
    run: Run,
    read_bytes: usize,
    buffer: Vec<u8>,
    at: usize,
}

impl RunReader {
    /// Has so many bytes in the buffer.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        if self.buffer.len() - self.at >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = usize::try_from(self.run.to - self.run.from).unwrap_or(usize::MAX);
        let had = self.buffer.len();
        let wanted = self.read_bytes.max(bytes - had).min(left);
        self.buffer.resize(had + wanted, 0);
        let read = self.file.read_at(&mut self.buffer[had..], self.run.from)?;
        self.run.from += read as u64;
        if read < wanted || self.buffer.len() < bytes {
            let name = &self.name;
            let what =
                format!("{name}, where records are being sorted, is shorter than it was made; nothing was changed");
            return Err(Error::Corrupt(what));
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
        Ok(Some((key.to_vec(), value.to_vec())))
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
    fn what_is_sorted_in_runs_is_what_is_sorted_in_memory() {
        let input = pairs(5000, 1237);
        let mut expected = input.clone();
        expected.sort();
        assert_eq!(sorted(&input, 1 << 30), (expected.clone(), 0));
        let (found, runs) = sorted(&input, 20_000);
        assert!(runs > 5, "{runs}");
        assert_eq!(found, expected);
    }

    #[test]
    fn what_comes_sorted_is_one_run() {
        let input = pairs(5000, 1);
        assert_eq!(sorted(&input, 10_000), (input, 1));
    }

    #[test]
    fn of_equal_keys_the_one_that_came_last_comes_out_last() {
        let input: Vec<Pair> =
            (0..1000u64).map(|at| ((at % 7).to_be_bytes().to_vec(), at.to_be_bytes().to_vec())).collect();
        let mut expected = input.clone();
        expected.sort();
        for memory in [300, 2000, 1 << 30] {
            assert_eq!(sorted(&input, memory).0, expected);
        }
    }

    #[test]
    fn a_value_longer_than_the_memory_is_sorted_as_others_are() {
        let input = vec![(b"b".to_vec(), vec![1; 3_000_000]), (b"a".to_vec(), vec![2; 10]), (b"c".to_vec(), vec![])];
        let mut expected = input.clone();
        expected.sort();
        assert_eq!(sorted(&input, 100).0, expected);
    }
}
