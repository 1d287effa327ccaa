//! Stripes: locks on parts of a segment, for its threads.
//!
//! A lock is one word with its owner's number, so an owner finds by one load that it has the lock. A lock is taken with
//! acquire ordering and released with release ordering, which orders the accesses of two owners to the bytes.
//!
//! The locks of the flat part's stripes come first, one after another. Then come a fixed number of locks that the
//! heap's bytes share. The last lock protects the heap's own structures.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rio::planted;

/// Largest number of stripes of the flat part, by default.
const STRIPES_MAX: u64 = 1 << 16;
const STRIPE_BYTES: u64 = 4096;
/// The number of locks that the heap's bytes share.
const OF_HEAP: u64 = 1024;
/// The number of tries before a waiter yields the processor or sleeps.
const SPINS: u32 = 200;
/// The time in which a waiter only yields. Afterwards the waiter sleeps between its tries.
const YIELDING: Duration = Duration::from_micros(100);
/// The shortest and the longest sleep. Each sleep is twice as long as the sleep before it.
const PAUSE: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// The longest wait of a transaction that may be part of a circle, and of a transaction that cannot be part of a
/// circle.
const PATIENCE: [Duration; 2] = [Duration::from_micros(200), Duration::from_secs(10)];
/// Set if the owner keeps the lock: no transaction waits for it.
const KEPT: u32 = 1 << 31;

pub(super) struct Stripes {
    shift: u32,
    /// The number of the flat part's stripes.
    flat: u64,
    locks: Box<[AtomicU32]>,
}

/// The number of a lock.
pub(super) type Nth = usize;

/// The reason why a lock cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The owner's transaction did not end in time.
    TimedOut,
    /// The owner keeps the lock.
    Kept,
}

impl Stripes {
    pub(super) fn new(bytes: u64, stripe_bytes: u64) -> Stripes {
        let wanted = if stripe_bytes == 0 { STRIPE_BYTES.max(bytes / STRIPES_MAX) } else { stripe_bytes };
        let shift = wanted.clamp(8, 1 << 40).next_power_of_two().ilog2();
        let flat = (bytes >> shift) + 1;
        let locks = (0..=flat + OF_HEAP).map(|_| AtomicU32::new(0)).collect();
        Stripes { shift, flat, locks }
    }

    pub(super) fn bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the lock of the heap's structures.
    pub(super) fn of_heap(&self) -> Nth {
        self.locks.len() - 1
    }

    /// Returns whether a range of the flat part is in a single stripe whose lock the owner has.
    #[inline(always)]
    pub(super) fn is_owned(&self, at: u64, bytes: usize, owner: u32) -> bool {
        let (first, last) = (at >> self.shift, (at + bytes as u64 - 1) >> self.shift);
        let lock = usize::try_from(first).ok().and_then(|nth| self.locks.get(nth));
        first == last && lock.is_some_and(|lock| Stripes::owner_of(lock) == owner)
    }

    /// Returns whether the owner has the lock.
    pub(super) fn has(&self, nth: Nth, owner: u32) -> bool {
        Stripes::owner_of(&self.locks[nth]) == owner
    }

    #[inline(always)]
    fn owner_of(lock: &AtomicU32) -> u32 {
        // Relaxed: the value is compared with the caller's own number, and only the caller stores that number.
        lock.load(Ordering::Relaxed) & !KEPT
    }

    /// Returns the locks of a range, in order. The range is not empty.
    pub(super) fn of_range(&self, at: u64, bytes: u64) -> impl Iterator<Item = Nth> {
        let (first, last) = (at >> self.shift, (at + bytes - 1) >> self.shift);
        let flat = self.of_flat(first, last);
        let mut of_heap: Vec<Nth> = Vec::new();
        if last >= self.flat {
            let from = first.max(self.flat);
            // A range with more stripes than there are locks takes each lock once.
            of_heap.extend((from..=last.min(from + OF_HEAP - 1)).map(|stripe| self.of_heap_bytes(stripe)));
            of_heap.sort_unstable();
        }
        flat.chain(of_heap)
    }

