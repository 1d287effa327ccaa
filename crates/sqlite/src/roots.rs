//! Roots: for each of SQLite's trees the environment has a B-tree, `sql.N` for the tree with the root page N.
//!
//! When a transaction makes a tree, the tree's file is made outside of the transaction. If the transaction is undone,
//! the file stays, with an empty tree, and the next new tree uses it. When SQLite drops a tree, the tree is emptied,
//! and its root goes to a list of free roots in `sql.meta`. So no transaction removes a file.

use std::time::Duration;

use libtp::{PageLock, Txn};

use crate::answer::Outcome;
use crate::home::Home;

/// The key of the highest root that was given out.
const LAST: &[u8] = b"r";
/// The first byte of the key of a free root, before its number.
const FREE: u8 = b'f';
/// The root of `sqlite_schema`.
const SCHEMA: u32 = 1;

/// Returns the root of an empty tree. Waits at most for the time `wait` if the tree is opened.
pub(crate) fn take(home: &Home, txn: &Txn<'_>, wait: Duration) -> Outcome<u32> {
    let meta = home.meta();
    let free = meta.prefix(txn, &[FREE])?.first()?;
    let root = match free {
        Some((key, _)) => {
            meta.delete(txn, &key)?;
            number(&key[1..])
        }
        None => {
            let last = meta.get_for_update(txn, LAST)?.map_or(SCHEMA, |last| number(&last));
            meta.put(txn, LAST, &(last + 1).to_be_bytes())?;
            last + 1
        }
    };
    // No other transaction knows the tree. With a lock on the whole tree, its entries need no locks.
    home.tree(root, wait)?.lock_all(txn, PageLock::Write)?;
    Ok(root)
}

/// Notes that the tree of a root is empty, and that the root may be given out again.
pub(crate) fn free(home: &Home, txn: &Txn<'_>, root: u32) -> Outcome<()> {
    let mut key = vec![FREE];
    key.extend_from_slice(&root.to_be_bytes());
    Ok(home.meta().put(txn, &key, b"")?)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(SCHEMA, u32::from_be_bytes)
}
