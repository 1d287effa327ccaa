//! A count in the region that only grows, as one process knows it.
//!
//! Who goes by such a count (all frames, all pools) would silently leave out the rest if a wild store made it smaller: dirty
//! pages that nobody writes. So each process remembers how far it certainly had grown. What is changed in a section may go
//! back if its session dies, so it is certain only for who holds the latch that guards it.

use std::sync::atomic::{AtomicU32, Ordering};

/// What the count certainly was.
#[derive(Default)]
pub(crate) struct Grown(AtomicU32);

impl Grown {
    /// The count, if it has not become smaller. Looked at after what is certain, which another thread may be raising.
    pub(crate) fn look(&self, look: impl FnOnce() -> u32) -> Option<u32> {
        // Acquire: pairs with the release below, so that this look is not older than the one that made it certain.
        let certain = self.0.load(Ordering::Acquire);
        Some(look()).filter(|&now| now >= certain)
    }

    /// The count is `now` and will not go back.
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
    use super::Grown;

    #[test]
    fn what_was_only_seen_may_go_back() {
        let grown = Grown::default();
        grown.is_certain(32);
        assert_eq!(grown.look(|| 48), Some(48));
        assert_eq!(grown.look(|| 32), Some(32), "a section was rolled back");
        assert_eq!(grown.look(|| 31), None);
    }

    #[test]
    fn a_count_that_grows_during_the_look_has_not_become_smaller() {
        let grown = Grown::default();
        let seen = grown.look(|| {
            let before = 32;
            grown.is_certain(48);
            before
        });
        assert_eq!(seen, Some(32));
    }
}
