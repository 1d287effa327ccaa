//! Intent locks on databases stay with their locker from one transaction to the next.
//!
//! Departure from LIBTP 3.2.3. Every transaction locks each database that it uses in `IS` or `IX`, and other modes of
//! such locks are rare. If each transaction took and released these locks, their words would be the hottest words of
//! the whole environment, though the locks exclude no other transaction. So when a transaction ends, such a lock is not
//! released but becomes *idle*: its request stays in the queue, and the locker's next transaction makes it *active*
//! again. A locker that wants a conflicting mode *revokes* idle requests.
//!
//! ```text
//!            unlock_all (a store)            revoked by another locker, under the latch, after a barrier
//!   active <----------------------> idle ----------------------------------------------------------> revoked
//!     |     lock_again (a store)              the locker frees the slot when it next checks the request
//!     | marked *contended* by a waiter, under the latch: the locker takes the request out when its transaction ends
//! ```
//! A request is active if its bit in the locker's word `active` is set. The locker sets and clears the bit with plain
//! stores, which slow no other processor down. Two rules make these stores safe:
//!
//! * A locker that checks a request under the latch *learns* it: its session notes, in private memory, the request and
//!   the table's *epoch*. While the epoch is the same, the locker may take the lock by setting the bit, without the
//!   latch. It first sets the bit and then reads the epoch.
//! * A locker that revokes raises the epoch, waits for a barrier of all processors, and then reads the bits. So either
//!   the revoking locker sees the bit, or the locker of the request sees the new epoch and checks the request under the
//!   latch.
//!
//! Invariants
//! 1. The state of a kept request changes only under the latch of its bucket.
//! 2. An idle request is in the queue like a granted request: no conflicting mode is granted while it is in the queue.
//!    But the search for deadlocks counts no waiter as waiting for the locker of an idle request.
//! 3. A kept request is in its locker's `kept` words and not on its stack. A revoked request need not be in a queue.
//! 4. After a kept request was learnt, the epoch rises before the request goes out of force. A contended request is not
//!    learnt.
//!
//! A mark in the word `active` means that another locker waits. The mark is lost if the word's own locker stores to the
//! word at the same moment. This costs only milliseconds, because the waiter also checks after a timeout
//! (PROTOCOLS D8). If barriers do not reach a process, its lockers check their requests under the latch each time.
//!
//! If we die here: an active request is held like any other request; a request that is revoked and still in its queue
//! blocks no locker; an epoch that was raised without need makes each locker check its requests once.

use std::sync::atomic::{compiler_fence, Ordering};

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::acquire::Ask;
use crate::change::{before_store, Change};
use crate::locker::LockerSlot;
use crate::name::LockName;
use crate::queue::{Granted, Queue};
use crate::request::{Place, Request, State};
use crate::table::{Bucket, Table};
use crate::{LockManager, LockerId, Mode, Result, Wait};

/// The number of intent locks that a locker keeps.
pub(crate) const KEPT: usize = 8;
/// The bit of `active` that marks a locker for which another locker waits.
const WANTED: u64 = 1 << 63;

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

impl Kept<'_> {
    /// Returns whether the request's locker holds the database through this request.
    pub(crate) fn is_held(&self, slot: &LockerSlot) -> bool {
        slot.is_active(self.index) && self.request.state.get().granted().is_some()
    }
}

/// An intent lock that a transaction holds by a kept request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLock {
    /// The index of the request among the locker's kept requests.
    pub index: u8,
    /// The mode held: the mode asked for, or a stronger one.
    pub mode: Mode,
    /// The epoch in which the locker's next transactions may take the lock with [`LockManager::lock_again`]. Without an
    /// epoch they may not call it.
    pub epoch: Option<u64>,
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

/// Returns the index that the search for a name checks at this step: at first the name's preferred index, then the next
/// index each time.
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

    /// Returns every kept request, also idle and revoked requests.
    pub(crate) fn all_kept<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = Kept<'t>> {
        let words = self.kept.iter().enumerate().filter(|(_, word)| word.get() != 0);
        words.map(|(index, word)| {
            let place = kept_place(word.get());
            Kept { index, place, request: table.request(place) }
        })
    }

    /// Returns whether a kept request is active.
    #[inline]
    pub(crate) fn is_active(&self, index: usize) -> bool {
        // Acquire: pairs with the release of a locker that makes the request idle.
        self.active.load() & 1 << index != 0
    }

    /// Returns the number of active requests.
    #[inline]
    pub(crate) fn active_count(&self) -> u32 {
        (self.active.get() & !WANTED).count_ones()
    }

    /// Makes a kept request active.
    fn note_active(&self, index: usize) {
        self.active.init(self.active.get() | 1 << index);
    }

    /// Makes a kept request idle.
    #[inline]
    pub(crate) fn note_idle(&self, index: usize) {
        // Release: stores made under the lock are visible to a session that revokes the request.
        self.active.publish(self.active.get() & !(1 << index));
    }

    /// Marks a locker for which another locker waits. The mark may be lost.
    fn mark_wanted(&self) {
        let active = self.active.load();
        let _ = self.active.compare_exchange(active, active | WANTED);
    }

    /// Returns a free index for one more kept request.
    fn room_to_keep(&self, mixed: u64) -> Option<usize> {
        (0..KEPT).map(|step| likely_index(mixed, step)).find(|&index| self.kept[index].get() == 0)
    }
}

