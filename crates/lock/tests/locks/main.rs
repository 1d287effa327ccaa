//! The lock manager through its public interface: queues, deadlocks, growth, and many threads against a model.
//!
//! The tests check for three faults: two lockers hold modes that exclude each other, a locker waits without need, or a
//! slot is lost. Threads work through two mappings of one region, as two processes do.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may stop at any surprise")]

mod deadlock;
mod growth;
mod kept;
mod queue;
mod stress;

use std::sync::Mutex;
use std::time::Duration;

use libtp_lock::{LockManager, LockName, LockerId, Mode, Settings, Wait};
use libtp_process::{ProcessManager, Session};
use rio::Region;

/// One region, mapped twice.
pub(crate) struct Scene {
    sides: [(ProcessManager, LockManager); 2],
}

/// A thread's session and locker, in one of the two mappings.
pub(crate) struct Actor<'s> {
    pub(crate) locks: &'s LockManager,
    pub(crate) session: Session,
    pub(crate) locker: LockerId,
}

impl Scene {
    pub(crate) fn new(settings: Settings) -> Scene {
        Scene::with_reserve(settings, 1 << 30)
    }

    pub(crate) fn with_reserve(settings: Settings, reserve: u64) -> Scene {
        let region = Region::anonymous(reserve).unwrap();
        ProcessManager::init(&region).unwrap();
        LockManager::init(&region).unwrap();
        let side = |region: &Region| {
            let processes = ProcessManager::attach(region, &libtp_process::Settings::default()).unwrap();
            processes.join_barriers();
            let locks = LockManager::attach(region, &processes, settings).unwrap();
            (processes, locks)
        };
        let again = region.map_again().unwrap();
        Scene { sides: [side(&region), side(&again)] }
    }

    /// Makes an actor in mapping `number % 2`.
    pub(crate) fn actor(&self, number: usize) -> Actor<'_> {
        let (processes, locks) = &self.sides[number % 2];
        let session = processes.join().unwrap();
        let locker = locks.new_locker(&session).unwrap();
        locks.set_birth(locker, 1);
        Actor { locks, session, locker }
    }

    pub(crate) fn locks(&self) -> &LockManager {
        &self.sides[0].1
    }

    /// Waits until `count` requests wait.
    pub(crate) fn await_waiters(&self, count: usize) {
        let watcher = self.sides[0].0.join().unwrap();
        until(|| self.locks().dump(&watcher).iter().filter(|info| info.wanted.is_some()).count() == count);
    }

    /// Checks, after all actors have gone, that no lock is held and no slot is lost.
    pub(crate) fn assert_empty(&self) {
        let census = self.locks().check().unwrap();
        assert_eq!((census.objects, census.granted, census.waiting), (0, 0, 0), "{census:?}");
        assert_eq!(census.reserved + census.listed + census.fresh, census.slots, "{census:?}");
        assert_eq!(self.locks().stats().lockers, 0);
    }
}

impl Actor<'_> {
    pub(crate) fn lock(&self, name: LockName, mode: Mode) {
        self.locks.lock(&self.session, self.locker, name, mode, Wait::For(Duration::from_secs(8))).unwrap();
    }

    pub(crate) fn try_lock(&self, name: LockName, mode: Mode) -> bool {
        self.locks.try_lock(&self.session, self.locker, name, mode).is_ok()
    }

    pub(crate) fn unlock_all(&self) {
        self.locks.unlock_all(&self.session, self.locker);
    }

    pub(crate) fn holds(&self, name: LockName) -> Option<Mode> {
        self.locks.holds(&self.session, self.locker, name)
    }
}

impl Drop for Actor<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.locks.free_locker(&self.session, self.locker);
        }
    }
}

pub(crate) fn record(hash: u64) -> LockName {
    LockName { space: 1, kind: 3, hash }
}

pub(crate) fn until(ready: impl FnMut() -> bool) {
    assert!(libtp_sim::until(Duration::from_secs(8), ready), "the awaited state is not reached in time");
}

/// The events that a test notes, in order.
#[derive(Default)]
pub(crate) struct Story(Mutex<Vec<&'static str>>);

impl Story {
    pub(crate) fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}
