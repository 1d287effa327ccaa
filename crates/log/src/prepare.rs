//! Preparing segments ahead of the tail, and recycling segments that are no longer needed.
//!
//! A flush writes only into existing files, in which every byte has a disk block, so a flush changes no metadata and
//! never fails because of a full disk (PROTOCOLS D11). A background thread prepares a segment in advance. If it has not
//! done so, the appender whose record comes near the end prepares the segment.
//!
//! Invariants
//! 1. `file_end` rises only after the segments below it have synced headers and durable names (L1).
//! 2. A valid file is never replaced: another process may have the file open, and would write into a file without a
//!    name. A segment that a dead preparer finished is used unchanged.
//! 3. `oldest` is raised before a segment below it changes its name, so readers know that the segment is deleted.
//!
//! If the preparer dies: another session takes the role over, removes the unfinished segment, and uses the finished
//! segments.

use std::time::Duration;

use libtp_process::{leaves_roles, Session, SessionId};
use rio::{failpoint, planted};

use crate::group_commit::WAITS_FOR_LOG_SPACE;
use crate::reserve::Use;
use crate::segment_files::{Opened, BLOCK_BYTES};
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Place, Result, SEGMENT_HEADER_BYTES};

/// How long a session sleeps while another session prepares the segment that it needs.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// The number of sleeps after which recycling stops waiting for the session that makes segments.
const RECYCLE_TRIES: u32 = 200;
/// The number of sleeps after which a waiter checks again whether the preparer is alive.
const SUSPECT: u32 = 5;

/// The number of bytes by which a segment grows on a full disk.
const PART_BYTES: u64 = 256 << 10;

/// The part of a segment to make when the disk has no room for the whole segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFullDisk {
    /// No part is made: without room for the whole segment the call fails.
    Whole,
    /// The needed part: the file has its whole length, and blocks only for its first bytes.
    Small,
}

/// The right to make, rename and remove segments.
struct Preparer<'l> {
    log: &'l LogManager,
    me: SessionId,
}

impl Drop for Preparer<'_> {
    fn drop(&mut self) {
        if leaves_roles(self.log.processes.region()) {
            return;
        }
        // The swap fails if another session considered this session dead and has become the preparer.
        let _ = self.log.header.preparer.swap_if(self.me, SessionId::NONE);
    }
}

/// Unwinds if the region was given up. Called before each change of the files, which may then belong to another
/// incarnation.
fn leave_given_up(session: &Session) {
    if !planted("log: a session makes segments in a broken region") {
        session.leave_if_broken();
    }
}

impl LogManager {
    /// Returns the session that writes to the log's files now, and the session that makes new segments.
    pub fn writers(&self) -> [SessionId; 2] {
        // A damaged word counts as no session: the caller still waits for the other writers.
        [&self.header.leader, &self.header.preparer].map(|role| role.try_load().unwrap_or(SessionId::NONE))
    }

