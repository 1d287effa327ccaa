//! Latches: short, physical, shared or exclusive, one word each.
//!
//! Paper: LIBTP section 4.3: "attempt to obtain a spinlock with a test-and-set, and issue a system call only if the
//! spinlock is unavailable". The word and its state machine are in `latch_word.rs`.
//!
//! Invariants
//! 1. A session waits only for a latch of higher rank than all latches that it holds (`rank.rs`).
//! 2. Between any two instructions, every latch that a session holds or wants is in its notes (`notes.rs`).
//! 3. A latch is never upgraded.
//!
//! If the holder dies: the word still has the holder. A waiter checks every [`SLEEP_MAX`] whether the holder lives. If
//! the holder is dead, the waiter calls the environment's repairer. A guard dropped by a panic of the library frees
//! nothing (PROTOCOLS D10).

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rio::{failpoint, planted, shared, ExclusiveHold, Offset, SharedHold, Word};

use crate::latch_word::{self, Class, StateWord, Wait, Waiter};
use crate::notes::{Note, NoteNumber};
use crate::session::leave_broken;
use crate::unwinding::unwinds;
use crate::{os, LongWait, Rank, Session, SessionId, SLEEP_MAX};

#[cfg(feature = "kernel-latches")]
use crate::kernel_latches::{pay_acquire, pay_release};

/// Does nothing. With the feature `kernel-latches`, for one figure of the benchmarks, a latch calls the kernel here.
#[cfg(not(feature = "kernel-latches"))]
#[inline(always)]
fn pay_acquire() {}

/// Like [`pay_acquire`], at the release of a latch.
#[cfg(not(feature = "kernel-latches"))]
#[inline(always)]
fn pay_release() {}

shared! {
    /// A latch. Zero is free.
    pub struct Latch {
        word: Word<u64>,
    } size 8
}

/// The kind of a session's wait while it waits long for a latch, as the tools show it. The wait's subject is the
/// latch's place.
pub const WAITS_FOR_LATCH: u32 = 2;

/// The number of checks of the word before the first yield: meanwhile a holder may finish on another processor.
const PAUSES: u32 = 100;
/// The number of further checks before a sleep, each after a yield: a holder may be waiting for this processor.
const YIELDS: u32 = 2;
/// The sleep between checks of a frozen word.
const THAW: Duration = Duration::from_micros(100);
/// The number of checks of a frozen word by a session that releases while it unwinds. After that number the session
/// gives up, and the count stays wrong until another session corrects it.
const THAWS_UNWINDING: u32 = 1000;
/// A word counts as damaged after this number of consecutive checks in which the holders' notes did not explain it. A
/// holder often releases the latch and takes it again between two loads of one check, but not in each check.
const DOUBTS: u32 = 16;
/// The bound of the first sleep; each further bound is twice as long, up to [`SLEEP_MAX`].
const SLEEP_FIRST: Duration = Duration::from_micros(100);

impl Latch {
    /// Takes the latch shared. Waits as long as necessary.
    #[inline]
    pub fn shared<'l>(&'l self, session: &'l Session, rank: Rank) -> SharedGuard<'l> {
        pay_acquire();
        let place = session.place_of(self);
        let note = session.take_note(rank, true);
        session.write_note(note, Note::wanting(place));
        failpoint("latch: shared noted, not taken");
        if !latch_word::acquire_shared(self.word.cell()) {
            self.wait_shared(session, note);
        }
        failpoint("latch: shared taken, not noted as held");
        session.write_note(note, Note::holding(place));
        SharedGuard { latch: self, session, note }
    }

    /// Takes the latch exclusively. Waits as long as necessary.
    #[inline]
    pub fn exclusive<'l>(&'l self, session: &'l Session, rank: Rank) -> ExclusiveGuard<'l> {
        pay_acquire();
        let note = session.take_note(rank, true);
        session.write_note(note, Note::exclusive(session.place_of(self)));
        failpoint("latch: exclusive noted, not taken");
        if !latch_word::acquire_exclusive(self.word.cell(), session.owner()) {
            self.wait_exclusive(session, note);
        }
        failpoint("latch: exclusive taken");
        ExclusiveGuard { latch: self, session, note, last: () }
    }

