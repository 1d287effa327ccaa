//! The lock table in the region: buckets found by hash, growing one at a time.
//!
//! Paper: LIBTP 3.2.3, "locks are located via a file and page hash table". Departure: the table needs no size given in
//! advance. Linear hashing splits one bucket after the other (PROTOCOLS D14), whenever an insertion finds a long chain.
//!
//! A bucket is one cache line: a latch, its *level* and eight chains. A bucket of level `l` and number `b` holds the
//! names whose low `l` bits are `b`. The number of buckets is read without a latch and is only a hint for the search.
//! The level, read under the bucket's latch, decides whether this is the bucket of the name. If it is not, the level
//! determines the next bucket to check.
//!
//! Invariants
//! 1. Every name belongs to exactly one of the buckets that have a level.
//! 2. A bucket's chains, and all queues in them, change only under its latch.
//! 3. Two buckets are latched together only by a split, which latches the bucket with the lower number first.
//!
//! If we die here: a split is one section. The hint is stored after the section. If the session dies before that, the
//! next session that splits stores the hint.

use std::sync::atomic::{AtomicU32, Ordering};

use rio::{failpoint, planted, shared, Held, Link, Region, Slab, SlabHeader, Word};

use libtp_process::{ExclusiveGuard, Latch, Rank, Session, SessionId};

use crate::change::Change;
use crate::lane::Lane;
use crate::locker::LockerSlot;
use crate::request::{Place, Request};
use crate::thin::{Thin, ThinWords, WORDS};

/// Chains of a bucket.
pub(crate) const CHAINS: usize = 8;
/// The number of buckets at first; `FIRST_LEVEL` is its base-2 logarithm.
pub(crate) const FIRST_BUCKETS: u32 = 1 << FIRST_LEVEL;
const FIRST_LEVEL: u32 = 6;
/// A chain with this many objects is long. An insertion that finds a long chain splits a bucket.
pub(crate) const LONG_CHAIN: u32 = 3;
/// The length that no chain and no queue reaches: a chain of this length is a circle, which a wild store has made.
pub(crate) const CHAIN_MAX: u32 = 1 << 24;
/// The largest number of buckets in which a search looks for a name. A name was in at most one bucket for each level,
/// so a longer search goes in a circle.
const LEVELS_MAX: u32 = 1 << 10;
/// A bucket with at most this number of objects is split with the undo log that every session has; for more, the log is
/// made larger first.
const SPLIT_MAX: usize = 256;
/// Bytes of before-images for an object that moves to another chain: three words, with their headers.
const SPLIT_UNDO_BYTES: usize = 48;
/// The largest number of postponed splits that are made at a time.
const POSTPONED_MAX: u32 = 4096;

shared! {
    /// The lock manager's root in the region: a cache line that all sessions read, a line for free slots, and a line
    /// for roles.
    pub(crate) struct LockHeader {
        /// The slab of buckets.
        pub(crate) buckets: Link<SlabHeader>,
        /// The slab of requests.
        pub(crate) requests: Link<SlabHeader>,
        /// The slab of lockers.
        pub(crate) lockers: Link<SlabHeader>,
        /// The lanes.
        pub(crate) lanes: Link<Lane>,
        /// The words of thin locks.
        pub(crate) words: Link<ThinWords>,
        /// The number of buckets: a hint (see the top of the file).
        pub(crate) bucket_count: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare_count: Word<u32>,
        /// How many times kept intent locks went out of force (`kept.rs`).
        pub(crate) intent_epoch: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u32>; 2],

        /// Guards the rest of its line (rank `LOCK_SLAB`).
        pub(crate) slab_latch: Latch,
        /// The first of the free request slots that belong to no locker, chained by `own_next`.
        pub(crate) free_first: Word<Place>,
        /// The number of these slots.
        pub(crate) free_count: Word<u32>,
        /// The number of request slots that were ever used. Slots with higher numbers were never used.
        pub(crate) used: Word<u32>,
        /// The first free locker slot that was used before.
        pub(crate) locker_free: Word<u32>,
        /// The number of locker slots that were ever used.
        pub(crate) locker_used: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare_slab: [Word<u32>; 9],

        /// The session that splits a bucket.
        pub(crate) splitter: Word<SessionId>,
        /// The session that searches for deadlocks.
        pub(crate) detector: Word<SessionId>,
        /// When the last whole search began, in microseconds since the machine started.
        pub(crate) searched_micros: Word<u64>,
        /// Waits so far.
        pub(crate) wait_count: Word<u64>,
        /// Deadlocks resolved so far.
        pub(crate) deadlock_count: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare_roles: [Word<u64>; 3],
    } size 192
}

