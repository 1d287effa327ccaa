//! A checkpoint while another process is stopped in the middle of writing pages (PROTOCOLS L7).
//!
//! The writer is stopped before the first sync, for longer than other sessions wait. A checkpoint that counted the
//! pages as written would begin the log behind their changes; a power cut then loses both. (After the sync of the
//! double-write file, restart finds the pages there.)

use std::sync::Arc;

use libtp::Durability;
use libtp_sim::{LossMode, SimDisk};

use crate::crash_image::{judge, Thoroughness};
use crate::library::{Layout, Machine, Process, Trouble};
use crate::oracle::{Effects, History, Table, Value};
use crate::standstill::{Gate, SyncingDirectory};

const RECORDS: u64 = 40;
/// The file whose sync the writer does not reach.
const DOUBLE_WRITE: &str = "libtp.double";

/// Stops a writer, takes a checkpoint, and cuts the power.
///
/// # Errors
/// An acknowledged commit is lost, or a step failed.
pub fn a_checkpoint_passes_no_page_in_flight(seed: u64) -> Result<(), String> {
    let failed = |trouble: Trouble| format!("UNUSABLE: {trouble}");
    let layout = Layout::of_seed(seed);
    let machine = Machine::new(SimDisk::new(seed), layout);
    let gate = Arc::new(Gate::default());
    let other = machine.start().map_err(failed)?;
    let mut history = History::new();
    put(&machine, &other, &mut history, seed, "before").map_err(failed)?;
    other.checkpoint().map_err(failed)?;
    let writer =
        machine.start_in(|inner| Arc::new(SyncingDirectory::gated(inner, DOUBLE_WRITE, &gate))).map_err(failed)?;
    put(&machine, &other, &mut history, seed, "in flight").map_err(failed)?;

    let (position, walk) = std::thread::scope(|scope| {
        let writing = scope.spawn(move || writer.write_pages().map_err(failed));
        let stood = gate.wait_for_one();
        let taken = other.checkpoint().map_err(failed);
        let (position, mut walk) = (machine.disk.io_index(), machine.disk.crash_images());
        walk.advance_to(position);
        gate.open();
        writing.join().map_err(|_| "PANIC: the writer".to_owned())??;
        match (stood, taken?) {
            (true, true) => Ok((position, walk)),
            (stood, taken) => Err(format!("UNUSABLE: a writer stood still: {stood}, a checkpoint was taken: {taken}")),
        }
    })?;
    for mode in LossMode::ALL {
        judge(&walk.image(mode, seed), layout, &history, history.allowed_at(position), Thoroughness::default())
            .map_err(|what| format!("{what}, after a checkpoint beside a stopped writer ({mode:?})"))?;
    }
    Ok(())
}

fn put(machine: &Machine, process: &Process, history: &mut History, seed: u64, what: &str) -> Result<(), Trouble> {
    let begun = machine.disk.io_index();
    let txn = process.begin(Durability::Sync)?;
    let mut effects = Effects::new();
    for number in 0..RECORDS {
        let place = (Table::Tree("accounts"), format!("account/{number:04}").into_bytes());
        let value = Value::from(format!("{what} {number} {seed}").as_bytes());
        process.put(&txn, &place, &value)?;
        effects.insert(place, Some(value));
    }
    txn.commit()?;
    let commits = history.commit(effects, begun, false);
    history.promise(machine.disk.io_index(), commits);
    Ok(())
}
