//! A log that ends exactly where an old record begins (PROTOCOLS L1).
//!
//! A crash tears a record out of the last flush and leaves the records behind it on the disk. Restart ends the log at
//! the hole; then new records fill the hole to the byte. The records behind them were logged in an earlier life and
//! must not come back: their commits were never acknowledged, and the records before them are gone.

use libtp_log::record_bytes;
use libtp_sim::{LossMode, SimDisk};

use crate::log_life::Life;

/// Bytes of the body that is torn out: some sectors.
const TORN_BODY: usize = 6000;

/// Tears a record out, fills the hole, crashes again, and checks which records came back.
///
/// # Errors
/// A record of an earlier life is in the log, or a record of this life is missing.
pub fn stale_records_stay_dead(seed: u64) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let life = Life::begin(&disk)?;
    life.append(b"kept")?;
    life.force()?;
    life.append(&[b't'; TORN_BODY])?;
    life.append(b"stale")?;
    let before_sync = disk.io_index() + 1;
    life.force()?;
    for attempt in 0..200 {
        let torn = disk.image_at(before_sync, LossMode::Torn512, seed << 16 | attempt);
        let life = Life::begin(&torn)?;
        if life.bodies()?.len() != 1 {
            continue;
        }
        // The flush ends with a mark, which fills the rest of the hole.
        let mark_bytes = record_bytes(8);
        life.append(&[b'n'; TORN_BODY].as_slice()[mark_bytes..])?;
        life.force()?;
        let life = Life::begin(&torn.crash_image(LossMode::DropAll, seed))?;
        let bodies = life.bodies()?;
        if bodies.len() != 2 {
            let found: Vec<usize> = bodies.iter().map(Vec::len).collect();
            return Err(format!("STALE: the log should have two records, and has records of {found:?} bytes"));
        }
    }
    Ok(())
}
