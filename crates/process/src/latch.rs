//! Latches: short, physical, shared or exclusive, one word each.
//!
//! Paper: LIBTP section 4.3: "attempt to obtain a spinlock with a test-and-set, and issue a system call only if the
//! spinlock is unavailable". The word and its state machine are in `latch_word.rs`.
//!
//! Invariants
//! 1. A session waits only for latches of higher rank than it holds (`rank.rs`).
//! 2. Every latch a session holds or wants is in its notes (`notes.rs`), also between any two instructions.
//! 3. A latch is never upgraded.
//!
//! If the holder dies: the word keeps it. A waiter looks every [`SLEEP_MAX`] whether the holder lives, and hands a dead
//! one to the environment's repairer. A guard dropped by a panic of the library frees nothing (PROTOCOLS D10).

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rio::{failpoint, planted, shared, ExclusiveHold, SharedHold, Word};

use crate::latch_word::{self, Class, StateWord, Wait, Waiter};
use crate::notes::Note;
use crate::session::leave_broken;
use crate::unwinding::unwinds;
use crate::{os, LongWait, Rank, Session, SessionId, SLEEP_MAX};

#[cfg(feature = "kernel-latches")]
use crate::kernel_latches::{pay_acquire, pay_release};

/// Nothing: in the figure's build alone may a latch be made to call the kernel.
#[cfg(not(feature = "kernel-latches"))]
#[inline(always)]
fn pay_acquire() {}

/// As [`pay_acquire`].
#[cfg(not(feature = "kernel-latches"))]
#[inline(always)]
fn pay_release() {}

shared! {
    /// A latch. Zero is free.
    pub struct Latch {
        word: Word<u64>,
    } size 8
}

/// What tools see a session wait for when it waits long for a latch, with the latch's place as the subject.
pub const WAITS_FOR_LATCH: u32 = 2;

/// Looks at the word so often before it sleeps: for the holder on another processor to finish ...
const PAUSES: u32 = 100;
/// ... and these for a holder that waits for this processor.
const YIELDS: u32 = 2;
/// The sleep between looks at a frozen word.
const THAW: Duration = Duration::from_micros(100);
/// Whoever lets go because it unwinds looks so often; then the count is left to who finds it wrong.
const THAWS_UNWINDING: u32 = 1000;
/// So many looks in a row must find a word that its holders' notes do not explain before it counts as damaged: a holder that
/// lets go and comes back between two of our loads is no rarity, one that always does is.
const DOUBTS: u32 = 16;
/// The bound of the first sleep; each further one is twice as long, up to [`SLEEP_MAX`].
const SLEEP_FIRST: Duration = Duration::from_micros(100);

impl Latch {
    /// Holds it shared with others, waiting as long as it takes.
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

