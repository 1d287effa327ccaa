//! The state of one opening of an environment, and the construction of a region's managers from the settings.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_buffer::{BufferManager, Policy, PoolSettings, WriteAhead};
use libtp_io::File;
use libtp_lock::LockManager;
use libtp_log::{Control, ControlFile, LogManager, CONTROL_NAME};
use libtp_process::{AttachmentLocks, ProcessManager};
use libtp_txn::{Applications, Managers, Parts};
use rio::{failpoint, planted, Identity, Region};
use serde::Serialize;

use crate::ground::settings::{Replacement, Settings, Victim};
use crate::open::keep::Keep;
use crate::open::liveness::Liveness;
use crate::open::platform::{reserve_after, Platform};
use crate::open::{log_type, record_types};
use crate::Result;

/// How an environment was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenedBy {
    /// The environment was created.
    Created,
    /// Other processes were using the environment.
    Joined,
    /// All processes had died; their shared memory was repaired and nothing was replayed.
    Repaired,
    /// The log was replayed.
    Restarted,
    /// The machine rebooted and the shared memory survived: the log's tail was taken from that memory, and the log
    /// replayed.
    Survived,
    /// The environment had been closed in good order.
    Clean,
}

/// The outcome of opening an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opened {
    /// How the environment was opened.
    pub how: OpenedBy,
    /// The duration of the opening in milliseconds.
    pub millis: u64,
    /// The number of log bytes that were replayed.
    pub log_bytes: u64,
    /// The number of page changes that were repeated.
    pub redone: u64,
    /// The number of transactions that were undone.
    pub undone: u64,
    /// The number of torn pages that were mended from the double-write file.
    pub mended: u64,
    /// True if commits of durability Rio or Relaxed that were answered since the last sync may be lost, because their
    /// memory is gone or damaged. Each opening reports the loss until a program has read the report
    /// ([`Env::opened`](crate::Env::opened)).
    pub lost: bool,
}

/// An attached environment.
pub(crate) struct Attached {
    pub(crate) managers: Arc<Managers>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) opened: Opened,
}

/// A function that a restart calls with its progress.
pub(crate) type Watcher<'w> = &'w mut dyn FnMut(&'static str, u64, u64);

/// The state of one opening.
pub(crate) struct Opening<'o> {
    pub(crate) platform: &'o Platform,
    pub(crate) settings: &'o Settings,
    pub(crate) control_file: ControlFile,
    pub(crate) liveness: &'o Arc<Liveness>,
    pub(crate) keep: Option<Keep>,
    /// Whether to create a missing environment.
    pub(super) create: Create<'o>,
    /// The managers of the broken region that this handle replaces; `None` for a first opening. If it is
    /// `Some`, this process was attached before, so it can read the directory of the region's file: if it finds no file
    /// there, no region exists.
    pub(crate) left: Option<&'o Managers>,
    pub(super) started: Instant,
    /// The size up to which a new region may grow.
    pub(crate) reserve: Cell<u64>,
    /// Whether an attempt to join the attached processes has panicked once.
    pub(super) has_panicked: Cell<bool>,
    /// Whether commits that were answered from memory may be lost.
    pub(crate) has_lost: Cell<bool>,
    /// A message about the lost commits. It is reported when the restart that loses the commits has begun.
    pub(crate) loss: Cell<Option<String>>,
}

/// How long an opening waits for the region of the attached processes to appear. Also how long a rebuild waits before
/// it warns of sessions that still write, and how long it waits if the broken region cannot name them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two attempts to open, and between two looks for sessions that still write to files.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

/// What opening does where no environment exists.
#[derive(Clone, Copy)]
pub(crate) enum Create<'o> {
    /// Refuses.
    Never,
    /// Creates an environment.
    IfMissing,
    /// Creates an environment. Where one exists, the opening is refused.
    New,
    /// Creates an environment and marks it as being filled (`admin/filling.rs`). Sets the flag just before it makes the
    /// mark.
    ToFill(&'o Cell<bool>),
}

