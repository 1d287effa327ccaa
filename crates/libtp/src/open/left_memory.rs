//! Shared memory that environments left behind: removes memory that can never be needed, and shows memory that might be
//! needed.
//!
//! A region outlives its processes so that the next process finds their work. If the environment's directory was
//! deleted, there is no next process, and the memory would be lost until the machine restarts. So each process checks
//! all regions in a directory once: when it first opens an environment whose region may be in that directory. `tp stat`
//! checks them each time.
//!
//! A region is removed only if this user owns it, no process uses it, its environment is not in its former directory,
//! and every answered commit in the region is also on disk. The last condition makes a mistake harmless: an environment
//! that was moved, or is mounted elsewhere, restarts from its log and has lost nothing. A region that may have commits
//! which are not on disk stays. It is shown with the command that removes it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use libtp_log::CONTROL_NAME;
use libtp_txn::Managers;
use rio::{Region, RegionHeader, UnusedRegion};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use serde::Serialize;

use crate::open::record_types::layout_hash;

/// The prefix of the names of regions in a directory that all environments share.
pub(crate) const PREFIX: &str = "libtp-";

/// Unused shared memory of an environment that is not in its former directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrphanedMemory {
    /// The file of the memory.
    pub file: String,
    /// The directory in which the environment was last opened.
    pub directory: String,
    /// The size of the memory in bytes.
    pub bytes: u64,
    /// The reason why the memory was not removed.
    pub why: String,
    /// The command that removes the memory.
    pub remove: String,
}

/// The present contents of the directory in which a region's environment was last opened.
enum Place {
    /// The directory has the region's environment, or an environment that was restored from its backup. The next
    /// opening of that environment decides whether the region is used or removed.
    There,
    /// The directory does not have the region's environment.
    Gone,
    /// The control file cannot be read.
    Unknown,
}

/// Removes the regions in `home` that can never be needed. Returns the regions whose environments are gone but which
/// may still be needed.
pub(crate) fn sweep(home: &Path) -> Vec<OrphanedMemory> {
    let Ok(entries) = std::fs::read_dir(home) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let mut ours: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(PREFIX)).collect();
    ours.sort();
    ours.iter().filter_map(|name| look_at(&home.join(name))).collect()
}

/// Removes a region, or returns the reason to keep it. Returns `None` if the region was removed, is in use, or may
/// belong to an existing environment.
fn look_at(path: &Path) -> Option<OrphanedMemory> {
    // A file that cannot be opened, or is too short for a region, is left alone.
    let left = UnusedRegion::take(path).ok()??;
    let header = left.region().header();
    let directory = header.directory()?;
    if !matches!(place_of(header, &directory), Place::Gone) {
        return None;
    }
    let shown = OrphanedMemory {
        file: path.display().to_string(),
        directory: directory.display().to_string(),
        bytes: left.region().allocated_bytes().unwrap_or(0),
        why: String::new(),
        remove: format!("rm '{}'", path.display()),
    };
    let why = match left.check_maker(layout_hash()) {
        Err(what) => format!("{what}; its contents are unknown"),
        Ok(()) if may_hold_commits(left.region()) => {
            "it has commits that are not on disk: if the directory was moved, open the environment in its new directory, which writes them to disk"
                .into()
        }
        Ok(()) => match left.remove() {
            Ok(()) => {
                tracing::info!(file = %shown.file, directory = %shown.directory, "removed shared memory whose environment is gone");
                return None;
            }
            Err(error) => format!("it cannot be removed: {error}"),
        },
    };
    Some(OrphanedMemory { why, ..shown })
}

/// Returns whether the region may have an answered commit that is not on disk. A region that is not ready has no such
/// commit: all earlier commits were written to the log files first.
fn may_hold_commits(region: &Region) -> bool {
    if region.header().ready.load() == 0 {
        return false;
    }
    match (Managers::last_commit(region), libtp_log::durable_in(region)) {
        (Some(last), Some(durable)) => last >= durable,
        _ => true,
    }
}

/// Checks whether `directory` has the control file for which the region was made.
fn place_of(header: &RegionHeader, directory: &Path) -> Place {
    // The open does not block and follows no link, because any kind of file may have that name by now.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags of open(2) are an int");
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(directory.join(CONTROL_NAME)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Place::Gone,
        Err(_) => return Place::Unknown,
    };
    let Ok(metadata) = file.metadata() else { return Place::Unknown };
    let mut front = [0; 32];
    if !metadata.is_file() || metadata.len() < front.len() as u64 {
        return Place::Gone;
    }
    let asked = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let birth = match asked {
        Ok(answer) if answer.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            let seconds = u64::try_from(answer.stx_btime.tv_sec).unwrap_or(0);
            seconds * 1_000_000_000 + u64::from(answer.stx_btime.tv_nsec)
        }
        _ => 0,
    };
    let found = [metadata.dev(), metadata.ino(), birth];
    let made_for = [&header.control_device, &header.control_inode, &header.control_birth].map(rio::Word::get);
    if found == made_for {
        return Place::There;
    }
    if file.read_exact(&mut front).is_err() {
        return Place::Unknown;
    }
    let id: Vec<u8> = header.environment.iter().flat_map(|half| half.get().to_le_bytes()).collect();
    // The environment's id is at byte 16 of a control file.
    if front[16..] == id[..] {
        Place::There
    } else {
        Place::Gone
    }
}
