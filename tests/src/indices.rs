//! Indices of some of the workload's databases. The library maintains them; `verify` compares them with the records.

use libtp::{Db, IndexKeys, Txn};

use crate::library::{Process, Trouble, HASH, LATE_TREE};

/// Returns the name of a database's index, if the database has an index.
pub fn of(tree: &str) -> Option<&'static str> {
    match tree {
        HASH => Some("hash by parts"),
        LATE_TREE => Some("late by parts"),
        _ => None,
    }
}

/// Gives the index keys of a record: the value's length, and each of the value's first three letters.
pub fn parts(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.len().to_be_bytes());
    value.iter().take(3).for_each(|letter| keys.add([*letter]));
}

/// Compares each existing index with its records.
///
/// # Errors
/// An index does not agree with its records, or a read failed.
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
