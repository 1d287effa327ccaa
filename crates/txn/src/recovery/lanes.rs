//! Lanes: threads that repeat history in parallel, each on its own pages.
//!
//! Every page belongs to one lane, so its changes keep their order, and no thread waits for another. Neighbouring pages
//! belong to the same lane, in groups of [`STRETCH`], so that each lane still reads neighbours in one call. A lane's
//! thread returns each batch empty, so a lane has at most three batches, even for a long log.
//!
//! If a thread fails, its lane stops: the reader notices at the next full batch and stops too.

use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use libtp_buffer::PageId;

use super::batch::Batch;
use super::redo::PageChange;
use crate::{Managers, Result};

/// The number of neighbouring pages that belong to one lane.
const STRETCH: u32 = 32;

/// Returns the lane, of `count`, that a page belongs to.
#[inline]
pub(super) fn lane_of(page: PageId, count: usize) -> usize {
    let stretch = (page.page().raw() / STRETCH).wrapping_add(page.file().raw());
    stretch as usize % count
}

/// A thread, and the channels to it and from it.
pub(super) struct Lane<'scope> {
    filling: Batch,
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    limit: usize,
    thread: ScopedJoinHandle<'scope, Result<u64>>,
}

/// The error of a lane whose thread has ended too early: [`Lane::finish`] returns the reason.
pub(super) struct Stopped;

impl<'scope> Lane<'scope> {
    /// Starts a thread with its own session.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        managers: &'env Managers,
        limit: usize,
    ) -> std::io::Result<Lane<'scope>> {
        let (full, waiting) = sync_channel(1);
        let (used, empty) = channel();
        let work = move || repeat_all(managers, &waiting, &used);
        let thread = Builder::new().name("libtp-recovery".into()).spawn_scoped(scope, work)?;
        Ok(Lane { filling: Batch::new(limit), full, empty, limit, thread })
    }

    /// Adds a change of one of the lane's pages.
    #[inline]
    pub(super) fn push(&mut self, page: PageId, change: &PageChange<'_>) -> std::result::Result<(), Stopped> {
        self.filling.push(page, change);
        if self.filling.is_full() {
            self.hand_over()?;
        }
        Ok(())
    }

    fn hand_over(&mut self) -> std::result::Result<(), Stopped> {
        // The thread has returned the batches that it has finished. New batches are made only at the beginning.
        let next = self.empty.try_recv().unwrap_or_else(|_| Batch::new(self.limit));
        let full = std::mem::replace(&mut self.filling, next);
        self.full.send(full).map_err(|_| Stopped)
    }

    /// Lets the thread repeat the rest. Returns how many changes it repeated in all.
    pub(super) fn finish(mut self) -> Result<u64> {
        // The reason for which a thread stopped is known when the thread is joined.
        let _ = self.hand_over();
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn repeat_all(managers: &Managers, waiting: &Receiver<Batch>, used: &Sender<Batch>) -> Result<u64> {
    let session = managers.processes.join()?;
    let mut redone = 0;
    while let Ok(mut batch) = waiting.recv() {
        redone += batch.repeat(managers, &session)?;
        // After the last record the reader takes no batch back.
        let _ = used.send(batch);
    }
    Ok(redone)
}