    /// Holds it alone, waiting as long as it takes.
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
        ExclusiveGuard { latch: self, session, note }
    }

    /// Holds it shared with others if that needs no waiting. The order of ranks does not bind.
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

    /// Holds it alone if that needs no waiting. The order of ranks does not bind.
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
        Some(ExclusiveGuard { latch: self, session, note })
    }

    /// The guard of a latch that the session holds alone already: for the repair of a dead session in its name. None if it
    /// does not hold it.
    pub fn adopt_exclusive<'l>(&'l self, session: &'l Session) -> Option<ExclusiveGuard<'l>> {
        let note = session.note_of(session.place_of(self))?;
        (self.owner() == Some(session.id())).then_some(ExclusiveGuard { latch: self, session, note })
    }

    /// Looks whether whoever holds it is dead; if so, its latches are given back. For who only ever tries the latch.
    #[cold]
    pub fn help_the_dead_holder(&self, session: &Session) {
        let _ = self.look_for_the_dead(session);
    }

    /// Frees it if the session holds it alone: the repair of a dead one.
    pub(crate) fn free_for(&self, dead: &Session) {
        if self.owner() == Some(dead.id()) {
            latch_word::release_exclusive(self.word.cell(), dead.owner(), &Waker);
        }
    }

    /// Whether the notes of the living do not explain the word at this moment: somebody should wait for the latch properly,
    /// and so find out. For who only ever tries it.
    #[cold]
    pub fn is_doubtful(&self, session: &Session) -> bool {
        !self.look_for_the_dead(session)
    }

    /// The word, for who counts its holders.
    pub(crate) fn cell(&self) -> &AtomicU64 {
        self.word.cell()
    }

    /// Frees it whatever its state: for repair when nobody else is attached.
    pub fn reset_alone(&self) {
        self.word.init(0);
    }

    /// Who holds it exclusively at this moment.
    pub fn owner(&self) -> Option<SessionId> {
        SessionId::from_latch_word(self.word.load())
    }

    /// How many hold it shared at this moment.
    pub fn shared_count(&self) -> u32 {
        u32::try_from(self.word.load() & latch_word::COUNT).expect("the count has 14 bits")
    }

    #[cold]
    #[inline(never)]
    fn wait_shared(&self, session: &Session, note: usize) {
        let place = session.place_of(self);
        let states = [Note::wanting(place), Note::holding(place), Note::releasing(place)];
        latch_word::wait_shared(self.word.cell(), &Waiting::new(self, session, note, states));
    }

    #[cold]
    #[inline(never)]
    fn wait_exclusive(&self, session: &Session, note: usize) {
        let waiting = Waiting::new(self, session, note, [Note::exclusive(session.place_of(self)); 3]);
        latch_word::wait_exclusive(self.word.cell(), session.owner(), &waiting);
    }

    #[cold]
    #[inline(never)]
    fn release_shared(&self, session: &Session, note: usize) {
        let place = session.place_of(self);
        let states = [Note::wanting(place), Note::holding(place), Note::releasing(place)];
        latch_word::release_shared(self.word.cell(), &Waiting::new(self, session, note, states));
    }

    #[cold]
    #[inline(never)]
    fn release_exclusive(&self, session: &Session, note: usize) {
        let waiting = Waiting::new(self, session, note, [Note::exclusive(session.place_of(self)); 3]);
        latch_word::release_exclusive(self.word.cell(), session.owner(), &waiting);
    }

    /// After a whole time-out: whoever holds the latch may be dead, or nobody holds it at all. False if the word is not what
    /// the notes of the living say, which may be so for a moment only.
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
        // One that let go and left since is not dead: then the word has changed.
        let is_same = self.word.load() == seen;
        if let Some(dead) = dead.filter(|_| is_same) {
            processes.meet_dead(session, dead);
        }
        is_noted || !is_same
    }

    /// Whoever froze the word may have died.
    #[cold]
    fn thaw_for_the_dead(&self, session: &Session) {
        let processes = session.processes();
        if processes.dead_freezer(session.place_of(self)).is_some() {
            processes.thaw_for_the_dead(session.id(), &Waker);
        }
    }

    /// The word has long not been what the notes say: a wild store has hit it. A count is made right; an owner that does not
    /// know of it will never let go.
    #[cold]
    fn doubt(&self, session: &Session) {
        let seen = self.word.load();
        let place = session.place_of(self);
        if seen & latch_word::OWNER == 0 && seen & latch_word::COUNT != 0 {
            return session.processes().recount(session.id(), place, &Waker);
        }
        session.processes().give_up(&format!("the latch at {place} says {seen:#x}, which its holders do not know of"));
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latch({:#x})", self.word.load())
    }
}

impl crate::ProcessManager {
    /// Whether that living session has noted that it holds, or wants, the latch at `place` alone.
    fn has_noted(&self, owner: SessionId, place: u64) -> bool {
        let about = |note: &Note| note.is_exclusive() && note.is_about(place);
        self.slot(owner).is_some_and(|slot| slot.notes.iter().any(|note| about(&note.load())))
    }

    /// A dead session whose notes say that it holds, or may hold, the latch at `place`.
    fn dead_holder(&self, place: u64) -> Option<SessionId> {
        self.slots().find_map(|(index, slot)| {
            let noted = slot.notes.iter().any(|note| note.load().is_about(place));
            let status = slot.status.load();
            let dead = noted && status.state() != crate::slot::State::Free && !self.tenant_lives(slot);
            dead.then(|| SessionId::new(index, status.generation()))
        })
    }
}

/// A session that waits for a latch: spinning, then in the kernel, its note stepped back while it sleeps.
struct Waiting<'l> {
    latch: &'l Latch,
    session: &'l Session,
    note: usize,
    /// The note when wanting, holding, releasing.
    states: [Note; 3],
    /// How often in a row the word was not what the notes say.
    doubts: Cell<u32>,
    /// How often it has waited for a frozen word.
    thaws: Cell<u32>,
    began: Instant,
    /// Said for the tools once the wait is a long one.
    said: OnceCell<LongWait<'l>>,
}