shared! {
    /// A bucket: one cache line.
    pub(crate) struct Bucket {
        /// Guards the bucket and all queues in its chains (rank `LOCK_BUCKET`).
        pub(crate) latch: Latch,
        /// The number of low bits of a hash that are compared: a name belongs to this bucket if these bits are the
        /// bucket's number. Zero before a split makes the bucket.
        pub(crate) level: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u32>; 5],
        /// The heads of the queues.
        pub(crate) chains: [Word<Place>; 8],
    } size 64
}

impl Bucket {
    /// Returns the chain of a name.
    #[inline]
    pub(crate) fn chain(&self, mixed: u64) -> &Word<Place> {
        // The index has three bits, so it is never out of bounds, and the compiler can prove this.
        &self.chains[(mixed >> 61) as usize & (CHAINS - 1)]
    }
}

/// This process's handles to the parts of the lock table.
pub(crate) struct Table {
    pub(crate) region: Region,
    pub(crate) header: Held<LockHeader>,
    pub(crate) buckets: Slab<Bucket>,
    pub(crate) requests: Slab<Request>,
    pub(crate) lockers: Slab<LockerSlot>,
    pub(crate) words: Held<ThinWords>,
    /// Splits that this process postponed because a latch was held.
    pub(crate) postponed_splits: AtomicU32,
}

/// A bucket held exclusively.
pub(crate) struct Latched<'t> {
    pub(crate) bucket: &'t Bucket,
    // Held until it is dropped; never read.
    _guard: ExclusiveGuard<'t>,
}

impl Table {
    /// Makes the buckets of a new table.
    pub(crate) fn init_buckets(buckets: &Slab<Bucket>) -> rio::Result<()> {
        for index in buckets.grow()? {
            buckets.at(index).level.init(FIRST_LEVEL);
        }
        Ok(())
    }

    /// Returns the request at a place.
    ///
    /// # Panics
    /// If `place` is [`Place::NONE`]: a chain is broken.
    #[inline]
    pub(crate) fn request(&self, place: Place) -> &Request {
        self.region.at(place.offset().expect("the end of a chain is never followed"))
    }

    /// Returns the locker of that number.
    #[inline]
    pub(crate) fn locker(&self, number: u32) -> &LockerSlot {
        self.lockers.at(number)
    }

    /// Returns the word of a name's thin lock.
    #[inline]
    pub(crate) fn word(&self, mixed: u64) -> &Word<Thin> {
        self.words.of(mixed)
    }

    /// Returns the bucket of that number, from zero.
    #[inline]
    pub(crate) fn bucket(&self, number: u32) -> &Bucket {
        self.buckets.at(number + 1)
    }

    /// Latches the bucket of a name.
    // Always inlined: if the guard were returned through memory, its halves would be read back before the stores
    // complete.
    #[inline(always)]
    pub(crate) fn latch<'t>(&'t self, session: &'t Session, mixed: u64) -> Latched<'t> {
        let mut number = likely_bucket(mixed, self.header.bucket_count.get());
        for _ in 0..LEVELS_MAX {
            let bucket = self.bucket(number);
            let guard = bucket.latch.exclusive(session, Rank::LOCK_BUCKET);
            let level = bucket.level.get();
            if level != 0 && low_bits(mixed, level) == number {
                return Latched { bucket, _guard: guard };
            }
            // The hint was old: a split has happened since.
            drop(guard);
            number = other_bucket(mixed, number, level);
        }
        goes_in_a_circle()
    }

    /// Returns the bucket of a name, while no other session uses the table.
    pub(crate) fn own_bucket(&self, mixed: u64) -> &Bucket {
        let mut number = likely_bucket(mixed, self.header.bucket_count.get());
        loop {
            let bucket = self.bucket(number);
            let level = bucket.level.get();
            if level != 0 && low_bits(mixed, level) == number {
                return bucket;
            }
            number = other_bucket(mixed, number, level);
        }
    }

