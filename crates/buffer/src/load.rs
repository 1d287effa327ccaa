//! Loading a page: gets a frame (`evict`), reads the page from the disk into it, and pins it there.
//!
//! Paper: LIBTP 3.2.2.
//!
//! Invariant: a frame whose page could not be read is removed from the table before its latch is released. A session
//! that waited for the latch searches again, reads the page itself, and gets the error itself.
//!
//! If a session dies here: repair frees a frame that was being loaded. Until then the frame is in the table, and a
//! session that wants its page sees that the frame is neither latched nor resident.

use std::time::Duration;

use libtp_log::Lsn;
use libtp_process::{ExclusiveGuard, Rank, Session};
use rio::{failpoint, planted};

use crate::content::Body;
use crate::files::OpenFile;
use crate::frame::{FrameSlot, ANY_PAGE};
use crate::page_header::{check_read, checksum_field, incarnation_field, is_zero};
use crate::pool::{FrameInHand, PoolPart};
use crate::version::State;
use crate::{BufferManager, Error, PageId, Pin, Result, WriteAhead};

/// A session that waits for another session's read first checks `READ_SPINS` times without a pause, because most pages
/// come from the system's cache. Then it checks `READ_YIELDS` times and yields its processor in between.
const READ_SPINS: u32 = 400;
const READ_YIELDS: u32 = 10;
/// The time that the session then sleeps before each further check.
const READ_SLICE: Duration = Duration::from_micros(50);
/// If a frame is found this number of times in a state in which no session leaves a frame, a wild store has hit it.
const DOUBTS: u32 = 2_000;

/// The source of the bytes of a page that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The file.
    Disk,
    /// No source: the caller makes a new page.
    Zeros,
}

impl BufferManager {
    /// Pins the page: looks it up under its bucket's latch, or loads it.
    pub(crate) fn pin_from<'s>(&'s self, session: &'s Session, id: PageId, source: Source) -> Result<Pin<'s>> {
        // The number of times that the frame was found in a state that only a wild store can have made.
        let mut doubts = 0;
        while doubts < DOUBTS {
            let Some((slot, note)) = self.table.find_pinned(session, id) else {
                if let Some(pin) = self.load(session, id, source)? {
                    return Ok(pin);
                }
                continue;
            };
            let pin = Pin::adopt(&self.region, session, slot, id, note);
            // This session reads the state without the latch. A page that is resident stays resident: the state is
            // never rolled back (`settle`), and a pin that was counted under the bucket's latch keeps the page in its
            // frame.
            if slot.state() == State::Loading {
                wait_for_reader(session, slot);
                if slot.state() == State::Loading && slot.page.load() == id {
                    // The session that read the page died. The repair of that session removes the frame from the table.
                    drop(pin);
                    doubts += u32::from(session.processes().dead_sessions().is_empty());
                    session.help_the_dead();
                    session.sleep(READ_SLICE);
                    continue;
                }
            }
            if slot.page.load() == id && slot.state() == State::Resident {
                self.note_use(slot);
                return Ok(pin);
            }
            doubts += u32::from(slot.state() == State::Free);
        }
        session.processes().give_up(&format!("the frame of {id} is in the page table and holds no page"))
    }

    /// Brings the page into a frame. Returns `None` if another session was faster: then the page is in the table.
    fn load<'s>(&'s self, session: &'s Session, id: PageId, source: Source) -> Result<Option<Pin<'s>>> {
        let mut file = self.files.open_entered(session, id.file())?;
        if source == Source::Zeros {
            if self.files.forget_foreign(&file) {
                file = self.files.open_entered(session, id.file())?;
            }
            file.note_end()?;
            // Allocates the page's blocks now, when the call can still fail. Later a full disk would keep the changed
            // page in its frame, and other pages could not be read into that frame.
            file.make_room(id)?;
        }
        let part = self.pools.part(session, file.info.pool, file.info.page_bytes)?;
        part.slot.misses.fetch_add(1);
        let mut taken = self.take_frame(session, part)?;
        let Some(pin) = self.enter(session, id, &taken) else {
            part.push_free(session, taken);
            return Ok(None);
        };
        failpoint("buffer: frame in the table, loading");
        let filled = match source {
            Source::Disk => self.read_page(&file, id, taken.slot, &mut taken.guard),
            // The disk is not read: reading blocks that were allocated and never written can take long.
            Source::Zeros if file.was_never_written(id) => {
                Body::taken(taken.slot).bytes_mut(&self.region, &mut taken.guard).fill(0);
                Ok(())
            }
            Source::Zeros => {
                // Another session may have made and written the page meanwhile, and its frame may have been replaced.
                // Otherwise the page is zeros. If the read fails, the disk may have the page of that session, so zeros
                // must not replace it.
                match self.read_page(&file, id, taken.slot, &mut taken.guard) {
                    Err(Error::Corrupt { .. }) => {
                        Body::taken(taken.slot).bytes_mut(&self.region, &mut taken.guard).fill(0);
                        Ok(())
                    }
                    read => read,
                }
            }
        };
        match filled {
            Ok(()) => {
                failpoint("buffer: page read, still loading");
                part.slot.reads.fetch_add(u64::from(source == Source::Disk));
                self.settle(part, taken);
                failpoint("buffer: page settled, still pinned");
                self.table.grow(session);
                Ok(Some(pin))
            }
            Err(error) => {
                self.give_up(session, part, taken, pin);
                Err(error)
            }
        }
    }

