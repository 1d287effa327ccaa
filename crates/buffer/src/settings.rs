//! Settings of the buffer manager. All have defaults.

/// The policy that chooses the frame whose page is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Second chance, the default: a hand goes round the frames, and chooses a frame that was not used since the hand
    /// last passed it.
    Clock,
    /// The exactly least recently used frame, as in the paper. Every hit then stores to shared memory.
    Lru,
}

impl Policy {
    pub(crate) fn to_raw(self) -> u32 {
        match self {
            Policy::Clock => 0,
            Policy::Lru => 1,
        }
    }

    /// Reads a policy from shared memory. An unknown number is the default.
    pub(crate) fn from_raw(raw: u32) -> Policy {
        if raw == Policy::Lru.to_raw() {
            Policy::Lru
        } else {
            Policy::Clock
        }
    }
}

/// One pool of frames. The environment has a common pool, and a database may have a separate pool (LIBTP 3.2.2:
/// "multiple buffer pools with different policies").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The largest number of bytes of pages. The pool begins empty and grows to this budget. It grows further, at most
    /// to twice the budget, only when all frames are in use at the same time.
    pub budget_bytes: u64,
    /// The pool's replacement policy.
    pub policy: Policy,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings { budget_bytes: rio::memory_bytes() / 4, policy: Policy::Clock }
    }
}

/// The buffer manager's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The common pool of all databases without a separate pool.
    pub pool: PoolSettings,
    /// The largest number of pages in one batch through the double-write file: 1 to 240; the default is 240. A batch
    /// costs two syncs, and one more for each further file in it, so large batches cost less per page. The double-write
    /// file is as large as the largest batch.
    pub batch_pages: usize,
    /// Writes pages directly to their homes, without a sync: nothing is recovered after a crash (LIBTP 5.1.1, NOTP).
    /// For measurements.
    #[cfg(feature = "unprotected")]
    pub writes_once: bool,
}

/// More pages than this do not fit into the table of the double-write file.
pub(crate) const BATCH_PAGES_MAX: usize = 240;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            pool: PoolSettings::default(),
            batch_pages: BATCH_PAGES_MAX,
            #[cfg(feature = "unprotected")]
            writes_once: false,
        }
    }
}

impl Settings {
    pub(crate) fn batch_pages(&self) -> usize {
        self.batch_pages.clamp(1, BATCH_PAGES_MAX)
    }

    /// Returns whether pages are written without the double-write file, so that a torn page is lost. Only for
    /// measurements, with feature `unprotected`.
    pub(crate) fn writes_once(&self) -> bool {
        #[cfg(feature = "unprotected")]
        return self.writes_once;
        #[cfg(not(feature = "unprotected"))]
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_comes_back_from_shared_memory() {
        for policy in [Policy::Clock, Policy::Lru] {
            assert_eq!(Policy::from_raw(policy.to_raw()), policy);
        }
        assert_eq!(Policy::from_raw(99), Policy::Clock);
    }

    #[test]
    fn a_batch_fits_its_table() {
        let batch = |batch_pages| Settings { batch_pages, ..Settings::default() }.batch_pages();
        assert_eq!((batch(0), batch(64), batch(10_000)), (1, 64, BATCH_PAGES_MAX));
    }
}
