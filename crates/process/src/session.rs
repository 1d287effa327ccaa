//! A session: one thread's handle to the environment.
//!
//! A session may move to another thread, but one thread uses it at a time. So words that only the session writes (its
//! notes, its undo log) need only plain stores.
//!
//! Invariants
//! 1. A session frees its slot only if it holds no latch, has no open section and has noted no append. Otherwise, or if
//!    the library panics, the session is marked dead, and repaired like a killed session (PROTOCOLS D10).
//! 2. A handle that a forked child inherits does nothing: the slot is the parent's.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::{compiler_fence, Ordering};
use std::time::Duration;

use rio::{failpoint, planted, Held, Offset, Region, Section, Undo, UndoLog};

use crate::cancel::cancels;
use crate::log_room::LogRoom;
use crate::notes::{Note, NoteNumber, ALL_NOTES};
use crate::slot::{SessionSlot, State};
use crate::unwinding::unwinds;
use crate::{ProcessManager, Rank, Result, SessionId, NOTES};

/// One thread's handle. Dropping it leaves the environment.
// The first cache line has all that a latch needs.
#[repr(C, align(64))]
pub struct Session {
    slot: Held<SessionSlot>,
    /// The address at which this process has mapped the region: notes name latches by their offsets from this address.
    base: usize,
    /// The owner's bits of a latch word that name this session.
    owner: u64,
    /// The notes that are not in use, as a set.
    notes_free: Cell<u32>,
    tree_depth: Cell<u32>,
    /// Whether the session is dead and changes nothing shared any more. A section that is dropped without being closed
    /// sets this before its drop returns, because the guards of the latches that were taken before the section was
    /// opened are dropped next.
    doomed: Cell<bool>,
    /// Whether another manager's table has an entry in the session's name that the session has not removed.
    has_foreign_entry: Cell<bool>,
    log_room: LogRoom,
    /// Whether the session works in a dead session's name, for its repair.
    is_stand_in: bool,
    /// The number of live [`Freeing`] guards.
    freeing: Cell<u32>,
    id: SessionId,
    undo: UndoHandle,
    /// The LSN of the last noted append, and the append's transaction. Both stay after the note is cleared.
    last_noted: Cell<(u64, u64)>,
    /// Bit n: pin n is in use.
    pins_used: Cell<u64>,
    /// The number of cancellations when the session's transaction began (`cancel.rs`).
    cancels: Cell<u32>,
    /// See [`Session::set_patience`].
    patience: Cell<Duration>,
    /// The ranks of the latches noted, for the debug build's assertion.
    ranks: [Cell<Rank>; NOTES],
    undo_log: Offset<UndoLog>,
    processes: ProcessManager,
}

/// A handle to the undo log, and a newer handle once the log has grown. So growth needs no exclusive borrow.
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

