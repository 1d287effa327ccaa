//! Settings of the buffer manager. All have defaults.

/// The policy that chooses the frame that makes room for another page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Second chance, the default: a hand goes round and takes a frame that was not used since it last passed.
    Clock,
    /// Exactly the least recently used frame, as in the paper. Every hit then stores to shared memory.
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

/// One pool of frames. The environment has one, and a database may have one of its own (LIBTP 3.2.2: "multiple buffer
/// pools with different policies").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The most bytes of pages. The pool begins empty and grows to this budget. It grows further, to twice the budget
    /// at most, only when every frame is in use at once.
    pub budget_bytes: u64,
    /// Its replacement policy.
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
    /// The pool of every database that has no pool of its own.
    pub pool: PoolSettings,
    /// The most pages in one batch through the double-write file: 1 to 240, which is the default. A batch costs two
    /// syncs, and one more for each further file in it, so large batches are cheap. The double-write file is as large
    /// as the largest batch.
    pub batch_pages: usize,
    /// Writes pages straight to their homes, without a sync: nothing is recovered (LIBTP 5.1.1, NOTP). For
    /// measurements.
    #[cfg(feature = "unprotected")]
    pub writes_once: bool,
}

/// More pages than this do not fit the table in the double-write file's header.
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

    /// Returns whether a page that is torn on its way home is lost: for measurements only, with feature `unprotected`.
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
