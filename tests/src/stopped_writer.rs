//! A checkpoint while another process is stopped in the middle of writing pages (PROTOCOLS L7).
//!
//! The writer is stopped before its first sync, for longer than other sessions wait. If a checkpoint counted the pages
//! as written, its redo point would be after their changes, and a power cut would lose the changes. (After the sync of
//! the double-write file, restart would find the pages there.)

use std::sync::Arc;

use crate::short_run::{unusable, ShortRun};
use crate::standstill::{gated, Gate};

const RECORDS: u64 = 40;
/// The double-write file. The writer is stopped just before it syncs this file.
const DOUBLE_WRITE: &str = "libtp.double";

/// Stops a writer, takes a checkpoint, and cuts the power.
///
/// # Errors
/// An acknowledged commit is lost, or a step failed.
pub fn a_checkpoint_passes_no_page_in_flight(seed: u64) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let gate = Arc::new(Gate::default());
    let other = run.machine.start().map_err(unusable)?;
    run.put(&other, "account", "before").map_err(unusable)?;
    other.checkpoint().map_err(unusable)?;
    let writer = run.machine.start_in(|inner| gated(inner, DOUBLE_WRITE, &gate)).map_err(unusable)?;
    run.put(&other, "account", "in flight").map_err(unusable)?;

    let position = std::thread::scope(|scope| {
        let writing = scope.spawn(move || writer.write_pages().map_err(unusable));
        let stood = gate.wait_for_one();
        let taken = other.checkpoint().map_err(unusable);
        let position = run.machine.disk.io_index();
        gate.open();
        writing.join().map_err(|_| "PANIC: the writer".to_owned())??;
        match (stood, taken?) {
            (true, true) => Ok(position),
            (stood, taken) => {
                Err(format!("UNUSABLE: the writer was stopped: {stood}, the checkpoint was taken: {taken}"))
            }
        }
    })?;
    run.judge(position, "a checkpoint while a writer was stopped")
}
