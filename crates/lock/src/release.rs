//! Releasing locks, and granting them to waiters.
//!
//! Paper: LIBTP 3.2.3, *unlock* and *lock_unlock_all*: "when a lock is released, the wait queue is traversed and any
//! newly compatible locks are granted".
//!
//! The locks are released one object at a time, each in a separate section, so at most one latch is held. The granted
//! waiters are woken after all locks are released: a wake is a system call, and other sessions may want the next locks.
//!
//! If the session dies between two objects, the remaining locks are still on the locker's stack, and the repair
//! releases them. If it dies before the wakes, the granted waiters see their grants when their sleep times out
//! (PROTOCOLS D8).

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::alone::OwnLock;
use crate::change::Change;
use crate::kept::Kept;
use crate::locker::LockerSlot;
use crate::name::LockName;
use crate::queue::{Granted, Queue};
use crate::request::{Place, Request};
use crate::table::{Bucket, Table};
use crate::{Error, LockManager, LockerId, Mode, Result};

impl LockManager {
    /// Releases all locks of the locker: the paper's `lock_unlock_all`. The locker keeps its free slots, except a
    /// surplus.
    #[inline]
    pub fn unlock_all(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        let mut granted = Granted { not_overtakable: slot.was_victim(), ..Granted::new() };
        while let Some(top) = slot.top.get().some() {
            if !self.release_newest_thin(slot, top) {
                self.release_latched(session, slot, top, &mut granted);
            }
        }
        failpoint("lock: all released, intent locks active");
        self.idle_all(session, slot, &mut granted);
        slot.count.init(0);
        failpoint("lock: all released, still counted");
        slot.filter.init(0);
        self.table.give_back(session, slot);
        failpoint("lock: all released, no waiter woken");
        self.wake(&granted);
    }

    /// Releases one lock, in any mode: the paper's `unlock`.
    ///
    /// # Errors
    /// `NotHeld`.
    pub fn unlock(&self, session: &Session, locker: LockerId, name: LockName) -> Result<()> {
        let slot = self.table.locker(locker.0);
        let mut granted = Granted::new();
        if name.is_coarse() {
            if let Some(kept) = slot.find_kept(&self.table, name, name.mixed()) {
                return self.unlock_kept(session, slot, kept);
            }
        }
        let place = self.request_of(session, locker, name).ok_or(Error::NotHeld { name })?;
        failpoint("lock: about to release a lock");
        self.release(session, slot, place, &mut granted);
        failpoint("lock: released, still counted");
        slot.note_one_less();
        self.wake(&granted);
        Ok(())
    }

    /// Releases the locker's locks whose names `choose` accepts, such as the locks on the records of a database that is
    /// locked as a whole. Returns the number of released locks, not counting intent locks on databases, which become
    /// idle.
    pub fn unlock_matching(&self, session: &Session, locker: LockerId, choose: impl Fn(LockName) -> bool) -> u32 {
        let slot = self.table.locker(locker.0);
        let chosen = slot.requests(&self.table).filter(|(_, request)| choose(request.lock_name()));
        let chosen: Vec<Place> = chosen.map(|(place, _)| place).collect();
        let mut granted = Granted::new();
        for &place in &chosen {
            self.release(session, slot, place, &mut granted);
            slot.note_one_less();
        }
        for kept in slot.all_kept(&self.table).filter(|kept| choose(kept.request.lock_name())) {
            self.idle(session, slot, kept.index, &mut granted);
        }
        self.wake(&granted);
        u32::try_from(chosen.len()).expect("a locker has fewer than 2^32 requests")
    }

    fn unlock_kept(&self, session: &Session, slot: &LockerSlot, kept: Kept<'_>) -> Result<()> {
        if !slot.is_active(kept.index) || kept.request.state.load().granted().is_none() {
            return Err(Error::NotHeld { name: kept.request.lock_name() });
        }
        let mut granted = Granted::new();
        self.idle(session, slot, kept.index, &mut granted);
        self.wake(&granted);
        Ok(())
    }

    /// Returns the place of the locker's request for the object. The request stays there, because only the
    /// locker removes it.
    fn request_of(&self, session: &Session, locker: LockerId, name: LockName) -> Option<Place> {
        let ask = self.ask(session, locker, name, Mode::IS);
        if !name.is_coarse() {
            match self.table.own_thin(&ask) {
                OwnLock::Thin(seen) => return Some(seen.place()),
                OwnLock::Absent => return None,
                OwnLock::PerhapsInQueue => {}
            }
        }
        let latched = self.table.latch(session, ask.mixed);
        let queue = self.table.queue_of(session, latched.bucket, name, ask.mixed).ok()?;
        queue.of_locker(locker.0).map(|(place, _)| place)
    }

