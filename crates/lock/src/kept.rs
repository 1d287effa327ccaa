//! Intent locks on databases stay with their locker from one transaction to the next.
//!
//! Departure from LIBTP 3.2.3. Every transaction locks each database it uses in `IS` or `IX`, and other modes of such
//! locks are rare. Taken and given back each time, these locks would be the hottest words of the whole environment,
//! though they exclude no other transaction. So when a transaction ends, such a lock is not given back but becomes
//! *idle*: its request stays in the queue, and the locker's next transaction makes it *active* again, with one swap of
//! a word that no other processor touches. A locker that wants a conflicting mode *revokes* idle requests.
//!
//! ```text
//!            unlock_all (a store)                 revoked by another, under the latch (a swap)
//!   active <----------------------> idle ---------------------------------------------> revoked
//!     |       lock (a swap)          the slot goes back to its locker when that comes across it
//!     | marked *contended* by one that must wait, under the latch: unlock_all takes it out of the queue and grants
//! ```
//! Invariants
//! 1. The state of a kept request is one word. Its locker changes it without the latch between idle and active; other
//!    sessions change it under the latch of its bucket. No session changes it inside a section, so it is never rolled
//!    back (PROTOCOLS D2).
//! 2. An idle request is in the queue as if granted: no conflicting mode is granted beside it. But no waiter counts as
//!    waiting for the locker of an idle request.
//! 3. A kept request is in its locker's `kept` words and not on its stack. A revoked request may be in no queue.
//!
//! A release is a look and a store. A mark that is set between the two is lost. The waiter then finds the request idle
//! when it next looks by itself (PROTOCOLS D8), which costs milliseconds, once in a million times.
//!
//! If we die here: an active request is held like any other; a request that is revoked and still in its queue blocks no
//! locker.

use libtp_process::Session;
use rio::failpoint;

use crate::acquire::Ask;
use crate::change::Change;
use crate::locker::LockerSlot;
use crate::name::LockName;
use crate::queue::{Granted, Queue};
use crate::request::{Place, Request, State};
use crate::table::{Bucket, Table};
use crate::{LockManager, LockerId, Mode, Result, Wait};

/// The number of intent locks that a locker keeps.
pub(crate) const KEPT: usize = 8;

impl LockName {
    /// The kind of objects whose intent locks are kept: databases.
    pub const DATABASE: u32 = 1;

    #[inline]
    pub(crate) fn is_coarse(self) -> bool {
        self.kind == LockName::DATABASE
    }
}

impl Mode {
    #[inline]
    pub(crate) fn is_intent(self) -> bool {
        matches!(self, Mode::IS | Mode::IX)
    }
}

/// One of a locker's kept requests.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'t> {
    pub(crate) index: usize,
    pub(crate) place: Place,
    pub(crate) request: &'t Request,
}

/// Returns a `kept` word: the request's place (low half) and half of its mixed name (high half). Zero: nothing is kept.
#[inline]
pub(crate) fn kept_word(place: Place, mixed: u64) -> u64 {
    u64::from(place.0) | (mixed >> 32 << 32)
}

#[inline]
pub(crate) fn kept_place(word: u64) -> Place {
    #[allow(clippy::cast_possible_truncation, reason = "the place is the low half")]
    Place(word as u32)
}

/// Returns where the search for a name looks at this step: first at the name's preferred place, then onwards.
#[inline]
fn likely_index(mixed: u64, step: usize) -> usize {
    ((mixed >> 61) as usize + step) % KEPT
}

impl LockerSlot {
    /// Returns the kept request for a name.
    #[inline]
    pub(crate) fn find_kept<'t>(&self, table: &'t Table, name: LockName, mixed: u64) -> Option<Kept<'t>> {
        for step in 0..KEPT {
            let index = likely_index(mixed, step);
            let word = self.kept[index].get();
            if word != 0 && word >> 32 == mixed >> 32 {
                let place = kept_place(word);
                let request = table.request(place);
                if request.is_for(name) {
                    return Some(Kept { index, place, request });
                }
            }
        }
        None
    }

    /// Returns every kept request, even if idle or revoked.
    pub(crate) fn all_kept<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = Kept<'t>> {
        let words = self.kept.iter().enumerate().filter(|(_, word)| word.get() != 0);
        words.map(|(index, word)| {
            let place = kept_place(word.get());
            Kept { index, place, request: table.request(place) }
        })
    }

    /// Notes that a kept request is not active.
    #[inline]
    pub(crate) fn note_idle(&self, index: usize) {
        self.active.init(self.active.get() & !(1 << index));
    }

    /// Returns a free place to keep one more.
    fn room_to_keep(&self, mixed: u64) -> Option<usize> {
        (0..KEPT).map(|step| likely_index(mixed, step)).find(|&index| self.kept[index].get() == 0)
    }
}

