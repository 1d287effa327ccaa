//! Reads a dump twice: first completely, before anything is made or changed, and then for the load.
//!
//! Input that is not a file is first copied to a file near the environment. The copy has no name and is gone when this
//! process ends.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::dump_format::{Pair, Reader};
use crate::dump_header::DumpType;
use crate::failure::{Failure, Result};
use crate::load_arguments::Arguments;
use crate::progress::Progress;

/// Largest number of records of a batch.
const BATCH_RECORDS: usize = 5_000;
/// The length at which a batch is full even with fewer records.
const BATCH_BYTES: usize = 4 << 20;

/// A dump that is being read.
pub struct Source {
    /// Reader of the dump's records.
    pub reader: Reader<Counted>,
    /// Bytes read so far.
    pub read: Rc<Cell<u64>>,
    /// Bytes of the whole dump.
    total: u64,
    file: File,
    name: String,
    record_bytes: Option<usize>,
}

/// Facts of a dump that was read to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// The number of the dump's first record, if the records have numbers.
    pub first: Option<u64>,
    /// The lengths of the shortest and the longest record, if there are records.
    pub lengths: Option<(usize, usize)>,
    /// The length of the longest key.
    pub longest_key: usize,
    /// The greatest length of a key together with its value.
    pub longest_pair: usize,
}

impl Source {
    /// Opens the dump and reads its header.
    pub fn open(arguments: &Arguments) -> Result<Source> {
        let path = arguments.file.as_ref().filter(|path| path.as_os_str() != "-");
        let name = path.map_or_else(|| "standard input".to_string(), |path| path.display().to_string());
        let open = |path: &PathBuf| match path.is_dir() {
            true => Err(Failure::Failed(format!("{name} is a directory, not a dump; nothing was loaded"))),
            false => File::open(path)
                .map_err(|error| Failure::Failed(format!("cannot open {name}: {error}; nothing was loaded"))),
        };
        let file = match path.map(open).transpose()? {
            Some(file) if path.is_some_and(|path| path.is_file()) => file,
            Some(other) => copied(other, &name, arguments)?,
            None => copied(std::io::stdin().lock(), &name, arguments)?,
        };
        let total = file.metadata().map_err(Failure::doing(format!("look at {name}")))?.len();
        let record_bytes = arguments.record_bytes.map(|bytes| bytes as usize);
        let (reader, read) = reader(&file, &name, record_bytes)?;
        Ok(Source { reader, read, total, file, name, record_bytes })
    }

    /// Reads the whole dump and goes back to its beginning. So every fault of the dump is known before anything is made
    /// or changed.
    pub fn check(&mut self) -> Result<Checked> {
        let nothing = |failure| Failure::Failed(format!("{failure} (nothing was loaded)"));
        let checked = self.check_pairs().and_then(|checked| self.check_end().map(|()| checked)).map_err(nothing)?;
        self.rewind()?;
        Ok(checked)
    }

    fn check_pairs(&mut self) -> Result<Checked> {
        let (mut checked, mut before) = (Checked::default(), None);
        let is_numbered = self.reader.header().kind.is_numbered();
        while let Some((key, value)) = self.next_pair()? {
            let (shortest, longest) = checked.lengths.unwrap_or((value.len(), value.len()));
            checked.lengths = Some((shortest.min(value.len()), longest.max(value.len())));
            let key_bytes = key.as_ref().map_or(0, Vec::len);
            checked.longest_key = checked.longest_key.max(key_bytes);
            checked.longest_pair = checked.longest_pair.max(key_bytes + value.len());
            if let Some(key) = key.filter(|_| is_numbered) {
                let number = self.number(&key, before)?;
                checked.first = checked.first.or(Some(number));
                before = Some(number);
            }
        }
        Ok(checked)
    }

    /// Returns the number that a key spells. In a list, the number must follow `before` without a gap.
    fn number(&self, key: &[u8], before: Option<u64>) -> Result<u64> {
        let wrong = |what: String| Err(self.failed(self.reader.wrong(what)));
        let Some(number) = number_of(key) else { return wrong("the key of the record is not a number".into()) };
        match before {
            Some(before) if self.reader.header().kind == DumpType::List && before.checked_add(1) != Some(number) => {
                wrong(self.gap(before, number))
            }
            _ => Ok(number),
        }
    }

