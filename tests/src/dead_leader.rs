//! The leader's sync of the log fails, and the leader dies before it can report the failure (PROTOCOLS L3).
//!
//! The written bytes are then clean in memory and not on the disk, and no session knows of it. The next leader
//! therefore writes everything again from the durable end on, and syncs. If the next leader continued at the place
//! that the dead leader had reached, its own sync would succeed, and commits would be acknowledged that a power cut
//! takes back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp::Durability;
use libtp_io::{File, Operation};
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};

use crate::crash_image::{judge, Thoroughness};
use crate::library::{Layout, Machine, Process, Trouble};
use crate::oracle::{Effects, History, Table, Value};
use crate::standstill::SyncingDirectory;

const RECORDS: u64 = 20;
/// Prefix of the names of the log's segments; a segment that is being prepared has another name.
const LOG: &str = "log.0";

/// Fails a leader's sync, which ends the leader's session; lets other sessions lead, and cuts the power.
///
/// # Errors
/// An acknowledged commit is lost, or a step failed.
pub fn what_a_dead_leader_had_written_is_written_again(seed: u64) -> Result<(), String> {
    let failed = |trouble: Trouble| format!("UNUSABLE: {trouble}");
    let layout = Layout::of_seed(seed);
    let machine = Machine::new(SimDisk::new(seed), layout);
    let has_died = Arc::new(AtomicBool::new(false));
    let died = Arc::clone(&has_died);
    let sync = move |file: &dyn File| match file.sync() {
        // Relaxed: a flag of one thread. The session dies before it returns the error.
        Err(error) if !died.swap(true, Ordering::Relaxed) => panic!("planned: it dies of {error}"),
        done => done,
    };
    let other = machine.start().map_err(failed)?;
    let leader =
        machine.start_in(|inner| Arc::new(SyncingDirectory::new(inner, LOG, Arc::new(sync)))).map_err(failed)?;
    let mut history = History::new();
    put(&machine, &other, &mut history, seed, "before").map_err(failed)?;
    machine.disk.fail_call(Calls::On(Operation::Sync, LOG.into()), 0, Fault::Eio, Repeat::Once);
    let mut positions = Vec::new();
    for (process, what) in [(&leader, "by who saw it die"), (&other, "by another")] {
        put(&machine, process, &mut history, seed, what).map_err(failed)?;
        positions.push(machine.disk.io_index());
    }
    // Relaxed: as above.
    if !has_died.load(Ordering::Relaxed) {
        return Err("UNUSABLE: nobody has died of a failed sync".into());
    }
    let mut walk = machine.disk.crash_images();
    for position in positions {
        walk.advance_to(position);
        for mode in LossMode::ALL {
            judge(&walk.image(mode, seed), layout, &history, history.allowed_at(position), Thoroughness::default())
                .map_err(|what| format!("{what}, after a leader had died of a failed sync ({mode:?})"))?;
        }
    }
    Ok(())
}

fn put(machine: &Machine, process: &Process, history: &mut History, seed: u64, what: &str) -> Result<(), Trouble> {
    let begun = machine.disk.io_index();
    let txn = process.begin(Durability::Sync)?;
    let mut effects = Effects::new();
    for number in 0..RECORDS {
        let place = (Table::Tree("accounts"), format!("{what}/{number:04}").into_bytes());
        let value = Value::from(format!("{what} {number} {seed}").as_bytes());
        process.put(&txn, &place, &value)?;
        effects.insert(place, Some(value));
    }
    txn.commit()?;
    let commits = history.commit(effects, begun, false);
    history.promise(machine.disk.io_index(), commits);
    Ok(())
}
