//! What is done so that a crash of the system which the stores survive leaves the rest, too: the lines that are still in the
//! processor's cache, and the file's length and blocks, which lie in ordinary memory until the filesystem has written them.
//!
//! Paper: a departure from Rio, which kept all of the file cache and wrote it to the disk before the next start.
//!
//! Nothing is done for a region whose memory survives processes alone: then none of it is believed after such a crash.
//!
//! If we die here: the file is longer than the region says, and what is there is zeros.

use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{extend, system};
use crate::flush::WriteBack;
use crate::{planted, Region, Result};

/// What is written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How a region is kept safe.
#[derive(Default)]
pub(super) struct Safe {
    /// How cache lines are written back.
    write_back: OnceLock<WriteBack>,
    /// New blocks are filled and synced before they are used. Held by the thread that does so.
    filling: OnceLock<Mutex<()>>,
    /// Set if several processes share it and it outlives a crash of the system: new blocks are on the disk before they are used.
    pub(super) is_lasting: OnceLock<()>,
}

impl Safe {
    /// Where new blocks are filled one thread does it at a time: another's stores would be filled with zeros.
    pub(super) fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        self.filling.get().map(|filling| filling.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Region {
    /// Says how cache lines are written back where the memory outlives them. Once, before anything is stored.
    pub(crate) fn set_write_back(&self, how: WriteBack) {
        self.0.safe.write_back.get_or_init(|| how);
    }

    /// How cache lines are written back where the memory outlives them.
    pub fn write_back(&self) -> WriteBack {
        self.0.safe.write_back.get().copied().unwrap_or_default()
    }

    /// From now on the file's new blocks are filled, and on its disk, before they are used. One process has the region.
    pub(crate) fn set_filled(&self) {
        self.0.safe.filling.get_or_init(Mutex::default);
    }

    /// Whether the file's new blocks are filled.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.safe.filling.get().is_some()
    }

    /// Fills what the file has and nobody was given yet, of a region that was just made, if its blocks are to be filled.
    ///
    /// # Errors
    /// `System` if the file cannot be written.
    pub(crate) fn fill_rest(&self) -> Result<()> {
        match self.0.safe.alone() {
            Some(_alone) => self.fill(self.used(), self.size()),
            None => Ok(()),
        }
    }

    /// Gives the file blocks from one place to another, where there was nothing.
    ///
    /// # Errors
    /// `Full` when the filesystem is full.
    pub(super) fn make_blocks(&self, from: u64, to: u64) -> Result<()> {
        extend(self.file(), self.path(), from, to)?;
        let is_filled = self.is_filled();
        if !is_filled && self.0.safe.is_lasting.get().is_none() || planted("rio: new blocks are not made safe") {
            return Ok(());
        }
        // What was only set aside would be zeros again after a crash, whatever was stored there: that it is in use is noted at
        // the first store, in ordinary memory.
        if is_filled {
            self.fill(from, to)?;
        } else {
            // Others may be at the same, and one of them may be done and have stored something.
            self.touch(from, to);
        }
        self.file().sync_all().map_err(|source| system(self.path(), "syncing", source))
    }

    fn fill(&self, from: u64, to: u64) -> Result<()> {
        for at in (from..to).step_by(ZEROS.len()) {
            let bytes = usize::try_from(to - at).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            let written = self.file().write_all_at(&ZEROS[..bytes], at);
            written.map_err(|source| system(self.path(), "filling", source))?;
        }
        Ok(())
    }

    /// Has a part of the region on its way from the cache to memory, if need be.
    ///
    /// # Panics
    /// If it is not a part of the region.
    pub(crate) fn write_back_part(&self, at: u64, bytes: usize) {
        let place = self.known_place(at, bytes, 1);
        self.write_back().write_back(place, bytes);
    }

    /// Has a part of the region, its place and its bytes, in memory before anything that is stored after this, if need be.
    #[inline]
    pub fn keep(&self, (at, bytes): (u64, u64)) {
        if self.write_back() != WriteBack::None {
            self.write_back_part(at, usize::try_from(bytes).expect("a part of the region is mapped"));
            self.write_back().fence();
        }
    }

    /// Has everything before `end` in memory, if need be: after what is not undone was changed.
    pub fn keep_front(&self, end: u64) {
        self.keep((0, end));
    }

    /// Writes what was stored to the disk behind the file, if there is one; and the file's length and blocks.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub fn sync(&self) -> Result<()> {
        // What is mapped synchronously the kernel does not write back: it takes it for the program's to do.
        if self.write_back() != WriteBack::None {
            for part in self.parts()? {
                self.write_back_part(part.start, usize::try_from(part.end - part.start).unwrap_or(usize::MAX));
            }
            self.write_back().fence();
        }
        let bytes = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let written = self.0.mapping.sync(bytes).and_then(|()| self.0.file.sync_all());
        written.map_err(|source| system(&self.0.path, "syncing", source))
    }

    /// Has the header in memory, and on the disk behind the file, if there is one.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub(crate) fn sync_header(&self) -> Result<()> {
        self.write_back_part(0, 4096);
        self.write_back().fence();
        self.0.mapping.sync(4096).map_err(|source| system(&self.0.path, "syncing", source))
    }
}
