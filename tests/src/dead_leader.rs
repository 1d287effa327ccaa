//! The leader's sync of the log fails, and the leader dies before it can report the failure (PROTOCOLS L3).
//!
//! The operating system then treats the written bytes as clean, although they are not on the disk, and no session
//! knows of the failure. The next leader therefore writes again everything after the durable end, and syncs. If the
//! next leader continued where the dead leader had stopped, its own sync would succeed. Then commits would be
//! acknowledged although a power cut could lose them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp_io::{File, Operation};
use libtp_sim::{Calls, Fault, Repeat};

use crate::short_run::{unusable, ShortRun, LOG};
use crate::standstill::syncing_by;

const RECORDS: u64 = 20;

/// Fails a leader's sync, so that the leader's session dies of a panic. Then lets other sessions lead, and cuts the
/// power.
///
/// # Errors
/// An acknowledged commit is lost, or a step failed.
pub fn a_dead_leaders_writes_are_written_again(seed: u64) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let has_died = Arc::new(AtomicBool::new(false));
    let died = Arc::clone(&has_died);
    let sync = move |file: &dyn File| match file.sync() {
        // Relaxed: a flag of one thread. The session dies before it returns the error.
        Err(error) if !died.swap(true, Ordering::Relaxed) => panic!("planned: the leader dies of {error}"),
        done => done,
    };
    let other = run.machine.start().map_err(unusable)?;
    let leader = run.machine.start_in(|inner| syncing_by(inner, LOG, sync)).map_err(unusable)?;
    run.put(&other, "before", "before").map_err(unusable)?;
    run.machine.disk.fail_call(Calls::On(Operation::Sync, LOG.into()), 0, Fault::Eio, Repeat::Once);
    let mut positions = Vec::new();
    for (process, group) in [(&leader, "by the process that saw the death"), (&other, "by another")] {
        run.put(process, group, group).map_err(unusable)?;
        positions.push(run.machine.disk.io_index());
    }
    // Relaxed: the same thread set the flag.
    if !has_died.load(Ordering::Relaxed) {
        return Err("UNUSABLE: no leader has died of a failed sync".into());
    }
    positions.into_iter().try_for_each(|position| run.judge(position, "a leader had died of a failed sync"))
}
