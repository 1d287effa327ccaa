//! Secondary indices, kept by the library: [`Index`].
//!
//! Paper: LIBTP leaves indices to the program (5.2). An index is a sorted set of pairs: an index key, which a function
//! of the program computes from a record, and the record's key. The index has a tree of its own. Its entries change in
//! the transaction that changes the record. The database lists its indices (`record/indices.rs`): a process that lacks
//! the function of an index may read, but not write.
//!
//! |file|contents|
//! |---|---|
//! |`making`|making, reopening and dropping an index|
//! |`keeping`|updating the indices when a record changes|
//! |`reading`|finding records by index keys|
//! |`verify`|checking that index and records agree|

mod keeping;
mod making;
mod reading;
pub(crate) mod verify;

use std::sync::Arc;

use crate::db::handle::Db;
use crate::region::kept_indices::Kept;

pub use reading::{IndexCursor, IndexEntry};

/// An index of a database. It finds the database's records by other keys than the records' own keys.
///
/// The program provides the function that computes a record's index keys. Every process that writes to the database
/// provides the function, under the index's name, before it writes; otherwise its writes are refused. The function must
/// always return the same keys for the same record. For a changed function, make an index with another name.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
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
    /// The indexed database.
    of: Db,
    /// The tree of its entries.
    tree: Db,
    kept: Arc<Kept>,
}

impl Index {
    /// Returns the index's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// Returns the indexed database.
    pub fn database(&self) -> &Db {
        &self.of
    }
}

#[cfg(test)]
mod tests;
