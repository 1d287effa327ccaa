//! Moves the region's memory into huge pages, a part at a time, while the moves delay no other work.
//!
//! If we die here: the huge pages made so far stay, and other processes move the rest of the memory.

use std::time::{Duration, Instant};

use libtp_txn::Managers;

/// The longest time of a quick call. The kernel makes a huge page in a fraction of a millisecond. A longer call waits
/// for the kernel's work on every processor while it holds the lock of this process's address space, so other threads
/// that map memory wait, too.
const QUICK: Duration = Duration::from_millis(2);
const HUGE_BYTES: u64 = 2 << 20;
/// After a call that was not quick, the thread pauses for this many times the call's time. So calls that are not quick
/// take a fifth of the thread's time at most.
const REST: u32 = 4;
/// No call is made if work waited for a processor for more than this part of the time since the last report. The
/// kernel's own work then waits for processors, too: calls of two and of eleven seconds were seen, during which no
/// thread of the process could map memory.
const WAITED_MAX: f64 = 0.4;
/// The file in which the kernel reports how long work waited (PSI, Linux 4.20). Without the file no call is made.
const PRESSURE: &str = "/proc/pressure/cpu";
/// How long a report of the kernel is used.
const LOOK: Duration = Duration::from_secs(1);
/// A call that takes this time for each page, or longer, is slow.
const SLOW: Duration = Duration::from_millis(50);
/// After a slow call, the thread pauses for this many times the call's time.
const LONG_REST: u32 = 200;

/// How far the region has been moved into huge pages.
pub(crate) struct HugePages {
    /// The beginning of the next part, if there is one.
    from: Option<u64>,
    /// The earliest time of the next call.
    again: Instant,
    /// The time of the last report, and the total time that work had waited by then.
    looked: Option<(Instant, Option<Duration>)>,
    /// Whether processors had time to spare between the last two reports.
    is_calm: bool,
}

impl HugePages {
    /// Returns the state before the first call. The first call is made a second later, so a process that ends earlier
    /// makes no call.
    pub(crate) fn new() -> HugePages {
        HugePages { from: Some(0), again: Instant::now() + LOOK, looked: None, is_calm: false }
    }

    /// Moves one part if the next call is due. Returns whether a further call may follow immediately.
    pub(crate) fn step(&mut self, managers: &Managers) -> bool {
        let began = Instant::now();
        if began < self.again {
            return false;
        }
        if self.from.is_some() && self.looked.is_none_or(|(looked, _)| began - looked >= LOOK) {
            let now = (began, std::fs::read_to_string(PRESSURE).ok().and_then(|text| waited(&text)));
            self.is_calm = self.looked.replace(now).is_some_and(|before| is_calm(before, now));
        }
        if !self.is_calm {
            return false;
        }
        let before = self.from;
        self.from = before.and_then(|from| managers.region.use_huge_pages(from));
        let took = began.elapsed();
        let pages = self.from.unwrap_or(0).saturating_sub(before.unwrap_or(0)) / HUGE_BYTES;
        self.again = rest_after(began + took, took, pages);
        self.from.is_some() && self.from != before && self.again <= began + took
    }
}

/// Returns whether processors had time to spare between two reports; false if the kernel does not report the waits.
fn is_calm(before: (Instant, Option<Duration>), now: (Instant, Option<Duration>)) -> bool {
    let (Some(waited_before), Some(waited)) = (before.1, now.1) else { return false };
    waited.saturating_sub(waited_before) <= (now.0 - before.0).mul_f64(WAITED_MAX)
}

/// Returns how long work has waited for a processor since the machine started, from the kernel's report.
fn waited(text: &str) -> Option<Duration> {
    let micros = text.lines().next()?.strip_prefix("some ")?.split_once("total=")?.1;
    micros.parse().ok().map(Duration::from_micros)
}

/// Returns when the next call may begin, after a call that ended at `ended`, took `took` and moved `pages` pages.
fn rest_after(ended: Instant, took: Duration, pages: u64) -> Instant {
    let each = took / u32::try_from(pages.max(1)).unwrap_or(1);
    match each {
        _ if each < QUICK && took < SLOW => ended,
        _ if each < SLOW => ended + took.saturating_mul(REST),
        _ => ended + took.saturating_mul(LONG_REST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_pressure_file_is_read() {
        let text = "some avg10=98.96 avg60=98.24 avg300=96.45 total=1890795890\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(waited(text), Some(Duration::from_micros(1_890_795_890)));
        assert_eq!((waited(""), waited("full total=3"), waited("some avg10=1 total=much")), (None, None, None));
        let now = Instant::now();
        let second = |millis| is_calm((now, Some(Duration::ZERO)), (now + LOOK, Some(Duration::from_millis(millis))));
        assert!(second(0) && second(400) && !second(401));
        assert!(!is_calm((now, None), (now + LOOK, Some(Duration::ZERO))));
    }

    #[test]
    fn a_thread_that_waited_for_the_kernel_pauses_long() {
        let now = Instant::now();
        let after = |millis, pages| rest_after(now, Duration::from_millis(millis), pages) - now;
        assert_eq!((after(1, 1), after(1, 0), after(10, 16)), (Duration::ZERO, Duration::ZERO, Duration::ZERO));
        assert_eq!((after(5, 1), after(90, 16)), (Duration::from_millis(20), Duration::from_millis(360)));
        assert_eq!((after(50, 1), after(900, 16)), (Duration::from_secs(10), Duration::from_secs(180)));
    }
}
