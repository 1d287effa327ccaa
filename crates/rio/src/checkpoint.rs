//! A consistent copy of a kept region, and the region's return to the copy after a crash that its memory did not
//! survive.
//!
//! Paper: a departure. Rio's memory survives a crash; here a crash of the machine may tear a region on ordinary
//! storage.
//!
//! The copy has blocks of its own at every offset at which the region has blocks, even if nothing was stored there yet,
//! so that a later store on a full disk raises no signal. For the same reason the copy shares no blocks with the
//! region, on filesystems where files can share blocks: the next store to either file would need a new block.
//!
//! If we die here: a file under a temporary name is left. The next thread with the same number removes it. `path` leads
//! to a whole file at any time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::error::{system, unusable};
use crate::names::{access_beside, passing_name, sync_directory};
use crate::region::extend;
use crate::{Error, Keeping, Kept, Region, Result, Survives, WriteBack};

const PIECE: usize = 1 << 20;
const NOT_SUPPORTED: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

impl Kept {
    /// Copies the region as it is now to the file at `path`, replaces any old file, and makes the copy safe on its
    /// disk. The copy opens like this region, with a seal over the parts `sealed`. `hole` is room to grow into; it has
    /// no blocks in the copy either.
    ///
    /// # Errors
    /// `Unusable` if `path` leads to the region itself; `Full` and `System` if the disk refuses. `path` still leads to
    /// its old file then.
    pub fn copy_to(&self, path: &Path, sealed: &[(u64, u64)], hole: Range<u64>) -> Result<()> {
        let own = self.region().file().metadata().map_err(|source| system(self.region().path(), "stat", source))?;
        if std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Err(unusable(
                path,
                "it is the file that was to be copied; give the checkpoint another path".into(),
            ));
        }
        let copy =
            Copy { of: self.region(), seal: self.region().seal_of(sealed), hole, is_filled: self.region().is_filled() };
        copy.put(path, |_| Ok(()))
    }
}

impl Keeping {
    /// Replaces the region at `path` by its checkpoint if the region is torn, and keeps the torn file as `PATH.torn`.
    /// `hole` returns a region's room to grow into.
    ///
    /// # Errors
    /// `InUse` if another handle has the region; `Unusable` if the file at `checkpoint` is no checkpoint or has another
    /// layout; `Full` and `System` if the disk refuses.
    pub fn restore(&self, path: &Path, checkpoint: &Path, hole: impl FnOnce(&Region) -> Range<u64>) -> Result<()> {
        let torn = self.take(path)?.ok_or_else(|| system(path, "opening", std::io::ErrorKind::NotFound.into()))?;
        match torn.check(self.layout) {
            Err(Error::Torn { .. }) => {}
            // Another process has restored the region meanwhile.
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

    /// Copies the checkpoint to `path`, if no region is there. Returns false if a region is there now.
    ///
    /// # Errors
    /// `Unusable` if the file is no checkpoint or has another layout; `Full` and `System` if the disk refuses.
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
        let region = self.map(access_beside(checkpoint)?.open(checkpoint)?, checkpoint)?;
        region.header().check_kind(self.layout).map_err(|what| unusable(checkpoint, what))?;
        region.check_sizes()?;
        if region.header().clean.get() == 0 {
            return Err(unusable(
                checkpoint,
                "it was in use when it was copied, so it is not a checkpoint; restore another one".into(),
            ));
        }
        Ok(region)
    }
}

/// A copy to be made.
struct Copy<'r> {
    of: &'r Region,
    seal: u64,
    /// The part of the copy without blocks, except where the region has data in it.
    hole: Range<u64>,
    /// Whether blocks must be filled with bytes: a crash that the memory survives would turn merely allocated blocks
    /// into zeros.
    is_filled: bool,
}

impl Copy<'_> {
    /// Makes the copy at `path`. Runs `before` just before the copy gets its name.
    fn put(&self, path: &Path, before: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
        self.name(path, |passing| before(path).and_then(|()| std::fs::rename(passing, path)))
    }

    /// Makes the copy at `path`, if no file is there. Returns whether it did.
    fn put_new(&self, path: &Path) -> Result<bool> {
        let mut is_put = true;
        self.name(path, |passing| {
            match std::fs::hard_link(passing, path) {
                // Another process has meanwhile restored the region, or made a new region.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => is_put = false,
                linked => linked?,
            }
            std::fs::remove_file(passing)
        })?;
        Ok(is_put)
    }

    /// Makes the copy under a temporary name. `name` then replaces that name by the right one.
    fn name(&self, path: &Path, name: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
        let passing = passing_name(path);
        // A thread with the same number may have died and left this file.
        let _ = std::fs::remove_file(&passing);
        let made = self.make(&passing, path);
        let named = made.and_then(|()| name(&passing).map_err(|source| system(path, "naming", source)));
        if named.is_err() {
            let _ = std::fs::remove_file(&passing);
        }
        named.and_then(|()| sync_directory(path))
    }

    fn make(&self, passing: &Path, path: &Path) -> Result<()> {
        let file = access_beside(path)?.create(passing)?;
        self.fill(&file, path)?;
        let copy = Region::map(file, passing, 0)?;
        if Survives::needs_write_back(copy.file()) {
            copy.set_write_back(WriteBack::best().unwrap_or_default());
        }
        copy.header().seal.publish(self.seal);
        copy.header().clean.publish(1);
        copy.sync()
    }

    /// Gives the file its blocks, and copies the data.
    fn fill(&self, to: &File, path: &Path) -> Result<()> {
        let end = self.of.size();
        let hole = self.hole.start.min(end)..self.hole.end.clamp(self.hole.start.min(end), end);
        let solid = [0..hole.start, hole.end..end];
        let mut is_filled = self.is_filled || Survives::of(to) >= Survives::System;
        for part in solid.iter().filter(|part| !part.is_empty()) {
            match extend(to, path, part.start, part.end) {
                // The filesystem cannot allocate blocks in advance.
                Err(Error::System { source, .. }) if source.raw_os_error() == Some(NOT_SUPPORTED) => is_filled = true,
                set_aside => set_aside?,
            }
        }
        let mut parts = self.of.parts()?;
        if is_filled {
            // Data inside the hole is copied in any case.
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
