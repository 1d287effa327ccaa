//! A data file that this process has open: where its pages lie, and how much of it has blocks and was written.

use std::sync::Arc;

use libtp_io::{File, Identity};
use rio::{failpoint, Held};

use super::slot::{FileInfo, FileSlot, LIVE};
use crate::{Error, PageId, Result};

/// A file is extended by its own length, but by at least and at most these bytes at a time.
const EXTEND_BYTES_MIN: u64 = 64 << 10;
const EXTEND_BYTES_MAX: u64 = 4 << 20;

/// A file this process has open.
pub(crate) struct OpenFile {
    pub(crate) info: FileInfo,
    pub(crate) file: Arc<dyn File>,
    /// The file's identity when this process opened it.
    pub(super) identity: Identity,
    pub(super) slot: Held<FileSlot>,
    pub(super) generation: u32,
}

impl OpenFile {
    /// Returns whether the slot is still this file's.
    pub(super) fn is_current(&self) -> bool {
        self.slot.state.load() == LIVE && self.slot.generation.load() == self.generation
    }

    /// Returns where a page begins.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        id.page().offset(self.info.page_bytes)
    }

    /// Makes sure that the page `id` can be written without being refused for want of room.
    ///
    /// The file is extended by its own length, up to 4 MiB at a time: a later page seldom changes the file's metadata.
    pub(crate) fn make_room(&self, id: PageId) -> Result<()> {
        let needed = self.offset(id) + u64::from(self.info.page_bytes);
        let had = self.slot.allocated.load();
        if needed <= had {
            return Ok(());
        }
        let length = self.file.len()?;
        let target = match needed > length {
            true => length + length.clamp(EXTEND_BYTES_MIN, EXTEND_BYTES_MAX),
            // There may be holes before the end: a refused step can leave the file longer without blocks.
            false => length,
        };
        let mut allocated = needed.max(target).next_multiple_of(u64::from(self.info.page_bytes));
        // The range begins where the file has no blocks yet: tmpfs looks at each page of the range.
        if self.file.allocate(had..allocated).is_err() {
            // A disk too full for a whole step may have room for the bytes that are needed now.
            allocated = needed;
            self.file.allocate(had..allocated)?;
        }
        failpoint("buffer: file longer, length not published");
        // Below `allocated` no byte may be without blocks. So nothing is stored if another session has changed the word
        // since, or the slot is another file's by now: this session has then only allocated in vain.
        if self.is_current() {
            let _ = self.slot.allocated.compare_exchange(had, allocated);
        }
        Ok(())
    }

    /// Notes where the file ends, if no session has noted that since the file was registered: the pages before the end
    /// may have been written. Called before the file is made longer.
    pub(crate) fn note_end(&self) -> Result<()> {
        if self.slot.written.load() == 0 {
            let end = self.file.len()?.div_ceil(u64::from(self.info.page_bytes));
            // Page 0 was written when the file was made.
            self.slot.written.fetch_max(end.max(1));
        }
        Ok(())
    }

    /// Notes that `pages` pages from `id` on may have been written. Called before they are.
    pub(crate) fn note_written(&self, id: PageId, pages: u64) -> Result<()> {
        self.note_end()?;
        let end = u64::from(id.page().raw()) + pages;
        if self.slot.written.load() < end {
            self.slot.written.fetch_max(end);
        }
        Ok(())
    }

    /// Returns whether no session can have written the page `id`. The caller has the page in the table, so no session
    /// is about to.
    pub(crate) fn was_never_written(&self, id: PageId) -> bool {
        let end = self.slot.written.load();
        end != 0 && u64::from(id.page().raw()) >= end
    }

    /// Makes the error that a page of the file is damaged.
    pub(crate) fn corrupt(&self, id: PageId, what: &dyn std::fmt::Display) -> Error {
        Error::Corrupt { file: self.info.file_name(), page: id.page(), what: what.to_string() }
    }
}
