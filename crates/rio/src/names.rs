//! The name of a region's file: its directory, its temporary name, and the step that makes the name durable.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::system;
use crate::{Access, Result};

/// Returns the directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a temporary name in the directory of `path`, for a file that is renamed to `path` when it is complete.
pub(crate) fn passing_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    // The thread's number is unique, so two threads of one process do not collide.
    name.push(format!(".new-{}", rustix::thread::gettid().as_raw_nonzero()));
    PathBuf::from(name)
}

/// Makes the name of a file safe on the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(directory_of(path)).and_then(|directory| directory.sync_all());
    synced.map_err(|source| system(path, "making the name safe", source))
}

/// Returns the users of the directory of a file.
pub(crate) fn access_beside(path: &Path) -> Result<Access> {
    Access::of_directory(directory_of(path)).map_err(|source| system(path, "finding the directory", source))
}
