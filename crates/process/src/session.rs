//! A session: one thread's handle to the environment.
//!
//! It may move to another thread but is used by one at a time, so what only it writes (its notes, its undo log) needs
//! no more than plain stores.
//!
//! Invariants
//! 1. A slot is given back only by a session that holds no latch, has no open section and noted no append. One that
//!    does, or goes because the library panics, is marked dead, and repaired like one that was killed (PROTOCOLS D10).
//! 2. The handle a forked child inherits does nothing: the slot is the parent's.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::time::Duration;

use rio::{failpoint, planted, Held, Offset, Region, Section, Undo, UndoLog};

use crate::notes::Note;
use crate::slot::{SessionSlot, State};
use crate::unwinding::unwinds;
use crate::{Latch, ProcessManager, Rank, Result, SessionId, NOTES};

/// One thread's handle. Dropping it leaves.
pub struct Session {
    slot: Held<SessionSlot>,
    id: SessionId,
    /// The id as the owner in a latch word.
    owner: u64,
    /// The address at which this process has mapped the region: notes name latches by their distance from it.
    base: usize,
    /// Bit n: note n is in use.
    notes_used: Cell<u32>,
    /// Bit n: pin n is in use.
    pins_used: Cell<u64>,
    /// The ranks of the latches noted, for the debug build's assertion.
    ranks: [Cell<Rank>; NOTES],
    tree_depth: Cell<u32>,
    /// So many [`Freeing`] there are of it.
    freeing: Cell<u32>,
    /// It does nothing more to what is shared.
    dead: Cell<bool>,
    /// Something bears its name that it has not given back.
    owing: Cell<bool>,
    /// The last append noted, and the transaction it was for: also when the note itself is gone.
    last_noted: Cell<(u64, u64)>,
    /// How often waits had been cancelled when its transaction began (`cancel.rs`).
    pub(crate) cancels: Cell<u32>,
    /// It works in a dead session's name, for its repair.
    is_stand_in: bool,
    undo_log: Offset<UndoLog>,
    undo: UndoHandle,
    processes: ProcessManager,
}

/// A handle to the undo log, and a newer one once the log has grown: growing needs no exclusive borrow that way.
struct UndoHandle {
    undo: Undo,
    newer: OnceCell<Box<UndoHandle>>,
}

impl UndoHandle {
    #[inline]
    fn newest(&self) -> &UndoHandle {
        match self.newer.get() {
            None => self,
            Some(newer) => newer.newest(),
        }
    }
}

/// A session is at something that frees space while this lives.
pub struct Freeing<'s>(&'s Session);

impl Drop for Freeing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.freeing.set(self.0.freeing.get() - 1);
    }
}

impl Session {
    pub(crate) fn new(
        processes: ProcessManager,
        id: SessionId,
        place: Offset<SessionSlot>,
        undo_log: Offset<UndoLog>,
    ) -> Session {
        let region = processes.region();
        let slot = region.hold(place);
        let offset = usize::try_from(place.raw()).expect("an offset in a mapping fits an address");
        Session {
            owner: id.owner_bits(),
            base: std::ptr::from_ref::<SessionSlot>(&slot).addr() - offset,
            undo: UndoHandle { undo: Undo::open(region, undo_log), newer: OnceCell::new() },
            slot,
            id,
            notes_used: Cell::new(0),
            pins_used: Cell::new(0),
            ranks: std::array::from_fn(|_| Cell::new(Rank::CATALOGUE)),
            tree_depth: Cell::new(0),
            freeing: Cell::new(0),
            dead: Cell::new(false),
            owing: Cell::new(false),
            last_noted: Cell::new((0, 0)),
            cancels: Cell::new(crate::cancels()),
            is_stand_in: false,
            undo_log,
            processes,
        }
    }

    /// A session in the name of one that is dead, with the latches it died with. Dropped, it changes nothing.
    pub(crate) fn stand_in(
        processes: ProcessManager,
        dead: SessionId,
        place: Offset<SessionSlot>,
        undo_log: Offset<UndoLog>,
    ) -> Session {
        let mut session = Session::new(processes, dead, place, undo_log);
        session.is_stand_in = true;
        let used = session.slot.notes.iter().enumerate().filter(|(_, note)| note.load() != Note::NONE);
        session.notes_used.set(used.fold(0, |bits, (note, _)| bits | 1 << note));
        session
    }

