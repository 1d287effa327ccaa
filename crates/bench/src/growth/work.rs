//! Repeats an operation for a slice of time, each time in a new transaction. Measures the time of an operation, and the
//! environment's pages and log bytes for it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use libtp::{Durability, Txn};
use serde::Serialize;
use serde_json::json;

use super::tree::{Tree, ENGINE, OF_INSERTED};
use crate::error::{Error, Result};
use crate::paper::{number, Sample};

/// Number of records in a scan.
pub(super) const SCANNED: u32 = 100;
/// Approximate bytes of values between two readings of the clock.
const BATCH_BYTES: usize = 16 << 10;
/// A slice inserts at most one record for each ten records of the database, so that the database keeps its nominal
/// size.
const ONE_IN: u64 = 10;

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Reads a record.
    Get,
    /// Reads a record, changes a byte of it and writes it back.
    Update,
    /// Puts a record with a new key.
    Insert,
    /// Deletes a record that an insertion put.
    Delete,
    /// Reads a hundred consecutive records.
    Scan,
}

/// The environment's work for one operation, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Counts {
    /// Pages not found in memory.
    pub misses: f64,
    /// Pages read.
    pub reads: f64,
    /// Pages written.
    pub writes: f64,
    /// Pages evicted.
    pub evictions: f64,
    /// Bytes of log.
    pub log_bytes: f64,
}

impl Counts {
    /// Returns the sum of `self` and `other`, field by field.
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            misses: self.misses + other.misses,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            evictions: self.evictions + other.evictions,
            log_bytes: self.log_bytes + other.log_bytes,
        }
    }

    /// Returns the counts divided by `by`.
    pub fn shared(&self, by: f64) -> Counts {
        Counts {
            misses: self.misses / by,
            reads: self.reads / by,
            writes: self.writes / by,
            evictions: self.evictions / by,
            log_bytes: self.log_bytes / by,
        }
    }
}

impl Operation {
    /// All operations. Deletions are last, because they delete the records of the insertions.
    pub const ALL: [Operation; 5] =
        [Operation::Get, Operation::Scan, Operation::Update, Operation::Insert, Operation::Delete];

    /// Returns the operation's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Delete => "delete",
            Operation::Scan => "scan of 100",
        }
    }

    /// Returns the approximate number of an operation's loads that miss the processor's cache in a large database. For
    /// the leaf and for the page above the leaf these are five cache lines each: the header, the entry in the page
    /// table, two slots, and the record. A scan adds a line for each record.
    pub fn cold_lines(self, height: u32) -> u32 {
        let lines = 5 * height.min(2);
        match self {
            Operation::Scan => lines + SCANNED,
            _ => lines,
        }
    }
}

/// Reads records for a quarter of `time`, to warm the caches, and then repeats the operation for `time`. The sample is
/// in nanoseconds per operation.
///
/// # Errors
/// The library's error; `Settings` if a read returns a wrong record, or there is nothing to delete.
pub(super) fn slice(tree: &Tree, operation: Operation, time: Duration) -> Result<(Sample, Counts)> {
    let batch = (BATCH_BYTES / tree.size.value_bytes).clamp(1, 64);
    let warm_until = Instant::now() + time / 4;
    while Instant::now() < warm_until {
        (0..batch).try_for_each(|_| get(tree))?;
    }
    let most = match operation {
        Operation::Insert => (tree.size.records / ONE_IN).max(1),
        Operation::Delete => tree.inserted.borrow().len() as u64,
        _ => u64::MAX,
    };
    let value = vec![OF_INSERTED; tree.size.value_bytes];
    let (before, begin, mut done) = (Counted::look(tree)?, Instant::now(), 0);
    while done < most && (operation == Operation::Delete || begin.elapsed() < time) {
        for _ in 0..batch {
            match operation {
                Operation::Get => get(tree)?,
                Operation::Update => update(tree)?,
                Operation::Insert => insert(tree, &value)?,
                Operation::Delete => delete(tree)?,
                Operation::Scan => scan(tree)?,
            }
            done += 1;
            if done == most {
                break;
            }
        }
    }
    let elapsed = begin.elapsed();
    if done == 0 {
        return Err(Error::Settings("nothing was inserted, so there is nothing to delete".to_owned()));
    }
    let counts = before.since(&Counted::look(tree)?, done);
    let raw = json!({ "operations": done, "elapsed_ns": elapsed.as_secs_f64() * 1e9, "records": tree.size.records, "per_operation": counts });
    let value = elapsed.as_secs_f64() * 1e9 / number(done);
    Ok((Sample { value, audit: "ok".to_owned(), raw }, counts))
}

