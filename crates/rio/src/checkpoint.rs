//! A consistent copy of a kept region, and how the region goes back to it after a crash that its memory did not survive.
//!
//! Paper: a departure; Rio's memory survives. Here a region on ordinary storage may be torn when the machine has gone down.
//! The copy shares the blocks of the file where the filesystem can do that.
//!
//! If we die here: a file under a passing name is left, which the next thread of that number removes; `path` leads to a whole file
//! at any time.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::kept::{directory_of, passing_name, sync_directory, Kept};
use crate::region::{system, unusable};
use crate::{Access, Error, Keeping, Region, Result, Survives, WriteBack};

const PIECE: usize = 1 << 20;

impl Kept {
    /// Copies the region as it is now to the file at `path`, in the place of what was there, and makes it safe on its disk.
    /// Opened, the copy is as this is, with these parts as they are now.
    ///
    /// # Errors
    /// `Unusable` if `path` leads to the region itself; `System` if the disk refuses. It leads to what it led to before.
    pub fn copy_to(&self, path: &Path, sealed: &[(u64, u64)]) -> Result<()> {
        let own = self.region().file().metadata().map_err(|source| system(self.region().path(), "stat", source))?;
        if std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Err(unusable(
                path,
                "a checkpoint lies in a file of its own, and this is what it is to be of".into(),
            ));
        }
        put(self.region(), self.region().seal_of(sealed), path, |_| Ok(()))
    }
}

impl Keeping {
    /// Puts the checkpoint into the place of the region at `path`, if that is torn; it is there afterwards as `PATH.torn`.
    ///
    /// # Errors
    /// `InUse` if another has it; `Unusable` if the checkpoint is none, or of something else; `System` if the disk refuses.
    pub fn restore(&self, path: &Path, checkpoint: &Path) -> Result<()> {
        let torn = self.take(path)?.ok_or_else(|| system(path, "opening", std::io::ErrorKind::NotFound.into()))?;
        match torn.check(self.layout) {
            Err(Error::Torn { .. }) => {}
            // Another has done it meanwhile.
            other => return other,
        }
        let access = access_to(checkpoint)?;
        let region = self.map(access.open(checkpoint)?, checkpoint)?;
        let header = region.header();
        header.check_kind(self.layout).map_err(|what| unusable(checkpoint, what))?;
        region.check_sizes()?;
        if header.clean.get() == 0 {
            return Err(unusable(checkpoint, "it is no checkpoint: it was in use".into()));
        }
        let mut aside = path.as_os_str().to_owned();
        aside.push(".torn");
        put(&region, header.seal.get(), path, |path| {
            let _ = std::fs::remove_file(&aside);
            std::fs::hard_link(path, &aside)
        })
    }
}

fn access_to(path: &Path) -> Result<Access> {
    Access::of_directory(directory_of(path)).map_err(|source| system(path, "finding the directory", source))
}

/// Puts a copy of the region with that seal to `path`; `before` is done when it is about to get its name.
fn put(region: &Region, seal: u64, path: &Path, before: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let passing = passing_name(path);
    // A thread of this number died here.
    let _ = std::fs::remove_file(&passing);
    let made = make(region, seal, &passing, path);
    let named = made.and_then(|()| {
        let named = before(path).and_then(|()| std::fs::rename(&passing, path));
        named.map_err(|source| system(path, "naming", source))
    });
    if named.is_err() {
        let _ = std::fs::remove_file(&passing);
    }
    named.and_then(|()| sync_directory(path))
}

fn make(region: &Region, seal: u64, passing: &Path, path: &Path) -> Result<()> {
    let file = access_to(path)?.create(passing)?;
    if rustix::fs::ioctl_ficlone(&file, region.file()).is_err() {
        copy(region, &file).map_err(|source| system(path, "copying", source))?;
    }
    let copy = Region::map(file, passing, 0)?;
    if Survives::needs_write_back(copy.file()) {
        copy.set_write_back(WriteBack::best().unwrap_or_default());
    }
    copy.header().seal.publish(seal);
    copy.header().clean.publish(1);
    copy.sync()
}

/// Copies what is there. What is a hole, room that was left for something to grow, is one in the copy.
fn copy(region: &Region, to: &File) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE];
    let parts = region.parts().map_err(std::io::Error::other)?;
    for part in parts {
        for at in (part.clone()).step_by(PIECE) {
            let bytes = usize::try_from(part.end - at).map_or(PIECE, |left| left.min(PIECE));
            region.file().read_exact_at(&mut piece[..bytes], at)?;
            to.write_all_at(&piece[..bytes], at)?;
        }
    }
    to.set_len(region.size())
}
