//! Checks the lock table's invariants while no session uses the table: in tests, and after a repair.

use std::collections::{HashMap, HashSet};

use crate::locker::{filter_bit, LockerSlot, Waiting};
use crate::queue::Queue;
use crate::request::{Place, Request};
use crate::thin::word_number;
use crate::LockManager;

/// The counts of a check: objects, lockers, and slots by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Census {
    /// Objects that a locker holds.
    pub objects: u64,
    /// Requests that hold a mode.
    pub granted: u64,
    /// Granted requests that are in no queue.
    pub thin: u64,
    /// Intent locks that lockers keep, in force or not.
    pub kept: u64,
    /// Requests that wait, for a lock or a conversion.
    pub waiting: u64,
    /// Free slots on lockers' stacks.
    pub reserved: u64,
    /// Free slots in the shared list.
    pub listed: u64,
    /// Slots never used.
    pub fresh: u64,
    /// All slots.
    pub slots: u64,
    /// Lockers that a session has, or had when it died.
    pub lockers: u64,
}

/// The sentence of a failed check.
pub type Broken = String;

macro_rules! demand {
    ($holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(format!($($words)*));
        }
    };
}

impl LockManager {
    /// Checks every invariant. No session uses the table meanwhile.
    ///
    /// # Errors
    /// The invariant that does not hold, as a sentence.
    pub fn check(&self) -> Result<Census, Broken> {
        let mut census = Census { slots: u64::from(self.table.requests.capacity()), ..Census::default() };
        // The locker of each queued request, by the request's place.
        let mut queued = HashMap::new();
        let mut names = 0_u64;
        for number in 0..self.table.buckets.capacity() {
            names += self.check_bucket(number, &mut queued, &mut census)?;
        }
        // Invariant 1 of `table.rs`: a bucket of level l has 2^-l of all names.
        demand!(names == 1 << 32, "the buckets' levels do not cover every name once: {names:#x}");
        let mut places =
            queued.iter().filter(|(&place, _)| !self.table.request(place).state.get().is_kept()).count() as u64;
        let in_queues: HashSet<Place> = queued.keys().copied().collect();
        for number in self.lockers() {
            let slot = self.table.locker(number);
            self.check_stack(number, slot, &mut queued, &mut census)?;
            self.check_kept(number, slot, &mut queued, &mut census)?;
        }
        demand!(queued.is_empty(), "requests in queues but on no locker's stack: {queued:?}");
        self.check_free(&mut census)?;
        self.check_words(census.thin, &in_queues)?;
        places += census.thin + census.kept + census.reserved + census.listed + census.fresh;
        demand!(places == census.slots, "{places} slots of {} can be found: {census:?}", census.slots);
        Ok(census)
    }

    /// Checks a bucket. Returns the bucket's share of all names, in units of 2^-32.
    fn check_bucket(&self, number: u32, queued: &mut HashMap<Place, u32>, census: &mut Census) -> Result<u64, Broken> {
        let bucket = self.table.bucket(number);
        let level = bucket.level.get();
        for queue in self.queues(bucket) {
            let mixed = queue.head.mixed.get();
            demand!(mixed == queue.head.lock_name().mixed(), "{} has a wrong hash", queue.head.lock_name());
            let own_bits = u64::from(number) == mixed & ((1 << level) - 1);
            demand!(level != 0 && own_bits, "{} is in bucket {number}, not in its own", queue.head.lock_name());
            let is_marked = queue.head.lock_name().is_coarse() || self.table.word(mixed).get().is_fat();
            demand!(is_marked, "{} has a queue, and its word is not FAT", queue.head.lock_name());
            demand!(queue.head.queue_prev.get() == Place::NONE, "the head {:?} has a predecessor", queue.place);
            let found = self.table.find(bucket, queue.head.lock_name(), mixed);
            demand!(found.is_ok_and(|found| found.place == queue.place), "{} has two queues", queue.head.lock_name());
            self.check_queue(queue, queued, census)?;
            census.objects += 1;
        }
        Ok(if level == 0 { 0 } else { 1 << (32 - level) })
    }

    fn check_queue(
        &self,
        queue: Queue<'_>,
        queued: &mut HashMap<Place, u32>,
        census: &mut Census,
    ) -> Result<(), Broken> {
        let name = queue.head.lock_name();
        let (mut before, mut granted, mut waits, mut only_waits) = (Place::NONE, Vec::new(), false, false);
        for (place, request) in queue.requests() {
            let state = request.state.get();
            demand!(request.is_for(name), "a request for {} is in the queue of {name}", request.lock_name());
            demand!(request.queue_prev.get() == before, "the queue of {name} has a wrong backward link");
            demand!(queued.insert(place, request.locker.get()).is_none(), "the request at {place:?} is queued twice");
            let some = state.granted().is_some() || state.waits() || state.is_kept();
            demand!(some, "a request for {name} is neither granted nor waits");
            demand!(!state.is_kept() || name.is_coarse(), "a request for {name} is kept, not for a database");
            demand!(!(only_waits && state.granted().is_some()), "a lock on {name} is granted after a waiting request");
            granted.extend(state.granted());
            census.granted += u64::from(queue.held_bit(place, request) != 0);
            census.waiting += u64::from(state.waits());
            only_waits |= state.granted().is_none() && state.waits();
            waits |= state.waits();
            before = place;
        }
        let revoked = queue.requests().any(|(_, request)| request.state.get().is_kept());
        demand!(!granted.is_empty() || revoked, "no locker holds {name}, but it has a queue");
        for (n, mode) in granted.iter().enumerate() {
            let together = granted[n + 1..].iter().all(|other| mode.is_compatible_with(*other));
            demand!(together, "{name} is held in modes that exclude each other: {granted:?}");
        }
        let summary = queue.head.summary.get();
        let modes = granted.iter().fold(0, |set, mode| set | mode.bit());
        demand!(modes & !summary.granted() == 0, "the summary of {name} lacks a mode: {summary:?}");
        demand!(summary.waiting() == waits, "the summary of {name} is wrong about its waiters: {summary:?}");
        Ok(())
    }

