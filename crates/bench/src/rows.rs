//! The workload of plain records, on libtp and on the peers: filling a database, reading random records, and reading
//! all records in order.
//!
//! A record has 100 bytes: a key of 16 decimal digits and a value. Each step that fills a database begins with an empty
//! directory. An engine need not be durable while it fills the database, but at the end of the step everything must be
//! on disk. Then the bytes of all files that have records are measured; logs are not included.

mod libtp;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::kinds::EngineKind;
use crate::random::Random;

pub use libtp::Libtp;

const KEY_BYTES: usize = 16;
pub(crate) const VALUE_BYTES: usize = 84;
/// Unit of a file's allocated size.
const BLOCK_BYTES: u64 = 512;
/// Number of records that one transaction inserts.
pub const BATCH: usize = 1000;

/// A record's key and value.
pub type Pair = ([u8; KEY_BYTES], [u8; VALUE_BYTES]);

/// An open database of an engine.
pub trait Rows {
    /// Puts sorted pairs into the empty database, in the fastest way that the engine offers.
    ///
    /// # Errors
    /// The engine's error.
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()>;

    /// Puts pairs, [`BATCH`] in each transaction. The transactions need not be durable when the call returns.
    ///
    /// # Errors
    /// The engine's error.
    fn insert(&self, pairs: &[Pair]) -> Result<()>;

    /// Waits until everything is on disk, in its final files.
    ///
    /// # Errors
    /// The engine's error.
    fn settle(&self) -> Result<()>;

    /// Reads the records with these keys in one read-only transaction. Returns the sum of their bytes.
    ///
    /// # Errors
    /// The engine's error.
    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64>;

    /// Reads all records in order in one read-only transaction. Returns the sum of their bytes.
    ///
    /// # Errors
    /// The engine's error.
    fn scan(&self) -> Result<u64>;
}

/// A function that opens an engine's database in an existing directory. If the directory is empty, the function makes
/// the database.
pub type Open = fn(&Path) -> Result<Box<dyn Rows>>;

/// An engine of this build that can run the workload.
#[derive(Clone, Copy)]
pub struct Contender {
    /// The engine's name in tables.
    pub name: &'static str,
    /// The peer's kind; `None` for libtp.
    pub peer: Option<EngineKind>,
    /// Opens a database of the engine.
    pub open: Open,
}

impl Contender {
    /// Returns a peer as a contender.
    pub fn peer(kind: EngineKind, open: Open) -> Contender {
        Contender { name: kind.name(), peer: Some(kind), open }
    }
}

/// Returns libtp's contenders.
pub fn ours() -> [Contender; 2] {
    [
        Contender { name: libtp::NAME, peer: None, open: |path| Ok(Box::new(Libtp::open(path, false)?)) },
        Contender { name: libtp::DENSE, peer: None, open: |path| Ok(Box::new(Libtp::open(path, true)?)) },
    ]
}

/// Returns records in order, with values that do not compress well.
pub fn sorted(records: u32) -> Vec<Pair> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut pair = |number: u32| {
        let (mut key, mut value) = ([b'0'; 16], [0; VALUE_BYTES]);
        key.copy_from_slice(format!("{number:016}").as_bytes());
        value.chunks_mut(8).for_each(|piece| piece.copy_from_slice(&random.draw().to_le_bytes()[..piece.len()]));
        (key, value)
    };
    (0..records).map(&mut pair).collect()
}

/// Returns the records in a random order, which is the same each time.
pub fn shuffled(mut pairs: Vec<Pair>) -> Vec<Pair> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for at in (1..pairs.len()).rev() {
        let other = usize::try_from(random.draw() % (at as u64 + 1)).unwrap_or(at);
        pairs.swap(at, other);
    }
    pairs
}

/// Returns the bytes on disk of the files below a directory, except logs and memory that processes share.
///
/// # Errors
/// `File` if a file cannot be inspected.
pub fn bytes_in(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut left: Vec<PathBuf> = vec![directory.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).map_err(Error::file("list", &directory))? {
            let entry = entry.map_err(Error::file("list", &directory))?;
            let about = match entry.metadata() {
                // An engine that merges files in the background may have removed the file since it was listed.
                Err(why) if why.kind() == ErrorKind::NotFound => continue,
                about => about.map_err(Error::file("look at", &entry.path()))?,
            };
            match (holds_no_records(&entry.file_name().to_string_lossy()), about.is_dir()) {
                (true, _) => {}
                (false, true) => left.push(entry.path()),
                // The length is of no use: the length of LMDB's file is the largest size that its map may have.
                (false, false) => bytes += about.blocks() * BLOCK_BYTES,
            }
        }
    }
    Ok(bytes)
}

/// Returns whether a file or directory is a log, or memory that processes share.
fn holds_no_records(name: &str) -> bool {
    // libtp's and Berkeley DB's logs: "log.0000000001"; Berkeley DB's regions: "__db.001".
    let begins_so = ["log", "__db."].iter().any(|begin| name.starts_with(begin));
    // RocksDB's log: "000004.log"; fjall's log: "0.jnl"; SQLite's log and its shared table of readers.
    let ends_so = [".log", ".jnl", "-wal", "-shm"].iter().any(|end| name.ends_with(end));
    // LMDB's table of readers, and RocksDB's file of messages.
    begins_so || ends_so || ["lock.mdb", "LOG"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_shared_memory_are_not_included_in_the_bytes() {
        for name in ["log.00000001", "log.0000000001", "__db.003", "000004.log", "records.sqlite-wal", "0.jnl"] {
            assert!(holds_no_records(name), "{name}");
        }
        for name in ["records.tp", "data.mdb", "records.sqlite", "000009.sst", "MANIFEST-000005", "records"] {
            assert!(!holds_no_records(name), "{name}");
        }
    }
}
