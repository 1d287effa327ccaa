//! The state of a frame and the count of changes of its page, in one word (docs/design/0022).
//!
//! A session that reads a page without its latch loads this word before and after the read. If both loads return the
//! same resident version, with an even count, then the page was in the frame and did not change during the read.
//!
//! Invariants
//! 1. The word changes under the slot's exclusive latch only.
//! 2. A count never has an earlier value again: no roll-back and no repair lowers it. If a page changed once in each
//!    nanosecond, its count would overflow after 36 years.

use rio::bits;

/// The state of a slot. Changed under its exclusive latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Empty: on the free list, or taken by a session and not yet used.
    Free,
    /// Being read from the disk. A session that finds the slot in the table waits for the latch and looks again.
    Loading,
    /// The page is there.
    Resident,
}

/// A state, and a count of changes. The count is odd while the page changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);
bits!(Version: u64);

/// The number of bits of the count. The state is in the bits above.
const COUNT_BITS: u32 = 61;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Only this state sets the highest bit, so a test of one bit shows whether the page is there. Every get does this
/// test.
const RESIDENT: u64 = 4;

impl Version {
    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 >> COUNT_BITS {
            1 => State::Loading,
            RESIDENT => State::Resident,
            _ => State::Free,
        }
    }

    /// Returns the version with another state. A page that becomes resident gets the next even count.
    pub(crate) fn with(self, state: State) -> Version {
        let (raw, count) = match state {
            State::Free => (0, self.0),
            State::Loading => (1, self.0),
            State::Resident => (RESIDENT, (self.0 | 1) + 1),
        };
        Version(raw << COUNT_BITS | count & COUNT)
    }

    /// Whether the page is there.
    #[inline(always)]
    pub(crate) fn is_resident(self) -> bool {
        self.0 >> (u64::BITS - 1) != 0
    }

    /// Whether a session is changing the page, or has died during a change.
    #[inline(always)]
    pub(crate) fn is_changing(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the page is there and does not change.
    #[inline(always)]
    pub(crate) fn is_readable(self) -> bool {
        self.is_resident() && !self.is_changing()
    }

    /// Returns the version during a change.
    #[inline(always)]
    pub(crate) fn changing(self) -> Version {
        Version(self.0 | 1)
    }

    /// Returns the version after a change. The count is odd during the change, and the result has the next even count.
    #[inline(always)]
    pub(crate) fn changed(self) -> Version {
        Version(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_raises_the_count_and_keeps_the_state() {
        for state in [State::Free, State::Loading, State::Resident] {
            let version = Version(6).with(state);
            assert_eq!(
                (version.state(), version.changing().state(), version.changing().changed().state()),
                (state, state, state)
            );
            assert!(version.changing().is_changing() && !version.changing().changed().is_changing());
            assert_eq!(version.changing().changing(), version.changing());
            assert_ne!(version.changing().changed(), version);
        }
    }

    #[test]
    fn only_a_resident_page_that_does_not_change_is_readable() {
        assert!(Version(0).with(State::Resident).is_readable());
        assert!(!Version(0).with(State::Resident).changing().is_readable());
        assert!(!Version(0).with(State::Loading).is_readable());
        assert!(!Version(0).is_readable());
    }

    #[test]
    fn the_next_page_of_a_frame_has_another_version() {
        for before in [Version(8).with(State::Resident), Version(9).with(State::Resident)] {
            let next = before.with(State::Free).with(State::Loading).with(State::Resident);
            assert!(next != before && next.is_readable());
        }
    }
}
