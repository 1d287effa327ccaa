//! Writing pages back: the only code that writes pages to the disk.
//!
//! Paper: LIBTP 3.2.2, "checks with the Log Manager to ensure that the write-ahead protocol is enforced". Here the
//! check is an argument: the functions that write pages (`homes`) take a `FlushedTo`, which only the log can make, and
//! assert that it covers each page. Departure: pages are written in batches, through the double-write file or whole.
//!
//! A batch, step by step:
//! 1. Become the writer. The environment has one writer at a time, because the double-write file holds one batch. So
//!    only the writer has claims.
//! 2. *Claim* pages: under a frame's shared latch, copy its page and move its recovery LSN to `unsynced` (`frame`). The
//!    latch is only tried, so a session that needs a clean frame never waits for a latch that it holds itself.
//! 3. Store the checksums in the copies. Force the log to the highest page LSN among them.
//! 4. Write the pages of those files that the disk writes whole to their homes. The double-write file is made empty
//!    first. Pages that the system refuses to write whole take steps 5 and 6, like all other pages.
//! 5. Write table and images of the other pages to the double-write file, and sync it.
//! 6. Write these pages to their homes. Sync each file, also the files of step 4.
//! 7. End the claims: the pages are clean, unless they were changed meanwhile. Mark the batch as done.
//!
//! Invariants
//! 1. A page is dirty, for eviction and for the checkpoint, until its file is synced after the write (L7).
//! 2. After a failed write the pages are as dirty as before, and the batch stays open: the next writer first writes the
//!    batch home from the double-write file (L8). No page is lost, and the write is tried again.
//! 3. A failed sync is final. `failed` is set before any call returns the error. The claims stay for ever, so no
//!    checkpoint advances beyond them, and no page is written any more. There are two exceptions: a sync that a limit
//!    of the process has prevented, and a sync through a descriptor that the program has closed. Such a sync leaves
//!    the pages dirty, and any process can write them again.
//!
//! If the writer dies here: the next writer cancels its claims, so the pages are as dirty as before. If the batch was
//! in the double-write file, the next writer first writes it home.

mod claims;
mod homes;
mod writer;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use libtp_log::Lsn;
use libtp_process::Session;
use rio::{failpoint, planted};

use self::claims::{Claim, ClaimedBatch};
use self::homes::{HomeWrites, Homes, Written, LOG_NOT_FORCED};
use self::writer::{leave_given_up, Writer, SLICE};
use crate::batch::Batch;
use crate::double_write::{DoubleWrite, DOUBLE_WRITE_NAME};
use crate::files::{closed, environment_of};
use crate::frame::FrameSlot;
use crate::kept_images;
use crate::page_header::{mark_incarnation, page_lsn, seal};
use crate::{BufferManager, Error, FileId, PageNo, Result};

/// The largest number of slices, and the longest time, that a session waits for latches and writes of other sessions.
/// The limit of the time is for a busy machine, on which a slice may be long.
const PATIENCE: (u32, Duration) = (10_000, Duration::from_secs(4));

/// Returns whether the wait must end. The session began to wait at `begun`, and has waited `round` slices.
fn is_over(round: u32, begun: Instant) -> bool {
    round >= PATIENCE.0 || begun.elapsed() >= PATIENCE.1
}

/// A failure, and whether it can be tried again.
enum Fault {
    Again(Error),
    Final(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Again(error)
    }
}

impl BufferManager {
    /// Writes every page that is dirty now and syncs its file. Returns the number of written pages. The caller holds no
    /// latch. A page that a session (of a stopped process, for example) keeps latched for seconds stays dirty, and
    /// [`BufferManager::dirty_minimum`] includes it.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`], [`Error::Corrupt`]: a page that could not be written stays dirty and is tried
    /// again at the next call. [`Error::Log`] if the log could not be forced. [`Error::Failed`] is final.
    pub fn write_all(&self, session: &Session) -> Result<usize> {
        self.write_older(session, Lsn::new(u64::MAX))
    }