impl LockManager {
    /// Takes an intent lock that the locker kept from an earlier transaction, in a mode that covers `mode`. If the
    /// locker can take no such lock, returns `None`, and the caller then calls [`LockManager::lock`].
    pub fn lock_kept(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode) -> Option<KeptLock> {
        match mode.is_intent() && name.is_coarse() {
            true => self.activate(&self.ask(session, locker, name, mode)),
            false => None,
        }
    }

    /// Takes an intent lock that an earlier transaction of the locker took with [`LockManager::lock_kept`], which
    /// returned `index` and `epoch`. Returns false, and takes no lock, if the epoch is over. Costs one store to a word
    /// that other lockers seldom touch.
    #[inline]
    pub fn lock_again(&self, locker: LockerId, index: u8, epoch: u64) -> bool {
        let slot = self.table.locker(locker.0);
        let before = slot.active.get();
        if planted("lock: the epoch is read before the intent lock is active") {
            let is_known = self.table.header.intent_epoch.get() == epoch;
            std::thread::yield_now();
            slot.active.init(before | 1 << (index as usize % KEPT));
            return is_known;
        }
        before_store();
        slot.active.init(before | 1 << (index as usize % KEPT));
        before_store();
        // The processor needs no fence here: the barrier of the revoking session orders this store and the next load.
        compiler_fence(Ordering::SeqCst);
        failpoint("lock: intent lock active, epoch not read");
        if self.table.header.intent_epoch.get() == epoch {
            return true;
        }
        slot.active.init(before);
        false
    }

    /// Takes a lock on a database.
    #[inline]
    pub(crate) fn lock_coarse(&self, ask: &Ask<'_>, wait: Wait) -> Result<()> {
        if ask.mode.is_intent() && self.activate(ask).is_some() {
            return Ok(());
        }
        self.lock_coarse_slowly(ask, wait)
    }

