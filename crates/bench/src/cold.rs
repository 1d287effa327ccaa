//! Makes files cold.
//!
//! Files are *cold* if no process has them open, they are on the disk, and the system has none of their pages in memory
//! (`POSIX_FADV_DONTNEED`). When the last process closes an environment, its shared memory is removed, so the next
//! opening begins with new shared memory. The caches of the disk itself, or of the host of a virtual disk, cannot be
//! emptied.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{fadvise, Advice};

use crate::error::{Error, Result};

/// Writes the files below a directory to the disk, and drops their pages from the system's memory. No process may have
/// the files open.
///
/// # Errors
/// `File` if a file cannot be read, synced or dropped from memory.
pub fn forget_files(directory: &Path) -> Result<()> {
    let mut left: Vec<PathBuf> = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(&path).map_err(Error::file("list", &path))? {
            let path = entry.map_err(Error::file("list", &path))?.path();
            match path.is_dir() {
                true => left.push(path),
                false => forget(&path)?,
            }
        }
    }
    Ok(())
}

fn forget(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    file.sync_all().map_err(Error::file("sync", path))?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|why| Error::file("forget pages of", path)(why.into()))
}
