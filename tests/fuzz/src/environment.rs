//! Makes small environments with all their databases, one for each thread.

use std::cell::RefCell;
use std::sync::Arc;

use libtp_io::{Directory, PosixDirectory};
use libtp_log::{Control, Lsn};

use crate::scene;
use crate::world::{control_file, log_settings, managers, place, World};

/// The number of inputs after which a new environment is made, because the log of the old one grows.
const USES_MAX: u32 = 2_000;
impl World {
    /// Makes a new environment with all its databases.
    pub fn new() -> World {
        let place = place();
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(place.path()).expect("the place is ours"));
        let control = Control::new([0; 16], &log_settings());
        control_file(&directory).create(&control).expect("the directory is empty");
        let managers = managers(&directory, &control, Lsn::FIRST).expect("the log is new");
        let txn = managers.join().expect("no other session exists");
        let mut world = World { managers, txn, directory, scenes: Vec::new(), uses: 0, place };
        world.scenes = scene::all(&world);
        world
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Calls `body` with this thread's environment. If `body` panics, the environment is given up, and the next call makes
/// a new one.
pub fn with<R>(body: impl FnOnce(&World) -> R) -> R {
    let old = WORLD.take().filter(|world| world.uses < USES_MAX);
    let mut guard = Forgotten(Some(old.unwrap_or_default()));
    let world = guard.0.as_mut().expect("the world is taken out only below");
    world.uses += 1;
    let result = body(world);
    WORLD.set(guard.0.take());
    result
}

/// An environment that is forgotten if a call panics in it, because an orderly close could panic again.
struct Forgotten(Option<World>);

impl Drop for Forgotten {
    fn drop(&mut self) {
        if let Some(world) = self.0.take() {
            let _ = std::fs::remove_dir_all(world.place.path());
            std::mem::forget(world);
        }
    }
}
