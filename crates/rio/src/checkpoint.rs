//! A consistent copy of a kept region, and how the region goes back to it after a crash that its memory did not survive.
//!
//! Paper: a departure; Rio's memory survives. Here a region on ordinary storage may be torn when the machine has gone down.
//!
//! The copy has blocks of its own wherever the region has them, also where nothing was stored yet: stored to on a full disk it is
//! no signal. So no blocks are shared with it where the filesystem could do that: the next store to either would need a new one.
//!
//! If we die here: a file under a passing name is left, which the next thread of that number removes; `path` leads to a whole file
//! at any time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::kept::{directory_of, passing_name, sync_directory, Kept};
use crate::region::{extend, system, unusable};
use crate::{Access, Error, Keeping, Region, Result, Survives, WriteBack};

const PIECE: usize = 1 << 20;
const NOT_SUPPORTED: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

impl Kept {
    /// Copies the region as it is now to the file at `path`, in the place of what was there, and makes it safe on its disk.
    /// Opened, the copy is as this is, with these parts as they are now. Room that was left to grow into, `hole`, has no
    /// blocks in it either.
    ///
    /// # Errors
    /// `Unusable` if `path` leads to the region itself; `Full` and `System` if the disk refuses. It leads to what it led to before.
    pub fn copy_to(&self, path: &Path, sealed: &[(u64, u64)], hole: Range<u64>) -> Result<()> {
        let own = self.region().file().metadata().map_err(|source| system(self.region().path(), "stat", source))?;
        if std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Err(unusable(
                path,
                "a checkpoint lies in a file of its own, and this is what it is to be of".into(),
            ));
        }
        let copy =
            Copy { of: self.region(), seal: self.region().seal_of(sealed), hole, is_filled: self.region().is_filled() };
        copy.put(path, |_| Ok(()))
    }
}

impl Keeping {
    /// Puts the checkpoint into the place of the region at `path`, if that is torn; it is there afterwards as `PATH.torn`. `hole` says
    /// of a region which room was left in it to grow into.
    ///
    /// # Errors
    /// `InUse` if another has it; `Unusable` if the checkpoint is none, or of something else; `Full` and `System` if the disk
    /// refuses.
    pub fn restore(&self, path: &Path, checkpoint: &Path, hole: impl FnOnce(&Region) -> Range<u64>) -> Result<()> {
        let torn = self.take(path)?.ok_or_else(|| system(path, "opening", std::io::ErrorKind::NotFound.into()))?;
        match torn.check(self.layout) {
            Err(Error::Torn { .. }) => {}
            // Another has done it meanwhile.
            other => return other,
        }
        let region = self.open_checkpoint(checkpoint)?;
        let mut aside = path.as_os_str().to_owned();
        aside.push(".torn");
        let is_filled = torn.region().is_filled();
        let copy = Copy { of: &region, seal: region.header().seal.get(), hole: hole(&region), is_filled };
        copy.put(path, |path| {
            let _ = std::fs::remove_file(&aside);
            std::fs::hard_link(path, &aside)
        })
    }

    /// Puts the checkpoint to `path`, where there is no region (any more); false if there is one by now.
    ///
    /// # Errors
    /// `Unusable` if the checkpoint is none, or of something else; `Full` and `System` if the disk refuses.
    pub fn put_checkpoint(
        &self,
        path: &Path,
        checkpoint: &Path,
        hole: impl FnOnce(&Region) -> Range<u64>,
    ) -> Result<bool> {
        let region = self.open_checkpoint(checkpoint)?;
        let copy = Copy { of: &region, seal: region.header().seal.get(), hole: hole(&region), is_filled: false };
        copy.put_new(path)
    }

    fn open_checkpoint(&self, checkpoint: &Path) -> Result<Region> {
        let region = self.map(access_to(checkpoint)?.open(checkpoint)?, checkpoint)?;
        region.header().check_kind(self.layout).map_err(|what| unusable(checkpoint, what))?;
        region.check_sizes()?;
        if region.header().clean.get() == 0 {
            return Err(unusable(checkpoint, "it is no checkpoint: it was in use".into()));
        }
        Ok(region)
    }
}

