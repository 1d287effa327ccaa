//! The region's memory goes into huge pages, a part at a time, as long as that costs nobody anything.
//!
//! If we die here: what is in huge pages stays there, and others do the rest.

use std::time::{Duration, Instant};

use libtp_txn::Managers;

/// The kernel makes a huge page in a fraction of a millisecond; where it takes longer, it waits for work of its own on every
/// processor, while it holds the lock of this process's address space: then whoever maps memory waits, too.
const QUICK: Duration = Duration::from_millis(2);
/// After one that took so long, the next has to wait this many times as long.
const REST: u32 = 200;

/// How far it is.
pub(crate) struct HugePages {
    /// Where the next part begins, if there is to be one.
    from: Option<u64>,
    /// Not before.
    again: Instant,
}

impl HugePages {
    pub(crate) fn new() -> HugePages {
        HugePages { from: Some(0), again: Instant::now() }
    }

    /// Does one part, if it is time. Whether there may be more to do at once.
    pub(crate) fn step(&mut self, managers: &Managers) -> bool {
        let began = Instant::now();
        if began < self.again {
            return false;
        }
        let before = self.from;
        self.from = before.and_then(|from| managers.region.use_huge_pages(from));
        let took = began.elapsed();
        self.again = rest_after(began + took, took);
        self.from.is_some() && self.from != before && self.again <= began + took
    }
}

/// When the next may begin, after one that has ended then and took so long.
fn rest_after(ended: Instant, took: Duration) -> Instant {
    if took < QUICK {
        return ended;
    }
    ended + took.saturating_mul(REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_to_wait_for_the_kernel_rests_long() {
        let now = Instant::now();
        assert_eq!(rest_after(now, Duration::from_micros(50)), now);
        assert_eq!(rest_after(now, Duration::from_millis(50)), now + Duration::from_secs(10));
    }
}
