//! A directory whose user stands still at one call: a process that was stopped there, or whose disk takes long.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

/// Nobody is kept for longer: a test that forgot somebody should fail, not hang.
const LONGEST: Duration = Duration::from_secs(30);

/// Where one is stopped, and when it may go on.
#[derive(Debug, Default)]
pub struct Gate {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nobody is stopped yet.
    #[default]
    Armed,
    /// Somebody stands here.
    Standing,
    /// Everybody passes.
    Open,
}

impl Gate {
    /// Somebody passes: the first stands still until the gate is opened.
    fn pass(&self) {
        let mut stage = self.stage();
        if *stage == Stage::Armed {
            *stage = Stage::Standing;
            self.changed.notify_all();
            drop(self.changed.wait_timeout_while(stage, LONGEST, |stage| *stage != Stage::Open));
        }
    }

    /// Waits until somebody stands there; whether somebody does.
    pub fn wait_for_one(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.stage(), LONGEST, |stage| *stage == Stage::Armed);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == Stage::Standing
    }

    /// Lets everybody go on.
    pub fn open(&self) {
        *self.stage() = Stage::Open;
        self.changed.notify_all();
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory with a gate before each sync of a file whose name ends with `end`.
#[derive(Debug)]
pub struct GatedDirectory {
    inner: Arc<dyn Directory>,
    end: &'static str,
    gate: Arc<Gate>,
}

impl GatedDirectory {
    /// Puts a gate before the syncs of such files of `inner`.
    pub fn new(inner: Arc<dyn Directory>, end: &'static str, gate: &Arc<Gate>) -> GatedDirectory {
        GatedDirectory { inner, end, gate: Arc::clone(gate) }
    }
}

impl Directory for GatedDirectory {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode)?;
        match name.ends_with(self.end) {
            true => Ok(Arc::new(GatedFile { inner, gate: Arc::clone(&self.gate) })),
            false => Ok(inner),
        }
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
    fn is_network(&self) -> Result<bool> {
        self.inner.is_network()
    }
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }
    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }
    fn sync(&self) -> Result<()> {
        self.gate.pass();
        self.inner.sync()
    }
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        self.inner.lock(byte, mode, wait)
    }
    fn unlock(&self, byte: u64) -> Result<()> {
        self.inner.unlock(byte)
    }
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        self.inner.locked_by_other(from, bytes)
    }
    fn identity(&self) -> Result<Identity> {
        self.inner.identity()
    }
}
