//! A region that many processes share and that outlives a crash of the system: what its memory survives, and the steps
//! after which all of its stores survive.
//!
//! Paper: Rio Vista, section 3. A kept region ([`Kept`](crate::Kept)) belongs to one process, which writes back its
//! stores as it goes. In a region of this module, code writes back a part of the memory only when this part must be
//! safe. All other stores may be lost.
//!
//! If we die here: perhaps the part is not safe; the caller was not informed that it is safe.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::error::{system, unusable};
use crate::flush::WriteBack;
use crate::names::sync_directory;
use crate::{Access, Bytes, Identity, Offset, Region, Result, Survives};

/// No system has smaller pages, so one store to each piece of this length gives every page of the file a block.
const PAGE_BYTES: usize = 4096;

/// What a region's memory survives, and how its cache lines are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// What the memory survives.
    pub survives: Survives,
    /// How cache lines are written back, if the cache does not survive as much as the memory.
    pub write_back: WriteBack,
}

impl Default for Lasting {
    fn default() -> Lasting {
        Lasting { survives: Survives::Process, write_back: WriteBack::None }
    }
}

/// Set if lines are written back, by the processor's own instruction.
const WRITTEN_BACK: u64 = 1 << 8;
#[cfg(feature = "planted")]
const SIMULATED: u64 = 1 << 9;

impl Lasting {
    /// Returns the value as a number for shared memory; zero if the memory survives only the death of processes.
    pub fn to_word(self) -> u64 {
        let how = match self.write_back {
            WriteBack::None => 0,
            #[cfg(feature = "planted")]
            WriteBack::Simulated => SIMULATED,
            _ => WRITTEN_BACK,
        };
        match self.survives {
            Survives::Process => 0,
            Survives::System => 1 | how,
            Survives::Power => 2 | how,
        }
    }

    /// Decodes a number from shared memory.
    pub fn from_word(word: u64) -> Lasting {
        let survives = match word & 0xff {
            1 => Survives::System,
            2 => Survives::Power,
            _ => return Lasting::default(),
        };
        #[cfg(feature = "planted")]
        if word & SIMULATED != 0 {
            return Lasting { survives, write_back: WriteBack::Simulated };
        }
        // This machine made the number, so its processor has the instruction.
        let how = if word & WRITTEN_BACK != 0 { WriteBack::best() } else { None };
        Lasting { survives, write_back: how.unwrap_or_default() }
    }

    /// As [`Lasting::from_word`], or `None` if [`Lasting::to_word`] never returns the number.
    pub fn try_from_word(word: u64) -> Option<Lasting> {
        Some(Lasting::from_word(word)).filter(|says| says.to_word() == word)
    }

    /// Returns what the memory of a file survives: the detected value, or the operator's declaration if it states that
    /// the memory survives more.
    pub fn of(file: &File, declared: Option<Survives>) -> Lasting {
        let (survives, write_back) = Survives::decide(file, declared, None);
        Lasting { survives, write_back }
    }

    /// Returns whether the memory survives more than the death of processes.
    pub fn is_lasting(self) -> bool {
        self.survives > Survives::Process
    }
}

impl Region {
    /// Returns what stores into the region survive, as far as can be detected. An operator may know more
    /// ([`Keeping`](crate::Keeping)).
    pub fn survives(&self) -> Survives {
        Survives::of(self.file())
    }

    /// Returns what the region's memory survives: see [`Lasting::of`].
    pub fn find_lasting(&self, declared: Option<Survives>) -> Lasting {
        Lasting::of(self.file(), declared)
    }

    /// Makes this process sync the file's new blocks before it uses them. Called once. Has no effect
    /// if the memory survives only the death of processes.
    pub fn set_lasting(&self, lasting: Lasting) {
        if lasting.is_lasting() {
            let _ = self.0.safe.is_lasting.set(());
        }
    }

