//! A lower bound that one process knows of a growing count in the region.
//!
//! If a wild store made a count (of all frames, of all pools) smaller, a loop over the count would silently omit the
//! rest: dirty pages would not be written. So each process remembers a value that the count has certainly reached. A
//! change of the count in a section is rolled back if the session dies. So the count's value is certain only for a
//! session that holds the latch which guards the count.

use std::sync::atomic::{AtomicU32, Ordering};

/// The highest value that the count certainly had.
#[derive(Default)]
pub(crate) struct CertainCount(AtomicU32);

impl CertainCount {
    /// Returns the count that `look` reads; `None` if the count has become smaller. Reads the certain value before it
    /// calls `look`, because another thread may raise the certain value meanwhile.
    pub(crate) fn look(&self, look: impl FnOnce() -> u32) -> Option<u32> {
        // Acquire: pairs with the release below, so that the count read here is not older than the count that became
        // certain.
        let certain = self.0.load(Ordering::Acquire);
        Some(look()).filter(|&now| now >= certain)
    }

    /// Notes that the count is `now` and will not be rolled back.
    #[inline]
    pub(crate) fn is_certain(&self, now: u32) {
        // Relaxed: the comparison only saves the store.
        if now > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(now, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CertainCount;

    #[test]
    fn an_uncertain_count_may_become_smaller() {
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