impl<'l> Waiting<'l> {
    fn new(latch: &'l Latch, session: &'l Session, note: usize, states: [Note; 3]) -> Waiting<'l> {
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

    /// After a whole time-out.
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
        failpoint("latch: waits, noted as wanting");
        self.session.write_note(self.note, Note::NONE);
        if self.session.region().is_broken() {
            // It wants the latch no more, and its handle knows that too: whoever leaves goes on to take other latches on its way.
            self.session.drop_note(self.note);
            leave_broken();
        }
        failpoint("latch: waits, note stepped back");
        let mut bound = SLEEP_MAX.min(SLEEP_FIRST * (1 << round.min(16)));
        if bound == SLEEP_MAX {
            // Its note says that it wants nothing; the handle is not used any more.
            self.session.leave_if_late();
            let place = self.session.place_of(self.latch);
            self.said.get_or_init(|| self.session.waits_since(WAITS_FOR_LATCH, place, self.began.elapsed()));
        }
        if planted("process: waits for a latch until woken") {
            bound = Duration::from_secs(3600);
        }
        let mut outcome = os::sleep_on_latch(word, seen, class, bound);
        if bound < SLEEP_MAX {
            // Too soon to suspect anybody of being dead.
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
        // In a broken region it is all the same, and whoever unwinds cannot begin to unwind.
        if self.session.region().is_broken() || (unwinds() && self.thaws.get() > THAWS_UNWINDING) {
            return false;
        }
        self.session.leave_if_late();
        self.thaws.set(self.thaws.get() + 1);
        self.session.write_note(self.note, self.states[1]);
        // Nobody wakes us: a reaper counts for a moment only.
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

/// Wakes whoever waits, and never waits itself: for repair.
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

/// A latch held shared with others. Dropping it lets go.
#[must_use = "the latch is held as long as its guard lives"]
pub struct SharedGuard<'l> {
    latch: &'l Latch,
    session: &'l Session,
    note: usize,
}

impl<'l> SharedGuard<'l> {
    /// The session that holds it.
    #[inline]
    pub fn session(&self) -> &'l Session {
        self.session
    }
}

// SAFETY: while it lives nobody has the latch exclusively, in any process, and who has an area shows for it guards of its latch alone.
unsafe impl SharedHold for SharedGuard<'_> {}

impl Drop for SharedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.session.abandons() {
            return;
        }
        self.session.write_note(self.note, Note::releasing(self.session.place_of(self.latch)));
        failpoint("latch: shared noted as let go, still held");
        if !latch_word::leave_shared(self.latch.word.cell()) {
            self.latch.release_shared(self.session, self.note);
        }
        failpoint("latch: shared let go, still noted");
        self.session.drop_note(self.note);
        pay_release();
    }
}

/// A latch held alone. Dropping it lets go.
#[must_use = "the latch is held as long as its guard lives"]
pub struct ExclusiveGuard<'l> {
    latch: &'l Latch,
    session: &'l Session,
    note: usize,
}

impl<'l> ExclusiveGuard<'l> {
    /// The session that holds it.
    #[inline]
    pub fn session(&self) -> &'l Session {
        self.session
    }
}

// SAFETY: as a shared one; and nobody else has the latch at all.
unsafe impl SharedHold for ExclusiveGuard<'_> {}
// SAFETY: as above.
unsafe impl ExclusiveHold for ExclusiveGuard<'_> {}

impl Drop for ExclusiveGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.session.abandons() {
            return;
        }
        failpoint("latch: exclusive about to be let go");
        if !latch_word::leave_exclusive(self.latch.word.cell(), self.session.owner()) {
            self.latch.release_exclusive(self.session, self.note);
        }
        failpoint("latch: exclusive let go, still noted");
        self.session.drop_note(self.note);
        pay_release();
    }
}
