//! The order in which latches are taken. A debug build asserts it; `docs/latch-order.md` draws it.
//!
//! A waiter for a latch holds only latches of lower rank, so latches cause no deadlock. An attempt that does not wait
//! may violate the order.

/// A latch's place in the order. A latch of larger rank is taken later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u8);

impl Rank {
    /// The table of databases.
    pub const CATALOGUE: Rank = Rank(10);
    /// The meta page of a file.
    pub const META: Rank = Rank(40);
    /// A bucket of the page table. Of two buckets, the bucket with the lower number is latched first.
    pub const BUCKET: Rank = Rank(50);
    /// The replacer of frames.
    pub const REPLACER: Rank = Rank(52);
    /// A bucket of the lock table. Of two buckets, the bucket with the lower number is latched first.
    pub const LOCK_BUCKET: Rank = Rank(60);
    /// The free lists of the lock table.
    pub const LOCK_SLAB: Rank = Rank(62);
    /// The table of transactions.
    pub const TXN_TABLE: Rank = Rank(70);
    /// The log's tail.
    pub const LOG_APPEND: Rank = Rank(80);
    /// The log's flush.
    pub const LOG_FLUSH: Rank = Rank(82);
    /// The table of sessions.
    pub const SESSIONS: Rank = Rank(90);

    /// Returns the rank of a page at `level` of a tree; leaves have level 0. A child is latched before its parent, and
    /// of two pages of one level the left page first.
    ///
    /// # Panics
    /// If `level` is above 19: no tree of pages is that deep.
    #[inline]
    pub const fn page(level: u8) -> Rank {
        assert!(level < 20, "a tree has at most 20 levels");
        Rank(20 + level)
    }

    /// Returns the number in the order.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns whether several latches of this rank may be held at once: pages and buckets. They have a further order.
    pub(crate) fn may_repeat(self) -> bool {
        (20..40).contains(&self.0) || self == Rank::BUCKET || self == Rank::LOCK_BUCKET
    }

    /// Returns whether a holder of `held` may wait for `self`.
    pub(crate) fn may_follow(self, held: Rank) -> bool {
        self > held || (self == held && self.may_repeat())
    }
}

#[cfg(test)]
mod tests {
    use super::Rank;

    #[test]
    fn ranks_grow_and_only_pages_and_buckets_may_be_held_twice() {
        assert!(Rank::page(1).may_follow(Rank::page(0)));
        assert!(Rank::page(0).may_follow(Rank::page(0)));
        assert!(!Rank::page(0).may_follow(Rank::page(1)));
        assert!(Rank::LOCK_BUCKET.may_follow(Rank::LOCK_BUCKET));
        assert!(!Rank::LOG_APPEND.may_follow(Rank::LOG_APPEND));
        assert!(!Rank::LOG_APPEND.may_follow(Rank::LOG_FLUSH));
    }
}
