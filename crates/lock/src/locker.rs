//! Lockers. A locker is a holder of locks, usually a transaction, and has a slot in the region.
//!
//! Invariants
//! 1. `filter` has a bit for every name that the locker holds, and perhaps for further names. If the bit of a name is
//!    zero, the locker does not hold the name. So for most locks no search is needed to know that the locker does not
//!    hold them yet.
//! 2. One session uses a locker at a time. Other sessions only read it, change the state of its requests under the
//!    latch of their bucket, mark `active`, and store `victim`.
//!
//! If we die: the stack (`stack.rs`) states the held locks; `count` and `filter` may be too large, never too small.

use rio::{shared, Word};

use libtp_process::SessionId;

use crate::lane::{LaneStart, LaneWait};
use crate::request::Place;

shared! {
    /// A locker's slot. Its own session writes the first cache line; another session may mark `active` there.
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
        /// Shows when the locker's transaction began: a later transaction has a larger number.
        pub(crate) birth: Word<u64>,
        /// The number of bytes that the locker's transaction has logged.
        pub(crate) log_bytes: Word<u64>,
        /// Bit n: kept request n is active. The highest bit: another locker waits, or has waited, for one of these
        /// requests.
        pub(crate) active: Word<u64>,
        /// The intent locks that outlive transactions (`kept.rs`). They fill one cache line.
        pub(crate) kept: [Word<u64>; 8],

        /// The session to wake when a request is granted.
        pub(crate) session: Word<SessionId>,
        /// The locker's present wait.
        pub(crate) waiting: Word<Waiting>,
        /// The number of the wait that the locker must give up, as a victim.
        pub(crate) victim: Word<u32>,
        /// The number of the locker's last wait in a circle in which another locker was the victim.
        pub(crate) spared: Word<u32>,
        /// When the wait began, in microseconds since the machine started, for the tools; zero while the wait is young.
        pub(crate) waiting_since: Word<u64>,
        /// The end of the locker's present or last pause after a deadlock, in microseconds since the machine started
        /// (`backoff.rs`).
        pub(crate) pause_until: Word<u64>,
        /// Non-zero if the locker must pause before its next transaction.
        pub(crate) pause_due: Word<u32>,
        /// How many times the pause was doubled.
        pub(crate) pause_doublings: Word<u32>,
        /// The time until which the locker's transactions begin in a lane, in microseconds since the machine started,
        /// or zero (`lanes.rs`).
        pub(crate) lanes_until: Word<u64>,
        /// The locker's last lane, and when it last began a transaction in that lane.
        pub(crate) lane: Word<LaneStart>,
        /// When the locker's wait for a lane began, and when it last looked for a lane.
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
    /// Counts one more request. A rollback does not undo this: after a death the count may be too large.
    #[inline]
    pub(crate) fn note_one_more(&self, mixed: u64) {
        self.count.init(self.count.get() + 1);
        self.filter.init(self.filter.get() | filter_bit(mixed));
    }

    /// Counts one request less.
    #[inline]
    pub(crate) fn note_one_less(&self) {
        let count = self.count.get();
        self.count.init(count.saturating_sub(1));
        if self.top.get() == Place::NONE {
            self.filter.init(0);
        }
    }

    /// Returns whether the locker was the victim of its last wait and has not released its locks since. Such a locker
    /// asks for the same locks again at once. If it then overtook the other locker of the deadlock, the two would
    /// deadlock again.
    #[inline]
    pub(crate) fn was_victim(&self) -> bool {
        let victim = self.victim.load();
        let was_victim = victim != 0 && victim == self.waits.get();
        if was_victim {
            self.victim.publish(0);
        }
        was_victim
    }

    /// Returns whether the locker may hold the name. False is certain.
    #[inline]
    pub(crate) fn may_hold(&self, mixed: u64) -> bool {
        self.filter.get() & filter_bit(mixed) != 0
    }
}