    /// Assigns a taken frame to the page, and puts it into the table, loading and pinned. Returns `None`, and resets
    /// the frame, if the page is in the table already.
    pub(crate) fn enter<'s>(&'s self, session: &'s Session, id: PageId, taken: &FrameInHand<'s>) -> Option<Pin<'s>> {
        taken.slot.page.publish(id);
        failpoint("buffer: frame assigned to a page");
        taken.slot.set_state(State::Loading);
        let note = taken.slot.pin(session);
        let pin = Pin::adopt(&self.region, session, taken.slot, id, note);
        failpoint("buffer: loading, pinned, not in the table");
        if self.table.insert(session, id, taken.slot) {
            return Some(pin);
        }
        drop(pin);
        taken.slot.page.publish(PageId::NONE);
        taken.slot.set_state(State::Free);
        None
    }

    /// Makes the page in the frame available to other sessions, by two stores in this order, without a section: a
    /// session that has a pin and waits for the latch relies on the first store, so this store must not be rolled back
    /// (PROTOCOLS D2).
    ///
    /// If the session dies here:
    /// * before the first store, the frame is loading, and the session has noted it as taken. Repair removes the frame
    ///   from the table, and a session that needs the page reads it again. No session has used the frame.
    /// * between the two stores, the page is resident, and the session's note still names the frame. Until the dead
    ///   session's latch is released, no other session can have changed the frame. So the session that is about to
    ///   release the latch sees both facts and clears the note ([`BufferManager::settle_hand`]). No other step leaves a
    ///   frame both resident and noted as taken: a frame becomes free in the same section in which it is noted as
    ///   taken, or put back.
    /// * after the second store, only the latch and the pin remain.
    pub(crate) fn settle(&self, part: &PoolPart, taken: FrameInHand<'_>) {
        part.policy().loaded(part, taken.slot);
        failpoint("buffer: page read, not resident");
        let session = taken.guard.session();
        let mut taken_back = planted("buffer: the resident state is rolled back").then(|| session.section());
        if let Some(section) = &mut taken_back {
            taken.slot.set_state_in(section, State::Resident);
            session.set_in_hand_in(section, 0);
        }
        taken.slot.set_state(State::Resident);
        failpoint("buffer: resident, still in hand");
        session.set_in_hand(0);
        failpoint("buffer: resident, latched");
        if let Some(section) = taken_back {
            section.close();
        }
        drop(taken.guard);
    }

    /// Undoes a failed load: removes the frame from the table, although sessions may wait for it, and frees it.
    pub(crate) fn give_up(&self, session: &Session, part: &PoolPart, taken: FrameInHand<'_>, pin: Pin<'_>) {
        let removed = self.table.remove(session, taken.slot, u32::MAX);
        assert!(removed, "a frame can be removed from the table even if sessions wait for it");
        drop(pin);
        part.push_free(session, taken);
    }

    fn read_page(&self, file: &OpenFile, id: PageId, slot: &FrameSlot, guard: &mut ExclusiveGuard<'_>) -> Result<()> {
        let page = Body::taken(slot).bytes_mut(&self.region, guard);
        let read = file.file.read_at(page, file.offset(id));
        // Pages beyond the end of the file were never written.
        page[*read.as_ref().unwrap_or(&0)..].fill(0);
        let is_doubtful = is_zero(page);
        let checked = read.map_err(Error::from).and_then(|_| check_page(file, id, page, &*self.log, self.log.tail()));
        if (is_doubtful || checked.is_err()) && self.files.forget_foreign(file) {
            // The descriptor was closed, and the bytes came from a file of the program.
            return self.read_page(&*self.files.open(id.file())?, id, slot, guard);
        }
        checked
    }
}

/// Checks a page that was read from the disk, and clears the fields that are zero in memory: its checksum, and the mark
/// of the log's incarnation, which may differ at the next write.
pub(crate) fn check_page(
    file: &OpenFile,
    id: PageId,
    page: &mut [u8],
    log: &dyn WriteAhead,
    log_end: Lsn,
) -> Result<()> {
    if !planted("buffer: pages are not checked when they are read") {
        check_read(page, id, log_end, |lsn| log.incarnation_mark(lsn)).map_err(|damage| file.corrupt(id, &damage))?;
    }
    page[checksum_field()].fill(0);
    page[incarnation_field()].fill(0);
    Ok(())
}

/// Waits until the reader of a pinned frame that is being loaded has released its latch.
///
/// This wait need not obey the order of latches: the reader waits only for the disk and for latches that are last in
/// the order, never for a page. While the reader lives, the session only checks the latch from time to time. If the
/// reader is dead, the session waits for the latch.
fn wait_for_reader(session: &Session, slot: &FrameSlot) {
    for round in 0_u32.. {
        if slot.latch.try_shared(session, ANY_PAGE).is_some() {
            return;
        }
        match slot.latch.owner() {
            // The owner is dead, or no session has noted that it holds the latch.
            Some(_) if round > READ_SPINS + 100 && slot.latch.is_doubtful(session) => {
                // Waiting for the latch makes the session notice the dead owner and repair it.
                drop(slot.latch.shared(session, Rank::page(19)));
                return;
            }
            _ if round < READ_SPINS => std::hint::spin_loop(),
            _ if round < READ_SPINS + READ_YIELDS => std::thread::yield_now(),
            _ => drop(session.sleep(READ_SLICE)),
        }
    }
}