    /// Takes the latch shared if that needs no wait. The order of ranks does not apply.
    #[inline]
    pub fn try_shared<'l>(&'l self, session: &'l Session, rank: Rank) -> Option<SharedGuard<'l>> {
        let place = session.place_of(self);
        let note = session.take_note(rank, false);
        session.write_note(note, Note::wanting(place));
        failpoint("latch: tried shared noted, not taken");
        if !latch_word::try_shared(self.word.cell()) {
            session.drop_note(note);
            return None;
        }
        failpoint("latch: tried shared taken, not noted as held");
        pay_acquire();
        session.write_note(note, Note::holding(place));
        Some(SharedGuard { latch: self, session, note })
    }

    /// Takes the latch exclusively if that needs no wait. The order of ranks does not apply.
    #[inline]
    pub fn try_exclusive<'l>(&'l self, session: &'l Session, rank: Rank) -> Option<ExclusiveGuard<'l>> {
        let note = session.take_note(rank, false);
        session.write_note(note, Note::exclusive(session.place_of(self)));
        failpoint("latch: tried exclusive noted, not taken");
        if !latch_word::try_exclusive(self.word.cell(), session.owner()) {
            session.drop_note(note);
            return None;
        }
        failpoint("latch: tried exclusive taken");
        pay_acquire();
        Some(ExclusiveGuard { latch: self, session, note, last: () })
    }

    /// Returns a guard of a latch that the session already holds exclusively: for the repair of a dead session in its
    /// name. `None` if the session does not hold the latch.
    pub fn adopt_exclusive<'l>(&'l self, session: &'l Session) -> Option<ExclusiveGuard<'l>> {
        let note = session.note_of(session.place_of(self))?;
        (self.owner() == Some(session.id())).then_some(ExclusiveGuard { latch: self, session, note, last: () })
    }

    /// Checks whether a holder is dead. If a holder is dead, releases the holder's latches. For a caller that only
    /// tries the latch and never waits.
    #[cold]
    pub fn help_the_dead_holder(&self, session: &Session) {
        let _ = self.look_for_the_dead(session);
    }

    /// Frees the latch if the session holds it exclusively: for the repair of a dead session.
    pub(crate) fn free_for(&self, dead: &Session) {
        if self.owner() == Some(dead.id()) {
            latch_word::release_exclusive(self.word.cell(), dead.owner(), &Waker);
        }
    }

    /// Returns whether the living sessions' notes do not explain the word at this moment. If so, a session should wait
    /// for the latch, because the wait corrects a damaged word. For a caller that only tries the latch and never waits.
    #[cold]
    pub fn is_doubtful(&self, session: &Session) -> bool {
        !self.look_for_the_dead(session)
    }

    /// Returns the word, for the session that counts its holders.
    pub(crate) fn cell(&self) -> &AtomicU64 {
        self.word.cell()
    }

    /// Frees the latch in any state: for the repair when no other process is attached.
    pub fn reset_alone(&self) {
        self.word.init(0);
    }

    /// Returns the present exclusive holder.
    pub fn owner(&self) -> Option<SessionId> {
        SessionId::from_latch_word(self.word.load())
    }

    /// Returns the present number of shared holders.
    pub fn shared_count(&self) -> u32 {
        u32::try_from(self.word.load() & latch_word::COUNT).expect("the count has 14 bits")
    }

    #[cold]
    #[inline(never)]
    fn wait_shared(&self, session: &Session, note: NoteNumber) {
        latch_word::wait_shared(self.word.cell(), &Waiting::shared(self, session, note));
    }

    #[cold]
    #[inline(never)]
    fn wait_exclusive(&self, session: &Session, note: NoteNumber) {
        let waiting = Waiting::exclusive(self, session, note);
        latch_word::wait_exclusive(self.word.cell(), session.owner(), &waiting);
    }