    /// Its name.
    #[inline]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Says, while the answer lives, that the session is at something that frees space, or is needed for that: such work may use
    /// what is kept back of a full disk.
    #[inline]
    pub fn begin_freeing(&self) -> Freeing<'_> {
        self.freeing.set(self.freeing.get() + 1);
        Freeing(self)
    }

    /// Whether it is at something that frees space.
    #[inline]
    pub fn is_freeing(&self) -> bool {
        self.freeing.get() > 0
    }

    /// The region it works in.
    #[inline]
    pub fn region(&self) -> &Region {
        self.processes.region()
    }

    /// The process manager it joined.
    #[inline]
    pub fn processes(&self) -> &ProcessManager {
        &self.processes
    }

    /// Opens a section (PROTOCOLS D2). It must be closed before the latches of what it changes are given back.
    #[inline]
    pub fn section(&self) -> Section<'_> {
        self.undo().section()
    }

    /// Its undo log.
    #[inline]
    pub fn undo(&self) -> &Undo {
        &self.undo.newest().undo
    }

    /// Makes room for `bytes` of before-images and their headers. Called before the first latch (PROTOCOLS D11).
    ///
    /// # Errors
    /// `Region` if the region cannot grow; the log is as it was.
    ///
    /// # Panics
    /// If a section is open.
    #[inline]
    pub fn ensure_undo(&self, bytes: u64) -> Result<()> {
        if bytes + 128 <= self.undo().capacity() {
            return Ok(());
        }
        self.grow_undo(bytes)
    }

    #[cold]
    fn grow_undo(&self, bytes: u64) -> Result<()> {
        assert!(!self.undo().is_open(), "an undo log grows only between sections");
        let mut undo = Undo::open(self.region(), self.undo_log);
        undo.ensure(bytes)?;
        failpoint("session: undo log larger, handle not yet");
        let newer = Box::new(UndoHandle { undo, newer: OnceCell::new() });
        let stored = self.undo.newest().newer.set(newer);
        assert!(stored.is_ok(), "the newest handle has no newer one");
        Ok(())
    }

    /// Notes that the record of `txn` (zero for none) at `lsn` is about to be published (PROTOCOLS D3).
    #[inline]
    pub fn note_append(&self, lsn: u64, txn: u64) {
        self.last_noted.set((lsn, txn));
        self.slot.append_txn.init(txn);
        // Release: the LSN says that the note counts, so the transaction is stored before it, also by the compiler.
        failpoint("session: append half noted");
        self.slot.append_lsn.publish(lsn);
        failpoint("session: append noted");
    }

    /// The LSN it noted last, and the transaction that was for; zeros if it noted none. Known also when it is dead and has been
    /// repaired.
    pub fn last_noted(&self) -> (u64, u64) {
        self.last_noted.get()
    }

    /// Clears the note: the changes its record describes are complete.
    #[inline]
    pub fn clear_append(&self) {
        // Release: every change of a page stays above it.
        failpoint("session: append to be cleared");
        self.slot.append_lsn.publish(0);
    }

    /// Enters a tree operation: pages unlinked from now on are not used again before it has left (PROTOCOLS T2).
    /// May be nested.
    #[inline]
    pub fn enter_tree(&self) {
        let depth = self.tree_depth.get();
        if depth == 0 {
            self.slot.tree_epoch.publish(self.processes.0.header.tree_epoch.load());
        }
        failpoint("session: in a tree");
        self.tree_depth.set(depth + 1);
    }

    /// Whether it is in a tree operation.
    pub fn is_in_tree(&self) -> bool {
        self.tree_depth.get() != 0
    }

    /// Leaves a tree operation.
    ///
    /// # Panics
    /// If it is in none.
    #[inline]
    pub fn leave_tree(&self) {
        let depth = self.tree_depth.get();
        assert!(depth != 0, "a tree operation is left as often as it was entered");
        self.tree_depth.set(depth - 1);
        if depth == 1 {
            failpoint("session: about to leave a tree");
            self.slot.tree_epoch.publish(0);
        }
    }

    /// Says for the tools what it waits for: a kind (zero: nothing) and a subject, in its manager's own numbering.
    #[inline]
    pub fn wait_info(&self, kind: u32, subject: u64) {
        self.slot.wait_subject.init(subject);
        self.slot.wait_since.init(0);
        failpoint("session: says half of what it waits for");
        self.slot.wait_kind.publish(kind);
    }

    /// As [`Session::wait_info`], and since when; whoever drops it goes back to what it said before. For waits that turn out
    /// to be long: it looks at the clock.
    pub fn waits_since(&self, kind: u32, subject: u64, waited: Duration) -> LongWait<'_> {
        let before = (self.slot.wait_kind.get(), self.slot.wait_subject.get(), self.slot.wait_since.get());
        self.wait_info(kind, subject);
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.slot.wait_since.publish(crate::boot_micros().saturating_sub(waited).max(1));
        LongWait { session: self, before }
    }

    /// Says whether something bears its name in another manager's tables: if it goes without having given that back, it is dead
    /// and repaired.
    pub fn set_owing(&self, owing: bool) {
        self.owing.set(owing);
    }

    /// Whether it is to be treated as killed: a panic ended what it did, or left a section of it open (PROTOCOLS D10).
    /// Everything it held stays held until it is repaired, and it can do nothing more.
    #[inline]
    pub fn is_dead(&self) -> bool {
        (self.dead.get() || self.undo().is_broken()) && self.notices_its_death()
    }

    #[cold]
    fn notices_its_death(&self) -> bool {
        self.dead.set(true);
        if !unwinds() {
            self.mark_dead();
        }
        true
    }

    /// Marks it dead: what it holds is for others to repair. While a panic is under way in its thread that is told to nobody
    /// before all of its guards are gone: they would come into the way of the repair.
    #[cold]
    pub fn mark_dead(&self) {
        self.dead.set(true);
        let status = self.slot.status.load();
        if status.state() == State::Alive && status.generation() == self.id.generation() {
            // Refused means that somebody else has marked it, and perhaps buried it since.
            let _ = self.slot.status.compare_exchange(status, status.with_state(State::Dead));
        }
    }

    /// How many latches it holds.
    pub fn latch_count(&self) -> u32 {
        self.notes_used.get().count_ones()
    }

    /// Notes what it takes from a list, or will have taken when the section that changes the list closes; zero says that it
    /// is where it belongs. A number only its manager understands, given to whoever repairs it after its death.
    #[inline]
    pub fn set_in_hand(&self, what: u64) {
        // Release: what was done with the thing before stays before.
        self.slot.in_hand.publish(what);
    }

    /// As [`Session::set_in_hand`], undone with the section.
    #[inline]
    pub fn set_in_hand_in(&self, section: &mut Section<'_>, what: u64) {
        self.slot.in_hand.set(section, what);
    }

    /// Leaves by unwinding, with [`Broken`](crate::Broken), if the region was found broken (PROTOCOLS D13). What the session
    /// holds is of no use to anybody then.
    #[inline]
    pub fn leave_if_broken(&self) {
        if self.region().is_broken() {
            leave_broken();
        }
    }

    /// Whether any session of the environment is dead and not yet repaired; if so, it is repaired now, transactions and all,
    /// as far as nobody else is at it. The caller holds no latch.
    #[cold]
    pub fn help_the_dead(&self) {
        if self.latch_count() == 0 && !self.is_stand_in {
            self.processes.help_the_dead(self);
        }
    }

    /// The latches it holds alone, by where they lie.
    pub fn latched_alone(&self) -> impl Iterator<Item = Offset<Latch>> + '_ {
        let alone = self.slot.notes.iter().map(|note| note.load()).filter(|note| note.is_exclusive());
        let places = alone.filter_map(|note| Offset::<Latch>::from_raw(note.place()));
        places.filter(|&place| self.region().try_at(place).is_some_and(|latch| latch.owner() == Some(self.id)))
    }

    /// Which note says that it holds the latch at `place` alone.
    pub(crate) fn note_of(&self, place: u64) -> Option<usize> {
        self.slot.notes.iter().position(|note| note.load().is_exclusive() && note.load().is_about(place))
    }

    pub(crate) fn forget_notes(&self) {
        self.notes_used.set(0);
    }

    #[inline]
    pub(crate) fn pins_used(&self) -> &Cell<u64> {
        &self.pins_used
    }

    #[inline]
    pub(crate) fn slot(&self) -> &SessionSlot {
        &self.slot
    }

    #[inline]
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// A latch's offset in the region.
    #[inline]
    pub(crate) fn place_of(&self, latch: &Latch) -> u64 {
        let place = std::ptr::from_ref(latch).addr().wrapping_sub(self.base) as u64;
        debug_assert!(place < self.region().size(), "a session latches in its own mapping of its own region");
        place
    }

    /// Takes a free note. In a debug build, asserts the order of latches if the session is going to wait.
    #[inline]
    pub(crate) fn take_note(&self, rank: Rank, waits: bool) -> usize {
        let used = self.notes_used.get();
        let note = used.trailing_ones() as usize;
        if note >= NOTES {
            too_many_latches(self.id);
        }
        if cfg!(debug_assertions) {
            if waits {
                self.check_rank(used, rank);
            }
            self.ranks[note].set(rank);
        }
        self.notes_used.set(used | 1 << note);
        note
    }

    fn check_rank(&self, used: u32, rank: Rank) {
        let held = (0..NOTES).filter(|note| used & (1 << note) != 0).map(|note| self.ranks[note].get());
        for held in held {
            assert!(
                rank.may_follow(held),
                "latches are taken in growing rank: {} after {} (docs/latch-order.md)",
                rank.number(),
                held.number()
            );
        }
    }

    #[inline]
    pub(crate) fn write_note(&self, note: usize, value: Note) {
        self.slot.notes[note].init(value);
    }

    #[inline]
    pub(crate) fn drop_note(&self, note: usize) {
        self.write_note(note, Note::NONE);
        self.notes_used.set(self.notes_used.get() & !(1 << note));
    }

    /// Whether a latch guard that is dropped now must free nothing (PROTOCOLS D10): above an open section that nobody closes any
    /// more, and whenever the library panics, so that a panic leaves what a kill leaves.
    #[inline]
    pub(crate) fn abandons(&self) -> bool {
        (self.undo().is_open() || std::thread::panicking()) && self.abandons_what_it_holds()
    }

    #[cold]
    fn abandons_what_it_holds(&self) -> bool {
        // A section is dropped before the latches above which it was opened: of a panic in a destructor it alone tells.
        let is_gone = self.undo().is_open() && (self.dead.get() || self.undo().is_broken());
        let abandons = (is_gone || unwinds()) && !planted("process: a panic frees latches above an open section");
        abandons && self.notices_its_death()
    }
}

