//! The steps that keep a region whole if its memory survives a crash of the system. Lines that are still in the
//! processor's cache are written back. The file's length and blocks are synced, because the filesystem keeps them in
//! ordinary memory until it has written them.
//!
//! Paper: a departure from Rio, which kept all of the file cache and wrote it to the disk before the next start.
//!
//! A region whose memory survives only the death of processes does not need these steps: after a crash of the system
//! the region is not used.
//!
//! If we die here: the file is longer than the region's header states, and its end is zeros.

use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::extend;
use crate::error::system;
use crate::flush::WriteBack;
use crate::{planted, Region, Result, Shared};

/// The bytes of one write.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How a region is kept safe.
#[derive(Default)]
pub(super) struct Safe {
    /// How cache lines are written back.
    write_back: OnceLock<WriteBack>,
    /// Set if new blocks are filled and synced before they are used. The thread that fills them holds the lock.
    filling: OnceLock<Mutex<()>>,
    /// Set if several processes share the region and its memory outlives a crash of the system. New blocks are then on
    /// the disk before they are used.
    pub(super) is_lasting: OnceLock<()>,
}

impl Safe {
    /// Takes the lock for filling, if new blocks are filled. Without the lock, two threads at once could overwrite each
    /// other's stores with zeros.
    pub(super) fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        self.filling.get().map(|filling| filling.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Region {
    /// Sets how cache lines are written back, for memory that outlives the cache. Called once, before any store.
    pub(crate) fn set_write_back(&self, how: WriteBack) {
        self.0.safe.write_back.get_or_init(|| how);
    }

    /// Returns how cache lines are written back, for memory that outlives the cache.
    pub fn write_back(&self) -> WriteBack {
        self.0.safe.write_back.get().copied().unwrap_or_default()
    }

    /// Makes sure that the file's new blocks are filled, and on its disk, before they are used. Only for a region that
    /// only one process uses.
    pub(crate) fn set_filled(&self) {
        self.0.safe.filling.get_or_init(Mutex::default);
    }

    /// Returns whether the file's new blocks are filled.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.safe.filling.get().is_some()
    }

    /// Fills the blocks of a new region that are not handed out yet, if blocks are filled at all.
    ///
    /// # Errors
    /// `System` if the file cannot be written.
    pub(crate) fn fill_rest(&self) -> Result<()> {
        match self.0.safe.alone() {
            Some(_alone) => self.fill(self.used(), self.size()),
            None => Ok(()),
        }
    }

    /// Gives the file new blocks from one place to another.
    ///
    /// # Errors
    /// `Full` if the filesystem is full.
    pub(super) fn make_blocks(&self, from: u64, to: u64) -> Result<()> {
        extend(self.file(), self.path(), from, to)?;
        let is_filled = self.is_filled();
        if !is_filled && self.0.safe.is_lasting.get().is_none() || planted("rio: new blocks are not made durable") {
            return Ok(());
        }
        // After a crash, a block that was only allocated would be zeros again, and the stores to it would be lost: the
        // filesystem records the first store to a block in ordinary memory only.
        if is_filled {
            self.fill(from, to)?;
        } else {
            // Another process may be making the same blocks, and may already have stored to them.
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

    /// Starts to write a part of the region back from the cache to memory, if lines are written back at all.
    ///
    /// # Panics
    /// If the part is not in the region.
    pub(crate) fn write_back_part(&self, at: u64, bytes: usize) {
        let place = self.known_place(at, bytes, 1);
        self.write_back().write_back(place, bytes);
    }

    /// Writes a few stored words back, if lines are written back at all. The words are in memory before any later
    /// store.
    pub fn write_back_words<T: Shared>(&self, words: &T) {
        self.write_back_and_fence((self.offset_of(words).raw(), size_of::<T>() as u64));
    }

    /// Writes a part of the region back, if lines are written back at all. The part is in memory before any later
    /// store.
    #[inline]
    pub fn write_back_and_fence(&self, (at, bytes): (u64, u64)) {
        if self.write_back() != WriteBack::None {
            self.write_back_part(at, usize::try_from(bytes).expect("a part of the region is mapped"));
            self.write_back().fence();
        }
    }

    /// As [`Region::write_back_and_fence`], for everything before `end`. Called after changes that are never undone.
    pub fn write_back_front(&self, end: u64) {
        self.write_back_and_fence((0, end));
    }

    /// If the file is on a disk, writes all stores, the file's length and its blocks to the disk.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub fn sync(&self) -> Result<()> {
        // The kernel does not write a synchronous mapping back: the program has to do that.
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

    /// Writes the header to memory and, if the file is on a disk, to the disk.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub(crate) fn sync_header(&self) -> Result<()> {
        self.write_back_part(0, 4096);
        self.write_back().fence();
        self.0.mapping.sync(4096).map_err(|source| system(&self.0.path, "syncing", source))
    }
}
