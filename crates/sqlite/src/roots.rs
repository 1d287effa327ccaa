//! Roots: each tree of SQLite is a tree of its own in the environment, `sql.N` for the root page N.
//!
//! A tree's file is made outside of the transaction, and stays when the transaction is undone: it is empty, and its
//! number is given out again. A dropped root is emptied and goes to a list of free roots in `sql.meta`, so no file is
//! removed in a transaction.

use libtp::{PageLock, Txn};

use crate::answer::Outcome;
use crate::home::Home;

/// The key of the highest root given out.
const LAST: &[u8] = b"r";
/// The first byte of the key of a free root, before its number.
const FREE: u8 = b'f';
/// The root of `sqlite_schema`.
const SCHEMA: u32 = 1;

/// Returns the root of an empty tree.
pub(crate) fn take(home: &Home, txn: &Txn<'_>) -> Outcome<u32> {
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
    // No other transaction knows the tree: its entries need no locks of their own.
    home.tree(root)?.lock_all(txn, PageLock::Write)?;
    Ok(root)
}

/// Notes that the tree of a root is empty and may be given out.
pub(crate) fn free(home: &Home, txn: &Txn<'_>, root: u32) -> Outcome<()> {
    let mut key = vec![FREE];
    key.extend_from_slice(&root.to_be_bytes());
    Ok(home.meta().put(txn, &key, b"")?)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(SCHEMA, u32::from_be_bytes)
}
