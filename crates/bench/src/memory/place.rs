//! The check whether a directory is in memory or on a disk. RVM with its log in memory and RVM with its log on a disk
//! are two engines, and each must get a directory of its kind.

use std::path::Path;

use super::{MemoryEngine, MemorySettings};
use crate::error::{Error, Result};

/// Filesystems whose files are memory.
const OF_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// Returns the name of a directory's filesystem, if the kernel reports it.
pub(crate) fn filesystem_of(directory: &Path) -> Option<String> {
    let directory = std::fs::canonicalize(directory).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    // Of several mounts at the same place, the last mount hides the others; `max_by_key` returns the last maximum.
    let at = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        directory.starts_with(place).then(|| (Path::new(place).components().count(), kind.to_owned()))
    });
    at.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// Refuses `rvm` if its log would be in memory, and `rvm-rio` if its log would be on a disk.
pub(super) fn check(settings: &MemorySettings) -> Result<()> {
    let wants_memory = match settings.engine {
        MemoryEngine::Rvm { .. } => false,
        MemoryEngine::RvmRio { .. } => true,
        MemoryEngine::Vista | MemoryEngine::Pmemobj | MemoryEngine::None => return Ok(()),
    };
    let Some(kind) = filesystem_of(&settings.directory) else { return Ok(()) };
    let (directory, is_memory) = (settings.directory.display(), OF_MEMORY.contains(&kind.as_str()));
    match (wants_memory, is_memory) {
        (true, false) => Err(Error::Settings(format!(
            "rvm-rio keeps its log in memory, and {directory} is on a disk ({kind}): name a directory in memory, or ask for rvm"
        ))),
        (false, true) => Err(Error::Settings(format!(
            "rvm keeps its log on a disk, and {directory} is in memory ({kind}): name a directory on a disk, or ask for rvm-rio"
        ))),
        _ => Ok(()),
    }
}
