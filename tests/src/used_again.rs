//! A page that was unlinked and is used for other keys misleads nobody (PROTOCOLS T2, T5).
//!
//! The doubt: a session keeps copies of inner pages, which lead to leaves as they were. Here leaves become empty and are used for
//! other keys, again and again, under a session that has passed the pages above them often; then the keys come back.

use libtp::Durability;
use libtp_sim::{Random, SimDisk};

use crate::library::{Layout, Machine, Process, Trouble};
use crate::oracle::{Place, Table};

const TREE: &str = "journal";
const KEYS: usize = 1_000;
const ROUNDS: usize = 6;
/// So often the way to a key is gone until the inner pages on it are copied, and more.
const READS: usize = 60;
const BATCH: usize = 40;
const VALUE: &[u8] = &[b'v'; 150];

/// Reads keys whose leaves have been used for others meanwhile.
///
/// # Errors
/// A key was not where it is, or something failed.
pub fn who_has_passed_often_is_not_misled(seed: u64) -> Result<(), String> {
    let failed = |trouble: Trouble| format!("UNUSABLE: {trouble}");
    let machine = Machine::new(SimDisk::new(seed), Layout::of_seed(seed));
    let (reader, writer) = (machine.start().map_err(failed)?, machine.start().map_err(failed)?);
    let mut random = Random::new(seed);
    for round in 0..ROUNDS {
        // Every other round the keys are others, and those of the round before go.
        let numbers = |round: usize| (round % 2 * KEYS..(round % 2 + 1) * KEYS).collect::<Vec<_>>();
        put(&writer, &numbers(round)).map_err(failed)?;
        for _ in 0..READS {
            find(&reader, numbers(round)[random.index(KEYS)])?;
        }
        delete(&writer, &numbers(round)).map_err(failed)?;
        put(&writer, &numbers(round + 1)).map_err(failed)?;
        let back: Vec<usize> = (0..BATCH).map(|_| numbers(round)[random.index(KEYS)]).collect();
        put(&writer, &back).map_err(failed)?;
        for &number in &back {
            find(&reader, number)?;
        }
        delete(&writer, &back).map_err(failed)?;
    }
    Ok(())
}

fn place(number: usize) -> Place {
    (Table::Tree(TREE), format!("entry/{number:05}").into_bytes())
}

fn find(reader: &Process, number: usize) -> Result<(), String> {
    let read = || {
        let txn = reader.begin(Durability::Relaxed)?;
        let found = reader.get(&txn, &place(number))?;
        txn.commit()?;
        Ok(found)
    };
    match read().map_err(|trouble: Trouble| format!("UNUSABLE: {trouble}"))? {
        Some(_) => Ok(()),
        None => Err(format!("LOST: entry {number} is not found by who passed its leaf often")),
    }
}

fn put(writer: &Process, numbers: &[usize]) -> Result<(), Trouble> {
    by_batches(writer, numbers, |txn, number| writer.put(txn, &place(number), VALUE))
}

fn delete(writer: &Process, numbers: &[usize]) -> Result<(), Trouble> {
    by_batches(writer, numbers, |txn, number| writer.delete(txn, &place(number)).map(|_| ()))
}

fn by_batches<'p>(
    writer: &'p Process,
    numbers: &[usize],
    each: impl Fn(&crate::library::Running<'p>, usize) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    for batch in numbers.chunks(BATCH) {
        let txn = writer.begin(Durability::Relaxed)?;
        batch.iter().try_for_each(|&number| each(&txn, number))?;
        txn.commit()?;
    }
    Ok(())
}