/// Says what its session waits for, as long as it lives.
pub struct LongWait<'s> {
    session: &'s Session,
    before: (u32, u64, u64),
}

impl Drop for LongWait<'_> {
    fn drop(&mut self) {
        let (kind, subject, since) = self.before;
        self.session.wait_info(kind, subject);
        self.session.slot.wait_since.publish(since);
    }
}

#[cold]
#[inline(never)]
pub(crate) fn leave_broken() -> ! {
    std::panic::resume_unwind(Box::new(crate::Broken))
}

#[cold]
#[inline(never)]
fn too_many_latches(session: SessionId) -> ! {
    panic!("{session} wants more than {NOTES} latches at once")
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_stand_in || !self.processes.0.attachments.process().is_current() {
            return;
        }
        let status = self.slot.status.load();
        if status.generation() != self.id.generation() {
            // It was taken for dead and buried: the slot is another's.
            return;
        }
        let holds_nothing = self.notes_used.get() == 0 && self.pins_used.get() == 0 && self.slot.in_hand.get() == 0;
        let clean = holds_nothing && !self.owing.get() && !self.undo().is_open() && self.slot.append_lsn.get() == 0;
        // Whoever unwinds may be in the middle of anything.
        if clean && !self.is_dead() && !unwinds() {
            self.slot.leave();
        } else {
            self.mark_dead();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.id)
    }
}
