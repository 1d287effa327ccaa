//! Getting a page: from the table if it is there, else from the disk into a frame that makes room.
//!
//! Paper: LIBTP 3.2.2. The hot path is: hash, bucket, slot, latch, look again. It takes no latch but the page's, counts
//! nothing and pins nothing (docs/design/0001-pages-latched-not-pinned.md).
//!
//! Invariants
//! 1. A page that is returned was read whole, passed its checks, and is latched or pinned.
//! 2. No session *waits* for the latch of a frame that it has not pinned. Between the lookup and the wait, the frame
//!    could become a page of any rank, and the wait could close a circle. So a session waits for a busy latch through a
//!    pin, which it takes under the bucket's latch.
//! 3. A frame whose page could not be read leaves the table before its latch is released. A session that waited for the
//!    latch looks again, reads again, and gets an error of its own.
//!
//! If a session dies here: see `frame`. Repair frees a frame that was being loaded. Until then the frame is in the
//! table, and a session that wants its page sees that the frame is neither latched nor resident.

use std::ops::ControlFlow;
use std::time::Duration;

use libtp_log::Lsn;
use libtp_process::{ExclusiveGuard, Rank, Session};
use rio::{failpoint, planted};

use crate::content::Body;
use crate::files::OpenFile;
use crate::frame::{FrameSlot, State, HOT};
use crate::page_header::{check_read, checksum_field, life_field};
use crate::pool::{Bound, FrameInHand, PoolPart};
use crate::{BufferManager, Error, ExclusivePage, PageId, Pin, Result, SharedPage, WriteAhead};

/// Looks at a busy latch, before the session waits for it through a pin.
const SPINS: u32 = 20;
/// An evictor that has seen this number of dirty frames, or this share of the shelf if that is more, writes them: at
/// most a batch.
const DIRTY_SEEN_MIN: usize = 16;
const DIRTY_SEEN_SHARE: usize = 4;
/// Rounds in which an evictor finds every frame in use and waits a moment, before it gives up: about ten seconds.
const PATIENCE: u32 = 5_000;
/// Rounds that find every frame in use, or dirty, before the shelf grows past its budget.
const ROUNDS_IN_USE: u32 = 20;
const ROUNDS_DIRTY: u32 = 500;
const MOMENT: Duration = Duration::from_millis(2);
/// A session that waits for another session's read looks this number of times at once, because most pages come from the
/// system's cache; then this number of times with its processor given away; ...
const READ_SPINS: u32 = 400;
const READ_YIELDS: u32 = 10;
/// ... and then after each sleep of this length.
const READ_SLICE: Duration = Duration::from_micros(50);
/// A frame that was found this number of times in a state in which no session leaves it has been hit by a wild store.
const DOUBTS: u32 = 2_000;
/// A session that waits for frames that another session adds looks again after each slice. After `GROWTH_LOOKS` looks
/// it asks whether the other session is stopped. After `GROWTH_SLICES` looks, far longer than adding takes, it makes do
/// with the frames there are.
const GROWTH_SLICE: Duration = Duration::from_micros(50);
const GROWTH_LOOKS: u32 = 2;
const GROWTH_SLICES: u32 = 400;
/// The rank for a try of a frame's latch where no certain page is meant: a try is not bound to the order of latches.
pub(crate) const ANY_PAGE: Rank = Rank::page(0);

/// Where the bytes of a page that is not in memory come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The file.
    Disk,
    /// Nowhere: the caller makes the page new.
    Zeros,
}