/// A guard: while it exists, the session's work frees space.
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
            notes_free: Cell::new(ALL_NOTES),
            pins_used: Cell::new(0),
            ranks: std::array::from_fn(|_| Cell::new(Rank::CATALOGUE)),
            tree_depth: Cell::new(0),
            freeing: Cell::new(0),
            doomed: Cell::new(false),
            has_foreign_entry: Cell::new(false),
            last_noted: Cell::new((0, 0)),
            log_room: LogRoom::of_new_session(),
            cancels: Cell::new(cancels()),
            patience: Cell::new(Duration::MAX),
            is_stand_in: false,
            undo_log,
            processes,
        }
    }

    /// Makes a session handle in the name of a dead session, with the latches that the dead session held. Its drop
    /// changes nothing.
    pub(crate) fn stand_in(
        processes: ProcessManager,
        dead: SessionId,
        place: Offset<SessionSlot>,
        undo_log: Offset<UndoLog>,
    ) -> Session {
        let mut session = Session::new(processes, dead, place, undo_log);
        session.is_stand_in = true;
        let free = session.slot.notes.iter().enumerate().filter(|(_, note)| note.load() == Note::NONE);
        session.notes_free.set(free.fold(0, |bits, (note, _)| bits | 1 << note));
        session
    }

    /// Returns the session's name.
    #[inline]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Declares that the session's work frees space, or is needed to free space, while the guard lives. Such work may
    /// use the space that is reserved on a full disk.
    #[inline]
    pub fn begin_freeing(&self) -> Freeing<'_> {
        self.freeing.set(self.freeing.get() + 1);
        Freeing(self)
    }

    /// Returns whether the session's work frees space.
    #[inline]
    pub fn is_freeing(&self) -> bool {
        self.freeing.get() > 0
    }

    /// Returns the region that the session works in.
    #[inline]
    pub fn region(&self) -> &Region {
        self.processes.region()
    }

    /// Returns the process manager that the session joined.
    #[inline]
    pub fn processes(&self) -> &ProcessManager {
        &self.processes
    }

    /// Opens a section (PROTOCOLS D2). The section must be closed before the latches that guard its changes are
    /// released.
    #[inline]
    pub fn section(&self) -> Section<'_> {
        self.undo().section_of(&self.doomed)
    }

    /// Returns the session's undo log.
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
        failpoint("session: undo log larger, handle old");
        let newer = Box::new(UndoHandle { undo, newer: OnceCell::new() });
        let stored = self.undo.newest().newer.set(newer);
        assert!(stored.is_ok(), "the newest handle has no newer one");
        Ok(())
    }

    /// Returns the session's room in the log, which the log manager counts.
    #[inline]
    pub fn log_room(&self) -> &LogRoom {
        &self.log_room
    }

    /// Notes that the record of `txn` (zero for none) at `lsn` is about to be published (PROTOCOLS D3).
    #[inline]
    pub fn note_append(&self, lsn: u64, txn: u64) {
        self.last_noted.set((lsn, txn));
        self.slot.append_txn.init(txn);
        // Release: a non-zero LSN makes the note valid, so the transaction is stored before the LSN; the compiler keeps
        // this order too.
        failpoint("session: append partly noted");
        self.slot.append_lsn.publish(lsn);
        failpoint("session: append noted");
    }

    /// Returns whether the session has noted the append of the record at `lsn`, and not cleared the note.
    #[inline]
    pub fn has_noted(&self, lsn: u64) -> bool {
        self.slot.append_lsn.get() == lsn
    }

    /// Returns the LSN that the session noted last, and its transaction; zeros if there was no note. Valid even after
    /// the session's death and repair.
    pub fn last_noted(&self) -> (u64, u64) {
        self.last_noted.get()
    }

    /// Clears the note of the append: the changes that the record describes are complete.
    #[inline]
    pub fn clear_append(&self) {
        // Release: every change of a page stays before this store.
        failpoint("session: append to be cleared");
        self.slot.append_lsn.publish(0);
    }

    /// Enters a tree operation: pages unlinked from now on are not used again before the session has left the operation
    /// (PROTOCOLS T2). Calls may be nested.
    #[inline]
    pub fn enter_tree(&self) {
        let depth = self.tree_depth.get();
        if depth == 0 {
            self.slot.tree_epoch.publish(self.processes.0.header.tree_epoch.load());
            // The fence keeps the compiler from moving reads of pages before the store. The barrier of T2 orders the
            // processor's accesses.
            compiler_fence(Ordering::SeqCst);
        }
        failpoint("session: in a tree");
        self.tree_depth.set(depth + 1);
    }

    /// Returns whether the session is in a tree operation.
    pub fn is_in_tree(&self) -> bool {
        self.tree_depth.get() != 0
    }

    /// Leaves a tree operation.
    ///
    /// # Panics
    /// If the session is in no tree operation.
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

    /// Sets, for the tools, the object for which the session waits: a kind (zero: no wait) and a subject, both in the
    /// numbering of the object's manager.
    #[inline]
    pub fn wait_info(&self, kind: u32, subject: u64) {
        self.slot.wait_subject.init(subject);
        self.slot.wait_since.init(0);
        failpoint("session: wait partly published");
        self.slot.wait_kind.publish(kind);
    }

    /// Like [`Session::wait_info`], but also sets when the wait began. The drop of the result restores the previous
    /// values. Only for waits that turn out to be long, because this call reads the clock.
    pub fn waits_since(&self, kind: u32, subject: u64, waited: Duration) -> LongWait<'_> {
        let before = (self.slot.wait_kind.get(), self.slot.wait_subject.get(), self.slot.wait_since.get());
        self.wait_info(kind, subject);
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.slot.wait_since.publish(crate::boot_micros().saturating_sub(waited).max(1));
        LongWait { session: self, before }
    }

    /// Sets whether another manager's table has an entry in the session's name. A session that ends while this is set
    /// is marked dead and repaired.
    pub fn set_owing(&self, has_foreign_entry: bool) {
        self.has_foreign_entry.set(has_foreign_entry);
    }

    /// Returns whether the session counts as killed: a panic ended its work, or left a section open (PROTOCOLS D10).
    /// A dead session keeps everything that it held until it is repaired, and can do nothing more.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.doomed.get() && self.notices_its_death()
    }

    #[cold]
    fn notices_its_death(&self) -> bool {
        self.doomed.set(true);
        if !unwinds() {
            self.mark_dead();
        }
        true
    }

    /// Marks the session dead, so that other sessions repair it. During a panic in its thread, its slot is marked only
    /// after all its guards are gone, because their drops would interfere with the repair.
    #[cold]
    pub fn mark_dead(&self) {
        self.doomed.set(true);
        let status = self.slot.status.load();
        if status.state() == State::Alive && status.generation() == self.id.generation() {
            // A failure means that another session has marked this session dead, and perhaps buried it since.
            let _ = self.slot.status.compare_exchange(status, status.with_state(State::Dead));
        }
    }

    /// Returns the number of latches that the session holds.
    pub fn latch_count(&self) -> u32 {
        (self.notes_free.get() ^ ALL_NOTES).count_ones()
    }

    /// Notes the object that the session has taken from a list, or takes when the section that changes the list closes.
    /// Zero means that the session has taken no object. Only the manager of the list interprets the number. After the
    /// session's death its repairer gets the number.
    #[inline]
    pub fn set_in_hand(&self, what: u64) {
        // Release: earlier stores to the object stay before this store.
        self.slot.in_hand.publish(what);
    }

    /// Like [`Session::set_in_hand`], but within a section: a rollback of the section restores the note.
    #[inline]
    pub fn set_in_hand_in(&self, section: &mut Section<'_>, what: u64) {
        self.slot.in_hand.set(section, what);
    }

    /// Unwinds with [`Broken`](crate::Broken) if the region is marked broken (PROTOCOLS D13). No other session needs
    /// this session's latches and locks then.
    #[inline]
    pub fn leave_if_broken(&self) {
        if self.region().is_broken() {
            leave_broken();
        }
    }

    /// Repairs every dead session of the environment completely, with its transactions. Skips a dead session that
    /// another session already repairs. Does nothing if this session holds a latch.
    #[cold]
    pub fn help_the_dead(&self) {
        if self.latch_count() == 0 && !self.is_stand_in {
            self.processes.help_the_dead(self);
        }
    }

    /// Makes the session heed calls of [`cancel_waits`](crate::cancel_waits) from now on, and ignore earlier calls.
    #[inline]
    pub fn heed_cancels(&self) {
        self.cancels.set(cancels());
    }

    /// Like [`Session::heed_cancels`], but also heeds the calls since the moment when [`cancels`](crate::cancels)
    /// returned `cancels`.
    pub fn heed_cancels_since(&self, cancels: u32) {
        self.cancels.set(cancels);
    }

    /// Returns whether [`cancel_waits`](crate::cancel_waits) was called since the moment set by
    /// [`Session::heed_cancels`] or [`Session::heed_cancels_since`].
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancels.get() != cancels() && !planted("process: a wait ignores its cancellation")
    }

    /// Sets how long the session waits for work that only a stopped process can do or give up. A new session waits
    /// without a bound.
    #[inline]
    pub fn set_patience(&self, longest: Duration) {
        self.patience.set(longest);
    }

    /// Returns how long the session waits for a stopped process; `Duration::MAX` for no bound.
    #[inline]
    pub fn patience(&self) -> Duration {
        self.patience.get()
    }

    /// Returns the note for the latch at `place` that the session holds exclusively.
    pub(crate) fn note_of(&self, place: u64) -> Option<NoteNumber> {
        let is_it = |note: Note| note.is_exclusive() && note.is_about(place);
        (0..).zip(&self.slot.notes).find(|(_, note)| is_it(note.load())).and_then(|(number, _)| NoteNumber::new(number))
    }

    pub(crate) fn forget_notes(&self) {
        self.notes_free.set(ALL_NOTES);
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

    /// Returns the offset in the region of a value such as a latch.
    #[inline]
    pub(crate) fn place_of<T>(&self, value: &T) -> u64 {
        let place = std::ptr::from_ref(value).addr().wrapping_sub(self.base) as u64;
        debug_assert!(place < self.region().size(), "a session takes latches only in its own mapping");
        place
    }

    /// Takes a free note. A debug build asserts the order of latches if the session may wait.
    #[inline]
    pub(crate) fn take_note(&self, rank: Rank, waits: bool) -> NoteNumber {
        let free = self.notes_free.get();
        // The bit after the last note ends the search.
        let Some(note) = NoteNumber::new((free | 1 << NOTES).trailing_zeros()) else { too_many_latches(self.id) };
        if cfg!(debug_assertions) {
            if waits {
                self.check_rank(free, rank);
            }
            self.ranks[note as usize].set(rank);
        }
        // Clears the lowest set bit, which is the note's bit.
        self.notes_free.set(free & free.wrapping_sub(1));
        note
    }

    fn check_rank(&self, free: u32, rank: Rank) {
        let held = (0..NOTES).filter(|note| free & (1 << note) == 0).map(|note| self.ranks[note].get());
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
    pub(crate) fn write_note(&self, note: NoteNumber, value: Note) {
        self.slot.notes[note as usize].init(value);
    }

    #[inline]
    pub(crate) fn drop_note(&self, note: NoteNumber) {
        self.write_note(note, Note::NONE);
        self.notes_free.set(self.notes_free.get() | note.bit());
    }

    /// Returns whether a latch guard dropped now must free nothing (PROTOCOLS D10). This is so if the session is doomed
    /// or the library panics. So a panic leaves the same state as a kill.
    #[inline]
    pub(crate) fn abandons(&self) -> bool {
        (self.doomed.get() || std::thread::panicking()) && self.abandons_what_it_holds()
    }

    #[cold]
    #[inline(never)]
    fn abandons_what_it_holds(&self) -> bool {
        let is_gone = self.doomed.get() || unwinds();
        let abandons = is_gone && !planted("process: a panic releases latches above an open section");
        abandons && self.notices_its_death()
    }
}

/// While this value exists, the tools see the object for which its session waits.
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
            // Another session considered this session dead and buried it: the slot has another tenant.
            return;
        }
        let holds_nothing = self.latch_count() == 0 && self.pins_used.get() == 0 && self.slot.in_hand.get() == 0;
        let clean =
            holds_nothing && !self.has_foreign_entry.get() && !self.undo().is_open() && self.slot.append_lsn.get() == 0;
        // A session that unwinds may be in the middle of any change.
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
