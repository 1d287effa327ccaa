//! Visits: a thread of the library uses the environment for a moment. Dropping a handle waits for the end of visits.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::visits::Counted;
use crate::region::inner::Inner;

/// An environment that one of the library's threads visits.
pub(crate) struct Visit {
    // Rust drops the fields in this order: first the reference to the environment, then the count. So when the count is
    // zero, no visit holds a reference.
    env: Arc<Inner>,
    _counted: Counted,
}

impl Visit {
    /// Begins a visit, if the environment is open.
    pub(crate) fn begin(env: &Weak<Inner>) -> Option<Visit> {
        let env = env.upgrade()?;
        let counted = env.visits.count_one();
        Some(Visit { env, _counted: counted })
    }
}

impl Deref for Visit {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.env
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::Env;

    #[test]
    fn the_last_handle_closes_the_environment_although_a_thread_visits_it() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
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
            assert!(inner.upgrade().is_none(), "the environment is still open after its last handle was dropped");
        });
    }
}