    /// Writes every page whose recovery LSN is below `than`, and syncs its file. Afterwards the log below `than` is not
    /// needed for any page that was dirty at the call, except for pages that stayed latched. Returns the
    /// number of written pages. The caller holds no latch.
    ///
    /// # Errors
    /// As [`BufferManager::write_all`].
    pub fn write_older(&self, session: &Session, than: Lsn) -> Result<usize> {
        let mut frames: Vec<&FrameSlot> = Vec::new();
        for (_, part) in self.pools.parts() {
            frames.extend(part.frames().filter(|slot| slot.oldest_needed().is_some_and(|lsn| lsn < than)));
        }
        // Each frame's page number is read once, before the frames are compared: a frame may get another page
        // meanwhile.
        frames.sort_by_cached_key(|slot| slot.page.load());
        let mut load = self.new_load();
        let mut written = 0;
        let begun = Instant::now();
        for round in 0_u32.. {
            let mut busy = Vec::new();
            for slot in frames {
                self.wait_for_role(session, &mut load.writer);
                if self.claim(session, slot, &mut load)? == Claim::Busy {
                    busy.push(slot);
                }
                if load.slots.len() == self.settings.batch_pages() {
                    written += self.write_load(session, &mut load)?;
                }
            }
            written += self.write_load(session, &mut load)?;
            // Other sessions may want to write while this one waits for the rest of the latches.
            load.writer = None;
            frames = busy;
            if frames.is_empty() {
                break;
            }
            if is_over(round, begun) && !planted("buffer: a checkpoint waits for a latched page without a bound") {
                // The latches' holders may be stopped. The dirty minimum includes these pages.
                tracing::warn!(
                    pages = frames.len(),
                    "pages that stay latched are not written; they stay dirty until they are free"
                );
                break;
            }
            if round > 0 {
                frames.iter().for_each(|slot| slot.latch.help_the_dead_holder(session));
                session.sleep(SLICE);
            }
        }
        self.wait_for_others(session, than)?;
        let refused = load.refused.take();
        self.keep_load(load);
        refused.map_or(Ok(written), Err)
    }

