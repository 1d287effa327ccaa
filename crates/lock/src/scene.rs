//! A separate lock table for each unit test.

use libtp_process::{ProcessManager, Session};
use rio::Region;

use crate::request::Place;
use crate::{LockManager, LockName, LockerId, Mode, Settings};

pub(crate) const NAME: LockName = LockName { space: 1, kind: 3, hash: 7 };

/// Lockers of one session, whose steps the test makes one by one.
pub(crate) struct Scene<const N: usize = 4> {
    pub(crate) locks: LockManager,
    pub(crate) session: Session,
    pub(crate) lockers: [LockerId; N],
}

/// Makes a region with a lock table.
pub(crate) fn region() -> Region {
    let region = Region::anonymous(1 << 26).unwrap();
    ProcessManager::init(&region).unwrap();
    LockManager::init(&region).unwrap();
    region
}

/// Opens the managers of a region.
pub(crate) fn open(region: &Region, settings: Settings) -> (ProcessManager, LockManager) {
    let processes = ProcessManager::attach(region, &libtp_process::Settings::default()).unwrap();
    processes.join_barriers();
    let locks = LockManager::attach(region, &processes, settings).unwrap();
    (processes, locks)
}

impl<const N: usize> Scene<N> {
    pub(crate) fn new(settings: Settings) -> Scene<N> {
        let (processes, locks) = open(&region(), settings);
        let session = processes.join().unwrap();
        let lockers = std::array::from_fn(|_| locks.new_locker(&session).unwrap());
        Scene { locks, session, lockers }
    }

    /// Leaves the locker waiting, like a thread that has gone to sleep.
    pub(crate) fn wait_for(&self, locker: usize, name: LockName, mode: Mode) -> Place {
        let ask = self.locks.ask(&self.session, self.lockers[locker], name, mode);
        let place = self.locks.table.next_slot(&self.session, ask.slot).unwrap();
        let latched = self.locks.table.latch(&self.session, ask.mixed);
        let queue = self.locks.table.queue_of(&self.session, latched.bucket, name, ask.mixed).ok().unwrap();
        self.locks.enqueue(&ask, queue, place);
        self.locks.begin_wait(&ask, place);
        place
    }
}

impl Default for Scene {
    fn default() -> Scene {
        Scene::new(Settings::default())
    }
}
