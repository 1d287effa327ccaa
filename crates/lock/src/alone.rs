//! Locks that no other locker wants: taken, changed and released by one swap of a word (`thin.rs`), without a latch.
//!
//! If we die here: the request is on the stack before the word has the request's place, so the repairer finds each word
//! from a stack. If the word does not have the place of a thin request, the request is not held.

use std::sync::atomic::{compiler_fence, Ordering};

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::acquire::Ask;
use crate::change::{before_store, Change};
use crate::locker::LockerSlot;
use crate::request::{Place, Request};
use crate::table::Table;
use crate::thin::Thin;
use crate::LockManager;

/// A locker's own lock on a name, according to the word of the name.
#[derive(Clone, Copy)]
pub(crate) enum OwnLock {
    /// The locker has no lock on the name.
    Absent,
    /// The locker's lock is thin, with this value of the word.
    Thin(Thin),
    /// The name may have a queue.
    PerhapsInQueue,
}

impl Table {
    /// Returns the locker's own lock on the name, as the word of the name shows it.
    #[inline]
    pub(crate) fn own_thin(&self, ask: &Ask<'_>) -> OwnLock {
        let seen = self.word(ask.mixed).load();
        match seen.is_fat() {
            true => OwnLock::PerhapsInQueue,
            false if self.is_own(ask, seen) => OwnLock::Thin(seen),
            false => OwnLock::Absent,
        }
    }

    /// Returns whether the word's request is this locker's request for this name: whether the request has the locker's
    /// number and the whole name (rule 8).
    #[inline]
    fn is_own(&self, ask: &Ask<'_>, seen: Thin) -> bool {
        if seen.is_fat() || !seen.may_be_for(ask.mixed) {
            return false;
        }
        let request = self.request(seen.place());
        request.locker.get() == ask.locker && request.is_for(ask.name)
    }

    /// Releases a thin lock. Returns whether the word had the request's place.
    #[inline]
    pub(crate) fn release_thin(&self, mixed: u64, place: Place) -> bool {
        let word = self.word(mixed);
        let seen = word.load();
        if !seen.is_owned_by(place) {
            return false;
        }
        before_store();
        failpoint("lock: thin, about to release");
        word.compare_exchange(seen, Thin::FREE).is_ok()
    }
}

impl LockerSlot {
    /// Pushes a thin request, which is not held yet, onto the stack. The slot at `place` is the locker's lowest free
    /// slot.
    #[inline]
    pub(crate) fn note_thin(&self, ask: &Ask<'_>, request: &Request, place: Place) {
        before_store();
        failpoint("lock: thin, about to be noted");
        // The slot's previous request has left the stack before the slot is filled: every request that a repairer finds
        // on the stack is complete.
        compiler_fence(Ordering::SeqCst);
        request.fill_thin(ask.name, ask.mixed, ask.locker);
        self.note_one_more(ask.mixed);
        // A store with release order: a repairer that finds the request on the stack finds it filled.
        self.top.publish(place);
    }

    /// Takes the newest request, which is thin and not held, off the stack.
    #[inline]
    pub(crate) fn pop_thin_request(&self, request: &Request) {
        before_store();
        failpoint("lock: thin, about to leave the stack");
        self.top.publish(request.own_prev.get());
    }

    /// Takes a request, which is thin and not held, off the stack.
    #[inline]
    pub(crate) fn drop_thin(&self, table: &Table, session: &Session, place: Place, request: &Request) {
        if self.top.get() == place {
            self.pop_thin_request(request);
        } else {
            let mut change = Change::open(session);
            failpoint("lock: thin, about to leave the middle of the stack");
            self.drop_request(table, &mut change, place, request);
            change.close();
        }
    }
}

impl LockManager {
    /// Takes a lock without the latch, if the locker has the lock already, or if the word of the name is free. Returns
    /// whether the lock is taken.
    #[inline]
    pub(crate) fn lock_thin(&self, ask: &Ask<'_>) -> bool {
        let word = self.table.word(ask.mixed);
        // Acquire: pairs with the release of the last owner.
        let seen = word.load();
        if seen != Thin::FREE {
            return self.lock_held_thin(*ask, seen);
        }
        let Some(place) = ask.slot.next_free_slot(&self.table) else { return false };
        let request = self.table.request(place);
        let is_late = planted("lock: a session notes a thin lock only after the swap");
        if is_late {
            request.fill_thin(ask.name, ask.mixed, ask.locker);
        } else {
            ask.slot.note_thin(ask, request, place);
        }
        before_store();
        failpoint("lock: thin, noted");
        let is_taken = word.compare_exchange(Thin::FREE, Thin::owned(place, ask.mixed, ask.mode)).is_ok();
        failpoint("lock: thin, the swap is made");
        if is_taken && is_late {
            ask.slot.note_thin(ask, request, place);
        } else if !is_taken && !is_late {
            ask.slot.pop_thin_request(request);
            ask.slot.note_one_less();
        }
        is_taken
    }

    /// Takes a lock that the locker may already have: its thin lock gets a mode that covers both modes.
    // Takes the call by value, as `lock_slowly` does.
    #[inline(never)]
    fn lock_held_thin(&self, ask: Ask<'_>, seen: Thin) -> bool {
        if !self.table.is_own(&ask, seen) {
            return false;
        }
        let held = seen.mode().expect("a word with an owner has a mode");
        if held.covers(ask.mode) {
            return true;
        }
        before_store();
        failpoint("lock: thin, about to upgrade");
        self.table.word(ask.mixed).compare_exchange(seen, seen.with_mode(held.join(ask.mode))).is_ok()
    }

    /// Returns true only if it is certain that no other locker has the object or waits for it.
    #[inline]
    pub(crate) fn is_without_rival(&self, ask: &Ask<'_>) -> bool {
        // One acquire load is enough: if a scanning session swapped the word before it released the latch of a leaf,
        // and this session has latched that leaf since then, the load sees the swap.
        let seen = self.table.word(ask.mixed).load();
        !seen.may_be_for(ask.mixed) || self.table.is_own(ask, seen)
    }

    /// Makes a thin lock weaker. Returns `None` if the lock is not thin, and otherwise whether its mode covered `mode`.
    pub(crate) fn downgrade_thin(&self, ask: &Ask<'_>) -> Option<bool> {
        let OwnLock::Thin(seen) = self.table.own_thin(ask) else { return None };
        let held = seen.mode().expect("a word with an owner has a mode");
        if !held.covers(ask.mode) {
            return Some(false);
        }
        before_store();
        failpoint("lock: thin, about to downgrade");
        self.table.word(ask.mixed).compare_exchange(seen, seen.with_mode(ask.mode)).ok().map(|_| true)
    }
}

#[cfg(test)]
#[path = "alone/loom_tests.rs"]
mod loom_tests;