    /// Returns the word of a chain that leads to a head.
    #[inline]
    pub(crate) fn link_to<'t>(&'t self, bucket: &'t Bucket, mixed: u64, head: Place) -> &'t Word<Place> {
        let mut link = bucket.chain(mixed);
        for _ in 0..CHAIN_MAX {
            if link.get() == head {
                return link;
            }
            link = &self.request(link.get()).chain_next;
        }
        goes_in_a_circle()
    }

    /// Splits the next bucket, unless another session splits or there are enough buckets. Returns whether a bucket was
    /// split.
    #[cold]
    #[inline(never)]
    pub(crate) fn split_one(&self, session: &Session) -> bool {
        let Some(role) = Role::take(&self.header.splitter, session) else { return false };
        let count = self.header.bucket_count.load();
        // More chains than twice the slots would only cost memory. With more buckets than words, the names of one word
        // would be in several buckets.
        let enough = u64::from(count) * CHAINS as u64 >= 2 * u64::from(self.requests.capacity()) || count >= WORDS;
        // Without room for more buckets the chains grow longer; nothing fails.
        let is_split =
            !enough && (count < self.buckets.capacity() || self.buckets.grow().is_ok()) && self.split(session, count);
        if is_split {
            failpoint("lock: bucket split, not counted");
            self.header.bucket_count.publish(count + 1);
        }
        failpoint("lock: split done, splitter role held");
        role.give_back();
        is_split
    }

