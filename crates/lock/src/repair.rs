//! Repair when all processes are dead: the region exists, no process is attached, and one process repairs the table
//! (PROTOCOLS D4, L6).
//!
//! Sections have been rolled back, so the stacks of the lockers state exactly which locks were held. The repair
//! rebuilds the queues from the stacks of the lockers that keep their locks (the lockers of prepared transactions) and
//! frees all other requests and lockers. The repair needs no undo log, because it can be repeated.
//!
//! If we die here: a locker that keeps its locks still has its requests on its stack, and the requests still have the
//! names of their objects. So the next repair begins again.

use std::collections::HashSet;

use libtp_process::SessionId;

use crate::locker::{filter_bit, LockerSlot, Waiting};
use crate::request::{Place, State, Summary};
use crate::table::{Bucket, FIRST_BUCKETS};
use crate::thin::Thin;
use crate::{LockManager, LockerId};

/// The counts of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Lockers that were freed.
    pub lockers: u32,
    /// Locks and waits that were dropped.
    pub dropped: u32,
    /// Locks that were kept.
    pub kept: u32,
}

impl LockManager {
    /// Drops every lock. No other process is attached, and open sections have been rolled back.
    pub fn repair_alone(&self) -> Repaired {
        self.repair_alone_keeping(&[])
    }

    /// Drops every lock except those that the lockers in `keep` hold; these lockers stay.
    pub fn repair_alone_keeping(&self, keep: &[LockerId]) -> Repaired {
        let mut repaired = Repaired::default();
        self.empty_buckets();
        let mut kept = HashSet::new();
        self.grant_thin(keep);
        self.table.header.locker_free.publish(0);
        for number in (1..=self.table.header.locker_used.get()).rev() {
            let slot = self.table.locker(number);
            slot.waiting.publish(Waiting::NONE);
            slot.victim.publish(0);
            slot.session.publish(SessionId::NONE);
            let kept_active = slot.all_kept(&self.table).filter(|kept| kept.is_held(slot));
            let requests = slot.requests(&self.table).count() + kept_active.count();
            let requests = u32::try_from(requests).unwrap_or(u32::MAX);
            let kept_before = kept.len();
            if slot.in_use.get() != 0 && keep.contains(&LockerId(number)) {
                self.keep_locks(slot, &mut kept);
            } else {
                repaired.lockers += slot.in_use.get();
                self.drop_locker(number, slot);
            }
            repaired.dropped += requests.saturating_sub(u32::try_from(kept.len() - kept_before).unwrap_or(u32::MAX));
        }
        repaired.kept = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        self.list_all_but(&kept);
        repaired
    }

    /// Frees all latches and roles, empties all chains, and counts the buckets.
    fn empty_buckets(&self) {
        let header = &self.table.header;
        header.slab_latch.reset_alone();
        header.splitter.publish(SessionId::NONE);
        header.detector.publish(SessionId::NONE);
        let capacity = self.table.buckets.capacity();
        let buckets = (0..capacity).map(|number| self.table.bucket(number));
        buckets.for_each(|bucket: &Bucket| {
            bucket.latch.reset_alone();
            bucket.chains.iter().for_each(|chain| chain.init(Place::NONE));
        });
        let split = (FIRST_BUCKETS..capacity).find(|&number| self.table.bucket(number).level.get() == 0);
        header.bucket_count.publish(split.unwrap_or(capacity));
    }

    /// Grants the thin locks of the lockers that stay, and then frees all words. Because of this order, a repair can
    /// begin again after a kill: a word is free only when the state of its request is granted (docs/design/0021, rule
    /// 13).
    fn grant_thin(&self, keep: &[LockerId]) {
        let numbers = 1..=self.table.header.locker_used.get();
        for number in numbers.filter(|&number| keep.contains(&LockerId(number))) {
            let slot = self.table.locker(number);
            for (place, request) in slot.requests(&self.table) {
                let mode = LockerSlot::held_mode(&self.table, place, request);
                if let Some(mode) = mode.filter(|_| request.state.get().is_thin()) {
                    request.state.init(State::granted_in(mode));
                }
            }
        }
        self.table.words.words.iter().for_each(|word| word.publish(Thin::FREE));
    }

    /// Takes the thin requests, which are not held, off the stack.
    fn drop_thin_requests(&self, slot: &LockerSlot) {
        let held = slot.requests(&self.table).filter(|(_, request)| !request.state.get().is_thin());
        let held: Vec<Place> = held.map(|(place, _)| place).collect();
        // The stores begin at the top, so a repair that begins again still finds each held request.
        slot.top.init(held.first().copied().unwrap_or(Place::NONE));
        for (at, &place) in held.iter().enumerate() {
            let (above, below) = (at.checked_sub(1).map(|at| held[at]), held.get(at + 1).copied());
            self.table.request(place).own_prev.init(below.unwrap_or(Place::NONE));
            self.table.request(place).own_next.init(above.unwrap_or(Place::NONE));
        }
        slot.first.init(held.last().copied().unwrap_or(Place::NONE));
    }