impl BufferManager {
    /// Returns the page, latched shared.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes on the disk are not the page, [`Error::UnknownFile`], [`Error::Io`];
    /// [`Error::Full`], [`Error::Failed`] and [`Error::Log`] if no frame could be had for it.
    #[inline]
    pub fn shared<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<SharedPage<'s>> {
        match self.shared_now(session, id, rank) {
            Some(page) => Ok(page),
            None => self.shared_slowly(session, id, rank),
        }
    }

    /// Returns the page, latched shared, if a lookup without a latch finds it and its latch is free. If not,
    /// [`BufferManager::shared`] gets the page.
    // Always inlined, like `exclusive_now`, and without a `Result`: the page then stays in registers.
    #[inline(always)]
    pub fn shared_now<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Option<SharedPage<'s>> {
        let slot = self.look_up(id)?;
        let body = Body::taken(slot);
        let guard = slot.latch.try_shared(session, rank)?;
        if holds(slot, id) {
            return Some(SharedPage::new(&self.region, body, guard, id));
        }
        let_go(guard);
        None
    }

    /// Returns the page, latched exclusively, under the conditions of [`BufferManager::shared_now`].
    #[inline(always)]
    pub fn exclusive_now<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Option<ExclusivePage<'s>> {
        let slot = self.look_up(id)?;
        let body = Body::taken(slot);
        let guard = slot.latch.try_exclusive(session, rank)?;
        if holds(slot, id) {
            return Some(ExclusivePage::new(&self.region, slot, body, guard, id));
        }
        let_go(guard);
        None
    }

    /// Returns the page, latched exclusively.
    ///
    /// # Errors
    /// As [`BufferManager::shared`].
    #[inline]
    pub fn exclusive<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<ExclusivePage<'s>> {
        match self.exclusive_now(session, id, rank) {
            Some(page) => Ok(page),
            None => self.exclusive_slowly(session, id, rank),
        }
    }

    /// Returns the page, pinned in memory and not latched.
    ///
    /// # Errors
    /// As [`BufferManager::shared`].
    #[inline]
    pub fn pin<'s>(&'s self, session: &'s Session, id: PageId) -> Result<Pin<'s>> {
        if let Some(slot) = self.look_up(id) {
            if let Some(guard) = slot.latch.try_shared(session, ANY_PAGE) {
                if holds(slot, id) {
                    let note = slot.pin(session);
                    drop(guard);
                    return Ok(Pin::adopt(&self.region, session, slot, id, note));
                }
                let_go(guard);
            }
        }
        self.pin_from(session, id, Source::Disk)
    }

    /// Returns a pinned frame for a page that the caller makes new: zeros, if the page is neither in memory nor on the
    /// disk.
    ///
    /// # Errors
    /// As [`BufferManager::shared`], but never [`Error::Corrupt`].
    pub fn pin_new<'s>(&'s self, session: &'s Session, id: PageId) -> Result<Pin<'s>> {
        self.pin_from(session, id, Source::Zeros)
    }

    /// Returns whether the page is in memory now.
    pub fn is_resident(&self, id: PageId) -> bool {
        self.table.find(id).is_some()
    }

    #[cold]
    #[inline(never)]
    fn shared_slowly<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<SharedPage<'s>> {
        for _ in 0..SPINS {
            let Some(slot) = self.look_up(id) else { break };
            let body = Body::taken(slot);
            if let Some(guard) = slot.latch.try_shared(session, rank) {
                if holds(slot, id) {
                    return Ok(SharedPage::new(&self.region, body, guard, id));
                }
            }
            std::hint::spin_loop();
        }
        Ok(self.pin_from(session, id, Source::Disk)?.shared(rank))
    }

    #[cold]
    #[inline(never)]
    fn exclusive_slowly<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<ExclusivePage<'s>> {
        for _ in 0..SPINS {
            let Some(slot) = self.look_up(id) else { break };
            let body = Body::taken(slot);
            if let Some(guard) = slot.latch.try_exclusive(session, rank) {
                if holds(slot, id) {
                    return Ok(ExclusivePage::new(&self.region, slot, body, guard, id));
                }
            }
            std::hint::spin_loop();
        }
        Ok(self.pin_from(session, id, Source::Disk)?.exclusive(rank))
    }

    /// Returns the frame that seems to hold the page, and marks it as used.
    #[inline(always)]
    fn look_up(&self, id: PageId) -> Option<&FrameSlot> {
        let slot = self.table.find(id)?;
        self.note_use(slot);
        Some(slot)
    }

    #[inline]
    fn note_use(&self, slot: &FrameSlot) {
        if slot.used.get() != HOT {
            self.note_first_use(slot);
        }
    }

    #[cold]
    fn note_first_use(&self, slot: &FrameSlot) {
        let part = self.pools.shelf_of(slot);
        part.policy().used(part, slot);
    }

    /// Pins the page: looks it up under its bucket's latch, or loads it.
    fn pin_from<'s>(&'s self, session: &'s Session, id: PageId, source: Source) -> Result<Pin<'s>> {
        // Times that the frame was found in a state in which only a wild store can have left it.
        let mut doubts = 0;
        while doubts < DOUBTS {
            let Some((slot, note)) = self.table.find_pinned(session, id) else {
                if let Some(pin) = self.load(session, id, source)? {
                    return Ok(pin);
                }
                continue;
            };
            let pin = Pin::adopt(&self.region, session, slot, id, note);
            // A session without the latch may believe that a page is resident: that is never taken back (`settle`), and
            // a pin that was counted under the bucket's latch keeps the page resident.
            if slot.state() == State::Loading {
                wait_for_reader(session, slot);
                if slot.state() == State::Loading && slot.page.load() == id {
                    // The session that read the page died. The frame leaves the table when that session is repaired.
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
        let file = self.files.open_entered(session, id.file())?;
        if source == Source::Zeros {
            file.note_end()?;
            // Allocates the page's blocks now, while that can be refused. If the disk had no room for a page in memory,
            // its frame could not make room, and other pages could not be read.
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
            // A read would go through whole stretches of blocks that were only set aside.
            Source::Zeros if file.was_never_written(id) => {
                Body::taken(taken.slot).bytes_mut(&self.region, &mut taken.guard).fill(0);
                Ok(())
            }
            Source::Zeros => {
                // Zeros, unless another session has meanwhile made the page and written it, and its frame was replaced.
                // If the read fails, the disk may have that page: nothing may be put in its place.
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

    /// Makes a taken frame name the page, and puts it into the table, loading and pinned. Returns `None`, with the
    /// frame changed back, if the page is there already.
    pub(crate) fn enter<'s>(&'s self, session: &'s Session, id: PageId, taken: &FrameInHand<'s>) -> Option<Pin<'s>> {
        taken.slot.page.publish(id);
        failpoint("buffer: frame made out for a page");
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

    /// Makes the page in the frame available to other sessions. Two stores, in this order, and no section: a session
    /// that has a pin and waits for the latch believes the first store, so that store must not be rolled back
    /// (PROTOCOLS D2).
    ///
    /// If the session dies here:
    /// * before the first store, the frame is loading and in the session's hand. It leaves the table, and a session
    ///   that wants the page reads it again. No session has believed anything of the frame.
    /// * between the two stores, the page is there, and the frame is still noted in the session's hand. Until the dead
    ///   session's latch is given back, no other session can have changed the frame. So the session that is about to
    ///   give the latch back sees both and takes the frame out of the hand ([`BufferManager::settle_hand`]). No other
    ///   step leaves a frame both resident and in a hand: a frame that is taken into a hand, or put back from one, is
    ///   free in the same section.
    /// * after the second store, only the latch and the pin are left.
    pub(crate) fn settle(&self, part: &PoolPart, taken: FrameInHand<'_>) {
        part.policy().loaded(part, taken.slot);
        failpoint("buffer: page read, not resident");
        let session = taken.guard.session();
        let mut taken_back = planted("buffer: that a page is there is taken back").then(|| session.section());
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

    /// Undoes a load that failed: the frame leaves the table, although sessions may wait for it, and is free.
    pub(crate) fn give_up(&self, session: &Session, part: &PoolPart, taken: FrameInHand<'_>, pin: Pin<'_>) {
        let removed = self.table.remove(session, taken.slot, u32::MAX);
        assert!(removed, "a frame leaves the table however many wait for it");
        drop(pin);
        part.push_free(session, taken);
    }

    fn read_page(&self, file: &OpenFile, id: PageId, slot: &FrameSlot, guard: &mut ExclusiveGuard<'_>) -> Result<()> {
        let page = Body::taken(slot).bytes_mut(&self.region, guard);
        let read = file.file.read_at(page, file.offset(id))?;
        // Beyond the end of the file lie pages never written.
        page[read..].fill(0);
        check_page(file, id, page, &*self.log, self.log.tail())
    }

    /// Returns a frame of the shelf, latched and empty.
    pub(crate) fn take_frame<'s>(&'s self, session: &'s Session, part: &'s PoolPart) -> Result<FrameInHand<'s>> {
        let (mut round, mut growth) = (0, 0);
        while round < PATIENCE {
            round += 1;
            if let Some(taken) = part.pop_free(session) {
                return Ok(taken);
            }
            if part.grow(session, &self.table, Bound::Budget) > 0 {
                continue;
            }
            let is_at_it = || growth < GROWTH_SLICES && !part.has_stopped_grower(session);
            let is_waited_for =
                growth < GROWTH_LOOKS || planted("buffer: a stopped grower is waited for") || is_at_it();
            if part.is_growing(session) && is_waited_for {
                session.sleep(GROWTH_SLICE);
                growth += 1;
                round -= 1;
                continue;
            }
            while let Some(slot) = part.next_cleaned() {
                if let Some(taken) = self.try_evict(session, part, slot) {
                    return Ok(taken);
                }
            }
            let mut dirty = Vec::new();
            if let Some(taken) = self.evict_clean(session, part, &mut dirty) {
                return Ok(taken);
            }
            if !dirty.is_empty() && self.write_victims(session, &dirty)? > 0 {
                part.put_cleaned(&dirty);
                continue;
            }
            // Dirty frames will be clean in a moment if another session is writing. Frames that are all in use may stay
            // in use.
            let is_stuck = round > if dirty.is_empty() { ROUNDS_IN_USE } else { ROUNDS_DIRTY };
            if is_stuck && part.grow(session, &self.table, Bound::Emergency) > 0 {
                continue;
            }
            if round < 10 {
                std::thread::yield_now();
            } else {
                session.sleep(MOMENT);
            }
        }
        let why = format!(
            "all {} frames of {} bytes are in use at once: {}; {}give the pool a larger budget, or use fewer threads",
            part.frame_count(),
            part.page_bytes(),
            part.census(),
            self.who_is_stopped(session, part)
        );
        Err(Error::Full { what: "one more page in the buffer pool", why })
    }

    /// Describes, for people, which of the sessions that would have made room are stopped.
    fn who_is_stopped(&self, session: &Session, part: &PoolPart) -> String {
        let processes = session.processes();
        let tasks = [("writes pages", self.header.writer.load()), ("adds frames", part.slot.grower.load())];
        let stopped = tasks.into_iter().filter(|(_, session)| processes.is_stopped(*session));
        let text =
            stopped.map(|(task, session)| format!("{} {task}: continue or kill it; or ", processes.describe(session)));
        text.collect()
    }

    /// Returns the first frame, in the policy's order, that can be replaced without being written. Collects the dirty
    /// frames, until they are enough for a batch.
    pub(crate) fn evict_clean<'s>(
        &'s self,
        session: &'s Session,
        part: &'s PoolPart,
        dirty: &mut Vec<&'s FrameSlot>,
    ) -> Option<FrameInHand<'s>> {
        let share = part.frame_count() as usize / DIRTY_SEEN_SHARE;
        let enough = share.clamp(DIRTY_SEEN_MIN, self.settings.batch_pages().max(DIRTY_SEEN_MIN));
        let mut found = None;
        part.policy().offer(part, &mut |slot| {
            if slot.state() != State::Resident || slot.is_pinned() {
                return ControlFlow::Continue(());
            }
            if slot.is_clean() || planted("buffer: dirty pages replaced unwritten") {
                found = self.try_evict(session, part, slot);
                return if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            dirty.push(slot);
            if dirty.len() < enough {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        found
    }

    /// Takes the frame if no session has its page latched or pinned, and the page is clean.
    fn try_evict<'s>(
        &'s self,
        session: &'s Session,
        part: &'s PoolPart,
        slot: &'s FrameSlot,
    ) -> Option<FrameInHand<'s>> {
        let guard = slot.latch.try_exclusive(session, ANY_PAGE)?;
        let is_clean = slot.is_clean() || planted("buffer: dirty pages replaced unwritten");
        if slot.state() != State::Resident || !is_clean || !self.table.remove(session, slot, 0) {
            return None;
        }
        failpoint("buffer: evicted, in hand");
        part.slot.evictions.fetch_add(1);
        Some(FrameInHand { slot, guard })
    }
}

/// Returns whether a latched frame holds the page. The page's id alone does not say so: the latch of a session that
/// died while it read the page is given back before the frame leaves the table.
#[inline(always)]
fn holds(slot: &FrameSlot, id: PageId) -> bool {
    slot.page.get() == id && (slot.state() == State::Resident || planted("buffer: a page half read is taken for whole"))
}

/// Releases a latch that turned out to be another page's. Kept out of the hot path.
#[cold]
#[inline(never)]
fn let_go<G>(guard: G) {
    drop(guard);
}

/// Checks a page as read from the disk, and clears the fields that are zero in memory: its checksum, and the mark of
/// the log's life, which may be another one at the next change.
pub(crate) fn check_page(
    file: &OpenFile,
    id: PageId,
    page: &mut [u8],
    log: &dyn WriteAhead,
    log_end: Lsn,
) -> Result<()> {
    if !planted("buffer: pages not checked") {
        check_read(page, id, log_end, |lsn| log.life_mark(lsn)).map_err(|damage| file.corrupt(id, &damage))?;
    }
    page[checksum_field()].fill(0);
    page[life_field()].fill(0);
    Ok(())
}

/// Waits until the reader of a pinned frame that is being loaded has released its latch.
///
/// The order of latches does not bind here: the reader waits for the disk and for latches that are last in the order,
/// never for a page. So the session does not wait for the latch but looks from time to time, unless the reader is dead.
fn wait_for_reader(session: &Session, slot: &FrameSlot) {
    for round in 0_u32.. {
        if slot.latch.try_shared(session, ANY_PAGE).is_some() {
            return;
        }
        match slot.latch.owner() {
            // The owner is dead, or the sessions' notes do not explain the latch.
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
