//! A restart finds records that were written and never synced (PROTOCOLS L2).
//!
//! A sync of the log fails. Reads of the file still return the written bytes, which are not on the disk, and the
//! operating system treats their pages as clean: a later sync succeeds without writing them. The restart that finds
//! these records writes them again before anything depends on them.

use libtp_io::Operation;
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};

use crate::lone_log::LoneLog;

/// Bytes of the record whose sync fails. It fills many pages; the later record shares only the last of them.
const FOUND: usize = 40_000;

/// Fails a sync of the log, restarts, logs one more record, and cuts the power.
///
/// # Errors
/// A durable record, or a record that a durable record depends on, is gone.
pub fn a_found_tail_is_written_again(seed: u64) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let log = LoneLog::begin(&disk)?;
    log.append(b"kept")?;
    log.force()?;
    log.append(&[b'f'; FOUND])?;
    disk.fail_call(Calls::On(Operation::Sync, "log.0".into()), 0, Fault::Eio, Repeat::Once);
    if log.force().is_ok() {
        return Err("UNUSABLE: no sync has failed".into());
    }
    drop(log);
    let log = LoneLog::begin(&disk)?;
    let found = log.bodies()?;
    if found.len() != 2 {
        return Err(format!("UNUSABLE: a restart found {} records, where two can be read", found.len()));
    }
    log.append(b"later")?;
    log.force()?;
    let position = disk.io_index();
    for mode in LossMode::ALL {
        let bodies = LoneLog::begin(&disk.image_at(position, mode, seed))?.bodies()?;
        if bodies.len() != 3 {
            let lengths: Vec<usize> = bodies.iter().map(Vec::len).collect();
            return Err(format!(
                "LOST: the log must have three records, and has records of {lengths:?} bytes ({mode:?})"
            ));
        }
    }
    Ok(())
}
