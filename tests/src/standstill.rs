//! Directories in which a function of the test replaces the syncs of some files. The function can make the caller
//! wait, as a stopped process or a slow disk does, or can end the caller.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtp_io::{Directory, File, Result};

use crate::wrapped::{Calls, WrappedDirectory};

/// The longest stop. If a test does not open the gate, it fails and does not hang.
const LONGEST: Duration = Duration::from_secs(30);

/// A gate that stops its first caller until the test opens the gate.
#[derive(Debug, Default)]
pub struct Gate {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No caller is stopped yet.
    #[default]
    Armed,
    /// A caller is stopped here.
    Standing,
    /// All callers pass.
    Open,
}

impl Gate {
    /// Passes the gate: the first caller stops until the gate is opened.
    fn pass(&self) {
        let mut stage = self.stage();
        if *stage == Stage::Armed {
            *stage = Stage::Standing;
            self.changed.notify_all();
            drop(self.changed.wait_timeout_while(stage, LONGEST, |stage| *stage != Stage::Open));
        }
    }

    /// Waits until a caller is stopped at the gate. Returns false if no caller comes in time.
    pub fn wait_for_one(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.stage(), LONGEST, |stage| *stage == Stage::Armed);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == Stage::Standing
    }

    /// Opens the gate for all callers.
    pub fn open(&self) {
        *self.stage() = Stage::Open;
        self.changed.notify_all();
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the directory `inner`, in which a sync of a file whose name contains `part` calls `sync` instead.
pub fn syncing_by(
    inner: Arc<dyn Directory>,
    part: &'static str,
    sync: impl Fn(&dyn File) -> Result<()> + Send + Sync + 'static,
) -> Arc<dyn Directory> {
    Arc::new(WrappedDirectory::new(inner, part, Arc::new(SyncBy(sync))))
}

/// Returns the directory `inner`, in which a sync of a file whose name contains `part` first passes the gate.
pub fn gated(inner: Arc<dyn Directory>, part: &'static str, gate: &Arc<Gate>) -> Arc<dyn Directory> {
    let gate = Arc::clone(gate);
    syncing_by(inner, part, move |file| {
        gate.pass();
        file.sync()
    })
}

struct SyncBy<F>(F);

impl<F: Fn(&dyn File) -> Result<()> + Send + Sync> Calls for SyncBy<F> {
    fn sync(&self, file: &dyn File) -> Result<()> {
        (self.0)(file)
    }
}
