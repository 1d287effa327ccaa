//! Free slots: for requests and for lockers.
//!
//! A request slot is free in one of three places: on a locker's stack, where taking it costs nothing; in the shared
//! list; or among the slots that were never used, which have the highest numbers. Slots move between a stack and the
//! shared places in batches, under one latch, so the latch is hardly ever taken.
//!
//! Invariants
//! 1. Every slot is in exactly one place: on a stack, in the shared list, or among the never used slots.
//! 2. Before a call changes anything else, it takes the slots that it needs (PROTOCOLS D11).
//!
//! If we die here: each move is one section, which is rolled back. The slots that a growing slab has added are already
//! among the never used slots.

use libtp_process::{Rank, Session};
use rio::failpoint;

use crate::change::Change;
use crate::locker::LockerSlot;
use crate::request::{Place, REACH, REQUEST_BYTES};
use crate::table::Table;
use crate::{Error, Result};

/// Slots in the first chunk of requests.
pub(crate) const FIRST_REQUESTS: u32 = 256;
/// Slots in the first chunk of lockers.
pub(crate) const FIRST_LOCKERS: u32 = 32;
/// The least number of slots that a stack gets at a time, and the number that it keeps after it has returned slots.
const BATCH_MIN: u32 = 32;
/// The largest number of slots that a stack gets at a time, if its locker holds very many locks.
const BATCH_MAX: u32 = 1024;
/// The length above which a stack returns slots when its locker holds nothing.
const KEEP_MAX: u32 = 64;

/// Slots that move between places, chained by `own_next`.
struct Batch {
    first: Place,
    last: Place,
    count: u32,
}

impl Table {
    /// Returns the slot for the locker's next request.
    ///
    /// # Errors
    /// `Full`, `OutOfReach`: nothing was changed.
    #[inline]
    pub(crate) fn next_slot(&self, session: &Session, locker: &LockerSlot) -> Result<Place> {
        match locker.next_free_slot(self) {
            Some(place) => Ok(place),
            None => self.refill(session, locker),
        }
    }

    /// Puts free slots on top of a stack that has none left. Returns the first of them.
    #[cold]
    #[inline(never)]
    fn refill(&self, session: &Session, locker: &LockerSlot) -> Result<Place> {
        let wanted = (locker.count.get() / 2).clamp(BATCH_MIN, BATCH_MAX);
        let header = &*self.header;
        let _guard = header.slab_latch.exclusive(session, Rank::LOCK_SLAB);
        let fresh = if header.free_count.get() == 0 { Some(self.find_fresh(wanted)?) } else { None };
        let mut change = Change::open(session);
        failpoint("lock: refill, section open");
        let batch = match fresh {
            None => self.take_listed(&mut change, wanted),
            Some(batch) => {
                change.set(&header.used, header.used.get() + batch.count);
                batch
            }
        };
        failpoint("lock: refill, batch without owner");
        let last = locker.last.get();
        match last.some() {
            None => change.set(&locker.first, batch.first),
            Some(last) => change.set(&self.request(last).own_next, batch.first),
        }
        self.request(batch.first).own_prev.init(last);
        failpoint("lock: refill, stack longer, its end old");
        change.set(&locker.last, batch.last);
        change.set(&locker.slots, locker.slots.get() + batch.count);
        change.close();
        failpoint("lock: refilled");
        Ok(batch.first)
    }

    /// Takes slots off the shared list, which has some.
    fn take_listed(&self, change: &mut Change<'_>, wanted: u32) -> Batch {
        let header = &*self.header;
        let first = header.free_first.get();
        let (mut last, mut count) = (first, 1);
        let mut next = self.request(first).own_next.get();
        while let Some(place) = next.some().filter(|_| count < wanted) {
            // In the shared list this word has no meaning, so it needs no before-image.
            self.request(place).own_prev.init(last);
            (last, count) = (place, count + 1);
            next = self.request(place).own_next.get();
        }
        change.set(&self.request(last).own_next, Place::NONE);
        failpoint("lock: refill, cut from the list");
        change.set(&header.free_first, next);
        change.set(&header.free_count, header.free_count.get() - count);
        Batch { first, last, count }
    }

