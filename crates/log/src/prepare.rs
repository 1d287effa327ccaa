//! Preparing segments ahead of the tail, and recycling those nobody needs.
//!
//! A flush writes only into files that are there, with blocks behind every byte, so it changes no metadata and never
//! finds the disk full (PROTOCOLS D11). A segment is prepared by a background thread in good time, or by the appender
//! that comes near the end.
//!
//! Invariants
//! 1. `file_end` moves only after the segments below it have their headers synced and their names durable (L1).
//! 2. A good file is never replaced: another process may have it open, and would write into a file without a name. What
//!    a dead preparer finished is used as it is.
//! 3. `oldest` is raised before a segment below it changes its name, so readers know that it is gone.
//!
//! If the preparer dies: its word is taken over; what it left unfinished is removed, what it finished is used.

use std::time::Duration;

use libtp_process::{leaves_roles, Session, SessionId};
use rio::{failpoint, planted};

use crate::group_commit::WAITS_FOR_LOG_SPACE;
use crate::reserve::Use;
use crate::segment_files::{Opened, BLOCK_BYTES};
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Place, Result, SEGMENT_HEADER_BYTES};

/// How long a session sleeps while another prepares what it needs.
const PATIENCE: Duration = Duration::from_millis(1);
/// So often who gives up log sleeps for who makes segments.
const RECYCLE_TRIES: u32 = 200;
/// After so many such sleeps it asks whether the other lives.
const SUSPECT: u32 = 5;

/// On a full disk a segment grows by so much.
const PART_BYTES: u64 = 256 << 10;

/// What is made where the disk has no room for a whole segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Nothing.
    Whole,
    /// What is needed of it: the file has its whole length, and blocks for its first bytes only.
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
        // If it fails, we were taken for dead: the word is another's.
        let _ = self.log.header.preparer.swap_if(self.me, SessionId::NONE);
    }
}

/// Before each change of the files: the region may be given up, and they another life's.
fn leave_given_up(session: &Session) {
    if !planted("log: makes segments in a broken region") {
        session.leave_if_broken();
    }
}

impl LogManager {
    /// Who writes to the log's files now, and who makes new ones.
    pub fn writers(&self) -> [SessionId; 2] {
        // What was hit names nobody; the other writers are waited for all the same.
        [&self.header.leader, &self.header.preparer].map(|role| role.try_load().unwrap_or(SessionId::NONE))
    }

