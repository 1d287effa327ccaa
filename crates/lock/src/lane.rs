//! A lane, and the words of lanes and of their waiters (`lanes.rs`). The times in these words wrap around, so each time
//! is compared only with times near it.

use rio::{shared, Word};

/// The number of lanes in the region. A machine with more processors uses only this number of lanes.
pub(crate) const LANES: u32 = 64;
/// The length of a turn, in microseconds: longer than the cost of waking another session, shorter than a process's time
/// slice.
pub(crate) const TURN: u64 = 2_000;
/// The time, in microseconds, after which a session that has a lane, holds no lock and has begun no transaction counts
/// as away.
pub(crate) const AWAY_AFTER: u64 = 100;
/// The time, in microseconds, after which a waiter that has not looked for a lane counts as stopped, and gets no lane.
pub(crate) const STOPPED_AFTER: u64 = 100_000;
/// A turn that ends later than this, in microseconds from now, is invalid: the clock was changed.
pub(crate) const CLOCK_SET: u64 = 1_000_000;
/// Bits of the time, in microseconds, which wraps around every twelve days; the other bits are the locker's number.
const TIME_BITS: u32 = 40;
pub(crate) const LOCKER_BITS: u32 = u64::BITS - TIME_BITS;
const TIME: u64 = (1 << TIME_BITS) - 1;

shared! {
    /// A lane, in a separate cache line.
    pub(crate) struct Lane {
        /// The lane's locker, and the end of its turn.
        pub(crate) taken: Word<LaneTurn>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 7],
    } size 64
}

/// A locker and the end of its turn. Zero: the lane is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneTurn(u64);
rio::bits!(LaneTurn: u64);

impl LaneTurn {
    pub(crate) fn new(locker: u32, now: u64) -> LaneTurn {
        LaneTurn(u64::from(locker) << TIME_BITS | (now + TURN) & TIME)
    }

    /// Returns the lane's locker. Lockers whose numbers need more bits, beyond sixteen million, use no lanes.
    pub(crate) fn locker(self) -> u32 {
        u32::try_from(self.0 >> TIME_BITS).unwrap_or(0)
    }

    /// Returns whether the turn is over, or the lane is free. The turn may have begun after `now` was read. A turn that
    /// ends too far in the future counts as over.
    pub(crate) fn is_over(self, now: u64) -> bool {
        let left = self.0.wrapping_sub(now) & TIME;
        left == 0 || left > CLOCK_SET || self.locker() == 0
    }
}

/// The note of a waiter for a lane: when its wait began, and when it last looked for a lane. Zero if it does not wait.
///
/// Both are times of 16 bits, in steps of about two milliseconds. They wrap around after a minute: a session that was
/// stopped for a minute may once get a lane although it does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneWait(u32);
rio::bits!(LaneWait: u32);

impl LaneWait {
    pub(crate) const NONE: LaneWait = LaneWait(0);
    const MOMENTS: u32 = 0xffff;

    pub(crate) fn new(since: u64, now: u64) -> LaneWait {
        LaneWait(LaneWait::moment(since) << 16 | LaneWait::moment(now))
    }

    /// Converts a time to one of these times of 16 bits. The result is never zero.
    fn moment(time: u64) -> u32 {
        u32::try_from(time >> 10 & u64::from(LaneWait::MOMENTS)).unwrap_or(0) | 1
    }

    fn ago(moment: u32, now: u64) -> u64 {
        let ago = LaneWait::moment(now).wrapping_sub(moment) & LaneWait::MOMENTS;
        // `now` was read earlier, so a moment just after `now` counts as now.
        if ago > LaneWait::MOMENTS / 2 {
            0
        } else {
            u64::from(ago) << 10
        }
    }

    /// Returns whether the locker waits for a lane and has looked for one lately.
    pub(crate) fn has_looked(self, now: u64) -> bool {
        self != LaneWait::NONE && LaneWait::ago(self.0 & LaneWait::MOMENTS, now) < STOPPED_AFTER
    }

    /// Returns how long the locker has waited.
    pub(crate) fn waited(self, now: u64) -> u64 {
        LaneWait::ago(self.0 >> 16, now)
    }
}

/// A locker's last lane, and when it last began a transaction in it: eight bits, and a time in units of 32
/// microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneStart(u32);
rio::bits!(LaneStart: u32);

impl LaneStart {
    const LANE_BITS: u32 = 8;
    const TIMES: u64 = u32::MAX as u64 >> LaneStart::LANE_BITS;

    pub(crate) fn new(lane: u32, now: u64) -> LaneStart {
        LaneStart(u32::try_from(now >> 5 & LaneStart::TIMES).unwrap_or(0) << LaneStart::LANE_BITS | lane)
    }

    pub(crate) fn lane(self) -> u32 {
        self.0 & ((1 << LaneStart::LANE_BITS) - 1)
    }

    /// Returns whether the locker began its last transaction so long ago that it counts as away if it has no locks.
    /// False for a time just after `now`.
    pub(crate) fn is_long_ago(self, now: u64) -> bool {
        let ago = (now >> 5).wrapping_sub(u64::from(self.0 >> LaneStart::LANE_BITS)) & LaneStart::TIMES;
        ago > AWAY_AFTER >> 5 && ago <= LaneStart::TIMES / 2
    }
}

#[cfg(test)]
mod tests {
    use super::{LaneStart, LaneTurn, LaneWait, AWAY_AFTER, CLOCK_SET, TURN};

    const NOW: u64 = (1 << 50) - 5;
    const MS: u64 = 1024;

    #[test]
    fn moments_wrap_around() {
        for now in [0, 5, (1 << 26) - 1, 1 << 26, (1 << 40) - 3] {
            let later = |ms: u64| now + ms * MS;
            let wish = LaneWait::new(now, later(7));
            assert!(wish != LaneWait::NONE && wish.has_looked(later(7)) && wish.has_looked(later(90)));
            assert!(
                !wish.has_looked(later(300)) && wish.has_looked(later(5)),
                "noted a moment after the clock was read"
            );
            assert!((198..=202).contains(&(wish.waited(later(200)) / MS)), "{}", wish.waited(later(200)));
            let begun = LaneStart::new(63, now);
            assert_eq!(begun.lane(), 63);
            assert!(!begun.is_long_ago(now + AWAY_AFTER / 2) && begun.is_long_ago(now + 2 * AWAY_AFTER));
            assert!(!begun.is_long_ago(now.saturating_sub(40)), "begun a moment after the clock was read");
        }
    }

    #[test]
    fn a_turn_ends_when_the_clock_is_set() {
        let taken = LaneTurn::new(7, NOW);
        assert_eq!(taken.locker(), 7);
        assert!(!taken.is_over(NOW) && !taken.is_over(NOW + TURN - 1), "the time may wrap around");
        assert!(!taken.is_over(NOW - 1), "the turn began a moment after the clock was read");
        assert!(taken.is_over(NOW + TURN) && taken.is_over(NOW - CLOCK_SET) && taken.is_over(NOW - (1 << 30)));
    }
}