fn access_to(path: &Path) -> Result<Access> {
    Access::of_directory(directory_of(path)).map_err(|source| system(path, "finding the directory", source))
}

/// A copy to be made.
struct Copy<'r> {
    of: &'r Region,
    seal: u64,
    /// What has no blocks, but where something was stored all the same.
    hole: Range<u64>,
    /// Its blocks are filled, since they would be zeros again in a crash that the memory survives.
    is_filled: bool,
}

impl Copy<'_> {
    /// Puts it to `path`; `before` is done when it is about to get its name.
    fn put(&self, path: &Path, before: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
        self.name(path, |passing| before(path).and_then(|()| std::fs::rename(passing, path)))
    }

    /// Puts it to `path` if nothing is there; whether it did.
    fn put_new(&self, path: &Path) -> Result<bool> {
        let mut is_put = true;
        self.name(path, |passing| {
            match std::fs::hard_link(passing, path) {
                // Another has done it, or has begun anew, meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => is_put = false,
                linked => linked?,
            }
            std::fs::remove_file(passing)
        })?;
        Ok(is_put)
    }

    /// Makes it under a passing name, which `name` makes the right one.
    fn name(&self, path: &Path, name: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
        let passing = passing_name(path);
        // A thread of this number died here.
        let _ = std::fs::remove_file(&passing);
        let made = self.make(&passing, path);
        let named = made.and_then(|()| name(&passing).map_err(|source| system(path, "naming", source)));
        if named.is_err() {
            let _ = std::fs::remove_file(&passing);
        }
        named.and_then(|()| sync_directory(path))
    }

    fn make(&self, passing: &Path, path: &Path) -> Result<()> {
        let file = access_to(path)?.create(passing)?;
        self.fill(&file, path)?;
        let copy = Region::map(file, passing, 0)?;
        if Survives::needs_write_back(copy.file()) {
            copy.set_write_back(WriteBack::best().unwrap_or_default());
        }
        copy.header().seal.publish(self.seal);
        copy.header().clean.publish(1);
        copy.sync()
    }

    /// Gives the file its blocks, and copies what is there.
    fn fill(&self, to: &File, path: &Path) -> Result<()> {
        let end = self.of.size();
        let hole = self.hole.start.min(end)..self.hole.end.clamp(self.hole.start.min(end), end);
        let solid = [0..hole.start, hole.end..end];
        let mut is_filled = self.is_filled || Survives::of(to) >= Survives::System;
        for part in solid.iter().filter(|part| !part.is_empty()) {
            match extend(to, path, part.start, part.end) {
                // A filesystem that sets nothing aside.
                Err(Error::System { source, .. }) if source.raw_os_error() == Some(NOT_SUPPORTED) => is_filled = true,
                set_aside => set_aside?,
            }
        }
        let mut parts = self.of.parts()?;
        if is_filled {
            // What the hole has none the less is copied in any case.
            parts = parts.into_iter().map(|it| it.start.max(hole.start)..it.end.min(hole.end)).chain(solid).collect();
        }
        let copied = parts.into_iter().filter(|part| !part.is_empty()).try_for_each(|part| self.copy(part, to));
        copied.and_then(|()| to.set_len(end)).map_err(|source| system(path, "copying", source))
    }

    fn copy(&self, part: Range<u64>, to: &File) -> std::io::Result<()> {
        let mut piece = vec![0; PIECE];
        for at in part.clone().step_by(PIECE) {
            let bytes = usize::try_from(part.end - at).map_or(PIECE, |left| left.min(PIECE));
            self.of.file().read_exact_at(&mut piece[..bytes], at)?;
            to.write_all_at(&piece[..bytes], at)?;
        }
        Ok(())
    }
}