    fn of_flat(&self, first: u64, last: u64) -> RangeInclusive<Nth> {
        let nth = |stripe: u64| usize::try_from(stripe).unwrap_or(usize::MAX);
        // The result is empty if the range begins after the flat part.
        nth(first)..=nth(last.min(self.flat - 1))
    }

    fn of_heap_bytes(&self, stripe: u64) -> Nth {
        usize::try_from(self.flat + stripe % OF_HEAP).expect("there are as many locks")
    }

    /// Takes a lock that the owner does not have, if it becomes free in time.
    pub(super) fn take(&self, nth: Nth, owner: u32, is_in_order: bool) -> Result<(), Refused> {
        let (lock, mut tries, mut start, mut pause) = (&self.locks[nth], 0, None, PAUSE[0]);
        // Acquire: this owner sees the stores of the previous owner. Relaxed on failure: the caller reads no bytes
        // then.
        while let Err(found) = lock.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed) {
            if planted("threads: two transactions hold the same lock") {
                return Ok(());
            }
            tries += 1;
            if found & KEPT != 0 {
                return Err(Refused::Kept);
            }
            if tries % SPINS != 0 {
                std::hint::spin_loop();
                continue;
            }
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited >= PATIENCE[usize::from(is_in_order)] {
                return Err(Refused::TimedOut);
            }
            if waited < YIELDING {
                std::thread::yield_now();
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE[1]);
                // The waiter makes only one try after each pause.
                tries = SPINS - 1;
            }
        }
        Ok(())
    }

    /// Makes the owner keep a lock, if no worker has it.
    pub(super) fn keep(&self, nth: Nth, owner: u32) -> Result<(), Refused> {
        // The orderings are the same as in `take`.
        let kept = self.locks[nth].compare_exchange(0, owner | KEPT, Ordering::Acquire, Ordering::Relaxed);
        kept.map(drop).map_err(|found| if found & KEPT == 0 { Refused::TimedOut } else { Refused::Kept })
    }

    /// Releases a lock.
    pub(super) fn give(&self, nth: Nth) {
        // Release: the next owner sees the stores of this owner.
        self.locks[nth].store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{Refused, Stripes};

    #[test]
    fn each_range_has_its_locks_in_order() {
        let stripes = Stripes::new(10 << 12, 4096);
        let of = |at: u64, bytes: u64| stripes.of_range(at, bytes).collect::<Vec<_>>();
        assert_eq!(of(0, 1), [0]);
        assert_eq!(of(4095, 1), [0]);
        assert_eq!(of(4095, 2), [0, 1]);
        assert_eq!(of(0, 10 << 12), (0..10).collect::<Vec<_>>());
        let heap = of(20 << 12, 3 << 12);
        assert_eq!(heap.len(), 3);
        assert!(heap.iter().all(|&nth| nth > 10 && nth < stripes.of_heap()), "{heap:?}");
        let (all, more) = (of(1 << 30, 1024 << 12), of(1 << 30, 5000 << 12));
        assert_eq!((all.len(), all), (1024, more), "each lock is taken once");
    }

    #[test]
    fn one_owner_at_a_time() {
        let stripes = Stripes::new(1 << 20, 0);
        assert_eq!(stripes.take(3, 1, true), Ok(()));
        assert!(stripes.is_owned(3 << 12, 8, 1) && !stripes.is_owned(3 << 12, 8, 2));
        assert_eq!(
            stripes.take(3, 2, false),
            Err(Refused::TimedOut),
            "the other worker does not release the stripe in time"
        );
        assert_eq!(stripes.keep(3, 2), Err(Refused::TimedOut));
        assert!(!stripes.is_owned((4 << 12) - 4, 8, 1), "worker 1 owns one of the two stripes");
        stripes.give(3);
        assert_eq!((stripes.keep(3, 2), stripes.has(3, 2), stripes.keep(3, 1)), (Ok(()), true, Err(Refused::Kept)));
        assert_eq!(stripes.take(3, 1, true), Err(Refused::Kept), "a kept stripe is not waited for");
    }
}
