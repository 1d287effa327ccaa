//! The number of visits that threads of the library make to an environment at this moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two looks at the number of visits.
const GLANCE: Duration = Duration::from_micros(200);

/// The number of visits under way.
#[derive(Default)]
pub(crate) struct Visits(Arc<AtomicUsize>);

impl Visits {
    /// Waits until no visit is under way, at most for `patience`. A visit may begin just after this function returns.
    pub(crate) fn wait_until_gone(&self, patience: Duration) {
        let begun = Instant::now();
        // Acquire: pairs with the release of a visit's end, so the visitor's changes are visible.
        while self.0.load(Ordering::Acquire) != 0 && begun.elapsed() < patience {
            std::thread::sleep(GLANCE);
        }
    }

    /// Counts one more visit, until the returned value is dropped.
    pub(crate) fn count_one(&self) -> Counted {
        let count = Arc::clone(&self.0);
        count.fetch_add(1, Ordering::AcqRel);
        Counted(count)
    }
}

/// A visit that is counted.
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