/// Does the work in a new transaction.
#[inline]
fn alone<T>(tree: &Tree, work: impl FnOnce(&Txn<'_>) -> libtp::Result<T>) -> Result<T> {
    let run = || {
        let txn = tree.env.begin_with(Durability::Relaxed)?;
        let done = work(&txn)?;
        txn.commit()?;
        Ok(done)
    };
    run().map_err(Error::engine::<libtp::Error>(ENGINE, "working on records"))
}

fn get(tree: &Tree) -> Result<()> {
    let at = tree.draw();
    let found = alone(tree, |txn| tree.db.get_with(txn, &tree.key(at), |value| tree.is_intact(at, value)))?;
    expect_intact(found, at)
}

fn update(tree: &Tree) -> Result<()> {
    let at = tree.draw();
    let change = |value: &mut [u8]| {
        value[8] = value[8].wrapping_add(1);
        tree.is_intact(at, value)
    };
    let found = alone(tree, |txn| tree.db.update_with(txn, &tree.key(at), change))?;
    expect_intact(found, at)?;
    tree.updates.set(tree.updates.get() + 1);
    Ok(())
}

fn insert(tree: &Tree, value: &[u8]) -> Result<()> {
    let key = tree.draw_new_key();
    alone(tree, |txn| tree.db.put_new(txn, &key, value))?;
    tree.inserted.borrow_mut().push_back(key);
    Ok(())
}

fn delete(tree: &Tree) -> Result<()> {
    let Some(key) = tree.inserted.borrow_mut().pop_front() else { return Ok(()) };
    match alone(tree, |txn| tree.db.delete(txn, &key))? {
        true => Ok(()),
        false => Err(Error::Settings(format!("the inserted key {key:02x?} is missing"))),
    }
}

fn scan(tree: &Tree) -> Result<()> {
    let at = tree.draw();
    let mut left = SCANNED;
    let mut bytes = 0;
    alone(tree, |txn| {
        let from = tree.key(at);
        let mut records = tree.db.range(txn, from.as_slice()..)?;
        records.for_each(|_, value| {
            (left, bytes) = (left - 1, bytes + value.len());
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    })?;
    let seen = (SCANNED - left) as usize;
    expect_intact((seen > 0).then_some(bytes == seen * tree.size.value_bytes), at)
}

fn expect_intact(found: Option<bool>, at: u64) -> Result<()> {
    match found {
        Some(true) => Ok(()),
        Some(false) => Err(Error::Settings(format!("the value of record {at} is not the written record"))),
        None => Err(Error::Missing { engine: ENGINE, table: "records", id: at }),
    }
}

/// The environment's counters at a moment.
struct Counted([u64; 5]);

impl Counted {
    fn look(tree: &Tree) -> Result<Counted> {
        let stats = tree.env.stats().map_err(Error::engine(ENGINE, "reading its statistics"))?;
        let sum = |what: fn(&libtp::Pool) -> u64| stats.pools.iter().map(what).sum();
        Ok(Counted([
            sum(|pool| pool.misses),
            sum(|pool| pool.reads),
            sum(|pool| pool.writes),
            sum(|pool| pool.evictions),
            stats.log_tail,
        ]))
    }

    fn since(&self, after: &Counted, operations: u64) -> Counts {
        let each = |at: usize| number(after.0[at].saturating_sub(self.0[at])) / number(operations);
        Counts { misses: each(0), reads: each(1), writes: each(2), evictions: each(3), log_bytes: each(4) }
    }
}
