//! A process meets a limit of its own while it leads the flush of the log (PROTOCOLS L3).
//!
//! The process has closed the log's descriptors, as a daemon does that closes all descriptors it does not know.
//! Nothing is lost by that, so other processes go on, and make durable what the limited process committed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp::Durability;
use libtp_io::{Error, File, Operation};
use libtp_sim::{LossMode, SimDisk};

use crate::crash_image::{judge, Thoroughness};
use crate::library::{Layout, Machine, Process, Trouble};
use crate::oracle::{Effects, History, Table, Value};
use crate::standstill::SyncingDirectory;

const RECORDS: u64 = 20;
/// Prefix of the names of the log's segments; a segment that is being prepared has another name.
const LOG: &str = "log.0";
const EBADF: i32 = 9;

/// Lets a process that cannot sync the log commit, then another process, and cuts the power.
///
/// # Errors
/// The other process was stopped, an acknowledged commit is lost, or a step failed.
pub fn others_go_on_beside_a_limited_process(seed: u64) -> Result<(), String> {
    let failed = |trouble: Trouble| format!("UNUSABLE: {trouble}");
    let layout = Layout::of_seed(seed);
    let machine = Machine::new(SimDisk::new(seed), layout);
    let is_limited = Arc::new(AtomicBool::new(false));
    let limit = Arc::clone(&is_limited);
    let sync = move |file: &dyn File| match limit.load(Ordering::SeqCst) {
        true => Err(Error::from_errno(Operation::Sync, LOG.into(), None, EBADF)),
        false => file.sync(),
    };
    let other = machine.start().map_err(failed)?;
    let limited =
        machine.start_in(|inner| Arc::new(SyncingDirectory::new(inner, LOG, Arc::new(sync)))).map_err(failed)?;
    let mut history = History::new();
    put(&machine, &limited, &mut history, seed, "before").map_err(failed)?;
    is_limited.store(true, Ordering::SeqCst);
    let begun = machine.disk.io_index();
    let (txn, effects) = change(&limited, seed, "by the limited process").map_err(failed)?;
    if txn.commit().is_ok() {
        return Err("UNUSABLE: the limited process made its commit durable".into());
    }
    let uncertain = history.commit(effects, begun, false);
    put(&machine, &other, &mut history, seed, "by another")
        .map_err(|trouble| format!("another was stopped: {trouble}"))?;
    history.promise(machine.disk.io_index(), uncertain);
    let position = machine.disk.io_index();
    let mut walk = machine.disk.crash_images();
    walk.advance_to(position);
    for mode in LossMode::ALL {
        judge(&walk.image(mode, seed), layout, &history, history.allowed_at(position), Thoroughness::default())
            .map_err(|what| format!("{what}, after a process had met a limit of its own ({mode:?})"))?;
    }
    Ok(())
}

fn change<'p>(process: &'p Process, seed: u64, what: &str) -> Result<(crate::library::Running<'p>, Effects), Trouble> {
    let txn = process.begin(Durability::Sync)?;
    let mut effects = Effects::new();
    for number in 0..RECORDS {
        let place = (Table::Tree("accounts"), format!("{what}/{number:04}").into_bytes());
        let value = Value::from(format!("{what} {number} {seed}").as_bytes());
        process.put(&txn, &place, &value)?;
        effects.insert(place, Some(value));
    }
    Ok((txn, effects))
}

fn put(machine: &Machine, process: &Process, history: &mut History, seed: u64, what: &str) -> Result<(), Trouble> {
    let begun = machine.disk.io_index();
    let (txn, effects) = change(process, seed, what)?;
    txn.commit()?;
    let commits = history.commit(effects, begun, false);
    history.promise(machine.disk.io_index(), commits);
    Ok(())
}