    /// Postpones a split until no latch is held: a split may need more memory, and the kernel gives memory only through
    /// a system call.
    #[cold]
    #[inline(never)]
    pub(crate) fn postpone_split(&self) {
        // Relaxed: a count of work, which orders nothing.
        self.postponed_splits.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the postponed splits. The caller holds no latch.
    #[inline]
    pub(crate) fn make_postponed_splits(&self, session: &Session) {
        if self.has_postponed_splits() {
            self.split_postponed(session);
        }
    }

    /// Returns whether splits are postponed.
    #[inline]
    pub(crate) fn has_postponed_splits(&self) -> bool {
        self.postponed_splits.load(Ordering::Relaxed) != 0
    }

    #[cold]
    #[inline(never)]
    fn split_postponed(&self, session: &Session) {
        let count = self.postponed_splits.swap(0, Ordering::Relaxed).min(POSTPONED_MAX);
        // If another session splits, or there are enough buckets, the postponed splits are dropped: the next long chain
        // asks for a split again.
        (0..count).all(|_| self.split_one(session));
    }

    /// Splits off bucket `child`. Returns whether the bucket exists now.
    fn split(&self, session: &Session, child: u32) -> bool {
        let mut most = SPLIT_MAX;
        while let Err(objects) = self.split_up_to(session, child, most) {
            // The chains may be longer at the next attempt.
            most = 2 * objects;
            if session.ensure_undo((most * SPLIT_UNDO_BYTES + 4096) as u64).is_err() {
                return false;
            }
        }
        true
    }

    /// Splits off bucket `child`. If its parent bucket has more than `most` objects, returns their number instead.
    fn split_up_to(&self, session: &Session, child: u32, most: usize) -> Result<(), usize> {
        let level = child.ilog2();
        let (old, new) = (self.bucket(child - (1 << level)), self.bucket(child));
        let _old_guard = old.latch.exclusive(session, Rank::LOCK_BUCKET);
        let _new_guard = new.latch.exclusive(session, Rank::LOCK_BUCKET);
        if new.level.get() != 0 {
            // The session that split the bucket off died before it counted the bucket.
            return Ok(());
        }
        assert_eq!(old.level.get(), level, "buckets are split in order");
        let objects = old.chains.iter().map(|chain| self.chain_length(chain)).sum::<usize>();
        if objects > most {
            return Err(objects);
        }
        let mut change = Change::open(session);
        failpoint("lock: bucket split begun");
        for (old_chain, new_chain) in old.chains.iter().zip(&new.chains) {
            self.split_chain(&mut change, old_chain, new_chain, level);
        }
        failpoint("lock: chains split, levels old");
        change.set(&old.level, level + 1);
        change.set(&new.level, level + 1);
        change.close();
        failpoint("lock: bucket split");
        Ok(())
    }

    /// Moves the objects whose bit number `level` is set.
    fn split_chain(&self, change: &mut Change<'_>, old: &Word<Place>, new: &Word<Place>, level: u32) {
        let mut link = old;
        while let Some(place) = link.get().some() {
            let head = self.request(place);
            if head.mixed.get() >> level & 1 == 0 {
                link = &head.chain_next;
                continue;
            }
            change.set(link, head.chain_next.get());
            failpoint("lock: object in no chain");
            change.set(&head.chain_next, new.get());
            change.set(new, place);
        }
    }

    pub(crate) fn chain_length(&self, chain: &Word<Place>) -> usize {
        let heads = std::iter::successors(chain.get().some(), |&place| self.request(place).chain_next.get().some());
        let count = heads.take(CHAIN_MAX as usize).count();
        if count == CHAIN_MAX as usize {
            goes_in_a_circle();
        }
        count
    }
}

/// Returns the bucket of a name if there are `count` buckets.
#[inline]
fn likely_bucket(mixed: u64, count: u32) -> u32 {
    let level = count.max(FIRST_BUCKETS).ilog2();
    let wide = low_bits(mixed, level + 1);
    if wide < count {
        wide
    } else {
        low_bits(mixed, level)
    }
}

#[inline]
fn low_bits(mixed: u64, level: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
    let low = mixed as u32;
    // Levels are at most 31: a slab has fewer than 2^31 slots.
    low & !(u32::MAX << (level & 31))
}

/// Returns the next bucket to check for a name that is not in bucket `number` of that level: the bucket was split, or
/// was not made yet.
#[cold]
#[inline(never)]
fn other_bucket(mixed: u64, number: u32, level: u32) -> u32 {
    if level != 0 {
        // Follows the first split that moved the name away from this bucket. Later splits, of other buckets, may have
        // moved the name further, but perhaps they have not happened yet.
        let away = (low_bits(mixed, level) ^ number).trailing_zeros();
        return low_bits(mixed, away + 1);
    }
    assert!(number >= FIRST_BUCKETS, "bucket {number} of the lock table has lost its level");
    number & !(1 << number.ilog2())
}

/// Panics because a wild store has made a circle of a chain.
#[cold]
#[inline(never)]
pub(crate) fn goes_in_a_circle() -> ! {
    panic!("a chain of the lock table has no end")
}

/// A role: at most one session has it at a time. The word has the session's id. If that session is dead, another
/// session takes the role over (PROTOCOLS D5).
pub(crate) struct Role<'t> {
    word: &'t Word<SessionId>,
    me: SessionId,
}

impl<'t> Role<'t> {
    /// Takes the role, unless a living session has it.
    pub(crate) fn take(word: &'t Word<SessionId>, session: &Session) -> Option<Role<'t>> {
        Role::take_unless(word, session, |holder| session.processes().is_alive(holder))
    }

    /// As [`Role::take`], but also takes the role from a stopped session: for a role that two sessions may have at once
    /// without harm.
    pub(crate) fn take_from_stopped(word: &'t Word<SessionId>, session: &Session) -> Option<Role<'t>> {
        let processes = session.processes();
        let is_waited_for = planted("lock: a stopped session keeps its role");
        let is_at_it = |holder| processes.is_alive(holder) && (is_waited_for || !processes.is_stopped(holder));
        Role::take_unless(word, session, is_at_it)
    }

    fn take_unless(
        word: &'t Word<SessionId>,
        session: &Session,
        is_at_it: impl Fn(SessionId) -> bool,
    ) -> Option<Role<'t>> {
        let holder = word.load();
        let is_held = holder != SessionId::NONE;
        if is_held && (is_at_it(holder) || planted("lock: a dead session keeps its role")) {
            return None;
        }
        let me = session.id();
        word.compare_exchange(holder, me).is_ok().then_some(Role { word, me })
    }

    pub(crate) fn give_back(self) {
        // The swap fails if another session has taken the role over.
        let _ = self.word.compare_exchange(self.me, SessionId::NONE);
    }
}