    /// Makes all stores so far survive: writes the cache lines back to memory, and syncs the file's length, blocks and
    /// name. Called while no other process has the region.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub fn settle(&self, lasting: Lasting) -> Result<()> {
        self.touch(0, self.size());
        let bytes = usize::try_from(self.size()).expect("a region is mapped");
        self.write_lines(lasting.write_back, 0, bytes);
        lasting.write_back.fence_if_any();
        self.file().sync_all().map_err(|source| system(self.path(), "syncing", source))?;
        // A memory file of a simulated machine has no name.
        match self.path().exists() {
            true => sync_directory(self.path()),
            false => Ok(()),
        }
    }

    /// As [`Region::attach_broken`], for a region of an earlier start of the machine or of another build. The caller
    /// may look only at the parts whose layout both builds share. The error is `System` with `NotFound` if there is
    /// no region.
    ///
    /// # Errors
    /// As [`Region::attach_broken`].
    pub fn attach_stale(path: &Path, identity: &Identity, reserve: u64, access: &Access) -> Result<Region> {
        let region = Region::open(path, reserve, access)?;
        region.check_left()?;
        region.check_identity(identity)?;
        Ok(region)
    }

    /// As [`Region::attach_stale`], for the region of any environment.
    ///
    /// # Errors
    /// As [`Region::attach_broken`].
    pub fn attach_any_left(path: &Path, reserve: u64, access: &Access) -> Result<Region> {
        let region = Region::open(path, reserve, access)?;
        region.check_left()?;
        Ok(region)
    }

    /// As [`Region::attach_stale`], for this region's file.
    ///
    /// # Errors
    /// As [`Region::attach_broken`].
    pub fn attach_left_again(&self, identity: &Identity) -> Result<Region> {
        let region = self.map_again()?;
        region.check_left()?;
        region.check_identity(identity)?;
        Ok(region)
    }

    /// Returns whether the machine was started again since the region was made.
    pub fn is_of_earlier_start(&self) -> bool {
        !self.header().is_of_this_boot()
    }

    /// Makes the region look like a region of an earlier start of the machine: for tests of a warm start.
    #[doc(hidden)]
    pub fn pretend_earlier_start(&self) {
        let word = &self.header().boot[0];
        word.publish(!word.get());
    }

    /// Checks the region as `check_maker` does, but accepts any layout and any start of the machine.
    fn check_left(&self) -> Result<()> {
        let own = self.metadata()?;
        let header = self.header();
        let made = header.check_file(own.ino());
        made.map_err(|what| unusable(self.path(), what))?;
        if header.ready.load() == 0 {
            return Err(unusable(self.path(), "the file was not made completely".into()));
        }
        Ok(())
    }

    fn check_identity(&self, identity: &Identity) -> Result<()> {
        let owned = self.header().check_owner(identity);
        owned.map_err(|what| unusable(self.path(), what))?;
        self.remember(identity);
        Ok(())
    }

    /// Starts to write lines of the region back to memory. The lines are in memory after the next [`Region::fence`].
    /// Does nothing if `how` is `WriteBack::None`.
    ///
    /// # Panics
    /// If the bytes are not in the region.
    #[inline]
    pub fn write_back_lines(&self, how: WriteBack, at: Offset<Bytes>, bytes: usize) {
        if how != WriteBack::None {
            self.write_lines(how, at.raw(), bytes);
        }
    }

    /// As [`Region::write_back_lines`], for one value in the region.
    #[inline]
    pub fn write_back_thing<T: crate::Shared>(&self, how: WriteBack, thing: &T) {
        if how != WriteBack::None {
            self.write_lines(how, self.offset_of(thing).raw(), size_of::<T>());
        }
    }

    /// Orders write-backs: lines written back before this call are in memory before any later store.
    #[inline]
    pub fn fence(&self, how: WriteBack) {
        how.fence_if_any();
    }

    fn write_lines(&self, how: WriteBack, at: u64, bytes: usize) {
        #[cfg(feature = "planted")]
        if how == WriteBack::Simulated {
            return super::simulated_cache::write_back(self, at, bytes);
        }
        if how != WriteBack::None {
            let place = self.known_place(at, bytes, 1);
            how.write_back(place, bytes);
        }
    }

    /// Stores to each page that has a block, without a change of its content. The next sync then writes the page even
    /// if the system considers the page written. Holes in the file stay holes.
    ///
    /// # Errors
    /// `System` if the search for holes fails.
    pub(crate) fn touch_all(&self) -> Result<()> {
        for part in self.parts()? {
            self.touch(part.start, part.end.min(self.size()));
        }
        Ok(())
    }

    /// Stores to each page in the range, so that a block that was only allocated becomes a written block. The contents
    /// stay, even if another thread stores to the page meanwhile.
    pub(super) fn touch(&self, from: u64, to: u64) {
        // The file already has that length; the size in the header may be smaller.
        self.0.mapping.allow(usize::try_from(to).expect("a region is mapped"));
        for at in (from.next_multiple_of(8)..to).step_by(PAGE_BYTES) {
            let word = &self.undo_words(at.max(8), 8)[0];
            // `black_box` hides the zero from the compiler, which would drop an `or` with zero: the store is wanted.
            // Relaxed: the store publishes nothing.
            word.fetch_or(std::hint::black_box(0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{seek, SeekFrom};

    use super::*;

    #[test]
    fn each_page_of_a_region_that_is_settled_was_stored_to() {
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-stored-to", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let region = Region::create(&path, &Identity::default(), 1 << 24, &Access::own()).unwrap();
        let lasting = Lasting { survives: Survives::System, write_back: WriteBack::None };
        region.settle(lasting).unwrap();
        std::fs::remove_file(&path).unwrap();
        let first_hole = || seek(region.file(), SeekFrom::Hole(0)).unwrap();
        assert!(first_hole() >= region.size(), "{} bytes of {} have their blocks", first_hole(), region.size());
    }
}