    /// Releases the lock of the newest request if the lock is thin. Returns whether the lock was thin.
    #[inline]
    fn release_newest_thin(&self, slot: &LockerSlot, top: Place) -> bool {
        let request = self.table.request(top);
        let is_thin = self.table.release_thin(request.mixed.get(), top);
        if is_thin {
            failpoint("lock: thin, released, still on the stack");
            slot.pop_thin_request(request);
        }
        is_thin
    }

    /// Releases the lock of a request.
    fn release(&self, session: &Session, slot: &LockerSlot, place: Place, granted: &mut Granted) {
        let request = self.table.request(place);
        if self.table.release_thin(request.mixed.get(), place) {
            failpoint("lock: a thin lock of many is released, still on the stack");
            slot.drop_thin(&self.table, session, place, request);
        } else {
            self.release_latched(session, slot, place, granted);
        }
    }

    /// Removes a request of the locker from its queue, under the latch. A request that is still thin is in no queue,
    /// and is only removed from the stack.
    #[cold]
    #[inline(never)]
    fn release_latched(&self, session: &Session, slot: &LockerSlot, place: Place, granted: &mut Granted) {
        let request = self.table.request(place);
        request.assert_undamaged();
        let latched = self.table.latch(session, request.mixed.get());
        if !self.table.settle_for_release(request.mixed.get(), place, request) {
            slot.drop_thin(&self.table, session, place, request);
            return;
        }
        let mut change = Change::open(session);
        self.table.remove(&mut change, latched.bucket, place, granted);
        failpoint("lock: released, still on the stack");
        slot.drop_request(&self.table, &mut change, place, request);
        let latched = (!planted("lock: the latch is released before the section closes")).then_some(latched);
        failpoint("lock: released, section open");
        change.close();
        failpoint("lock: released, latch held");
        drop(latched);
    }

    /// Wakes the granted waiters.
    #[inline]
    pub(crate) fn wake(&self, granted: &Granted) {
        for &sleeper in &granted.sessions {
            failpoint("lock: between granting and waking");
            self.processes.wake(sleeper);
        }
    }
}

impl Table {
    /// Removes a request from its queue, and grants all requests that can be granted without it.
    #[inline]
    pub(crate) fn remove(&self, change: &mut Change<'_>, bucket: &Bucket, place: Place, granted: &mut Granted) {
        let request = self.request(place);
        if request.queue_prev.get() == Place::NONE {
            let link = self.link_to(bucket, request.mixed.get(), place);
            if request.queue_next.get() == Place::NONE {
                // No other locker wants the object, so its queue is empty now.
                failpoint("lock: remove the only request");
                change.set(link, request.chain_next.get());
            } else {
                self.remove_head(change, link, request, granted);
            }
        } else {
            self.remove_inner(change, bucket, request, granted);
        }
    }

    /// Removes the head of a queue: the next request becomes the head.
    fn remove_head(&self, change: &mut Change<'_>, link: &rio::Word<Place>, head: &Request, granted: &mut Granted) {
        let next = Queue::new(self, head.queue_next.get());
        change.set(&next.head.queue_prev, Place::NONE);
        failpoint("lock: remove head, next half made the head");
        change.set(&next.head.chain_next, head.chain_next.get());
        change.set(&next.head.summary, head.summary.get());
        failpoint("lock: remove head, chain leads to the old head");
        change.set(link, next.place);
        failpoint("lock: remove head, no waiter granted");
        if head.summary.get().waiting() {
            next.grant(change, granted);
        }
    }

    fn remove_inner(&self, change: &mut Change<'_>, bucket: &Bucket, request: &Request, granted: &mut Granted) {
        let (prev, next) = (request.queue_prev.get(), request.queue_next.get());
        change.set(&self.request(prev).queue_next, next);
        failpoint("lock: remove inner, linked one way");
        if let Some(next) = next.some() {
            change.set(&self.request(next).queue_prev, prev);
        }
        failpoint("lock: remove inner, no waiter granted");
        let found = self.find(bucket, request.lock_name(), request.mixed.get());
        let queue = found.expect("a request that is not a head is in a queue");
        if queue.head.summary.get().waiting() {
            queue.grant(change, granted);
        }
    }
}
