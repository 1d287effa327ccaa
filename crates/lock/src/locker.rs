//! A locker: a holder of locks, usually a transaction. Its slot, and the stack of its own request slots.
//!
//! Paper: LIBTP 3.2.3, locks are "chained both by object and by transaction". Departure: the chain by transaction also
//! keeps free slots, so taking a lock and giving it back move one word up and down:
//!
//! ```text
//!   first                        top                       last
//!     |                           |                          |
//!     v                           v                          v
//!   [held] <-> [held] <-> ... <-> [held] <-> [free] <-> ... [free]
//! ```
//! Invariants
//! 1. From `first` to `top` are the locker's requests: granted ones and at most one waiting, which is the top. Above
//!    the top are free slots of its own. Without a request `top` is [`Place::NONE`].
//! 2. A bit of `filter` is set for every name that the locker holds (and perhaps for further names); all bits are zero
//!    only if it holds nothing. So most locks are known to be new without a search.
//! 3. One session uses a locker at a time. Other sessions only read it, change the state of its requests under the
//!    latch of their bucket, and store `victim`.
//!
//! 4. A kept intent lock (`kept.rs`) is not on the stack.
//!
//! If we die: the stack states the held locks; `count` and `filter` may be too large, never too small.

use rio::{shared, Word};

use libtp_process::SessionId;

use crate::change::Change;
use crate::lanes::{LaneStart, LaneWait};
use crate::request::{Place, Request};
use crate::table::{goes_in_a_circle, Table};

shared! {
    /// A locker's slot. The first cache line is written by its own session only.
    pub(crate) struct LockerSlot {
        /// The last request that the locker made and still has.
        pub(crate) top: Word<Place>,
        /// The bottom of the locker's stack of slots.
        pub(crate) first: Word<Place>,
        /// The end of the stack.
        pub(crate) last: Word<Place>,
        /// The number of slots on the stack.
        pub(crate) slots: Word<u32>,
        /// The number of requests.
        pub(crate) count: Word<u32>,
        /// Non-zero while the locker is in use.
        pub(crate) in_use: Word<u32>,
        /// The next free locker slot.
        pub(crate) next_free: Word<u32>,
        /// The number of the locker's last wait.
        pub(crate) waits: Word<u32>,
        /// A bit for every name that the locker holds.
        pub(crate) filter: Word<u64>,
        /// When its transaction began, in numbers that grow.
        pub(crate) birth: Word<u64>,
        /// Bytes its transaction has logged.
        pub(crate) log_bytes: Word<u64>,
        /// Bit n: kept request n may be active.
        pub(crate) active: Word<u64>,
        /// The intent locks that outlive transactions (`kept.rs`). A cache line.
        pub(crate) kept: [Word<u64>; 8],

        /// The session to wake when a request is granted.
        pub(crate) session: Word<SessionId>,
        /// The locker's present wait.
        pub(crate) waiting: Word<Waiting>,
        /// The number of the wait that the locker must give up, as a victim.
        pub(crate) victim: Word<u32>,
        /// The number of the locker's last wait in a circle in which another locker gave way.
        pub(crate) spared: Word<u32>,
        /// When the wait began, in microseconds since the machine started, for the tools; zero while the wait is young.
        pub(crate) waiting_since: Word<u64>,
        /// Until when the locker stands aside, or last did, in microseconds since the machine started (`backoff.rs`).
        pub(crate) aside_until: Word<u64>,
        /// Non-zero if the locker must stand aside before its next transaction.
        pub(crate) aside_due: Word<u32>,
        /// How many times the pause was doubled.
        pub(crate) aside_doublings: Word<u32>,
        /// Until when its transactions begin in a lane, in microseconds since the machine started, or zero (`lanes.rs`).
        pub(crate) crowded_until: Word<u64>,
        /// The locker's last lane, and when it last began a transaction in that lane.
        pub(crate) lane: Word<LaneStart>,
        /// Since when the locker waits for a lane, and when it last looked for one.
        pub(crate) wants_lane: Word<LaneWait>,
    } size 192
}

/// A locker's present wait: the request's place (low half) and the wait's number (high half). Zero: no wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting(u64);
rio::bits!(Waiting: u64);

impl Waiting {
    pub(crate) const NONE: Waiting = Waiting(0);

    pub(crate) fn new(request: Place, number: u32) -> Waiting {
        Waiting(u64::from(request.0) | u64::from(number) << 32)
    }

    pub(crate) fn request(self) -> Option<Place> {
        u32::try_from(self.0 & u64::from(u32::MAX)).ok().map(Place).and_then(Place::some)
    }

