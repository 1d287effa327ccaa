//! Secondary indices, kept by the library: [`Index`].
//!
//! Paper: LIBTP leaves them to the program (5.2). An index is a sorted set of pairs, what a function of the program makes of a
//! record and the record's key, in a tree of its own; it changes in the transaction that changes the record. The database knows its
//! indices (`record/indices.rs`): who has not given the function of one of them may read, and may not write.
//!
//! | file | what |
//! |---|---|
//! | `making` | an index made, found again, dropped |
//! | `keeping` | what a change of a record changes in the indices |
//! | `reading` | records by what an index has of them |
//! | `verify` | whether index and records agree |

mod keeping;
mod making;
mod reading;
mod verify;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use libtp_buffer::FileId;
use libtp_record::{duplicates, Order};

use crate::database::{Db, OpenDatabase};
use crate::environment::lock;
use crate::panics::callers;
use crate::{Error, Result};

pub use reading::{IndexCursor, IndexEntry};

/// What a program makes of the key and the value of a record.
type Function = dyn Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync;

/// The keys under which a record is found in an index: none, one or several. What is added twice counts once.
#[derive(Debug, Default)]
pub struct IndexKeys(BTreeSet<Vec<u8>>);

impl IndexKeys {
    /// Adds a key.
    pub fn add(&mut self, key: impl AsRef<[u8]>) {
        self.0.insert(key.as_ref().to_vec());
    }
}

/// An index of a database: its records by something else than their keys.
///
/// The function that makes index keys of a record is the program's, and every process that writes to the database gives it, under the
/// index's name, before it writes; else its writes are refused. It must make the same of the same record always: change its name when
/// you change what it does.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
/// let people = env.btree("people")?;
/// // Records are "town: profession".
/// let by_town = people.index("people by town", |_key, value, keys| {
///     keys.add(value.split(|&byte| byte == b':').next().unwrap_or_default());
/// })?;
/// env.run(|txn| {
///     people.put(txn, b"ada", b"London: countess")?;
///     people.put(txn, b"alan", b"London: logician")?;
///     people.put(txn, b"kurt", b"Brno: logician")?;
///     assert_eq!(by_town.keys(txn, b"London")?, [b"ada".to_vec(), b"alan".to_vec()]);
///     people.put(txn, b"alan", b"Manchester: logician")?;
///     assert_eq!(by_town.count(txn, b"London")?, 1);
///     assert_eq!(by_town.get(txn, b"Manchester")?, [(b"alan".to_vec(), b"Manchester: logician".to_vec())]);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Index {
    /// The database whose index it is.
    of: Db,
    /// The tree of its entries.
    tree: Db,
    kept: Arc<Kept>,
}

impl Index {
    /// The index's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// The database whose index it is.
    pub fn database(&self) -> &Db {
        &self.of
    }
}

/// An index whose function this process has.
pub(crate) struct Kept {
    tree: Arc<OpenDatabase>,
    /// In which order the keys of its database are: the function is given them as the program knows them.
    order: Option<Arc<dyn Order>>,
    function: Box<Function>,
}

impl Kept {
    /// The entries of a record, in the order in which they stand in the tree.
    fn entries(&self, stored: &[u8], value: &[u8]) -> Result<BTreeSet<Vec<u8>>> {
        let mut keys = IndexKeys::default();
        match &self.order {
            None => callers(|| (self.function)(stored, value, &mut keys)),
            Some(order) => callers(|| {
                let mut key = Vec::new();
                order.decode(stored, &mut key);
                (self.function)(&key, value, &mut keys);
            }),
        }
        let entries: BTreeSet<Vec<u8>> = keys.0.iter().map(|key| duplicates::sorted_entry(key, stored)).collect();
        let limit = self.tree.key_bytes_max();
        match entries.iter().find(|entry| entry.len() > limit) {
            None => Ok(entries),
            Some(long) => Err(Error::Length {
                what: "a key of an index with the key of its record",
                bytes: long.len(),
                limit: format!("up to {limit} bytes in the index `{}`; nothing was changed", self.tree.name()),
            }),
        }
    }
}

/// The indices whose functions this process has, by the files that they are in.
#[derive(Default)]
pub(crate) struct KeptIndices(Mutex<HashMap<u32, Arc<Kept>>>);

impl KeptIndices {
    fn note(&self, kept: &Arc<Kept>) {
        lock(&self.0).insert(kept.tree.id().raw(), Arc::clone(kept));
    }

    fn of(&self, file: FileId) -> Option<Arc<Kept>> {
        lock(&self.0).get(&file.raw()).cloned()
    }
}

#[cfg(test)]
mod tests;
