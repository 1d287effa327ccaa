//! The builder: the settings and choices of one opening of an environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rio::Survives;

use crate::ground::settings::{bounds, Bytes, Granularity, Replacement, Settings};
use crate::open::keep::Keep;
use crate::open::log_type::LogType;
use crate::open::opening::Create;
use crate::open::platform::Platform;
use crate::{Durability, Result};

/// A builder of environments: the settings and choices of an opening. See [`Env::builder`](crate::Env::builder).
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) settings: Settings,
    create: Option<bool>,
    create_new: bool,
    pub(crate) is_read_only: bool,
    pub(crate) keep: Option<Keep>,
    pub(crate) log_types: Vec<LogType>,
}

impl Builder {
    /// Sets the directory of the log's segment files.
    #[must_use]
    pub fn log_directory(mut self, path: impl Into<PathBuf>) -> Builder {
        self.settings.log_directory = Some(path.into());
        self
    }

    /// Sets the memory that the page cache may use.
    #[must_use]
    pub fn memory(mut self, bytes: Bytes) -> Builder {
        self.settings.memory = Some(bytes);
        self
    }

    /// Sets when a commit returns, unless the transaction chooses otherwise.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.settings.durability = Some(durability);
        self
    }

    /// Sets the directory of the shared memory, `/dev/shm` by default. All processes must see it. [`Durability::Rio`]
    /// needs a directory on memory that outlives the system.
    #[must_use]
    pub fn region_directory(mut self, path: impl Into<PathBuf>) -> Builder {
        self.settings.region_directory = Some(path.into());
        self
    }

    /// States that the memory of the region's directory survives more than the library can detect; the operator vouches
    /// for it. Prefer `libtp.toml` for this statement, so that it applies to all processes. The statement includes the
    /// processor's cache: the library then never writes the cache back, even where it detected that this is necessary.
    /// Use the statement only on a machine whose start after a crash preserves the cache or writes it back to memory.
    #[must_use]
    pub fn region_survives(mut self, what: Survives) -> Builder {
        self.settings.region_survives = Some(what);
        self
    }

    /// Sets how the page cache chooses the frame to replace.
    #[must_use]
    pub fn replacement(mut self, replacement: Replacement) -> Builder {
        self.settings.replacement = Some(replacement);
        self
    }

    /// Turns off locking and logging, to measure the cost of protection (LIBTP 5.1.1, NOTP). Use it with one thread, in
    /// a new environment that is removed afterwards: an abort undoes nothing, and the files are useless after a crash.
    #[cfg(feature = "unprotected")]
    #[must_use]
    pub fn unprotected(mut self) -> Builder {
        self.settings.is_unprotected = true;
        self
    }

    /// Writes each page once, to its place in the data file, and waits for no sync. For measurements with
    /// [`Builder::unprotected`].
    #[cfg(feature = "unprotected")]
    #[must_use]
    pub fn writing_once(mut self) -> Builder {
        self.settings.writes_once = true;
        self
    }

    /// Sets the unit of locking in one database.
    #[must_use]
    pub fn granularity(mut self, database: &str, granularity: Granularity) -> Builder {
        self.settings.database.entry(database.into()).or_default().granularity = Some(granularity);
        self
    }

    /// Sets whether a full leaf of one B-tree shares its records with a neighbour before it splits. After inserts in
    /// random order, leaves are then 0.81 full instead of 0.69: the file is 15 % smaller, and inserts are a quarter
    /// slower. The setting applies to the inserts of this environment handle; the file does not record it. It has no
    /// effect if pages are the unit of locking.
    #[must_use]
    pub fn dense(mut self, database: &str, is_dense: bool) -> Builder {
        self.settings.database.entry(database.into()).or_default().dense = Some(is_dense);
        self
    }

    /// Gives one database a buffer pool of its own.
    #[must_use]
    pub fn own_pool(mut self, database: &str, bytes: Bytes) -> Builder {
        self.settings.database.entry(database.into()).or_default().own_pool = Some(bytes);
        self
    }

    /// Sets the page size of one database, used when this environment creates it: 4 to 64 KiB.
    #[must_use]
    pub fn page_size(mut self, database: &str, bytes: Bytes) -> Builder {
        self.settings.database.entry(database.into()).or_default().page_bytes = Some(bytes);
        self
    }

    /// Sets the longest wait for a lock, and for a stopped process that writes the log
    /// ([`Durability::Sync`](crate::Durability::Sync)): without a limit by default, at most one year. A transaction may
    /// override it ([`Txn::set_lock_timeout`](crate::Txn::set_lock_timeout)).
    #[must_use]
    pub fn lock_timeout(mut self, longest: Duration) -> Builder {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.settings.lock_timeout_millis = Some(millis.min(bounds::LOCK_TIMEOUT_MILLIS_MAX));
        self
    }

    /// Applies all of `settings`; a value that `settings` leaves unset keeps its earlier setting.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings.over(self.settings);
        self
    }

    /// Sets whether opening creates a missing environment (it does by default).
    #[must_use]
    pub fn create(mut self, create: bool) -> Builder {
        self.create = Some(create);
        self
    }

    /// Sets whether opening creates the environment and refuses one that exists, whatever [`Builder::create`] says. If
    /// several processes create one environment at the same time, one of them succeeds. An opening that failed or was
    /// killed has created no environment; a later opening may create it.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Builder {
        self.create_new = create_new;
        self
    }

    /// Sets whether the handle refuses every change of data ([`Env::open_read_only`](crate::Env::open_read_only)). A
    /// read-only opening creates no environment.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Builder {
        self.is_read_only = read_only;
        self
    }

    /// Sets which side is right when shared memory and log files disagree. Without this choice, an opening that finds a
    /// disagreement is refused. The choice has no effect when the two sides agree.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Builder {
        self.keep = Some(keep);
        self
    }

    /// Registers a log-record type of the program. Every process that makes or undoes changes of that type must
    /// register the type before it opens the environment.
    #[must_use]
    pub fn log_type(mut self, log_type: LogType) -> Builder {
        self.log_types.push(log_type);
        self
    }

    /// Returns whether opening creates a missing environment.
    pub(crate) fn creates(&self) -> bool {
        !self.is_read_only && (self.create_new || self.create.unwrap_or(true))
    }

    /// Returns what opening does where no environment exists.
    pub(crate) fn to_create(&self) -> Create<'static> {
        match self.creates() {
            false => Create::Never,
            true if self.create_new => Create::New,
            true => Create::IfMissing,
        }
    }

    /// Returns the builder's settings, completed by the file's settings.
    pub(crate) fn settings_over(&self, file: Settings) -> Settings {
        self.settings.clone().over(file)
    }

    /// Returns the directories of files and memory that the builder and the settings file name.
    pub(crate) fn platform(&self, directory: &Path) -> Result<Platform> {
        let create = self.creates();
        // Check the settings before making a directory.
        self.settings.check()?;
        let home = Platform::posix(directory, &Settings::default(), create)?;
        home.check_local()?;
        let settings = self.settings.clone().over(home.settings_file()?);
        settings.check()?;
        Platform::posix(directory, &settings, create)
    }
}
