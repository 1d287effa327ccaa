//! A trial of the shared memory. An opening that must make a region checks that it can, before it changes the first
//! byte of a file (PROTOCOLS L6). Otherwise an opening that is refused for a lack of memory would have begun an
//! incarnation, and its error would say that nothing was changed.
//!
//! The trial removes nothing: an old region with the name of the new region stays until the opening is certain.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libtp_buffer::BufferManager;
use libtp_lock::LockManager;
use libtp_log::LogManager;
use libtp_process::ProcessManager;
use libtp_txn::Managers;
use rio::{planted, Identity, Region, HEADER_BYTES};

use crate::open::opening::Opening;
use crate::open::platform::{free_bytes, Memory, Platform, ROOM_MIN};
use crate::{Error, Result};

impl Opening<'_> {
    /// Checks that this opening can make a region.
    ///
    /// # Errors
    /// As `Platform::make_region`. No file has changed.
    pub(crate) fn check_memory(&self, identity: &Identity) -> Result<()> {
        self.platform.check_memory(identity, self.reserve.get())
    }
}

impl Platform {
    /// Checks that a region of at most `reserve` bytes can be made in one of the homes.
    ///
    /// # Errors
    /// As `Platform::make_region`. No file has changed.
    pub(crate) fn check_memory(&self, identity: &Identity, reserve: u64) -> Result<()> {
        let Memory::Files(homes) = &self.memory else { return Ok(()) };
        if planted("libtp: an opening changes files before it has tried to make its memory") {
            return Ok(());
        }
        let access = self.access()?;
        let bytes = first_bytes();
        let mut refused = None;
        for home in homes {
            let path = home.join(self.region_name(home, identity));
            if let Some(why) = why_not_removable(&path) {
                refused = Some(self.not_removable(&path, &why));
                continue;
            }
            // The old file is removed before the new file is made.
            let freed = std::fs::symlink_metadata(&path).map_or(0, |file| file.blocks() * 512);
            let room = free_bytes(home).map(|free| free.saturating_add(freed));
            if *home != self.path && room.is_none_or(|room| room < ROOM_MIN) {
                continue;
            }
            match Region::check_creation(&path, bytes, reserve, &access) {
                Err(rio::Error::Full { .. }) if freed >= bytes => return Ok(()),
                Err(error) => refused = Some(error.into()),
                Ok(()) => return Ok(()),
            }
        }
        Err(refused.expect("the last home is the environment's own directory and is always tried"))
    }

    /// Returns the error for a file with the region's name that cannot be removed.
    pub(crate) fn not_removable(&self, path: &Path, why: &dyn std::fmt::Display) -> Error {
        let what = format!("the file {} has the name of its shared memory and cannot be removed: {why}. Remove it, or ask its owner to remove it", path.display());
        Error::Environment { environment: self.path.clone(), what }
    }
}

/// Returns the bytes that a region needs before an environment is open: its header, and the managers' parts.
fn first_bytes() -> u64 {
    HEADER_BYTES
        + ProcessManager::size(&libtp_process::Settings::default())
        + LogManager::size(&libtp_log::Settings::default())
        + LockManager::size()
        + BufferManager::size()
        + Managers::size(&libtp_txn::Settings::default())
}

/// Returns the reason why the file at `path` cannot be removed, if that can be known without removing the file.
fn why_not_removable(path: &Path) -> Option<String> {
    const STICKY: u32 = 0o1000;
    let file = std::fs::symlink_metadata(path).ok()?;
    if file.is_dir() {
        return Some("it is a directory".into());
    }
    let home = std::fs::metadata(path.parent()?).ok()?;
    let own = rustix::process::geteuid();
    let is_kept = home.mode() & STICKY != 0 && ![file.uid(), home.uid()].contains(&own.as_raw()) && !own.is_root();
    is_kept.then(|| format!("it belongs to user {}, and only its owner may remove it there", file.uid()))
}

#[cfg(test)]
mod tests {
    use libtp_buffer::BufferManager;
    use libtp_lock::LockManager;
    use libtp_log::{LogManager, Lsn};
    use libtp_process::ProcessManager;
    use libtp_txn::Managers;
    use rio::Region;

    use super::first_bytes;

    #[test]
    fn the_trial_takes_as_much_memory_as_the_managers_take_in_a_new_region() {
        let region = Region::anonymous(1 << 30).unwrap();
        ProcessManager::init(&region).unwrap();
        LockManager::init(&region).unwrap();
        BufferManager::init(&region, &libtp_buffer::Settings::default()).unwrap();
        Managers::init(&region, Lsn::NONE).unwrap();
        let without_log = first_bytes() - LogManager::size(&libtp_log::Settings::default());
        assert!(region.used() <= without_log, "{} bytes are used, {without_log} are tried", region.used());
    }
}