    /// Waits until the pages that other sessions have claimed are synced, or their claims are cancelled. The wait is
    /// bounded: the session that claimed a page may be dead, and the dirty minimum includes this page anyway.
    fn wait_for_others(&self, session: &Session, than: Lsn) -> Result<()> {
        let claimed = |slot: &FrameSlot| {
            let lsn = slot.unsynced.load();
            !lsn.is_none() && lsn < than
        };
        let (mut round, begun) = (0, Instant::now());
        for (_, part) in self.pools.parts() {
            for slot in part.frames() {
                while claimed(slot) && !is_over(round, begun) {
                    self.check_failed()?;
                    session.sleep(SLICE);
                    round += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns the oldest LSN that a restart needs for any page: redo would begin there. Returns `None` if every page
    /// is on the disk, synced. A caller that computes a redo point reads the log's tail *before* this call, and uses
    /// the smaller of the two.
    pub fn dirty_minimum(&self) -> Option<Lsn> {
        let parts = self.pools.parts();
        let frames = parts.iter().flat_map(|(_, part)| part.frames()).filter_map(FrameSlot::oldest_needed).min();
        frames.into_iter().chain(self.files.unrepeated_from()).min()
    }

    /// Returns the number of pages that are not on the disk, synced.
    pub fn dirty_count(&self) -> usize {
        let parts = self.pools.parts();
        parts.iter().flat_map(|(_, part)| part.frames()).filter(|slot| !slot.is_clean()).count()
    }

    /// Returns whether a sync of a data file failed. Then no page is written any more, and pages can still be read.
    pub fn is_failed(&self) -> bool {
        self.header.failed.load() != 0
    }

    /// Returns whether a restart may find pages of this file that are newer than the double-write file and unsynced,
    /// because a process wrote them whole.
    pub fn may_be_unsynced(&self, file: FileId) -> bool {
        self.files.open(file).is_ok_and(|file| file.is_promised())
    }

    pub(crate) fn check_failed(&self) -> Result<()> {
        if self.is_failed() {
            Err(Error::Failed)
        } else {
            Ok(())
        }
    }

    /// Claims those of `frames` that can be claimed without a wait, at most one batch, and writes them. Returns the
    /// number of written frames. Returns zero if another session is writing: then some frames will soon be clean.
    pub(crate) fn write_victims(&self, session: &Session, frames: &[&FrameSlot]) -> Result<usize> {
        self.check_failed()?;
        let Some(writer) = self.try_become_writer(session) else {
            session.sleep(SLICE);
            return Ok(0);
        };
        let mut load = self.new_load();
        load.writer = Some(writer);
        let mut frames: Vec<&FrameSlot> = frames.iter().take(self.settings.batch_pages()).copied().collect();
        frames.sort_by_cached_key(|slot| slot.page.load());
        for slot in frames {
            self.claim(session, slot, &mut load)?;
        }
        let written = self.write_load(session, &mut load)?;
        let refused = load.refused.take();
        self.keep_load(load);
        match refused {
            Some(error) if written == 0 => Err(error),
            _ => Ok(written),
        }
    }

    /// Syncs one file, which other processes may have written.
    ///
    /// # Errors
    /// [`Error::UnknownFile`], [`Error::Io`] if it cannot be opened, or the program has closed it; [`Error::Failed`] is
    /// final.
    pub fn sync_file(&self, file: FileId) -> Result<()> {
        self.check_failed()?;
        let file = self.files.open(file)?;
        file.file.sync().map_err(|error| self.sync_error(error))?;
        self.files.check_descriptor(&file)
    }

    /// Syncs every registered file.
    ///
    /// # Errors
    /// As [`BufferManager::sync_file`].
    pub fn sync_files(&self) -> Result<()> {
        let files: Vec<FileId> = self.files.live().map(|info| info.id).collect();
        files.into_iter().try_for_each(|file| match self.sync_file(file) {
            Err(Error::FileMissing { .. }) => Ok(()),
            synced => synced,
        })
    }

    /// Writes the claimed pages. Then ends the claims, or cancels them after an error.
    fn write_load(&self, session: &Session, load: &mut ClaimedBatch<'_>) -> Result<usize> {
        let writer = load.writer.take().filter(|_| !load.slots.is_empty());
        let Some(writer) = writer else { return Ok(0) };
        let cut = self.cut_to_room(load);
        let count = load.slots.len();
        let outcome = cut.map_err(Fault::Again).and_then(|()| self.write_batch(session, &writer, &mut load.batch));
        match &outcome {
            Ok(()) => {
                failpoint("buffer: batch written home, claims not ended");
                for slot in &load.slots {
                    slot.end_write();
                    failpoint("buffer: a claim ended");
                    self.pools.shelf_of(slot).slot.writes.fetch_add(1);
                }
                self.header.batches.fetch_add(1);
            }
            Err(Fault::Again(_)) => load.slots.iter().for_each(|slot| slot.undo_write()),
            // The claims stay, so that no checkpoint advances beyond them.
            Err(Fault::Final(_)) => {}
        }
        load.slots.clear();
        load.batch.clear();
        load.in_place = None;
        failpoint("buffer: claims ended, still the writer");
        drop(writer);
        match outcome {
            Ok(()) => Ok(count),
            // A file was moved away after the pages were claimed. They are dirty again, and other files are written.
            Err(Fault::Again(error @ Error::FileMissing { .. })) => {
                tracing::warn!(%error, "pages of a database stay in memory until its file is back");
                Ok(0)
            }
            Err(Fault::Again(error) | Fault::Final(error)) => Err(error),
        }
    }

    /// On a full disk, limits the batch to the pages for which the double-write file has room. Cancels the other
    /// claims.
    fn cut_to_room(&self, load: &mut ClaimedBatch<'_>) -> Result<()> {
        if self.settings.writes_once() {
            return Ok(());
        }
        let pages = self.double_write()?.make_room(&load.batch)?;
        load.slots.drain(pages..).for_each(|slot| slot.undo_write());
        load.batch.truncate(pages);
        Ok(())
    }

    /// Does steps 3 to 6 of a batch, and marks it as done.
    fn write_batch(&self, session: &Session, writer: &Writer<'_>, batch: &mut Batch) -> std::result::Result<(), Fault> {
        self.check_failed()?;
        let double = self.double_write()?;
        self.finish_open_batch(session, &double, writer)?;
        failpoint("buffer: no batch open, pages claimed");
        let mut youngest = Lsn::NONE;
        for index in 0..batch.len() {
            let page = batch.page_mut(index);
            let lsn = page_lsn(page);
            youngest = youngest.max(lsn);
            mark_incarnation(page, self.log.incarnation_mark(lsn));
            seal(page);
        }
        let flushed = if youngest.is_none() || planted(LOG_NOT_FORCED) {
            self.log.flushed()
        } else {
            self.log.force(session, youngest).map_err(Error::Log)?
        };
        failpoint("buffer: log forced, nothing written");
        if self.settings.writes_once() {
            // For measurements: nothing is recovered, so neither a copy against torn pages nor a sync is needed.
            let _homes = HomeWrites::begin(self);
            return Ok(self.write_homes(session, flushed, batch, Homes::All, &mut Written::new()).map(|_| ())?);
        }
        let mut homes = Written::new();
        self.write_whole(session, flushed, batch, &double, &mut homes)?;
        if batch.len() == 0 {
            self.bring_home(session, flushed, batch, Homes::All, homes)?;
            return Ok(());
        }
        let sequence = self.next_sequence(&double)?;
        if !planted("buffer: pages are written home without a double write") {
            leave_given_up(session);
            self.header.double_is_empty.publish(0);
            double.write(sequence, batch)?;
            failpoint("buffer: double write written, not synced");
            self.sync_double(&double)?;
            failpoint("buffer: double write synced, batch not open");
            self.header.open_batch.publish(sequence);
        }
        failpoint("buffer: batch open, nothing written home");
        self.bring_home(session, flushed, batch, Homes::All, homes)?;
        failpoint("buffer: batch written home, still open");
        self.end_batch(session, &double, sequence);
        Ok(())
    }

    /// Writes the last batch home from the double-write file, if its writer has not completed this step.
    fn finish_open_batch(
        &self,
        session: &Session,
        double: &DoubleWrite,
        _: &Writer<'_>,
    ) -> std::result::Result<(), Fault> {
        let sequence = self.header.open_batch.load();
        if sequence == 0 || planted("buffer: the pages of an interrupted batch are not written home") {
            return Ok(());
        }
        let Some((_, batch)) = double.open_batch()?.filter(|(found, _)| *found == sequence) else {
            let what = format!("batch {sequence} was synced to this file and cannot be read back");
            let file = DOUBLE_WRITE_NAME.to_string();
            return Err(Fault::Again(Error::Corrupt { file, page: PageNo::HEADER, what }));
        };
        // The log was forced for these pages before they were written to the double-write file, and the log does not
        // shrink.
        failpoint("buffer: batch of a dead writer found");
        // Notes that files of images exist: the dead writer may have kept images after a checkpoint found no such
        // files. If the data file exists again, the loop below does not run and makes no note.
        self.note_kept_images();
        for file in self.bring_home(session, self.log.flushed(), &batch, Homes::Present, Written::new())? {
            // The page is still dirty in memory, and the log is kept for it. The memory may be lost before the page is
            // written again, and the page at home may be torn.
            leave_given_up(session);
            // This note is made before the images are kept, and again afterwards. If the process dies in between, the
            // first note makes checkpoints search for the file. If a checkpoint runs in between, it may clear the first
            // note, so the second note is needed.
            self.note_kept_images();
            let environment = environment_of(&self.region);
            kept_images::keep(self.files.directory(), environment, (file, sequence), &batch).map_err(|error| {
                match error {
                    Error::Io(error) if error.is_failed_sync() => Fault::Final(self.fail(&error)),
                    other => Fault::Again(other),
                }
            })?;
            self.note_kept_images();
        }
        failpoint("buffer: batch of a dead writer written home");
        self.end_batch(session, double, sequence);
        Ok(())
    }

    fn end_batch(&self, session: &Session, double: &DoubleWrite, sequence: u64) {
        self.header.open_batch.publish(0);
        failpoint("buffer: batch closed, not marked done");
        leave_given_up(session);
        if let Err(error) = double.mark_done(sequence) {
            // The mark is not needed: a restart finds undamaged homes.
            tracing::debug!(%error, sequence, "a batch of pages could not be marked done");
        }
    }

    fn sync_double(&self, double: &DoubleWrite) -> std::result::Result<(), Fault> {
        double.file.sync().map_err(|error| self.sync_fault(error))?;
        match double.is_foreign() {
            true => Err(Fault::Again(closed(DOUBLE_WRITE_NAME.into()))),
            false => Ok(()),
        }
    }

    /// Returns the error of a sync. If the sync was begun, publishes that it failed. If a limit of this process has
    /// prevented the sync, it can be repeated, and other processes are not affected.
    pub(crate) fn sync_error(&self, error: libtp_io::Error) -> Error {
        match error.is_failed_sync() || planted("buffer: a limit of one process counts as a failed sync") {
            true => self.fail(&error),
            false => error.into(),
        }
    }

    fn sync_fault(&self, error: libtp_io::Error) -> Fault {
        match self.sync_error(error) {
            Error::Failed => Fault::Final(Error::Failed),
            error => Fault::Again(error),
        }
    }

    /// Publishes that a sync failed, before any call returns the error.
    pub(crate) fn fail(&self, error: &libtp_io::Error) -> Error {
        self.header.failed.publish(1);
        self.log.poison();
        tracing::error!(%error, "a file of pages or its directory could not be synced: no page is written any more");
        Error::Failed
    }

    /// Returns the number of the next batch. The first number after the region was made is one more than the number in
    /// the file, so that an old mark "done" never applies to a new batch.
    fn next_sequence(&self, double: &DoubleWrite) -> Result<u64> {
        if self.header.sequence.load() == 0 {
            self.header.sequence.publish(double.last_sequence()?);
        }
        failpoint("buffer: about to number a batch");
        Ok(self.header.sequence.fetch_add(1) + 1)
    }

    pub(crate) fn double_write(&self) -> Result<Arc<DoubleWrite>> {
        let mut opened = self.double.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(double) = &*opened {
            if !double.is_foreign() {
                return Ok(double.clone());
            }
            tracing::warn!("the program has closed the descriptor of the double-write file: the file is opened again");
            // Closing the number would close the program's file.
            std::mem::forget(Arc::clone(&double.file));
            *opened = None;
        }
        let double = Arc::new(DoubleWrite::open(self.files.directory(), environment_of(&self.region))?);
        // This sync is needed also for an existing file: the process that made it may not have synced the directory
        // yet, or may be dead.
        self.files.directory().sync().map_err(|error| self.sync_error(error))?;
        *opened = Some(double.clone());
        Ok(double)
    }
}
