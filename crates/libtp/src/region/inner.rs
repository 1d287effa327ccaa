//! The handle of an environment in this process, and its state.
//!
//! The state has the data of every floor: the present generation of the shared memory, open databases, joined memory,
//! indices and plain files. Only the code of a floor uses the floor's data.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use libtp_process::ForkMark;

use crate::ground::mutex::lock;
use crate::ground::settings::{wait_of, Settings};
use crate::open::opening::{Attached, Opened};
use crate::open::platform::Platform;
use crate::region::generation::{forked, Generation, Present, Refused};
use crate::region::kept_indices::KeptIndices;
use crate::region::open_database::OpenDatabase;
use crate::region::open_segment::OpenSegments;
use crate::region::passed_on::PassedOn;
use crate::region::plain_files::Home;
use crate::region::visits::Visits;
use crate::{Durability, Error, Result};

/// An open environment. Cloning it is cheap; all clones are one handle. Any thread may use it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let accounts = env.btree("accounts")?;
/// env.run(|txn| {
///     accounts.put(txn, b"alice", b"10")?;
///     accounts.put(txn, b"bob", b"20")
/// })?;
/// let alice = env.run(|txn| accounts.get(txn, b"alice"))?;
/// assert_eq!(alice.as_deref(), Some(&b"10"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Env(pub(crate) Arc<Inner>);

/// The state of an environment in this process.
pub(crate) struct Inner {
    /// The report of what the opening did.
    pub(crate) opened: Opened,
    /// Whether the program has read the report of lost commits.
    pub(crate) has_read_loss: AtomicBool,
    /// Distinguishes this process from its forked child.
    pub(crate) mark: ForkMark,
    /// The process that opened the environment.
    pub(crate) pid: u32,
    /// This handle's attachment to the region.
    pub(crate) present: Present,
    /// Held by the thread that begins a new generation; contains the reason why the last attempt failed.
    pub(crate) renewing: Mutex<Option<Refused>>,
    /// The databases that this process has open, by name.
    pub(crate) databases: Mutex<HashMap<String, Arc<OpenDatabase>>>,
    /// For each file, whether it has indices, as far as this process knows. The key is the file number, because a
    /// renamed file may be open under two names.
    pub(crate) index_notes: Mutex<HashMap<u32, Arc<AtomicBool>>>,
    /// The indices that this process can keep up to date.
    pub(crate) indices: KeptIndices,
    /// The segments of memory that this process has open.
    pub(crate) segments: OpenSegments,
    /// This process's state of plain files.
    pub(crate) files: Home,
    /// The work on plain files, which the floor `files` implements.
    pub(crate) file_upkeep: &'static dyn FileUpkeep,
    /// Transactions that this handle passed on and that, as far as it knows, no session has taken over yet.
    pub(crate) passed_on: PassedOn,
    pub(crate) platform: Platform,
    pub(crate) settings: Settings,
    /// Counts the visits of the library's own threads.
    pub(crate) visits: Visits,
    pub(crate) durability: Durability,
    /// Whether this handle refuses every change.
    pub(crate) is_read_only: bool,
    /// The longest wait for a lock.
    pub(crate) wait: libtp_lock::Wait,
    /// The number of thread starts that fail, for a test.
    #[cfg(test)]
    pub(crate) threads_refused: std::sync::atomic::AtomicU32,
}

/// The work on plain files that the library's threads do. The floor `files` implements it.
pub(crate) trait FileUpkeep: Sync {
    /// Puts committed files in their places, and removes what dead processes left.
    fn recover(&self, env: &Arc<Inner>);

    /// Deletes the rows of finished files that this handle could not delete earlier.
    fn end_left(&self, env: &Arc<Inner>);
}

impl Env {
    pub(crate) fn of(
        attached: Attached,
        platform: Platform,
        settings: Settings,
        file_upkeep: &'static dyn FileUpkeep,
        is_read_only: bool,
    ) -> Env {
        Env(Arc::new(Inner {
            opened: attached.opened.clone(),
            has_read_loss: AtomicBool::new(false),
            mark: attached.managers.processes.fork_mark(),
            pid: attached.managers.processes.pid(),
            present: Present::first(attached, &platform.path),
            renewing: Mutex::new(None),
            databases: Mutex::new(HashMap::new()),
            index_notes: Mutex::default(),
            indices: KeptIndices::default(),
            segments: OpenSegments::default(),
            files: Home::default(),
            file_upkeep,
            passed_on: PassedOn::default(),
            durability: settings.durability.unwrap_or_default(),
            is_read_only,
            wait: wait_of(settings.lock_timeout()),
            platform,
            settings,
            visits: Visits::default(),
            #[cfg(test)]
            threads_refused: std::sync::atomic::AtomicU32::new(0),
        }))
    }
}

impl Inner {
    pub(crate) fn databases(&self) -> MutexGuard<'_, HashMap<String, Arc<OpenDatabase>>> {
        lock(&self.databases)
    }

    /// As [`Generation::check_process`]. Call this before locking the mutex of the present generation: in the child of
    /// a fork, a thread of the parent may hold that mutex for ever.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(forked(&self.platform.path, self.pid))
    }

    /// Refuses `change` on a handle that was opened for reading only.
    #[inline]
    pub(crate) fn check_writable(&self, change: &'static str) -> Result<()> {
        match self.is_read_only {
            false => Ok(()),
            true => Err(Error::ReadOnly { environment: self.platform.path.clone(), change }),
        }
    }

    /// Returns the present generation, which may be broken. The child of a fork must not call this function.
    pub(crate) fn newest(&self) -> Arc<Generation> {
        Arc::clone(&lock(&self.present.now).generation)
    }
}

#[cfg(test)]
impl Inner {
    /// Fails as on a machine without free threads, as often as the test has asked for.
    pub(crate) fn refuse_thread(&self) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        match self.threads_refused.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(Error::Io("no more threads, for a test".into())),
            Err(_) => Ok(()),
        }
    }
}

/// The longest time that dropping a handle waits for visits. A visit may wait for the disk.
const VISIT_PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Env {
    /// Waits for visits, so that the last handle closes the environment in the caller's thread. If a visiting thread is
    /// the last to hold the environment, that thread closes it. If the process ends before that thread has closed the
    /// environment, the environment is left as after a death.
    fn drop(&mut self) {
        // A forked child has no visiting threads, and its copy of the count may never fall.
        if self.0.check_process().is_ok() {
            self.0.visits.wait_until_gone(VISIT_PATIENCE);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            self.passed_on.forget_inherited();
            return self.present.forget_inherited();
        }
        if let Err(error) = self.end() {
            tracing::error!(%error, "the environment could not be closed in good order; the next process that opens it recovers it from the log");
        }
    }
}
