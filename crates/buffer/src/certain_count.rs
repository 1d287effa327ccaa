//! A count in the region that only grows, as one process knows it.
//!
//! If a wild store made a count (all frames, all pools) smaller, a loop over it would silently leave out the rest:
//! dirty pages would not be written. So each process remembers a value that the count certainly reached. A count that
//! was changed in a section may go back if the session dies. So its value is certain only for a session that holds the
//! latch that guards the count.

use std::sync::atomic::{AtomicU32, Ordering};

/// The highest value that the count certainly had.
#[derive(Default)]
pub(crate) struct CertainCount(AtomicU32);

impl CertainCount {
    /// Returns the count, or `None` if it has become smaller. Calls `look` after it has read the certain value, which
    /// another thread may be raising.
    pub(crate) fn look(&self, look: impl FnOnce() -> u32) -> Option<u32> {
        // Acquire: pairs with the release below, so that this look is not older than the look that made the value
        // certain.
        let certain = self.0.load(Ordering::Acquire);
        Some(look()).filter(|&now| now >= certain)
    }

    /// Notes that the count is `now` and will not go back.
    #[inline]
    pub(crate) fn is_certain(&self, now: u32) {
        // Relaxed: it only saves the store.
        if now > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(now, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CertainCount;

    #[test]
    fn an_uncertain_count_may_go_back() {
        let grown = CertainCount::default();
        grown.is_certain(32);
        assert_eq!(grown.look(|| 48), Some(48));
        assert_eq!(grown.look(|| 32), Some(32), "a section was rolled back");
        assert_eq!(grown.look(|| 31), None);
    }

    #[test]
    fn a_count_that_grows_during_the_look_has_not_become_smaller() {
        let grown = CertainCount::default();
        let seen = grown.look(|| {
            let before = 32;
            grown.is_certain(48);
            before
        });
        assert_eq!(seen, Some(32));
    }
}