impl LockManager {
    /// Takes an intent lock that the locker kept from an earlier transaction, in a mode that covers `mode`. Returns
    /// whether there was such a lock; if not, [`LockManager::lock`] takes one. Costs one swap of a word that no other
    /// session uses.
    #[inline]
    pub fn try_kept(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode) -> bool {
        mode.is_intent() && name.is_coarse() && self.activate(&self.ask(session, locker, name, mode))
    }

    /// Takes a lock on a database.
    #[inline]
    pub(crate) fn lock_coarse(&self, ask: &Ask<'_>, wait: Wait) -> Result<()> {
        if ask.mode.is_intent() && self.activate(ask) {
            return Ok(());
        }
        self.lock_coarse_slowly(ask, wait)
    }

    /// Makes a kept request active, if it covers the mode. Returns whether it does.
    #[inline]
    fn activate(&self, ask: &Ask<'_>) -> bool {
        let Some(kept) = ask.slot.find_kept(&self.table, ask.name, ask.mixed) else { return false };
        // Acquire: pairs with the swap of a session that revokes.
        let state = kept.request.state.load();
        if !state.is_intent_covering(ask.mode) {
            return false;
        }
        if !state.is_idle() {
            return true;
        }
        // Noted first, so that no active request is missing in `active`.
        ask.slot.active.init(ask.slot.active.get() | 1 << kept.index);
        failpoint("lock: kept, noted as active, idle still");
        kept.request.state.compare_exchange(state, state.activated()).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_coarse_slowly(&self, ask: &Ask<'_>, wait: Wait) -> Result<()> {
        if let Some(kept) = ask.slot.find_kept(&self.table, ask.name, ask.mixed) {
            self.unkeep(ask.session, ask.slot, kept);
        }
        let place = self.table.next_slot(ask.session, ask.slot)?;
        let latched = self.table.latch(ask.session, ask.mixed);
        if !ask.mode.is_intent() {
            let mut granted = Granted::new();
            self.table.revoke(ask.session, latched.bucket, ask.name, ask.mixed, &mut granted);
            // Woken under the latch, which happens rarely and never waits: the code below may sleep.
            self.wake(&granted);
        }
        self.lock_latched(ask, latched, place, wait)?;
        if ask.mode.is_intent() && ask.slot.top.get() == place {
            self.keep(ask, place);
        }
        Ok(())
    }

    /// Makes the locker's newest request, just granted, a kept one, if there is room for it.
    fn keep(&self, ask: &Ask<'_>, place: Place) {
        let (slot, request) = (ask.slot, self.table.request(place));
        let Some(index) = slot.room_to_keep(ask.mixed) else { return };
        let latched = self.table.latch(ask.session, ask.mixed);
        let found = self.table.find(latched.bucket, ask.name, ask.mixed);
        let queue = found.expect("a request that was granted is in a queue");
        let granted = request.state.get().granted();
        let Some(mode) = granted.filter(|mode| mode.is_intent() && !queue.head.summary.get().waiting()) else { return };
        slot.active.init(slot.active.get() | 1 << index);
        let mut change = Change::open(ask.session);
        slot.drop_request(&self.table, &mut change, place, request);
        failpoint("lock: keep, request dropped");
        slot.take_slot(&self.table, &mut change, place, request);
        failpoint("lock: keep, slot taken");
        change.set(&slot.kept[index], kept_word(place, ask.mixed));
        change.set(&request.state, State::kept_active(mode));
        change.close();
        failpoint("lock: kept, still counted");
        drop(latched);
        slot.note_one_less();
    }

    /// Ends the keeping of a request: an active one becomes an ordinary request, the slot of any other becomes free.
    pub(crate) fn unkeep(&self, session: &Session, slot: &LockerSlot, kept: Kept<'_>) {
        let Kept { index, place, request } = kept;
        let (name, mixed) = (request.lock_name(), request.mixed.get());
        let mut granted = Granted::new();
        let latched = self.table.latch(session, mixed);
        let is_gone = request.give_way();
        failpoint("lock: unkeep, request withdrawn");
        let found = self.table.find(latched.bucket, name, mixed);
        let is_queued = found.is_ok_and(|queue| queue.requests().any(|(at, _)| at == place));
        if !is_gone {
            slot.note_one_more(mixed);
        }
        let mut change = Change::open(session);
        slot.return_slot(&self.table, &mut change, place, request);
        failpoint("lock: unkeep, slot returned");
        match request.state.get().granted() {
            Some(mode) => {
                slot.push(&mut change, place);
                change.set(&request.state, State::granted_in(mode));
            }
            None if is_queued => self.table.remove(&mut change, latched.bucket, place, &mut granted),
            None => {}
        }
        failpoint("lock: unkeep, still kept");
        change.set(&slot.kept[index], 0);
        change.close();
        drop(latched);
        failpoint("lock: unkept, still active");
        slot.note_idle(index);
        self.wake(&granted);
    }

    /// Makes the kept requests idle: the transaction ends.
    #[inline]
    pub(crate) fn idle_all(&self, session: &Session, slot: &LockerSlot, granted: &mut Granted) {
        let mut active = slot.active.get();
        while active != 0 {
            let index = active.trailing_zeros() as usize % KEPT;
            self.idle(session, slot, index, granted);
            active &= active - 1;
        }
        slot.active.init(0);
    }

    /// Makes a kept request idle, or takes it out of its queue if another locker waits for that.
    #[inline]
    pub(crate) fn idle(&self, session: &Session, slot: &LockerSlot, index: usize, granted: &mut Granted) {
        let word = slot.kept[index].get();
        if word == 0 {
            return;
        }
        let request = self.table.request(kept_place(word));
        let state = request.state.get();
        if state.is_idle() || state.granted().is_none() {
            return;
        }
        if state.is_contended() {
            self.release_kept(session, slot, index, granted);
            return;
        }
        // Release: stores made under the lock are visible to a session that revokes it.
        failpoint("lock: intent lock about to be idle");
        request.state.publish(state.idled());
    }

    #[cold]
    fn release_kept(&self, session: &Session, slot: &LockerSlot, index: usize, granted: &mut Granted) {
        let place = kept_place(slot.kept[index].get());
        let request = self.table.request(place);
        let latched = self.table.latch(session, request.mixed.get());
        let mut change = Change::open(session);
        self.table.remove(&mut change, latched.bucket, place, granted);
        failpoint("lock: contended kept lock removed");
        slot.return_slot(&self.table, &mut change, place, request);
        change.set(&slot.kept[index], 0);
        change.close();
        failpoint("lock: contended kept lock released");
        drop(latched);
    }

    /// Ends all keeping: the locker ends, or goes on in another process, which does not know the facts that the first
    /// process learnt when it took these locks. Active requests become ordinary locks.
    pub fn unkeep_all(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        slot.all_kept(&self.table).for_each(|kept| self.unkeep(session, slot, kept));
    }
}

impl Request {
    /// Makes a kept request revoked if it is idle, and marks it as contended if it is active. Returns whether it is
    /// revoked. Under the latch.
    fn give_way(&self) -> bool {
        loop {
            let state = self.state.load();
            let (next, is_gone) = match state {
                state if state.granted().is_none() => return true,
                state if state.is_idle() => (State::REVOKED, true),
                state if state.is_contended() => return false,
                state => (state.contended(), false),
            };
            failpoint("lock: about to revoke");
            if self.state.compare_exchange(state, next).is_ok() {
                return is_gone;
            }
        }
    }
}

impl Table {
    /// Takes every idle request out of the queue of a name, under the latch. Active requests leave it when their
    /// transactions end.
    #[cold]
    pub(crate) fn revoke(&self, session: &Session, bucket: &Bucket, name: LockName, mixed: u64, granted: &mut Granted) {
        let Ok(queue) = self.find(bucket, name, mixed) else { return };
        let gone = queue.requests().filter(|(_, request)| request.state.get().is_kept() && request.give_way());
        let gone: Vec<Place> = gone.map(|(place, _)| place).collect();
        failpoint("lock: revoked, still queued");
        for place in gone {
            let mut change = Change::open(session);
            self.remove(&mut change, bucket, place, granted);
            change.close();
        }
    }
}

impl Queue<'_> {
    /// Returns whether no locker holds the object or waits for it, now.
    pub(crate) fn is_idle(self) -> bool {
        self.requests().all(|(_, request)| request.state.get().held_bit() == 0 && !request.state.get().waits())
    }
}
