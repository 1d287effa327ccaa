//! Cold files.
//!
//! *Cold* here: no process has the files open, they are on the disk, and the system keeps none of their pages in memory
//! (`POSIX_FADV_DONTNEED`). The library's shared memory is removed with the last process, and made anew. Caches of the
//! disk itself, or of the host of a virtual disk, are out of reach.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{fadvise, Advice};

use crate::error::{Error, Result};

/// Writes the files below a directory to the disk, and drops their pages from the system's memory. No process may have
/// them open.
///
/// # Errors
/// `File` with the system's refusal.
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