    fn check_stack(
        &self,
        number: u32,
        slot: &LockerSlot,
        queued: &mut HashMap<Place, u32>,
        census: &mut Census,
    ) -> Result<(), Broken> {
        let (mut held, mut below, mut count) = (slot.top.get() != Place::NONE, Place::NONE, 0);
        let mut next = slot.first.get();
        while let Some(place) = next.some() {
            let request: &Request = self.table.request(place);
            demand!(request.own_prev.get() == below, "the stack of locker {number} has a wrong backward link");
            if held && request.state.get().is_thin() {
                demand!(!queued.contains_key(&place), "{place:?} of locker {number} is thin and in a queue");
                // If the word does not have the request's place, the locker was about to take the lock, or has released
                // it.
                let is_held = LockerSlot::held_mode(&self.table, place, request).is_some();
                let counts = [&mut census.objects, &mut census.granted, &mut census.thin];
                counts.into_iter().for_each(|count| *count += u64::from(is_held));
                census.reserved += u64::from(!is_held);
            } else if held {
                demand!(queued.remove(&place) == Some(number), "{place:?} of locker {number} is in no queue");
                let mixed = request.mixed.get();
                demand!(slot.filter.get() & filter_bit(mixed) != 0, "the filter of locker {number} lacks a name");
            } else {
                demand!(!queued.contains_key(&place), "{place:?} is free and in a queue");
                census.reserved += 1;
            }
            held &= place != slot.top.get();
            count += 1;
            below = place;
            next = request.own_next.get();
        }
        demand!(!held, "the top request of locker {number} is not on its stack");
        demand!(below == slot.last.get(), "the stack of locker {number} does not end at its last slot");
        demand!(count == slot.slots.get(), "locker {number} has {count} slots, not {}", slot.slots.get());
        Ok(())
    }

    /// Checks that as many words have the place of a thin request as there are thin locks.
    fn check_words(&self, thin: u64, in_queues: &HashSet<Place>) -> Result<(), Broken> {
        let mut owned = 0;
        for (number, word) in self.table.words.words.iter().enumerate() {
            let word = word.get();
            let Some(place) = word.place().some() else { continue };
            let request = self.table.request(place);
            demand!(word_number(request.mixed.get()) == number, "word {number} has the lock of another word");
            owned += u64::from(request.state.get().is_thin());
            let is_inflated = word.is_fat() && in_queues.contains(&place);
            demand!(request.state.get().is_thin() || is_inflated, "word {number} has a request that is not its lock");
        }
        demand!(owned == thin, "{owned} words have owners, and {thin} locks are thin");
        Ok(())
    }

    fn check_kept(
        &self,
        number: u32,
        slot: &LockerSlot,
        queued: &mut HashMap<Place, u32>,
        census: &mut Census,
    ) -> Result<(), Broken> {
        for kept in slot.all_kept(&self.table) {
            let (name, state) = (kept.request.lock_name(), kept.request.state.get());
            let is_queued = queued.remove(&kept.place) == Some(number);
            demand!(state.is_kept(), "locker {number} keeps {name}, but the request is not kept");
            demand!(is_queued || state.granted().is_none(), "locker {number} keeps {name}, which is in no queue");
            demand!(
                kept.is_held(slot) || !slot.is_active(kept.index),
                "locker {number} holds {name}, which was revoked"
            );
            census.kept += 1;
        }
        Ok(())
    }

    fn check_free(&self, census: &mut Census) -> Result<(), Broken> {
        let header = &self.table.header;
        let mut next = header.free_first.get();
        while let Some(place) = next.some() {
            census.listed += 1;
            demand!(census.listed <= census.slots, "the list of free slots is a circle");
            next = self.table.request(place).own_next.get();
        }
        let count = header.free_count.get();
        demand!(census.listed == u64::from(count), "{} free slots are listed, not {count}", census.listed);
        census.fresh = census.slots - u64::from(header.used.get());
        let (mut next, mut lockers) = (header.locker_free.get(), 0_u64);
        while next != 0 {
            let slot = self.table.locker(next);
            demand!(slot.in_use.get() == 0 && slot.top.get() == Place::NONE, "locker {next} is free and in use");
            demand!(slot.waiting.get() == Waiting::NONE, "locker {next} is free and waits");
            next = slot.next_free.get();
            lockers += 1;
        }
        census.lockers = self.lockers().filter(|&number| self.table.locker(number).in_use.get() != 0).count() as u64;
        lockers += census.lockers;
        let used = u64::from(header.locker_used.get());
        demand!(lockers == used, "{lockers} lockers of {used} can be found");
        Ok(())
    }
}
