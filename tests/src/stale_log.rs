//! A log that ends exactly where an old record begins (PROTOCOLS L1).
//!
//! A crash loses a record in the middle of the last flush, and the records after it are on the disk. Restart ends the
//! log at the hole; then new records fill the hole exactly. The old records after the hole must not come back:
//! their commits were never acknowledged, and the records before them are lost.

use libtp_log::record_bytes;
use libtp_sim::{LossMode, SimDisk};

use crate::lone_log::LoneLog;

/// The length of the body of the lost record. The record takes several sectors.
const TORN_BODY: usize = 6000;

/// Loses a record in a crash, fills the hole with new records, crashes again, and checks which records are in the log.
///
/// # Errors
/// A record from before the first crash came back, or a new record is missing.
pub fn stale_records_stay_out_of_the_log(seed: u64) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let log = LoneLog::begin(&disk)?;
    log.append(b"kept")?;
    log.force()?;
    log.append(&[b't'; TORN_BODY])?;
    log.append(b"stale")?;
    let before_sync = disk.io_index() + 1;
    log.force()?;
    for attempt in 0..200 {
        let torn = disk.image_at(before_sync, LossMode::Torn512, seed << 16 | attempt);
        let log = LoneLog::begin(&torn)?;
        if log.bodies()?.len() != 1 {
            continue;
        }
        // The flush ends with a mark, which fills the rest of the hole.
        let mark_bytes = record_bytes(8);
        log.append(&[b'n'; TORN_BODY].as_slice()[mark_bytes..])?;
        log.force()?;
        let log = LoneLog::begin(&torn.crash_image(LossMode::DropAll, seed))?;
        let bodies = log.bodies()?;
        if bodies.len() != 2 {
            let found: Vec<usize> = bodies.iter().map(Vec::len).collect();
            return Err(format!("STALE: the log should have two records, and has records of {found:?} bytes"));
        }
    }
    Ok(())
}
