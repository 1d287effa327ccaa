//! The claims of the writer: pages that were copied for a write, and whose write is not finished.
//!
//! Invariant: only the session that has the writer's role claims pages.
//!
//! If the writer dies here: its claims stay, and the next writer cancels them.

use std::sync::PoisonError;

use libtp_log::Lsn;
use libtp_process::{leaves_roles, Session, SharedGuard};
use rio::{failpoint, planted};

use super::writer::Writer;
use crate::batch::Batch;
use crate::content::Body;
use crate::files::OpenFile;
use crate::frame::{FrameSlot, ANY_PAGE};
use crate::page_header::{belongs, is_zero};
use crate::version::State;
use crate::{BufferManager, Error, FileId, PageId, Result};

/// The result of an attempt to claim a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Claimed,
    /// The page need not be written: it is clean, or another session has claimed it.
    Needless,
    Busy,
}

/// The claimed pages of a batch: their copies, and their frames in the same order.
pub(super) struct ClaimedBatch<'m> {
    manager: &'m BufferManager,
    /// The writer's role: only the writer claims pages.
    pub(super) writer: Option<Writer<'m>>,
    pub(super) batch: Batch,
    pub(super) slots: Vec<&'m FrameSlot>,
    /// The first error that a full disk caused. The page stayed dirty, and other pages were claimed.
    pub(super) refused: Option<Error>,
    /// The last missing file. The warning about a file is given once, not for each page.
    away: Option<FileId>,
    /// The last file that was found to exist. Further pages of this file in the same batch need no second check.
    pub(super) in_place: Option<FileId>,
}

impl Drop for ClaimedBatch<'_> {
    fn drop(&mut self) {
        // After a panic the claims stay, and the next writer cancels them. After a failed sync they stay, too, so that
        // no checkpoint advances beyond them.
        if !leaves_roles(&self.manager.region) && !self.manager.is_failed() {
            self.slots.iter().for_each(|slot| slot.undo_write());
        }
    }
}

impl BufferManager {
    /// Claims and copies the frame's page, if it is dirty and no other session is writing it.
    pub(super) fn claim<'m>(
        &self,
        session: &Session,
        slot: &'m FrameSlot,
        load: &mut ClaimedBatch<'m>,
    ) -> Result<Claim> {
        debug_assert!(load.writer.is_some(), "only the writer claims pages");
        let id = slot.page.load();
        if id.is_none() || slot.recovery.load().is_none() {
            return Ok(Claim::Needless);
        }
        // First makes room on the disk, before the latch is taken.
        let opened = match load.in_place == Some(id.file()) {
            true => self.files.open_for_pages(session, id.file()),
            false => self.files.open_own(session, id.file()),
        };
        let ready = opened.and_then(|file| {
            if load.in_place != Some(id.file()) {
                self.files.check_in_place(&file)?;
                load.in_place = Some(id.file());
            }
            file.make_room(id).map(|()| file)
        });
        let file = match ready {
            Ok(file) => file,
            // The file was dropped meanwhile, and the dropping session frees its frames. A page that was loaded after
            // that would keep the log from being recycled, so it is marked clean.
            Err(Error::UnknownFile { .. }) => {
                if let Some(_guard) = slot.latch.try_exclusive(session, ANY_PAGE) {
                    let is_dropped = || self.is_dropped(id.file()).unwrap_or(false);
                    if slot.page.get() == id
                        && slot.state() == State::Resident
                        && !self.files.has(id.file())
                        && is_dropped()
                    {
                        slot.recovery.publish(Lsn::NONE);
                    }
                }
                return Ok(Claim::Needless);
            }
            // The page stays dirty, and the log is kept for it. Other files are written.
            Err(error @ Error::FileMissing { .. }) if !planted("buffer: a missing file stops all checkpoints") => {
                if load.away.replace(id.file()) != Some(id.file()) {
                    tracing::warn!(%error, "pages of a database stay in memory until its file is back");
                }
                return Ok(Claim::Needless);
            }
            Err(error) => {
                load.refused.get_or_insert(error);
                return Ok(Claim::Needless);
            }
        };
        failpoint("buffer: about to claim");
        let Some(guard) = slot.latch.try_shared(session, ANY_PAGE) else { return Ok(Claim::Busy) };
        if slot.page.get() != id || slot.state() != State::Resident {
            return Ok(Claim::Needless);
        }
        self.claim_latched(slot, &guard, &file, load)
    }

    fn claim_latched<'m>(
        &self,
        slot: &'m FrameSlot,
        guard: &SharedGuard<'_>,
        file: &OpenFile,
        load: &mut ClaimedBatch<'m>,
    ) -> Result<Claim> {
        let id = slot.page.get();
        let page = Body::taken(slot).bytes(&self.region, guard);
        if !is_zero_or_belongs(page, id) {
            let error = file.corrupt(id, &"its header in memory was overwritten");
            load.refused.get_or_insert(error);
            return Ok(Claim::Needless);
        }
        assert!(!self.may_be_half_changed(), "no page is written before the noted records are redone");
        if !slot.begin_write() {
            return Ok(Claim::Needless);
        }
        failpoint("buffer: claimed, latched, not copied");
        load.batch.push(id, page);
        load.slots.push(slot);
        Ok(Claim::Claimed)
    }

    /// Returns private memory for a batch, kept from the last batch if possible: new memory costs a page fault for each
    /// page.
    pub(super) fn new_load(&self) -> ClaimedBatch<'_> {
        let kept = self.spare_batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut batch = kept.unwrap_or_default();
        batch.clear();
        ClaimedBatch {
            manager: self,
            writer: None,
            batch,
            slots: Vec::new(),
            refused: None,
            away: None,
            in_place: None,
        }
    }

    /// Frees the private memory that is kept for the next batches, for tests that simulate the death of a process.
    #[doc(hidden)]
    pub fn forget_spares(&self) {
        self.spare_batches.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn keep_load(&self, mut load: ClaimedBatch<'_>) {
        let mut spare = self.spare_batches.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < 2 {
            spare.push(std::mem::take(&mut load.batch));
        }
    }
}

fn is_zero_or_belongs(page: &[u8], id: PageId) -> bool {
    belongs(page, id).is_ok() || is_zero(page)
}
