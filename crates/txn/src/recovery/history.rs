//! Repeating history: the log is read once, forwards, and the page changes of its records are distributed.
//!
//! The caller's own thread repeats a short log. For a long log, several threads share the pages
//! ([`lanes`](super::lanes)): the redo of one page needs no other page, so only the order of each page's own changes
//! must be kept.

use std::ops::ControlFlow;
use std::thread;

use libtp_buffer::PageId;

use super::analysis::Found;
use super::batch::Batch;
use super::lanes::{lane_of, Lane};
use super::redo::{redo_part, PageChange};
use super::{Recovered, Watcher};
use crate::{Managers, Result, TxnSession};

/// Records between two calls of the watcher.
const WATCH_EVERY: u64 = 10_000;
/// Log bytes for each thread: for less log it is not worth starting a thread.
const LOG_BYTES_A_THREAD: u64 = 8 << 20;
/// The largest number of threads: further threads would only wait for the thread that reads the log.
const THREADS_MAX: usize = 8;
/// The largest number of changes that are sorted by page at a time, by all threads together. The larger the number, the
/// more changes belong to one page.
const CHANGES_MAX: usize = 256 << 10;
const CHANGES_MIN: usize = 64;
/// Bytes of the page cache's budget for each change: the waiting changes take a quarter of the budget.
const BUDGET_BYTES_A_CHANGE: u64 = 2048;

/// Repeats history from where redo starts to the end of the log, and completes the analysis meanwhile.
pub(super) fn repeat(
    managers: &Managers,
    txn: &TxnSession,
    found: &mut Found,
    watch: Watcher<'_>,
) -> Result<Recovered> {
    let (redo_from, end) = (found.redo_from, managers.log.tail());
    let threads = threads_for(managers, end.since(redo_from));
    let (records, redone) = match threads {
        0 | 1 => repeat_here(managers, txn, found, watch)?,
        _ => repeat_on(threads, managers, txn, found, watch)?,
    };
    Ok(Recovered { redo_from, end, records, redone, undone: 0 })
}

fn threads_for(managers: &Managers, log_bytes: u64) -> usize {
    if let Some(threads) = managers.settings.recovery_threads {
        return threads as usize;
    }
    let worth = usize::try_from(log_bytes / LOG_BYTES_A_THREAD).unwrap_or(THREADS_MAX);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    worth.min(processors).min(THREADS_MAX)
}

/// Returns how many changes to sort at a time.
fn changes_at_once(managers: &Managers) -> usize {
    let budget: u64 = managers.buffers.stats().iter().map(|pool| pool.settings.budget_bytes).max().unwrap_or(0);
    usize::try_from(budget / BUDGET_BYTES_A_CHANGE).unwrap_or(CHANGES_MAX).clamp(CHANGES_MIN, CHANGES_MAX)
}

fn repeat_here(managers: &Managers, txn: &TxnSession, found: &mut Found, watch: Watcher<'_>) -> Result<(u64, u64)> {
    let mut batch = Batch::new(changes_at_once(managers));
    let mut redone = 0;
    let records = read(managers, found, watch, &mut |page, change| {
        batch.push(page, change);
        if batch.is_full() {
            redone += batch.repeat(managers, txn.session())?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((records, redone + batch.repeat(managers, txn.session())?))
}

fn repeat_on(
    threads: usize,
    managers: &Managers,
    txn: &TxnSession,
    found: &mut Found,
    watch: Watcher<'_>,
) -> Result<(u64, u64)> {
    let limit = changes_at_once(managers) / threads;
    thread::scope(|scope| {
        // If the system refuses a further thread, fewer threads do the work.
        let start = |_| Lane::start(scope, managers, limit).ok();
        let mut lanes: Vec<Lane<'_>> = (0..threads).map_while(start).collect();
        let count = lanes.len();
        if count == 0 {
            return repeat_here(managers, txn, found, watch);
        }
        let read = read(managers, found, watch, &mut |page, change| {
            let stopped = lanes[lane_of(page, count)].push(page, change).is_err();
            Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        // Every thread ends before an error is returned. The error of a thread is returned rather than the reader's
        // error, because the thread's error is at an earlier place in the log.
        let ended: Vec<Result<u64>> = lanes.into_iter().map(Lane::finish).collect();
        let redone = ended.into_iter().sum::<Result<u64>>()?;
        Ok((read?, redone))
    })
}

/// Reads the log to its end, and calls `deal` for every change of a page, until `deal` returns `Break`. Returns the
/// number of records.
fn read(
    managers: &Managers,
    found: &mut Found,
    watch: Watcher<'_>,
    deal: &mut dyn FnMut(PageId, &PageChange<'_>) -> Result<ControlFlow<()>>,
) -> Result<u64> {
    let (begin, end) = (found.redo_from, managers.log.tail());
    let total = end.since(begin);
    let mut records = 0;
    let mut roll = managers.log.roll(begin);
    while let Some(record) = roll.next_record() {
        let record = record?;
        found.note(&record)?;
        records += 1;
        if records % WATCH_EVERY == 0 {
            watch("redo", record.lsn.since(begin), total);
        }
        let Some((record_type, body)) = redo_part(&managers.types, &record)? else { continue };
        for (role, page) in (record_type.pages)(body).iter() {
            if deal(page, &PageChange { record_type, role, lsn: record.lsn, body })?.is_break() {
                return Ok(records);
            }
        }
    }
    Ok(records)
}