    #[cold]
    #[inline(never)]
    fn release_shared(&self, session: &Session, note: NoteNumber) {
        latch_word::release_shared(self.word.cell(), &Waiting::shared(self, session, note));
    }

    #[cold]
    #[inline(never)]
    fn release_exclusive(&self, session: &Session, note: NoteNumber) {
        let waiting = Waiting::exclusive(self, session, note);
        latch_word::release_exclusive(self.word.cell(), session.owner(), &waiting);
    }

    /// Checks the word after a whole time-out: the holder may be dead, or no session may hold the latch. Returns false
    /// if the living sessions' notes do not explain the word. That state may last for only a moment.
    fn look_for_the_dead(&self, session: &Session) -> bool {
        let (processes, place) = (session.processes(), session.place_of(self));
        let seen = self.word.load();
        if seen & latch_word::FREEZE != 0 {
            self.thaw_for_the_dead(session);
            return processes.is_freezing(place) || self.word.load() != seen;
        }
        let (dead, is_noted) = match SessionId::from_latch_word(seen) {
            Some(owner) if processes.is_alive(owner) => (None, processes.has_noted(owner, place)),
            Some(owner) => (Some(owner), processes.exists(owner)),
            None if seen & latch_word::COUNT != 0 => {
                let dead = processes.dead_holder(place);
                (dead, dead.is_some() || processes.holders_are(place, seen & latch_word::COUNT))
            }
            None => (None, true),
        };
        // If the holder has released the latch and left, the word has changed: that session is not dead.
        let is_same = self.word.load() == seen;
        if let Some(dead) = dead.filter(|_| is_same) {
            processes.meet_dead(session, dead);
        }
        is_noted || !is_same
    }

    /// Finishes the count of the session that froze the word, if that session has died.
    #[cold]
    fn thaw_for_the_dead(&self, session: &Session) {
        let processes = session.processes();
        if processes.dead_freezer(session.place_of(self)).is_some() {
            processes.thaw_for_the_dead(session.id(), &Waker);
        }
    }

    /// Handles a word that the notes did not explain in several checks: a wild store has hit it. Corrects a wrong
    /// count. A wrong owner would never release the latch, so the region is given up.
    #[cold]
    fn doubt(&self, session: &Session) {
        let seen = self.word.load();
        let place = session.place_of(self);
        if seen & latch_word::OWNER == 0 && seen & latch_word::COUNT != 0 {
            return session.processes().recount(session.id(), place, &Waker);
        }
        session.processes().give_up(&format!("the latch at {place} has the word {seen:#x}, which no session notes"));
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latch({:#x})", self.word.load())
    }
}

impl Session {
    /// Returns the places of the latches that the session holds exclusively.
    pub fn latched_alone(&self) -> impl Iterator<Item = Offset<Latch>> + '_ {
        let alone = self.slot().notes.iter().map(|note| note.load()).filter(|note| note.is_exclusive());
        let places = alone.filter_map(|note| Offset::<Latch>::from_raw(note.place()));
        places.filter(|&place| self.region().try_at(place).is_some_and(|latch| latch.owner() == Some(self.id())))
    }
}

impl crate::ProcessManager {
    /// Returns whether the session `owner` has noted that it holds, or wants, the latch at `place` exclusively.
    fn has_noted(&self, owner: SessionId, place: u64) -> bool {
        let about = |note: &Note| note.is_exclusive() && note.is_about(place);
        self.slot(owner).is_some_and(|slot| slot.notes.iter().any(|note| about(&note.load())))
    }

