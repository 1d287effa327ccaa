//! Visits: a thread of the library uses the environment for a moment. Dropping a handle waits for the end of visits.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::environment::Inner;

/// Pause between two looks at the number of visits.
const GLANCE: Duration = Duration::from_micros(200);

/// The number of visits under way.
#[derive(Default)]
pub(crate) struct Visits(Arc<AtomicUsize>);

impl Visits {
    /// Waits until no visit is under way, at most for `patience`. A visit may begin just after the last look.
    pub(crate) fn wait_until_gone(&self, patience: Duration) {
        let begun = Instant::now();
        // Acquire: the visitor's changes to the environment come before.
        while self.0.load(Ordering::Acquire) != 0 && begun.elapsed() < patience {
            std::thread::sleep(GLANCE);
        }
    }
}

/// An environment that one of the library's threads visits.
pub(crate) struct Visit {
    // Rust drops the fields in this order: the visitor gives the environment back, then the count falls.
    env: Arc<Inner>,
    _counted: Counted,
}

struct Counted(Arc<AtomicUsize>);

impl Visit {
    /// Begins a visit, if the environment is open.
    pub(crate) fn begin(env: &Weak<Inner>) -> Option<Visit> {
        let env = env.upgrade()?;
        let count = Arc::clone(&env.visits.0);
        count.fetch_add(1, Ordering::AcqRel);
        Some(Visit { env, _counted: Counted(count) })
    }
}

impl Deref for Visit {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.env
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::Env;

    #[test]
    fn the_last_handle_closes_the_environment_although_a_thread_visits_it() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open(dir.path()).unwrap();
        let (inner, (sender, heard)) = (Arc::downgrade(&env.0), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let visit = Visit::begin(&inner);
                sender.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(100));
                drop(visit);
            });
            heard.recv().unwrap();
            drop(env);
            assert!(inner.upgrade().is_none(), "the environment is still open behind its last handle");
        });
    }
}
