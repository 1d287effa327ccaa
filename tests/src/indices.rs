//! Indices of some of the workload's databases: the library keeps them, and what is read of a state is compared with them.

use libtp::{Db, IndexKeys, Txn};

use crate::library::{Process, Trouble, HASH, LATE_TREE};

/// The index of a tree, if it has one.
pub fn of(tree: &str) -> Option<&'static str> {
    match tree {
        HASH => Some("hash by parts"),
        LATE_TREE => Some("late by parts"),
        _ => None,
    }
}

/// A value is found under its length, and under each of its first letters.
pub fn parts(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.len().to_be_bytes());
    value.iter().take(3).for_each(|letter| keys.add([*letter]));
}

/// Compares each index that is there with its records.
///
/// # Errors
/// They do not agree; those of reading.
pub fn verify(process: &Process, txn: &Txn<'_>, names: &[String]) -> Result<(), Trouble> {
    let indexed = [HASH, LATE_TREE].into_iter().filter(|tree| names.iter().any(|name| name == tree));
    for (tree, name) in indexed.filter_map(|tree| Some((tree, of(tree)?))) {
        let db: Db = process.tree(tree)?;
        let findings = db.index(name, parts)?.verify(txn)?;
        if let Some(first) = findings.first() {
            return Err(Trouble::Other(format!("{} findings in an index, the first: {first}", findings.len())));
        }
    }
    Ok(())
}