    /// Makes a kept request active, if it covers the mode and is in force.
    fn activate(&self, ask: &Ask<'_>) -> Option<KeptLock> {
        let kept = ask.slot.find_kept(&self.table, ask.name, ask.mixed)?;
        let _latched = self.table.latch(ask.session, ask.mixed);
        let state = kept.request.state.get();
        let is_contended = state.is_contended();
        if !state.is_intent_covering(ask.mode) || is_contended && !ask.slot.is_active(kept.index) {
            return None;
        }
        before_store();
        failpoint("lock: kept, about to be active");
        ask.slot.note_active(kept.index);
        let is_learnt = self.processes.has_barriers() && !is_contended;
        let epoch = is_learnt.then(|| self.table.header.intent_epoch.load());
        Some(KeptLock { index: u8::try_from(kept.index).ok()?, mode: state.granted()?, epoch })
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
            self.revoke(ask.session, latched.bucket, ask.name, ask.mixed, &mut granted);
            // The sessions are woken under the latch, because the code below may sleep. This is rare, and a wake never
            // waits.
            self.wake(&granted);
        }
        self.lock_latched(ask, latched, place, wait)?;
        if ask.mode.is_intent() && ask.slot.top.get() == place {
            self.keep(ask, place);
        }
        Ok(())
    }

    /// Makes the locker's newest request, just granted, a kept request, if there is room for it.
    fn keep(&self, ask: &Ask<'_>, place: Place) {
        let (slot, request) = (ask.slot, self.table.request(place));
        let Some(index) = slot.room_to_keep(ask.mixed) else { return };
        let latched = self.table.latch(ask.session, ask.mixed);
        let found = self.table.find(latched.bucket, ask.name, ask.mixed);
        let queue = found.expect("a request that was granted is in a queue");
        let granted = request.state.get().granted();
        let Some(mode) = granted.filter(|mode| mode.is_intent() && !queue.head.summary.get().waiting()) else { return };
        slot.note_active(index);
        let mut change = Change::open(ask.session);
        slot.drop_request(&self.table, &mut change, place, request);
        failpoint("lock: keep, request dropped");
        slot.take_slot(&self.table, &mut change, place, request);
        failpoint("lock: keep, slot taken");
        change.set(&slot.kept[index], kept_word(place, ask.mixed));
        change.set(&request.state, State::kept(mode));
        change.close();
        failpoint("lock: kept, still counted");
        drop(latched);
        slot.note_one_less();
    }

    /// Ends the keeping of a request: an active request becomes an ordinary request, and the slot of any other request
    /// becomes free.
    pub(crate) fn unkeep(&self, session: &Session, slot: &LockerSlot, kept: Kept<'_>) {
        let mut granted = Granted::new();
        self.take_out(session, slot, kept, &mut granted);
        self.wake(&granted);
    }

    /// As [`LockManager::unkeep`]. Returns through `granted` the sessions to wake.
    fn take_out(&self, session: &Session, slot: &LockerSlot, kept: Kept<'_>, granted: &mut Granted) {
        let Kept { index, place, request } = kept;
        let (name, mixed) = (request.lock_name(), request.mixed.get());
        let latched = self.table.latch(session, mixed);
        let is_gone = !kept.is_held(slot);
        before_store();
        if is_gone {
            request.state.publish(State::REVOKED);
        }
        self.end_epoch();
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
            None if is_queued => self.table.remove(&mut change, latched.bucket, place, granted),
            None => {}
        }
        failpoint("lock: unkeep, still kept");
        change.set(&slot.kept[index], 0);
        change.close();
        drop(latched);
        failpoint("lock: unkept, still active");
        slot.note_idle(index);
    }

    /// Makes the kept requests idle, at the end of a transaction.
    #[inline]
    pub(crate) fn idle_all(&self, session: &Session, slot: &LockerSlot, granted: &mut Granted) {
        let active = slot.active.get();
        if active == 0 {
            return;
        }
        before_store();
        failpoint("lock: intent locks about to be idle");
        // Release: stores made under the locks are visible to a session that revokes the requests.
        slot.active.publish(0);
        if active & WANTED != 0 {
            self.release_wanted(session, slot, granted);
        }
    }

    /// Makes a kept request idle. If another locker waits for the database, takes the request out of its queue.
    pub(crate) fn idle(&self, session: &Session, slot: &LockerSlot, index: usize, granted: &mut Granted) {
        slot.note_idle(index);
        slot.all_kept(&self.table)
            .filter(|kept| kept.index == index && kept.request.state.load().is_contended())
            .for_each(|kept| self.take_out(session, slot, kept, granted));
    }

    /// Takes the requests for which other lockers wait out of their queues.
    #[cold]
    #[inline(never)]
    fn release_wanted(&self, session: &Session, slot: &LockerSlot, granted: &mut Granted) {
        slot.all_kept(&self.table)
            .filter(|kept| kept.request.state.load().is_contended())
            .for_each(|kept| self.take_out(session, slot, kept, granted));
    }

    /// Ends an epoch: all lockers check their kept requests under the latch again.
    fn end_epoch(&self) {
        before_store();
        self.table.header.intent_epoch.fetch_add(1);
    }

    /// Ends the keeping of all requests, for a locker that ends or continues in another process. The other process does
    /// not know what the first process learnt when it took these locks. Active requests become ordinary locks.
    pub fn unkeep_all(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        slot.all_kept(&self.table).for_each(|kept| self.unkeep(session, slot, kept));
    }
}

impl LockManager {
    /// Takes every idle request out of the queue of a name, under the latch. Active requests leave it when their
    /// transactions end.
    #[cold]
    pub(crate) fn revoke(&self, session: &Session, bucket: &Bucket, name: LockName, mixed: u64, granted: &mut Granted) {
        let Ok(queue) = self.table.find(bucket, name, mixed) else { return };
        let in_force = |request: &Request| request.state.get().is_kept() && request.state.get().granted().is_some();
        let kept: Vec<(Place, &Request)> = queue.requests().filter(|(_, request)| in_force(request)).collect();
        // A contended request needs no new epoch: its locker has checked the request under the latch since an earlier
        // barrier, or will check it before the next use.
        if kept.iter().any(|(_, request)| !request.state.get().is_contended()) {
            if !planted("lock: the revocation of an intent lock does not end the epoch") {
                self.end_epoch();
            }
            failpoint("lock: epoch ended, nothing revoked");
            if !planted("lock: intent locks are revoked without a barrier") {
                self.processes.barrier();
            }
        }
        for (place, request) in kept {
            before_store();
            if self.table.is_active(place, request) {
                request.state.publish(request.state.get().contended());
                before_store();
                failpoint("lock: kept lock contended, its locker not marked");
                self.table.locker(request.locker.get()).mark_wanted();
                continue;
            }
            failpoint("lock: about to revoke");
            request.state.publish(State::REVOKED);
            failpoint("lock: revoked, still queued");
            let mut change = Change::open(session);
            self.table.remove(&mut change, bucket, place, granted);
            change.close();
        }
    }
}

impl Table {
    /// Returns whether a kept request is active. The caller has the latch of its bucket.
    pub(crate) fn is_active(&self, place: Place, request: &Request) -> bool {
        let slot = self.locker(request.locker.get());
        slot.all_kept(self).any(|kept| kept.place == place && slot.is_active(kept.index))
    }
}

impl Queue<'_> {
    /// Returns whether no locker holds the object or waits for it at this moment.
    pub(crate) fn is_idle(self) -> bool {
        self.requests().all(|(place, request)| self.held_bit(place, request) == 0 && !request.state.get().waits())
    }
}

#[cfg(test)]
mod model;
