//! A process meets a limit of its own while it leads the flush of the log (PROTOCOLS L3).
//!
//! The process has closed the log's descriptors: some daemons close all descriptors that they do not know. This loses
//! no written byte. So the other processes continue, and make the limited process's commits durable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp_io::{Error, File, Operation};

use crate::short_run::{unusable, ShortRun, LOG};
use crate::standstill::syncing_by;

const RECORDS: u64 = 20;
const EBADF: i32 = 9;

/// Runs a process that cannot sync a file of pages, and then a process that cannot sync the log. Each time, another
/// process works concurrently, and then the power is cut.
///
/// # Errors
/// The other process was stopped, an acknowledged commit is lost, or a step failed.
pub fn others_continue_while_a_process_is_limited(seed: u64) -> Result<(), String> {
    [".tp", "libtp.double"].into_iter().try_for_each(|part| others_write_pages(seed, part))?;
    others_commit(seed)
}

/// Checks that another process writes the pages if one process cannot sync the files whose names contain `part`.
fn others_write_pages(seed: u64, part: &'static str) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let is_limited = Arc::new(AtomicBool::new(false));
    let limit = Arc::clone(&is_limited);
    let sync = move |file: &dyn File| match limit.load(Ordering::SeqCst) {
        true => Err(Error::from_errno(Operation::Sync, part.into(), None, EBADF)),
        false => file.sync(),
    };
    let other = run.machine.start().map_err(unusable)?;
    let limited = run.machine.start_in(|inner| syncing_by(inner, part, sync)).map_err(unusable)?;
    run.put(&limited, "before", "before").map_err(unusable)?;
    is_limited.store(true, Ordering::SeqCst);
    if limited.write_pages().is_ok() {
        return Err(format!("UNUSABLE: the limited process synced {part}"));
    }
    let stopped = |trouble| format!("a limit of one process at {part} stopped another process: {trouble}");
    run.put(&other, "other", "by another").map_err(stopped)?;
    other.write_pages().map_err(stopped)?;
    other.checkpoint().map_err(stopped)?;
    run.judge(run.machine.disk.io_index(), "a process had met a limit of its own")
}

fn others_commit(seed: u64) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let is_limited = Arc::new(AtomicBool::new(false));
    let limit = Arc::clone(&is_limited);
    let sync = move |file: &dyn File| match limit.load(Ordering::SeqCst) {
        true => Err(Error::from_errno(Operation::Sync, LOG.into(), None, EBADF)),
        false => file.sync(),
    };
    let other = run.machine.start().map_err(unusable)?;
    let limited = run.machine.start_in(|inner| syncing_by(inner, LOG, sync)).map_err(unusable)?;
    run.put(&limited, "before", "before").map_err(unusable)?;
    is_limited.store(true, Ordering::SeqCst);
    let begun = run.machine.disk.io_index();
    let (txn, effects) = run.change(&limited, "limited", "by the limited process").map_err(unusable)?;
    if txn.commit().is_ok() {
        return Err("UNUSABLE: the limited process made its commit durable".into());
    }
    let uncertain = run.history.commit(effects, begun, false);
    run.put(&other, "other", "by another").map_err(|trouble| format!("another process was stopped: {trouble}"))?;
    let position = run.machine.disk.io_index();
    run.history.promise(position, uncertain);
    run.judge(position, "a process had met a limit of its own")
}
