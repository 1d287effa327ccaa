//! The count of a key range does not change until the transaction that counted it ends (PROTOCOLS K1).
//!
//! The risk: a range can end in the middle of a gap. Locks on every key of the range do not cover the part of the gap
//! between the last key and the range's end. The workload rarely puts a key into that part while the reader is still
//! running; here another process tries it again and again.

use libtp::Durability;
use libtp_sim::{Random, SimDisk};

use crate::library::{Layout, Machine, Process, Trouble};
use crate::oracle::Table;

/// The tested database. In every layout, its locks are on records. (The locks on the accounts may be on pages.)
const TREE: &str = "journal";
const KEYS: usize = 1_000;
const RECORDS: usize = 150;
const RANGES: usize = 30;
const ATTEMPTS: usize = 12;

/// Counts ranges twice while another process tries to put keys into them.
///
/// # Errors
/// A range changed while its reader was running, or a call failed.
pub fn a_counted_range_stays_unchanged(seed: u64) -> Result<(), String> {
    let failed = |trouble: Trouble| format!("UNUSABLE: {trouble}");
    let machine = Machine::new(SimDisk::new(seed), Layout::of_seed(seed));
    let (reader, writer) = (machine.start().map_err(failed)?, machine.start().map_err(failed)?);
    let mut random = Random::new(seed);
    for _ in 0..RECORDS {
        let number = random.index(KEYS);
        put(&writer, number).map_err(failed)?;
    }
    for _ in 0..RANGES {
        let low = random.index(KEYS - 1);
        let high = low + 1 + random.index(KEYS - low - 1);
        let (first, last) = (key(low), key(high));
        let txn = reader.begin(Durability::Relaxed).map_err(failed)?;
        let counted = reader.count(&txn, TREE, &first[..]..&last[..]).map_err(failed)?;
        for _ in 0..ATTEMPTS {
            put(&writer, low + random.index(high - low)).map_err(failed)?;
        }
        let again = reader.count(&txn, TREE, &first[..]..&last[..]).map_err(failed)?;
        txn.commit().map_err(failed)?;
        if again != counted {
            return Err(format!("PHANTOM: the range from {low} up to {high} had {counted} records, and then {again}"));
        }
    }
    Ok(())
}

fn key(number: usize) -> Vec<u8> {
    format!("entry/{number:05}").into_bytes()
}

/// Puts a key, or removes the key if it is there, in its own transaction; aborts on a lock conflict.
fn put(process: &Process, number: usize) -> Result<(), Trouble> {
    let txn = process.begin(Durability::Relaxed)?;
    let done = match process.put_new(&txn, TREE, &key(number), b"entry") {
        Ok(false) => process.delete(&txn, &(Table::Tree(TREE), key(number))),
        done => done,
    };
    match done {
        Ok(_) => txn.commit(),
        Err(Trouble::Conflict) => txn.abort(),
        Err(trouble) => Err(trouble),
    }
}