    /// Returns a dead session whose notes state that it holds, or may hold, the latch at `place`.
    fn dead_holder(&self, place: u64) -> Option<SessionId> {
        self.slots().find_map(|(index, slot)| {
            let noted = slot.notes.iter().any(|note| note.load().is_about(place));
            let status = slot.status.load();
            let dead = noted && status.state() != crate::slot::State::Free && !self.tenant_lives(slot);
            dead.then(|| SessionId::new(index, status.generation()))
        })
    }
}

/// A session that waits for a latch: it spins, then sleeps in the kernel, with its note cleared during the sleep.
struct Waiting<'l> {
    latch: &'l Latch,
    session: &'l Session,
    note: NoteNumber,
    /// The notes for the three states in which the session wants, holds and releases the latch.
    states: [Note; 3],
    /// The number of consecutive checks in which the notes did not explain the word.
    doubts: Cell<u32>,
    /// The number of waits for a frozen word.
    thaws: Cell<u32>,
    began: Instant,
    /// Describes the wait to the tools. Set when the wait has become long.
    said: OnceCell<LongWait<'l>>,
}

impl<'l> Waiting<'l> {
    fn shared(latch: &'l Latch, session: &'l Session, note: NoteNumber) -> Waiting<'l> {
        let place = session.place_of(latch);
        Waiting::new(latch, session, note, [Note::wanting(place), Note::holding(place), Note::releasing(place)])
    }

    fn exclusive(latch: &'l Latch, session: &'l Session, note: NoteNumber) -> Waiting<'l> {
        Waiting::new(latch, session, note, [Note::exclusive(session.place_of(latch)); 3])
    }

    fn new(latch: &'l Latch, session: &'l Session, note: NoteNumber, states: [Note; 3]) -> Waiting<'l> {
        Waiting {
            latch,
            session,
            note,
            states,
            doubts: Cell::new(0),
            thaws: Cell::new(0),
            began: Instant::now(),
            said: OnceCell::new(),
        }
    }

    /// Checks the word after a whole time-out, and counts consecutive checks without an explanation.
    fn look(&self) {
        let is_sane = self.latch.look_for_the_dead(self.session);
        let doubts = if is_sane { 0 } else { self.doubts.get() + 1 };
        self.doubts.set(doubts);
        if doubts == DOUBTS && !unwinds() {
            self.doubts.set(0);
            self.latch.doubt(self.session);
        }
    }
}

impl Waiter<AtomicU64> for Waiting<'_> {
    const SPINS: u32 = PAUSES + YIELDS;

    fn pause(&self, round: u32) {
        if round < PAUSES {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn wait(&self, word: &AtomicU64, seen: u64, class: Class, round: u32) -> Wait {
        failpoint("latch: waits, noted as waiter");
        self.session.write_note(self.note, Note::NONE);
        if self.session.region().is_broken() {
            // The session does not want the latch any more. The handle's copy of the notes must be cleared, too,
            // because the unwinding session takes other latches before it ends.
            self.session.drop_note(self.note);
            leave_broken();
        }
        failpoint("latch: waits, note withdrawn");
        let mut bound = SLEEP_MAX.min(SLEEP_FIRST * (1 << round.min(16)));
        if bound == SLEEP_MAX {
            // The note is empty already, and the unwound handle is not used any more.
            self.session.leave_if_late();
            let place = self.session.place_of(self.latch);
            self.said.get_or_init(|| self.session.waits_since(WAITS_FOR_LATCH, place, self.began.elapsed()));
        }
        if planted("process: the sleep of a latch waiter has no bound") {
            bound = Duration::from_secs(3600);
        }
        let mut outcome = os::sleep_on_latch(word, seen, class, bound);
        if bound < SLEEP_MAX {
            // The sleep was too short to suspect that a session is dead.
            outcome = Wait::Woken;
        }
        if outcome == Wait::TimedOut {
            self.look();
        }
        failpoint("latch: woken, not noted again");
        self.session.write_note(self.note, self.states[0]);
        outcome
    }

    fn thaw(&self, word: &AtomicU64) -> bool {
        // A broken region needs no right count. A session that already unwinds cannot start to unwind again.
        if self.session.region().is_broken() || (unwinds() && self.thaws.get() > THAWS_UNWINDING) {
            return false;
        }
        self.session.leave_if_late();
        self.thaws.set(self.thaws.get() + 1);
        self.session.write_note(self.note, self.states[1]);
        // No session wakes this session; the sleep is short, because a reaper counts quickly.
        if os::sleep_on_latch(word, word.look(), Class::Reader, THAW) == Wait::TimedOut {
            self.look();
        }
        self.session.write_note(self.note, self.states[2]);
        true
    }

    fn wake(&self, word: &AtomicU64, class: Class) {
        os::wake_on_latch(word, class);
    }
}

/// Wakes waiters, and never waits itself: for repair.
pub(crate) struct Waker;

impl Waiter<AtomicU64> for Waker {
    const SPINS: u32 = 0;
    fn pause(&self, _: u32) {}
    fn wait(&self, _: &AtomicU64, _: u64, _: Class, _: u32) -> Wait {
        Wait::Woken
    }
    fn thaw(&self, _: &AtomicU64) -> bool {
        std::thread::yield_now();
        true
    }
    fn wake(&self, word: &AtomicU64, class: Class) {
        os::wake_on_latch(word, class);
    }
}

/// A latch held shared. Dropping the guard releases it.
#[must_use = "the latch is held as long as its guard lives"]
pub struct SharedGuard<'l> {
    latch: &'l Latch,
    session: &'l Session,
    note: NoteNumber,
}