    /// Chains slots that were never used. If there are none, adds a chunk. The chained slots still count as never used.
    fn find_fresh(&self, wanted: u32) -> Result<Batch> {
        let used = self.header.used.get();
        if used == self.requests.capacity() {
            self.add_requests()?;
        }
        // Slots are neighbours up to the end of their chunk. Chunk k ends with slot FIRST * (2^(k+1) - 1).
        let chunk = (used / FIRST_REQUESTS + 1).ilog2();
        let count = wanted.min(FIRST_REQUESTS * ((2 << chunk) - 1) - used);
        let places = [used + 1, used + count].map(|number| Place::of(self.requests.place(number)));
        let [Some(first), Some(last)] = places else { return Err(Error::OutOfReach { limit: REACH }) };
        // No other session can reach these slots yet, so they need no before-images.
        self.chain_slots(first, last);
        Ok(Batch { first, last, count })
    }

    /// Chains neighbouring slots that no other session can reach.
    fn chain_slots(&self, first: Place, last: Place) {
        for place in first.0..=last.0 {
            let request = self.request(Place(place));
            request.own_prev.init(if place == first.0 { Place::NONE } else { Place(place - 1) });
            request.own_next.init(if place == last.0 { Place::NONE } else { Place(place + 1) });
        }
    }

    /// Adds a chunk of request slots. The caller has the latch.
    fn add_requests(&self) -> Result<()> {
        let slots = u64::from(self.requests.capacity()) + u64::from(FIRST_REQUESTS);
        if self.region.used() + slots * REQUEST_BYTES > REACH {
            return Err(Error::OutOfReach { limit: REACH });
        }
        failpoint("lock: about to add request slots");
        self.requests.grow().map(|_| ()).map_err(Error::Full)
    }

    /// Returns most slots of a locker to the shared list, if it holds nothing and has very many slots.
    #[inline]
    pub(crate) fn give_back(&self, session: &Session, locker: &LockerSlot) {
        if locker.slots.get() > KEEP_MAX {
            self.give_back_slots(session, locker);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back_slots(&self, session: &Session, locker: &LockerSlot) {
        debug_assert_eq!(locker.top.get(), Place::NONE, "only a locker that holds nothing returns slots");
        let header = &*self.header;
        let mut kept = locker.first.get();
        for _ in 1..BATCH_MIN {
            kept = self.request(kept).own_next.get();
        }
        let _guard = header.slab_latch.exclusive(session, Rank::LOCK_SLAB);
        let mut change = Change::open(session);
        let given = self.request(kept).own_next.get();
        change.set(&self.request(locker.last.get()).own_next, header.free_first.get());
        failpoint("lock: give back, two lists joined");
        change.set(&header.free_first, given);
        change.set(&header.free_count, header.free_count.get() + locker.slots.get() - BATCH_MIN);
        change.set(&self.request(kept).own_next, Place::NONE);
        failpoint("lock: give back, stack not cut");
        change.set(&locker.last, kept);
        change.set(&locker.slots, BATCH_MIN);
        change.close();
        failpoint("lock: given back");
    }

    /// Takes a locker slot.
    ///
    /// # Errors
    /// `Full`: nothing was changed.
    pub(crate) fn take_locker(&self, session: &Session) -> Result<u32> {
        let header = &*self.header;
        let _guard = header.slab_latch.exclusive(session, Rank::LOCK_SLAB);
        let (free, used) = (header.locker_free.get(), header.locker_used.get());
        if free == 0 && used == self.lockers.capacity() {
            self.lockers.grow().map_err(Error::Full)?;
        }
        let number = if free == 0 { used + 1 } else { free };
        let locker = self.locker(number);
        failpoint("lock: locker chosen");
        let mut change = Change::open(session);
        if free == 0 {
            change.set(&header.locker_used, number);
        } else {
            change.set(&header.locker_free, locker.next_free.get());
        }
        failpoint("lock: locker off the list, not in use");
        // The stores are in this order so that a reader without the latch never finds the locker in use by its former
        // session.
        change.set(&locker.session, session.id());
        change.set(&locker.in_use, 1);
        change.close();
        failpoint("lock: locker taken");
        Ok(number)
    }

    /// Frees a locker slot. The locker holds nothing; its request slots stay with it.
    pub(crate) fn free_locker(&self, session: &Session, number: u32) {
        let (header, locker) = (&*self.header, self.locker(number));
        let _guard = header.slab_latch.exclusive(session, Rank::LOCK_SLAB);
        let mut change = Change::open(session);
        change.set(&locker.in_use, 0);
        failpoint("lock: locker not in use, in no list");
        change.set(&locker.next_free, header.locker_free.get());
        change.set(&header.locker_free, number);
        change.close();
        failpoint("lock: locker free");
    }
}