    /// Puts the locker's held requests back into queues, and ends its stack after them.
    fn keep_locks(&self, slot: &LockerSlot, kept: &mut HashSet<Place>) {
        // The top of the stack may be a request that only waited; the requests below are granted.
        while let Some(top) = slot.top.get().some() {
            let request = self.table.request(top);
            if request.state.get().granted().is_some() {
                break;
            }
            slot.top.init(request.own_prev.get());
        }
        self.drop_thin_requests(slot);
        for kept_lock in slot.all_kept(&self.table) {
            if kept_lock.is_held(slot) {
                self.enter(kept_lock.place);
                kept.insert(kept_lock.place);
            } else {
                slot.kept[kept_lock.index].init(0);
            }
        }
        let (mut filter, mut count) = (0, 0);
        for (place, request) in slot.requests(&self.table) {
            let granted =
                request.state.get().granted().expect("only the top of a stack may wait, and no request is thin");
            request.state.init(State::granted_in(granted));
            self.enter(place);
            filter |= filter_bit(request.mixed.get());
            count += 1;
            kept.insert(place);
        }
        match slot.top.get().some() {
            None => slot.first.init(Place::NONE),
            Some(top) => self.table.request(top).own_next.init(Place::NONE),
        }
        slot.last.init(slot.top.get());
        slot.slots.init(count);
        slot.count.init(count);
        slot.filter.init(filter);
    }

    /// Enters a granted request into the queue of its object.
    fn enter(&self, place: Place) {
        let request = self.table.request(place);
        let (name, mixed) = (request.lock_name(), request.mixed.get());
        let mode = request.state.get().granted_bit();
        let bucket = self.table.own_bucket(mixed);
        if !name.is_coarse() {
            self.table.word(mixed).publish(Thin::FAT);
        }
        request.queue_prev.init(Place::NONE);
        request.queue_next.init(Place::NONE);
        let Ok(queue) = self.table.find(bucket, name, mixed) else {
            request.summary.init(Summary::new(mode, false));
            request.chain_next.init(bucket.chain(mixed).get());
            bucket.chain(mixed).init(place);
            return;
        };
        let next = queue.head.queue_next.get();
        request.queue_prev.init(queue.place);
        request.queue_next.init(next);
        if let Some(next) = next.some() {
            self.table.request(next).queue_prev.init(place);
        }
        queue.head.queue_next.init(place);
        queue.head.summary.init(queue.head.summary.get().with(mode));
    }

    fn drop_locker(&self, number: u32, slot: &LockerSlot) {
        let header = &self.table.header;
        for word in [&slot.top, &slot.first, &slot.last] {
            word.init(Place::NONE);
        }
        for word in [&slot.slots, &slot.count, &slot.in_use] {
            word.init(0);
        }
        slot.filter.init(0);
        slot.active.init(0);
        slot.kept.iter().for_each(|word| word.init(0));
        slot.next_free.init(header.locker_free.get());
        header.locker_free.publish(number);
    }

    /// Puts every slot that is not kept into the shared list.
    fn list_all_but(&self, kept: &HashSet<Place>) {
        let header = &self.table.header;
        let (mut first, mut count) = (Place::NONE, 0);
        for number in (1..=header.used.get()).rev() {
            let place = Place::of(self.table.requests.place(number)).expect("a slot that was used is in reach");
            if !kept.contains(&place) {
                self.table.request(place).own_next.init(first);
                (first, count) = (place, count + 1);
            }
        }
        header.free_first.init(first);
        header.free_count.init(count);
    }
}

#[cfg(test)]
mod tests {
    use super::Repaired;
    use crate::scene::{open, region};
    use crate::{LockName, Mode, Settings};
    use Mode::{IX, S, X};

    fn name(hash: u64) -> LockName {
        LockName { space: 1, kind: 3, hash }
    }

    #[test]
    fn when_all_are_dead_only_the_lockers_named_keep_their_locks() {
        let region = region();
        let (processes, locks) = open(&region, Settings::default());
        let session = processes.join().unwrap();
        let [gone, prepared, other] = std::array::from_fn(|_| locks.new_locker(&session).unwrap());
        for hash in 0..500 {
            locks.try_lock(&session, gone, name(hash), S).unwrap();
            locks.try_lock(&session, prepared, name(hash * 3), S).unwrap();
        }
        locks.try_lock(&session, prepared, name(7000), IX).unwrap();
        locks.try_lock(&session, other, name(7000), IX).unwrap();
        // The session is killed with a latch and a role.
        let table = &locks.table;
        std::mem::forget(table.bucket(3).latch.exclusive(&session, libtp_process::Rank::LOCK_BUCKET));
        table.header.splitter.publish(session.id());
        std::mem::forget(session);

        let (processes, locks) = open(&region.map_again().unwrap(), Settings::default());
        let repair = processes.repair_alone();
        let keep = [prepared];
        assert_eq!(locks.repair_alone_keeping(&keep), Repaired { lockers: 2, dropped: 501, kept: 501 });
        // A repair that is killed is done again.
        assert_eq!(locks.repair_alone_keeping(&keep), Repaired { lockers: 0, dropped: 0, kept: 501 });
        repair.finish();
        let census = locks.check().unwrap();
        assert_eq!((census.granted, census.objects), (501, 501));
        let session = processes.join().unwrap();
        let newcomer = locks.new_locker(&session).unwrap();
        assert_eq!(locks.holds(&session, prepared, name(7000)), Some(IX));
        assert!(locks.try_lock(&session, newcomer, name(0), X).is_err(), "the prepared transaction holds the lock");
        locks.try_lock(&session, newcomer, name(1), X).unwrap();
        locks.unlock_all(&session, prepared);
        locks.try_lock(&session, newcomer, name(0), X).unwrap();
        locks.free_locker(&session, newcomer);

        assert_eq!(locks.repair_alone(), Repaired { lockers: 1, dropped: 0, kept: 0 });
        assert_eq!(locks.check().unwrap().listed, u64::from(locks.table.header.used.get()));
    }
}