impl<'l> SharedGuard<'l> {
    /// Returns the session that holds the latch.
    #[inline]
    pub fn session(&self) -> &'l Session {
        self.session
    }
}

// SAFETY: while this guard lives, no session of any process holds the latch exclusively; the owner of an area uses
// only guards of its own latch as holds.
unsafe impl SharedHold for SharedGuard<'_> {}

impl Drop for SharedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.session.abandons() {
            return;
        }
        self.session.write_note(self.note, Note::releasing(self.session.place_of(self.latch)));
        failpoint("latch: shared noted as released, still held");
        if !latch_word::leave_shared(self.latch.word.cell()) {
            self.latch.release_shared(self.session, self.note);
        }
        failpoint("latch: shared released, still noted");
        self.session.drop_note(self.note);
        pay_release();
    }
}

/// The last work of a session under a latch that it holds exclusively.
///
/// A guard does the work before it releases its latch. If a panic of the library drops the guard, the latch stays held
/// (PROTOCOLS D10) and the work is not done.
pub trait LastWork {
    /// Does the work.
    fn do_last(&self);
}

impl LastWork for () {
    #[inline(always)]
    fn do_last(&self) {}
}

/// A latch held exclusively. Dropping the guard releases it.
#[must_use = "the latch is held as long as its guard lives"]
pub struct ExclusiveGuard<'l, W: LastWork = ()> {
    latch: &'l Latch,
    session: &'l Session,
    note: NoteNumber,
    last: W,
}

impl<'l> ExclusiveGuard<'l> {
    /// Returns a guard that does the work before it releases the latch.
    #[inline(always)]
    pub fn with_last<W: LastWork>(self, last: W) -> ExclusiveGuard<'l, W> {
        let guard = ExclusiveGuard { latch: self.latch, session: self.session, note: self.note, last };
        std::mem::forget(self);
        guard
    }
}

impl<'l, W: LastWork> ExclusiveGuard<'l, W> {
    /// Returns the session that holds the latch.
    #[inline]
    pub fn session(&self) -> &'l Session {
        self.session
    }
}

// SAFETY: as for a shared guard; and no other session holds the latch at all.
unsafe impl<W: LastWork> SharedHold for ExclusiveGuard<'_, W> {}
// SAFETY: as above.
unsafe impl<W: LastWork> ExclusiveHold for ExclusiveGuard<'_, W> {}

impl<W: LastWork> Drop for ExclusiveGuard<'_, W> {
    #[inline]
    fn drop(&mut self) {
        if self.session.abandons() {
            return;
        }
        self.last.do_last();
        failpoint("latch: exclusive about to be released");
        if !latch_word::leave_exclusive(self.latch.word.cell(), self.session.owner()) {
            self.latch.release_exclusive(self.session, self.note);
        }
        failpoint("latch: exclusive released, still noted");
        self.session.drop_note(self.note);
        pay_release();
    }
}