impl<'o> Opening<'o> {
    /// Starts an opening now, in the environment with this control file.
    pub(crate) fn new(
        platform: &'o Platform,
        settings: &'o Settings,
        liveness: &'o Arc<Liveness>,
        file: &Arc<dyn File>,
    ) -> Opening<'o> {
        Opening {
            platform,
            settings,
            control_file: ControlFile::new(Arc::clone(file), platform.directory.describe(CONTROL_NAME)),
            liveness,
            keep: None,
            create: Create::Never,
            left: None,
            started: Instant::now(),
            reserve: Cell::new(reserve_after(None)),
            has_panicked: Cell::new(false),
            has_lost: Cell::new(false),
            loss: Cell::new(None),
        }
    }

    pub(crate) fn identity(&self, file: &dyn File, control: &Control) -> Result<Identity> {
        Ok(identity_of(&file.identity()?, &control.environment_id, control.incarnation()))
    }

    pub(crate) fn attach(&self, region: &Region, control: &Control) -> Result<Arc<Managers>> {
        let locks = Arc::clone(self.liveness) as Arc<dyn AttachmentLocks>;
        let processes = ProcessManager::attach_locked(region, &libtp_process::Settings::default(), locks)?;
        failpoint("attach: processes known");
        self.attach_managers(region, control, processes)
    }

    /// Returns the managers of a region, for an observer that has no attachment lock in it.
    pub(crate) fn look(&self, region: &Region, control: &Control) -> Result<Arc<Managers>> {
        let locks = Arc::clone(self.liveness) as Arc<dyn AttachmentLocks>;
        let processes = ProcessManager::look(region, &libtp_process::Settings::default(), locks)?;
        self.attach_managers(region, control, processes)
    }

    /// Returns the managers of a region for the handle of `processes`. The handle needs no attachment lock in the
    /// region.
    pub(crate) fn attach_managers(
        &self,
        region: &Region,
        control: &Control,
        processes: ProcessManager,
    ) -> Result<Arc<Managers>> {
        let directory = &self.platform.log_directory;
        region.set_lasting(libtp_log::lasting_of(region));
        if self.settings.dump_memory {
            region.set_dumped(true);
        }
        let log = Arc::new(LogManager::attach(region, &self.log_settings(), directory, control, &processes)?);
        let locks = LockManager::attach(region, &processes, self.lock_settings())?;
        let home = Arc::clone(&self.platform.directory);
        let ahead: Arc<dyn WriteAhead> = Arc::clone(&log) as Arc<dyn WriteAhead>;
        let buffers = BufferManager::attach(region, &self.buffer_settings(region), home, ahead);
        let parts =
            Parts { region: region.clone(), processes, log, locks, buffers, control: self.control_file.clone() };
        failpoint("attach: managers known");
        let mut settings = libtp_txn::Settings::default();
        settings.count_log_bytes = self.settings.victim == Some(Victim::FewestLogBytes);
        settings.recovery_threads = self.settings.recovery_threads;
        set(&mut settings.checkpoint_log_bytes, self.settings.checkpoint_log.map(|bytes| bytes.0));
        set(&mut settings.snapshot_log_bytes, self.settings.snapshot_log.map(|bytes| bytes.0));
        let age = self.settings.snapshot_age_millis.map(std::time::Duration::from_millis);
        settings.asked_for_snapshots = (self.settings.snapshot_log.map(|bytes| bytes.0), age);
        set(&mut settings.keep_log_bytes, self.settings.keep_log.map(|bytes| bytes.0));
        set(&mut settings.snapshot_age, self.settings.snapshot_age_millis.map(Duration::from_millis));
        #[cfg(feature = "unprotected")]
        {
            settings.is_unprotected = self.settings.is_unprotected;
        }
        Ok(Managers::attach_with(parts, record_types::all(), self.applications(), settings))
    }

    /// Returns the log-record types that the program has registered.
    pub(crate) fn applications(&self) -> Applications {
        log_type::applications(&self.platform.log_types)
    }

    pub(crate) fn opened(&self, how: OpenedBy) -> Opened {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Opened { how, millis, log_bytes: 0, redone: 0, undone: 0, mended: 0, lost: self.has_lost.get() }
    }

    pub(super) fn log_settings(&self) -> libtp_log::Settings {
        let mut log = libtp_log::Settings::default();
        let own = self.settings;
        set(&mut log.segment_bytes_first, own.log_segment_first.map(|bytes| bytes.0));
        set(&mut log.segment_bytes_max, own.log_segment_max.map(|bytes| bytes.0));
        set(&mut log.group_threshold, own.group_threshold);
        set(&mut log.wait_threshold_percent, own.wait_threshold_percent);
        set(&mut log.log_delay_bytes, own.log_delay.map(|bytes| bytes.0));
        set(&mut log.relaxed_micros_max, own.relaxed_millis.map(|millis| millis * 1000));
        log
    }

    pub(super) fn buffer_settings(&self, region: &Region) -> libtp_buffer::Settings {
        let policy = match self.settings.replacement.unwrap_or_default() {
            Replacement::Clock => Policy::Clock,
            Replacement::Lru => Policy::Lru,
        };
        let budget_bytes = match self.settings.memory {
            Some(bytes) => bytes.0,
            None => self.settings.memory_bytes().min(self.platform.memory_for_pages(region)),
        };
        let pool = PoolSettings { budget_bytes, policy };
        libtp_buffer::Settings {
            pool,
            #[cfg(feature = "unprotected")]
            writes_once: self.settings.writes_once,
            ..libtp_buffer::Settings::default()
        }
    }

    fn lock_settings(&self) -> libtp_lock::Settings {
        let mut locks = libtp_lock::Settings::default();
        if let Some(millis) = self.settings.deadlock_period_millis {
            locks.detect = libtp_lock::Detect::Every(std::time::Duration::from_millis(millis));
        }
        locks.victim = match self.settings.victim.unwrap_or_default() {
            Victim::Youngest => libtp_lock::Victim::Youngest,
            Victim::FewestLocks => libtp_lock::Victim::FewestLocks,
            Victim::FewestLogBytes => libtp_lock::Victim::FewestLogBytes,
        };
        locks.lanes = self.settings.lanes;
        locks
    }
}

/// Returns the identity of the region of an environment with that control file.
pub(crate) fn identity_of(control: &libtp_io::Identity, environment: &[u8; 16], incarnation: u64) -> Identity {
    let half = |range: std::ops::Range<usize>| {
        u64::from_le_bytes(environment[range].try_into().expect("eight of sixteen bytes"))
    };
    Identity {
        layout: record_types::layout_hash(),
        log_layout: record_types::log_layout_hash(),
        environment: [half(0..8), half(8..16)],
        incarnation,
        control_inode: if planted("libtp: a copied environment counts as the original") { 0 } else { control.inode },
        control_birth: if planted("libtp: a copied environment counts as the original") { 0 } else { control.birth_ns },
        control_device: control.device,
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