    pub(crate) fn number(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(0)
    }
}

/// Returns the bit of a name in a locker's filter.
#[inline]
pub(crate) fn filter_bit(mixed: u64) -> u64 {
    1 << (mixed >> 32 & 63)
}

impl LockerSlot {
    /// Returns the slot for the locker's next request, if it has a free slot.
    #[inline]
    pub(crate) fn next_free_slot(&self, table: &Table) -> Option<Place> {
        match self.top.get().some() {
            None => self.first.get().some(),
            Some(top) => table.request(top).own_next.get().some(),
        }
    }

    /// Makes the free slot `next` the locker's newest request.
    #[inline]
    pub(crate) fn push(&self, change: &mut Change<'_>, next: Place) {
        change.set(&self.top, next);
    }

    /// Makes `request`, which has left its queue, a free slot of the locker.
    #[inline]
    pub(crate) fn drop_request(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        if self.top.get() == place {
            change.set(&self.top, request.own_prev.get());
        } else {
            self.move_above_top(table, change, place, request);
        }
    }

    fn move_above_top(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        let (below, above) = (request.own_prev.get(), request.own_next.get());
        match below.some() {
            None => change.set(&self.first, above),
            Some(below) => change.set(&table.request(below).own_next, above),
        }
        change.set(&table.request(above).own_prev, below);
        let top = self.top.get();
        let top_request = table.request(top);
        let free = top_request.own_next.get();
        change.set(&request.own_prev, top);
        change.set(&request.own_next, free);
        change.set(&top_request.own_next, place);
        match free.some() {
            None => change.set(&self.last, place),
            Some(free) => change.set(&table.request(free).own_prev, place),
        }
    }

    /// Takes the locker's lowest free slot off the stack.
    pub(crate) fn take_slot(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        debug_assert_eq!(self.next_free_slot(table), Some(place), "only the lowest free slot is taken");
        let (top, above) = (self.top.get(), request.own_next.get());
        match top.some() {
            None => change.set(&self.first, above),
            Some(top) => change.set(&table.request(top).own_next, above),
        }
        match above.some() {
            None => change.set(&self.last, top),
            Some(above) => change.set(&table.request(above).own_prev, top),
        }
        change.set(&self.slots, self.slots.get() - 1);
    }

    /// Puts a slot of the locker on the stack, as its lowest free slot.
    pub(crate) fn return_slot(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        let (top, above) = (self.top.get(), self.next_free_slot(table).unwrap_or(Place::NONE));
        change.set(&request.own_prev, top);
        change.set(&request.own_next, above);
        match top.some() {
            None => change.set(&self.first, place),
            Some(top) => change.set(&table.request(top).own_next, place),
        }
        match above.some() {
            None => change.set(&self.last, place),
            Some(above) => change.set(&table.request(above).own_prev, place),
        }
        change.set(&self.slots, self.slots.get() + 1);
    }

    /// Returns the locker's requests, newest first.
    pub(crate) fn requests<'t>(&self, table: &'t Table) -> impl Iterator<Item = (Place, &'t Request)> {
        let mut next = self.top.get();
        let mut left = table.requests.capacity();
        std::iter::from_fn(move || {
            let place = next.some()?;
            let request = table.request(place);
            next = request.own_prev.get();
            left = left.checked_sub(1).unwrap_or_else(|| goes_in_a_circle());
            Some((place, request))
        })
    }

    /// Notes one request more. Not undone if we die: the count is then too large.
    #[inline]
    pub(crate) fn note_one_more(&self, mixed: u64) {
        self.count.init(self.count.get() + 1);
        self.filter.init(self.filter.get() | filter_bit(mixed));
    }

    /// Notes one request less.
    #[inline]
    pub(crate) fn note_one_less(&self) {
        let count = self.count.get();
        self.count.init(count.saturating_sub(1));
        if self.top.get() == Place::NONE {
            self.filter.init(0);
        }
    }

    /// Returns whether the locker was the victim of its last wait and has not given its locks back since. Such a locker
    /// comes back for them at once; if it overtook the locker that it gave way to, the two would deadlock again.
    #[inline]
    pub(crate) fn has_given_way(&self) -> bool {
        let victim = self.victim.load();
        let has_given_way = victim != 0 && victim == self.waits.get();
        if has_given_way {
            self.victim.publish(0);
        }
        has_given_way
    }

    /// Returns whether the locker may hold the name. False is certain.
    #[inline]
    pub(crate) fn may_hold(&self, mixed: u64) -> bool {
        self.filter.get() & filter_bit(mixed) != 0
    }
}