    /// Returns the error message for a gap between the numbers of two records. A list has no gaps.
    pub fn gap(&self, before: u64, number: u64) -> String {
        format!(
            "record {number} follows record {before}. Records of varying length are loaded into a list, and the numbers of a list have no gaps. Dump the records without their numbers (db_dump without -k), or give --record-bytes if all records have one length"
        )
    }

    /// Goes back to the beginning of the dump.
    pub fn rewind(&mut self) -> Result<()> {
        self.file.rewind().map_err(Failure::doing(format!("read {} again", self.name)))?;
        (self.reader, self.read) = reader(&self.file, &self.name, self.record_bytes)?;
        Ok(())
    }

    /// Returns a progress bar for the bytes of the dump.
    pub fn progress(&self, shown: bool) -> Progress {
        Progress::bytes(shown, "loading", self.total)
    }

    /// Returns the next record; `None` after the last.
    pub fn next_pair(&mut self) -> Result<Option<Pair>> {
        self.reader.next_pair().map_err(|error| self.failed(error))
    }

    /// Returns the next records. After the last record, returns an empty batch.
    pub fn next_batch(&mut self) -> Result<Vec<Pair>> {
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH_RECORDS), 0);
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some((key, value)) = self.next_pair()? else { break };
            bytes += key.as_ref().map_or(0, Vec::len) + value.len();
            batch.push((key, value));
        }
        Ok(batch)
    }

    /// Refuses input after the last record: a dump of several databases in one file has the next header there.
    fn check_end(&mut self) -> Result<()> {
        if self.reader.has_more().map_err(|error| self.failed(error))? {
            let what = "the dump continues after DATA=END, and a load reads one database; dump the databases of a file one by one (db_dump -s NAME, mdb_dump -s NAME)";
            return Err(self.failed(self.reader.wrong(what.into())));
        }
        Ok(())
    }

    /// Returns a failure that names the dump.
    pub fn failed(&self, what: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {what}", self.name))
    }
}

/// Returns the number that a key spells; `None` if the key is no number, or is zero.
pub fn number_of(key: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(key).ok()?.trim().parse().ok();
    number.filter(|&number| number > 0)
}

fn reader(file: &File, name: &str, record_bytes: Option<usize>) -> Result<(Reader<Counted>, Rc<Cell<u64>>)> {
    let read = Rc::new(Cell::new(0));
    let input = file.try_clone().map_err(Failure::doing(format!("open {name}")))?;
    let counted = Counted { input: BufReader::with_capacity(256 << 10, input), read: Rc::clone(&read) };
    let reader = Reader::open(counted, record_bytes);
    let reader = reader.map_err(|error| Failure::Failed(format!("{name}: {error} (nothing was loaded)")))?;
    Ok((reader, read))
}

/// Copies input that can be read only once to a file without a name. The file is in the environment's directory or, if
/// that directory does not exist, in the nearest existing directory above.
fn copied(mut input: impl Read, name: &str, arguments: &Arguments) -> Result<File> {
    let environment = arguments.at.environment.directory()?;
    let directory = environment.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let path = directory.join(format!(".tp-load.{}", std::process::id()));
    let failed = |what: &str| {
        let what = format!("cannot {what} {} for the data from {name}", path.display());
        move |error: std::io::Error| Failure::Failed(format!("{what}: {error}; nothing was loaded"))
    };
    // An earlier process with the same process id may have left a file of this name.
    let _ = std::fs::remove_file(&path);
    // Only this user may read the copy: other users may not be allowed to read the dump.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.map_err(failed("make"))?;
    std::fs::remove_file(&path).map_err(failed("unlink"))?;
    std::io::copy(&mut input, &mut file).map_err(failed("fill"))?;
    file.rewind().map_err(failed("read"))?;
    Ok(file)
}

/// An input that counts the bytes taken from it.
pub struct Counted {
    input: BufReader<File>,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.read.set(self.read.get() + count as u64);
        self.input.consume(count);
    }
}
