//! A directory that replaces the syncs of some of its files: the calling process then stops there, like a stopped
//! process or one with a slow disk, or dies of the error that it gets.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

/// The longest stop: a test that forgot a stopped process should fail, not hang.
const LONGEST: Duration = Duration::from_secs(30);

/// A gate that stops the first caller until the gate is opened.
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

    /// Waits until a caller is stopped at the gate; returns whether one is.
    pub fn wait_for_one(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.stage(), LONGEST, |stage| *stage == Stage::Armed);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == Stage::Standing
    }

    /// Lets all callers go on.
    pub fn open(&self) {
        *self.stage() = Stage::Open;
        self.changed.notify_all();
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that replaces a sync.
pub type SyncCall = Arc<dyn Fn(&dyn File) -> Result<()> + Send + Sync>;

/// A directory in which other calls replace the syncs of some files.
pub struct SyncingDirectory {
    inner: Arc<dyn Directory>,
    part: &'static str,
    sync: SyncCall,
}

impl SyncingDirectory {
    /// Calls `sync` instead of the syncs of files whose names contain `part`, in `inner` and in its subdirectories.
    pub fn new(inner: Arc<dyn Directory>, part: &'static str, sync: SyncCall) -> SyncingDirectory {
        SyncingDirectory { inner, part, sync }
    }

    /// Puts a gate before the syncs of these files.
    pub fn gated(inner: Arc<dyn Directory>, part: &'static str, gate: &Arc<Gate>) -> SyncingDirectory {
        let gate = Arc::clone(gate);
        let sync = move |file: &dyn File| {
            gate.pass();
            file.sync()
        };
        SyncingDirectory::new(inner, part, Arc::new(sync))
    }
}

impl fmt::Debug for SyncingDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Directory for SyncingDirectory {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode)?;
        match name.contains(self.part) {
            true => Ok(Arc::new(SyncingFile { inner, sync: Arc::clone(&self.sync) })),
            false => Ok(inner),
        }
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.subdirectory(name)?;
        Ok(Arc::new(SyncingDirectory { inner, part: self.part, sync: Arc::clone(&self.sync) }))
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

struct SyncingFile {
    inner: Arc<dyn File>,
    sync: SyncCall,
}

impl fmt::Debug for SyncingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl File for SyncingFile {
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
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.inner.allocate(range)
    }
    fn notes_first_writes(&self) -> bool {
        self.inner.notes_first_writes()
    }
    fn sync(&self) -> Result<()> {
        (self.sync)(self.inner.as_ref())
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