    fn try_prepare(&self, session: &Session, is_suspect: bool) -> Option<Preparer<'_>> {
        let word = &self.header.preparer;
        let holder = word.load();
        let is_suspect = is_suspect && !planted("log: sessions wait for a dead preparer");
        if holder != SessionId::NONE && (!is_suspect || self.processes.is_alive(holder)) {
            return None;
        }
        let me = session.id();
        failpoint("log: about to become the preparer");
        let preparer = word.compare_exchange(holder, me).ok().map(|_| Preparer { log: self, me });
        if preparer.is_some() {
            self.files.forget_foreign();
        }
        // Checked after this session has become the preparer: a process that rebuilds the region waits until there is
        // no preparer.
        leave_given_up(session);
        preparer
    }

    /// Makes segments until the files reach `need`, or waits for the session that makes them.
    pub(crate) fn prepare_segment(&self, session: &Session, need: Lsn) -> Result<()> {
        let mut noted_wait = None;
        for round in 0_u32.. {
            if self.header.file_end.load() >= need {
                break;
            }
            self.check_poison()?;
            // The waiter does not check after each sleep whether the preparer is alive, because the check costs a
            // system call or two.
            match self.try_prepare(session, round % SUSPECT == SUSPECT - 1) {
                Some(preparer) => self.prepare_to(session, &preparer, need, OnFullDisk::Small)?,
                None => {
                    session.sleep(RETRY_PAUSE);
                    if noted_wait.is_none() && round >= SUSPECT {
                        noted_wait = Some(session.waits_since(WAITS_FOR_LOG_SPACE, need.raw(), RETRY_PAUSE * round));
                    }
                }
            }
        }
        Ok(())
    }

    fn prepare_to(&self, session: &Session, _preparer: &Preparer<'_>, need: Lsn, parts: OnFullDisk) -> Result<()> {
        failpoint("log: prepares a segment");
        let header = &*self.header;
        while header.file_end.load() < need {
            let at = self.files.geometry().locate(header.file_end.load());
            leave_given_up(session);
            let end = self.extend(at, need, parts)?;
            failpoint("log: segment ready, its name not durable");
            self.publish_segments(self.files.geometry().start(at.segment).plus(end - SEGMENT_HEADER_BYTES))?;
        }
        Ok(())
    }

    /// Allocates blocks of the files from `at` on: to the end of the segment, or, if the disk has too few blocks, up to
    /// `need`. Returns the byte up to which the segment's file has blocks.
    fn extend(&self, at: Place, need: Lsn, parts: OnFullDisk) -> Result<u64> {
        let geometry = self.files.geometry();
        let whole = geometry.file_bytes(at.segment);
        let mut wanted = vec![whole];
        if parts == OnFullDisk::Small
            && need < geometry.end(at.segment)
            && !planted("log: only whole segments are allocated on a full disk")
        {
            let least = geometry.locate(need).offset.next_multiple_of(BLOCK_BYTES);
            wanted.extend([least.next_multiple_of(PART_BYTES), least].map(|end| end.min(whole)));
        }
        let mut refused = None;
        for end in wanted {
            match self.files.extend(at.segment, self.incarnation, at.offset..end) {
                Ok(()) => return Ok(end),
                Err(full @ Error::Full { .. }) => refused = refused.or(Some(full)),
                Err(other) => {
                    if matches!(other, Error::Failed { .. }) {
                        self.poison();
                    }
                    return Err(other);
                }
            }
        }
        Err(refused.expect("the whole segment is asked for"))
    }

    /// Makes the names of new segments durable, then raises `file_end` to `end`.
    fn publish_segments(&self, end: Lsn) -> Result<()> {
        let is_skipped = planted("log: the names of new segments are not synced");
        if let Err(error) = if is_skipped { Ok(()) } else { self.files.directory().sync() } {
            if error.is_limit_of_process() {
                return Err(error.into());
            }
            // A failed sync of the directory is as final as a failed sync of a file: it is unknown which names are on
            // the disk.
            self.header.poison.publish(POISONED);
            return Err(Error::Failed { cause: error.to_string() });
        }
        failpoint("log: names durable, files end before them");
        self.header.file_end.raise(end);
        failpoint("log: files reach further");
        Ok(())
    }

    /// Prepares the next segment if the tail has passed the middle of the last one. Returns whether a segment was
    /// prepared. A background thread of any process calls this regularly, so that no appender waits until zeros are
    /// written.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: nothing was changed, and an appender may still succeed later.
    /// [`Error::Failed`].
    pub fn prepare_next_segment(&self, session: &Session) -> Result<bool> {
        self.check_poison()?;
        let end = self.header.file_end.load();
        let last = self.files.geometry().locate(end.minus(8)).segment;
        let ahead = end.since(self.tail().plus(self.header.promised.load()));
        if ahead >= self.files.geometry().file_bytes(last) / 2 {
            return Ok(false);
        }
        let Some(preparer) = self.try_prepare(session, true) else { return Ok(false) };
        self.prepare_to(session, &preparer, end.plus(8), OnFullDisk::Whole)?;
        Ok(true)
    }

    /// Recycles the log below `keep_from`: renames whole segments for reuse, or removes them. Keeps the files with log
    /// from `keep_files_from` on, even if no record in them is read any more. The control file with the new beginning
    /// was synced before (PROTOCOLS L7). Does nothing if another session is making segments and does not finish in
    /// time.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: some unneeded segments may be gone already. [`Error::Failed`].
    pub fn recycle(&self, session: &Session, keep_from: Lsn, keep_files_from: Lsn) -> Result<()> {
        self.check_poison()?;
        let mut tries = 0;
        let preparer = loop {
            match self.try_prepare(session, true) {
                Some(preparer) => break preparer,
                None if tries == RECYCLE_TRIES => return Ok(()),
                None => session.sleep(RETRY_PAUSE),
            };
            tries += 1;
        };
        failpoint("log: recycles");
        let header = &*self.header;
        let geometry = self.files.geometry();
        let keep_from = if planted("log: segments are recycled too early") { header.durable.load() } else { keep_from };
        let ready_max = self.ready_bytes_max();
        header.oldest.raise(keep_from.min(header.durable.load()));
        failpoint("log: oldest raised, nothing recycled");
        let first_kept = geometry.locate(header.oldest.load().min(keep_from).min(keep_files_from)).segment;
        let mut last = geometry.locate(header.file_end.load().minus(8)).segment;
        let published = last;
        // If the disk was too full for a whole segment, unneeded segments are removed to make room.
        let is_short = header.file_end.load() < geometry.end(last);
        let is_tight = is_short || self.file_end_wanted(Use::Any) > header.file_end.load();
        for old in self.files.present()? {
            if old >= first_kept || planted("log: unneeded segments are not removed") {
                break;
            }
            while !is_short && self.is_ready(last + 1)? {
                last += 1;
            }
            let ahead = geometry.end(last).since(header.tail.load());
            // If a finished file lacks blocks, the old file is removed, so that its blocks can be used for that file.
            let is_made = matches!(self.files.segment(last + 1)?, Opened::Good(_))
                && !planted("log: a recycled segment takes the name of a finished segment");
            let fits = geometry.file_bytes(old) == geometry.file_bytes(last + 1);
            leave_given_up(session);
            if !is_short && !is_made && fits && ahead < ready_max {
                match self.files.prepare_recycled(old, last + 1, self.incarnation) {
                    Ok(()) => {
                        failpoint("log: segment recycled, not counted");
                        last += 1;
                    }
                    // Blocks of the old file were freed, and the file cannot get new blocks: it is removed.
                    Err(Error::Full { .. }) => {}
                    Err(other) => return Err(other),
                }
            } else {
                failpoint("log: segment to be removed");
                self.files.remove(old)?;
            }
        }
        failpoint("log: all recycled, not published");
        if last > published {
            self.publish_segments(geometry.end(last))?;
        }
        if is_tight {
            self.give_back_below(session, &preparer, keep_from.min(keep_files_from))?;
        }
        Ok(())
    }

    /// Frees disk blocks of the log, for a log that has no room: the blocks that neither the last checkpoint nor
    /// `keep_from` needs. Returns false, and does nothing, while another session makes segments.
    ///
    /// # Errors
    /// As [`LogManager::recycle`].
    pub fn free_blocks(&self, session: &Session, keep_from: Lsn) -> Result<bool> {
        self.check_poison()?;
        match self.try_prepare(session, true) {
            Some(preparer) => self.give_back_below(session, &preparer, keep_from).map(|()| true),
            None => Ok(false),
        }
    }

    fn give_back_below(&self, session: &Session, preparer: &Preparer<'_>, keep_from: Lsn) -> Result<()> {
        if planted("log: blocks of unneeded segments are not freed on a full disk") {
            return Ok(());
        }
        let unneeded = self.files.geometry().locate(self.header.oldest.load().min(keep_from));
        leave_given_up(session);
        self.files.free_blocks(unneeded.segment, unneeded.offset)?;
        // The blocks are allocated at once, before data pages take the freed blocks: the log needs that many blocks in
        // order to free more.
        match self.prepare_to(session, preparer, self.file_end_wanted(Use::Any), OnFullDisk::Small) {
            Ok(()) | Err(Error::Full { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Returns whether segment `number` exists with all its blocks.
    fn is_ready(&self, number: u32) -> Result<bool> {
        let is_there = matches!(self.files.segment(number)?, Opened::Good(_));
        Ok(is_there && self.files.blocks_end(number, 0, 0)? >= self.files.geometry().file_bytes(number))
    }

    /// Returns the number of bytes of recycled segments that may be kept ahead of the tail: the largest number that was
    /// needed at once recently, within the settings.
    ///
    /// A session that held a snapshot for a while probably soon holds another snapshot and needs as much log, and a new
    /// segment costs more than a recycled segment. A recycled file whose pages are in memory can be written at once. A
    /// new file is first filled with zeros, or its pages are cleared. The estimate falls at each checkpoint, so that
    /// one large need does not take the disk's room for ever. The log uses up excess segments, so without writes no
    /// room is freed. (PostgreSQL keeps its log's files by a similar estimate.)
    fn ready_bytes_max(&self) -> u64 {
        let header = &*self.header;
        let needed = header.tail.load().since(header.oldest.load());
        let lately = header.needed_lately.load();
        let lately = needed.max(lately - lately / 64).min(self.settings.recycled_bytes_max);
        // Only the preparer stores the estimate. If the preparer dies before this store, the older estimate remains.
        header.needed_lately.publish(lately);
        lately.max(self.settings.recycled_bytes)
    }
}
