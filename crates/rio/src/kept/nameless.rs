//! A region in a file without a name: memory of one process, gone when the process ends.
//!
//! If we die here: the kernel removes the file with its last descriptor and mapping. On a filesystem without nameless
//! files, an empty file with a name may be left.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::Lock;
use crate::error::system;
use crate::names::directory_of;
use crate::{Identity, Keeping, Kept, Region, Result};

/// A file without a name, for a kept region.
#[derive(Clone, Debug)]
pub struct Nameless {
    file: Arc<File>,
    /// The path that error texts name.
    path: PathBuf,
    /// Whether a region was copied into the file.
    is_copy: bool,
}

impl Nameless {
    /// Makes an empty file in the filesystem of the directory of `path`. Error texts name `path`.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn new(path: &Path) -> Result<Nameless> {
        let file = make(path).map_err(|source| system(path, "making the memory", source))?;
        Ok(Nameless { file: Arc::new(file), path: path.to_path_buf(), is_copy: false })
    }

    /// Stores one part of the region that is being copied into the file.
    ///
    /// # Errors
    /// `System`, also if the filesystem has no room.
    pub fn store(&self, place: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, place).map_err(|source| system(&self.path, "filling the memory", source))
    }

    /// Completes the copy of a region. The region can then be opened like a region left in good order, but without a
    /// seal.
    ///
    /// # Errors
    /// As [`Nameless::store`].
    pub fn admit(&mut self) -> Result<()> {
        crate::seal::admit_copy(&self.file).map_err(|source| system(&self.path, "filling the memory", source))?;
        self.is_copy = true;
        Ok(())
    }
}

impl Keeping {
    /// As [`Keeping::open`], for the region that was copied into the file, or for a new region. No other handle can
    /// have this region.
    ///
    /// # Errors
    /// As [`Keeping::open`].
    pub fn open_nameless<E: From<crate::Error>>(
        &self,
        file: &Nameless,
        build: impl FnOnce(&Region) -> std::result::Result<(), E>,
    ) -> std::result::Result<Kept, E> {
        let again = || file.file.try_clone().map_err(|source| system(&file.path, "opening", source));
        if file.is_copy {
            let kept = self.have(self.map(again()?, &file.path)?, again()?);
            kept.check(self.layout)?;
            return Ok(kept);
        }
        let identity = Identity { layout: self.layout, ..Identity::default() };
        let region = Region::build(again()?, &file.path, &identity, self.reserve)?;
        let kept = self.have(region, again()?);
        kept.region.fill_rest()?;
        build(&kept.region)?;
        kept.region.set_ready();
        Ok(kept)
    }

    fn have(&self, region: Region, file: File) -> Kept {
        let survives = self.prepare(&region);
        // The file has no name, so no other process could take its lock.
        Kept::new(region, Lock::Open(file), survives)
    }
}

fn make(path: &Path) -> std::io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let made = rustix::fs::open(directory_of(path), OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode);
    if let Ok(made) = made {
        return crate::above_standard(made.into());
    }
    // The filesystem or the kernel has no nameless files.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    crate::above_standard(file)
}