    fn try_prepare(&self, session: &Session, is_suspect: bool) -> Option<Preparer<'_>> {
        let word = &self.header.preparer;
        let holder = word.load();
        let is_suspect = is_suspect && !planted("log: a dead preparer is waited for");
        if holder != SessionId::NONE && (!is_suspect || self.processes.is_alive(holder)) {
            return None;
        }
        let me = session.id();
        failpoint("log: about to be the one who prepares");
        let preparer = word.compare_exchange(holder, me).ok().map(|_| Preparer { log: self, me });
        // Looked at in the role: whoever builds the region anew waits until nobody has it.
        leave_given_up(session);
        preparer
    }

    /// Makes segments until the files reach `need`, or waits for who is at it.
    pub(crate) fn prepare_segment(&self, session: &Session, need: Lsn) -> Result<()> {
        let mut said = None;
        for round in 0_u32.. {
            if self.header.file_end.load() >= need {
                break;
            }
            self.check_poison()?;
            // Whether the one who is at it lives is a system call or two, for each of all who wait here.
            match self.try_prepare(session, round % SUSPECT == SUSPECT - 1) {
                Some(preparer) => self.prepare_to(session, &preparer, need, Parts::Small)?,
                None => {
                    session.sleep(PATIENCE);
                    if said.is_none() && round >= SUSPECT {
                        said = Some(session.waits_since(WAITS_FOR_LOG_SPACE, need.raw(), PATIENCE * round));
                    }
                }
            }
        }
        Ok(())
    }

    fn prepare_to(&self, session: &Session, _preparer: &Preparer<'_>, need: Lsn, parts: Parts) -> Result<()> {
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

    /// Gives the files blocks from `at` on: to the end of the segment, or, where the disk has not so many, as many as are needed.
    /// Returns up to which byte of that segment's file.
    fn extend(&self, at: Place, need: Lsn, parts: Parts) -> Result<u64> {
        let geometry = self.files.geometry();
        let whole = geometry.file_bytes(at.segment);
        let mut wanted = vec![whole];
        if parts == Parts::Small
            && need < geometry.end(at.segment)
            && !planted("log: segments of a full disk are whole")
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

    /// Makes the names of new segments durable, and says that the files reach to `end`.
    fn publish_segments(&self, end: Lsn) -> Result<()> {
        let is_skipped = planted("log: new names not synced");
        if let Err(error) = if is_skipped { Ok(()) } else { self.files.directory().sync() } {
            if error.is_limit_of_process() {
                return Err(error.into());
            }
            // As final as a failed sync of a file: nobody knows which names are on the disk.
            self.header.poison.publish(POISONED);
            return Err(Error::Failed { cause: error.to_string() });
        }
        failpoint("log: names durable, files end before them");
        self.header.file_end.raise(end);
        failpoint("log: files reach further");
        Ok(())
    }

    /// Prepares the next segment if the tail has passed the middle of the last one. A background thread of any process
    /// calls it now and then, so that no appender has to wait for zeros to be written. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: nothing was changed, an appender may still fail or succeed later.
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
        self.prepare_to(session, &preparer, end.plus(8), Parts::Whole)?;
        Ok(true)
    }

    /// Gives up the log below `keep_from`: whole segments are renamed to be used again, or removed; but not those that hold
    /// anything from `keep_files_from` on, which nobody reads records of any more. The control file
    /// that says so was synced before (PROTOCOLS L7). If another session is at it for long nothing is done.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: some segments may be gone already, none that is needed. [`Error::Failed`].
    pub fn recycle(&self, session: &Session, keep_from: Lsn, keep_files_from: Lsn) -> Result<()> {
        self.check_poison()?;
        let mut tries = 0;
        let preparer = loop {
            match self.try_prepare(session, true) {
                Some(preparer) => break preparer,
                None if tries == RECYCLE_TRIES => return Ok(()),
                None => session.sleep(PATIENCE),
            };
            tries += 1;
        };
        failpoint("log: recycles");
        let header = &*self.header;
        let geometry = self.files.geometry();
        let keep_from = if planted("log: recycled too early") { header.durable.load() } else { keep_from };
        let ready_max = self.ready_bytes_max();
        header.oldest.raise(keep_from.min(header.durable.load()));
        failpoint("log: oldest raised, nothing recycled");
        let first_kept = geometry.locate(header.oldest.load().min(keep_from).min(keep_files_from)).segment;
        let mut last = geometry.locate(header.file_end.load().minus(8)).segment;
        let published = last;
        // Where the disk was too full for a whole segment, what is not needed any more makes room.
        let is_short = header.file_end.load() < geometry.end(last);
        let is_tight = is_short || self.file_end_wanted(Use::Any) > header.file_end.load();
        for old in self.files.present()? {
            if old >= first_kept || planted("log: files that nobody needs stay") {
                break;
            }
            while !is_short && self.is_ready(last + 1)? {
                last += 1;
            }
            let ahead = geometry.end(last).since(header.tail.load());
            leave_given_up(session);
            if !is_short && geometry.file_bytes(old) == geometry.file_bytes(last + 1) && ahead < ready_max {
                match self.files.prepare_recycled(old, last + 1, self.incarnation) {
                    Ok(()) => {
                        failpoint("log: segment recycled, not counted");
                        last += 1;
                    }
                    // It had given blocks back, and has given back all now.
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

    /// Gives the disk the blocks of the log that no checkpoint has left needed, where the log has no room. Below `keep_from` nothing
    /// is needed. Does nothing while another session makes segments.
    ///
    /// # Errors
    /// As [`LogManager::recycle`].
    pub fn give_back(&self, session: &Session, keep_from: Lsn) -> Result<()> {
        self.check_poison()?;
        match self.try_prepare(session, true) {
            Some(preparer) => self.give_back_below(session, &preparer, keep_from),
            None => Ok(()),
        }
    }

    fn give_back_below(&self, session: &Session, preparer: &Preparer<'_>, keep_from: Lsn) -> Result<()> {
        if planted("log: a full disk is not given back what nobody needs") {
            return Ok(());
        }
        let unneeded = self.files.geometry().locate(self.header.oldest.load().min(keep_from));
        leave_given_up(session);
        self.files.give_back(unneeded.segment, unneeded.offset)?;
        // At once, before the pages of a file take those blocks: the log needs as many to free more.
        match self.prepare_to(session, preparer, self.file_end_wanted(Use::Any), Parts::Small) {
            Ok(()) | Err(Error::Full { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Whether segment `number` is there with all its blocks.
    fn is_ready(&self, number: u32) -> Result<bool> {
        let is_there = matches!(self.files.segment(number)?, Opened::Good(_));
        Ok(is_there && self.files.blocks_end(number, 0, 0)? >= self.files.geometry().file_bytes(number))
    }

    /// How many bytes of recycled segments may lie ahead of the tail before another is put there: what was needed at once of late, within
    /// the settings.
    ///
    /// Whoever held a snapshot for a while soon holds another, and a new segment costs its bytes twice: a file whose pages memory has is
    /// written at once, a new one is filled with zeros first, or its pages are cleared. Less at each checkpoint, so that one long copy does
    /// not take the disk's room for ever; but only by what the log goes on into, so where nobody writes nothing is given back.
    /// (PostgreSQL keeps its log's files by such an estimate, too.)
    fn ready_bytes_max(&self) -> u64 {
        let header = &*self.header;
        let needed = header.tail.load().since(header.oldest.load());
        let lately = header.needed_lately.load();
        let lately = needed.max(lately - lately / 64).min(self.settings.recycled_bytes_max);
        // Only who prepares segments stores it; who dies before has an older estimate stand.
        header.needed_lately.publish(lately);
        lately.max(self.settings.recycled_bytes)
    }
}
