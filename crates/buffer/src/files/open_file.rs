//! A data file that this process has opened: the place of its pages, and how much of the file has blocks and was
//! written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp_io::{File, Identity, MayBegin};
use rio::{failpoint, planted, Held};

use super::slot::{FileInfo, FileSlot, LIVE};
use crate::{Error, PageId, Result};

/// A file is extended by its own length, but at least and at most by these numbers of bytes at a time.
const EXTEND_BYTES_MIN: u64 = 64 << 10;
const EXTEND_BYTES_MAX: u64 = 4 << 20;

/// A file that this process has opened.
pub(crate) struct OpenFile {
    pub(crate) info: FileInfo,
    pub(crate) file: Arc<dyn File>,
    /// The file's identity when this process opened it.
    pub(super) identity: Identity,
    pub(super) slot: Held<FileSlot>,
    pub(super) generation: u32,
    /// Whether the system reports that the disk writes a page of this file whole or not at all.
    pub(super) is_promised: bool,
    /// Set for good if the system refuses to write a page of this file whole.
    pub(super) is_refused: AtomicBool,
}

impl OpenFile {
    /// Returns whether the slot still belongs to this file.
    pub(super) fn is_current(&self) -> bool {
        self.slot.state.load() == LIVE && self.slot.generation.load() == self.generation
    }

    /// Returns whether a process may write pages of this file whole, and not through the double-write file. Then pages
    /// that a restart finds may be unsynced.
    pub(crate) fn is_promised(&self) -> bool {
        self.is_promised
    }

    /// Returns whether this process writes pages of this file whole.
    pub(crate) fn is_whole(&self) -> bool {
        // Relaxed: the writer of pages is one thread at a time, and a late answer costs only one more refusal.
        self.is_promised && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Writes pages whole. Returns false if the system refuses one of them, or the disk fails: the caller then writes
    /// all of them through the double-write file, because a page may be torn. This process then writes pages of this
    /// file twice for good.
    pub(crate) fn write_whole(&self, pages: &[(u64, &[u8])], may_begin: &MayBegin<'_>) -> Result<bool> {
        if planted("buffer: a page is written once although the disk may tear it") {
            for (offset, page) in pages {
                self.file.write_at(page, *offset)?;
            }
            return Ok(true);
        }
        let written = self.file.write_whole(pages, may_begin);
        if written.is_err() && planted("buffer: a page that a failed write tore has no image") {
            return Ok(written?);
        }
        let is_written = matches!(written, Ok(true));
        if !is_written {
            tracing::info!(file = self.info.name, ?written, "a page was not written whole: pages are written twice");
            // Relaxed: as above.
            self.is_refused.store(true, Ordering::Relaxed);
        }
        Ok(is_written || planted("buffer: a refused page counts as written"))
    }

    /// Returns the offset of a page in the file.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        id.page().offset(self.info.page_bytes)
    }

    /// Makes sure that the page `id` can be written even if the disk becomes full.
    ///
    /// The file is extended by its own length, up to 4 MiB at a time, so that few pages need a change of the file's
    /// metadata.
    pub(crate) fn make_room(&self, id: PageId) -> Result<()> {
        let needed = self.offset(id) + u64::from(self.info.page_bytes);
        let had = self.slot.allocated.load();
        if needed <= had {
            return Ok(());
        }
        let length = self.file.len()?;
        let target = match needed > length {
            true => length + length.clamp(EXTEND_BYTES_MIN, EXTEND_BYTES_MAX),
            // There may be holes before the end: a failed extension can leave the file longer without blocks.
            false => length,
        };
        let mut allocated = needed.max(target).next_multiple_of(u64::from(self.info.page_bytes));
        // All bytes below `had` have blocks, so the range begins there: tmpfs checks each page of the range.
        if self.file.allocate(had..allocated).is_err() {
            // If the disk has no room for a whole step, it may still have room for the bytes that are needed now.
            allocated = needed;
            self.file.allocate(had..allocated)?;
        }
        failpoint("buffer: file longer, length not published");
        // Every byte below `allocated` must have blocks. So store only if the slot is still this file's and `allocated`
        // is unchanged. Otherwise this allocation is not recorded, which does no harm.
        if self.is_current() {
            let _ = self.slot.allocated.compare_exchange(had, allocated);
        }
        Ok(())
    }

    /// Notes the end of the file, before the first extension since the file was registered: the pages before this end
    /// may have been written.
    pub(crate) fn note_end(&self) -> Result<()> {
        if self.slot.written.load() == 0 {
            let end = self.file.len()?.div_ceil(u64::from(self.info.page_bytes));
            // Page 0 was written when the file was made.
            self.slot.written.fetch_max(end.max(1));
        }
        Ok(())
    }

    /// Notes that `pages` pages from `id` on may have been written. Called before they are written.
    pub(crate) fn note_written(&self, id: PageId, pages: u64) -> Result<()> {
        self.note_end()?;
        let end = u64::from(id.page().raw()) + pages;
        if self.slot.written.load() < end {
            self.slot.written.fetch_max(end);
        }
        Ok(())
    }

    /// Returns whether no session can have written the page `id`. The caller has entered the page in the page table, so
    /// no other session will write it.
    pub(crate) fn was_never_written(&self, id: PageId) -> bool {
        let end = self.slot.written.load();
        end != 0 && u64::from(id.page().raw()) >= end
    }

    /// Returns the error for a damaged page of the file.
    pub(crate) fn corrupt(&self, id: PageId, what: &dyn std::fmt::Display) -> Error {
        Error::Corrupt { file: self.info.file_name(), page: id.page(), what: what.to_string() }
    }
}
