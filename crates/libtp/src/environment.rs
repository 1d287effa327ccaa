//! An environment: a directory that any number of processes open at once.
//!
//! Only this module knows all managers. It calls them top-down to create, attach and repair, and keeps
//! the state of this process: the open databases, and the attachment to the region (`generation.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use libtp_process::ForkMark;
use libtp_record::{Duplicates, Method, Order, Verified};
use libtp_txn::Managers;
use rio::Survives;

use crate::db::database::OpenDatabase;
use crate::files;
use crate::ground::mutex::lock;
use crate::ground::settings::wait_of;
use crate::ground::settings::{Bytes, Granularity, Replacement, Settings};
use crate::open::attach;
use crate::open::keep::Keep;
use crate::open::left_memory::OrphanedMemory;
use crate::open::log_type::{self, LogType};
use crate::open::opening::{Attached, Create, How, Opened};
use crate::open::platform::Platform;
use crate::region::generation::{Present, Refused};
use crate::region::kept_indices::KeptIndices;
use crate::region::open_segment::OpenSegments;
use crate::region::passed_on::PassedOn;
use crate::region::plain_files::Home;
use crate::region::visits::Visits;
use crate::txn::run::run;
use crate::txn::segment::Segment;
use crate::txn::transaction::CommitLsn;
use crate::{Database, Db, Durability, Error, List, Multi, Recno, Result, Txn};

/// An open environment. Cloning it is cheap; all clones are one handle. Any thread may use it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
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

pub(crate) struct Inner {
    /// What opening did.
    opened: Opened,
    /// Tells this process from its forked child.
    pub(crate) mark: ForkMark,
    /// The process that opened the environment.
    pub(crate) pid: u32,
    /// This handle's attachment to the region.
    pub(crate) present: Present,
    /// Held by the thread that begins a new life; contains the reason why the last attempt failed.
    pub(crate) renewing: Mutex<Option<Refused>>,
    pub(crate) databases: Mutex<HashMap<String, Arc<OpenDatabase>>>,
    /// Whether each file has indices, as far as this process knows. Keyed by file, because a renamed file may be open
    /// under two names.
    pub(crate) index_notes: Mutex<HashMap<u32, Arc<AtomicBool>>>,
    /// The indices that this process can keep up to date.
    pub(crate) indices: KeptIndices,
    pub(crate) segments: OpenSegments,
    /// This process's state of plain files.
    pub(crate) files: Home,
    /// Transactions that this handle passed on and that, as far as it knows, no session has taken over yet.
    pub(crate) passed_on: PassedOn,
    pub(crate) platform: Platform,
    pub(crate) settings: Settings,
    /// Counts the visits of the library's own threads.
    pub(crate) visits: Visits,
    pub(crate) durability: Durability,
    /// The longest wait for a lock.
    pub(crate) wait: libtp_lock::Wait,
    /// The number of threads that a test has the machine refuse.
    #[cfg(test)]
    pub(crate) threads_refused: std::sync::atomic::AtomicU32,
}

/// Opens environments with settings; see [`Env::builder`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Settings,
    create: Option<bool>,
    keep: Option<Keep>,
    log_types: Vec<LogType>,
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

    /// States, on the operator's word, that the memory of the region's directory survives more than the library can
    /// detect. Better stated in `libtp.toml`, for all processes alike. The statement includes the processor's cache:
    /// the library then never writes it back, even where it detected that it must. Use it only where the start after a
    /// crash preserves the cache or empties it into memory.
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

    /// With [`Builder::unprotected`]: writes each page once, to its place, and waits for no sync.
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

    /// Sets whether full leaves of one B-tree share with their neighbours before they split. Keys that come in any
    /// order then leave leaves 0.81 full instead of 0.69: the file is 15 % smaller, and inserts are a quarter slower.
    /// This concerns the inserts of this environment handle, and the file does not record it. It has no effect where
    /// pages are locked.
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

    /// Sets the longest wait for a lock: without a limit by default, at most one year. A transaction may override it
    /// ([`Txn::set_lock_timeout`]).
    #[must_use]
    pub fn lock_timeout(mut self, longest: Duration) -> Builder {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.settings.lock_timeout_millis = Some(millis.min(crate::ground::settings::bounds::LOCK_TIMEOUT_MILLIS_MAX));
        self
    }

    /// Applies all of `settings`; where `settings` leaves a value open, the earlier value stays.
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

    /// Sets which side is right when shared memory and log files disagree. Opening otherwise refuses to guess. It has
    /// no effect when they agree.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Builder {
        self.keep = Some(keep);
        self
    }

    /// Registers a log-record type of the program. Every process must register it before opening if it makes or undoes
    /// changes of that type.
    #[must_use]
    pub fn log_type(mut self, log_type: LogType) -> Builder {
        self.log_types.push(log_type);
        self
    }

    /// Opens the environment in `directory`.
    ///
    /// # Errors
    /// `Environment` when the environment cannot be opened, with the remedy; `Corrupt` when restart met damage;
    /// `Settings`; `Io`.
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Env> {
        let directory = directory.as_ref();
        let platform = self.platform(directory)?;
        self.open_on(platform, &mut |_, _, _| {})
    }

    /// As [`Builder::open`]; reports a restart's progress to `watch`: the step, bytes done, bytes in all.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_watched(
        &self,
        directory: impl AsRef<Path>,
        watch: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<Env> {
        let platform = self.platform(directory.as_ref())?;
        self.open_on(platform, watch)
    }

    /// Returns the machine's disk and memory, at the places given by the builder and the settings file.
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

    /// Opens an environment on the given disk and memory instead of the machine's, for simulation.
    ///
    /// # Errors
    /// As [`Builder::open`].
    #[doc(hidden)]
    pub fn open_on(&self, platform: Platform, watch: &mut dyn FnMut(&'static str, u64, u64)) -> Result<Env> {
        let create = if self.creates() { Create::IfMissing } else { Create::Never };
        self.open_and(create, platform, watch)
    }

    /// Opens an environment; where none exists, does what `create` says.
    pub(crate) fn open_and(
        &self,
        create: Create<'_>,
        mut platform: Platform,
        watch: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<Env> {
        platform.check_local()?;
        log_type::check(&self.log_types)?;
        platform.log_types = self.log_types.clone().into();
        let settings = self.settings_over(platform.settings_file()?);
        settings.check()?;
        let attached = attach::open(&platform, &settings, self.keep, create, watch)?;
        let env = Env::of(attached, platform, settings);
        let first = env.0.newest();
        if env.0.durability == Durability::Rio {
            first.check_lasting()?;
        }
        match first.start_background(&env.0) {
            // `Rebuilt`: the next call begins the next life, which has threads of its own.
            Ok(()) | Err(Error::Rebuilt) => {
                // In an environment already in use, another process has recovered the files, or does so when one dies.
                if env.opened().how != How::Joined {
                    files::change::recover(&env.0);
                }
                #[cfg(feature = "unprotected")]
                if self.settings.is_unprotected {
                    // Unlogged pages carry the LSN of the log's first record, so that record must exist.
                    env.checkpoint()?;
                }
                Ok(env)
            }
            Err(error) => {
                first.stop_background();
                Err(error)
            }
        }
    }

    /// Returns whether opening creates a missing environment.
    pub(crate) fn creates(&self) -> bool {
        self.create.unwrap_or(true)
    }

    /// Returns the builder's settings, completed by those of the file.
    pub(crate) fn settings_over(&self, file: Settings) -> Settings {
        self.settings.clone().over(file)
    }
}

impl Env {
    /// Opens the environment in `directory` with the settings of its `libtp.toml`, if that file exists. Creates a
    /// missing environment.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().open(directory)
    }

    /// Returns a builder, to change settings before opening.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn of(attached: Attached, platform: Platform, settings: Settings) -> Env {
        Env(Arc::new(Inner {
            opened: attached.opened.clone(),
            mark: attached.managers.processes.fork_mark(),
            pid: attached.managers.processes.pid(),
            present: Present::first(attached, &platform.path),
            renewing: Mutex::new(None),
            databases: Mutex::new(HashMap::new()),
            index_notes: Mutex::default(),
            indices: KeptIndices::default(),
            segments: OpenSegments::default(),
            files: Home::default(),
            passed_on: PassedOn::default(),
            durability: settings.durability.unwrap_or_default(),
            wait: wait_of(settings.lock_timeout()),
            platform,
            settings,
            visits: Visits::default(),
            #[cfg(test)]
            threads_refused: std::sync::atomic::AtomicU32::new(0),
        }))
    }

    /// Returns what opening did: nothing, a repair, or a restart from the log.
    pub fn opened(&self) -> &Opened {
        &self.0.opened
    }

    /// Begins a transaction: the paper's `txn_begin`.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn begin(&self) -> Result<Txn<'_>> {
        Txn::begin(&self.0, self.0.durability)
    }

    /// Begins a transaction with the given durability.
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn begin_with(&self, durability: Durability) -> Result<Txn<'_>> {
        Txn::begin(&self.0, durability)
    }

    /// Runs `work` in a transaction and commits it. Runs `work` again when the transaction was the victim of a
    /// deadlock. A lock timeout ([`Error::LockTimeout`](crate::Error::LockTimeout)) ends the call; [`Env::try_run`] can
    /// retry after that too, and allows an error type of the program's own.
    ///
    /// # Errors
    /// The error that `work` returned, after the transaction was aborted; or the commit's error.
    pub fn run<T>(&self, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        run(&self.0, self.0.durability, work)
    }

    /// As [`Env::run`], with the given durability.
    ///
    /// # Errors
    /// As [`Env::run`].
    pub fn run_with<T>(&self, durability: Durability, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        run(&self.0, durability, work)
    }

    /// Opens a B-tree database; creates it if it is missing.
    ///
    /// # Errors
    /// `Database` when the name belongs to a database of another kind or is no valid file name; `Full`, `Io`,
    /// `Corrupt`.
    pub fn btree(&self, name: &str) -> Result<Db> {
        Db::open(&self.0, name, Method::Btree)
    }

    /// Opens a hash database; creates it if it is missing. Its keys have no order, and are found in one step.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::open(dir.path())?;
    /// let parts = env.hash("parts")?;
    /// env.run(|txn| parts.put(txn, b"4711", b"a screw"))?;
    /// assert_eq!(env.run(|txn| parts.get(txn, b"4711"))?.as_deref(), Some(&b"a screw"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn hash(&self, name: &str) -> Result<Db> {
        Db::open(&self.0, name, Method::Hash)
    }

    /// Opens a list; creates it if it is missing. A list has records of any length by number; an insertion renumbers
    /// all records that follow.
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn list(&self, name: &str) -> Result<List> {
        List::open(&self.0, name)
    }

    /// Opens a B-tree database whose keys have another order than the order of their bytes; creates it if it is
    /// missing. The file records the order's name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::open(dir.path())?;
    /// let newest_first = env.btree_ordered("news", libtp::order::Descending)?;
    /// env.run(|txn| {
    ///     newest_first.put(txn, b"2024-01-01", b"")?;
    ///     newest_first.put(txn, b"2025-01-01", b"")?;
    ///     assert_eq!(newest_first.cursor(txn).first()?.map(|pair| pair.0).as_deref(), Some(&b"2025-01-01"[..]));
    ///     Ok(())
    /// })?;
    /// assert!(env.btree("news").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Database`, with both names, when the database has another order; else as [`Env::btree`].
    pub fn btree_ordered(&self, name: &str, order: impl Order + 'static) -> Result<Db> {
        Db::open_ordered(&self.0, name, Arc::new(order))
    }

    /// Opens a B-tree database whose keys have several values each, sorted or in the order of insertion; creates it if
    /// it is missing.
    ///
    /// # Errors
    /// `Database` when it was created with other properties; else as [`Env::btree`].
    pub fn multi(&self, name: &str, duplicates: Duplicates) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates, None)
    }

    /// As [`Env::multi`], with keys in the given order.
    ///
    /// # Errors
    /// As [`Env::multi`] and [`Env::btree_ordered`].
    pub fn multi_ordered(&self, name: &str, duplicates: Duplicates, order: impl Order + 'static) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates, Some(Arc::new(order)))
    }

    /// Opens a record-number database of records of `record_bytes`; creates it if it is missing.
    ///
    /// # Errors
    /// As [`Env::btree`]; `Database` when its records have another length.
    pub fn recno(&self, name: &str, record_bytes: u32) -> Result<Recno> {
        Recno::open(&self.0, name, Some(record_bytes))
    }

    /// Opens an existing database of any kind.
    ///
    /// # Errors
    /// `NoDatabase` when it is missing; else as [`Env::btree`].
    pub fn database(&self, name: &str) -> Result<Database> {
        Database::open(&self.0, name)
    }

    /// Opens a segment of recoverable memory of the environment, whose flat part has `bytes` bytes; creates it if it is
    /// missing. The segment is a file in the environment's directory.
    ///
    /// The segment survives what its file survives ([`Segment::survives`]), whatever the durability of a transaction:
    /// durability concerns only the log. On ordinary storage the segment survives the death of every process. If the
    /// machine goes down while the segment is in use, the records of `Sync` commits are kept, and opening the segment
    /// is refused rather than returning it torn. Opening it logs a warning where the environment's commits outlive more
    /// than the segment does. For data that must outlive the machine, use memory that does ([`Env::segment_at`]) or
    /// records. The crate `rvm` offers memory with a log on an ordinary disk, but it joins no transaction.
    ///
    /// # Errors
    /// `Memory` if the segment cannot be created or opened, belongs to another environment, or was in use when the
    /// machine went down and may be torn, as the error says; `Segment`, `Full`, `Io`.
    pub fn segment(&self, name: &str, bytes: u64) -> Result<Segment> {
        Segment::named(&self.0, name, &vista::Options::new(bytes))
    }

    /// As [`Env::segment`], in the file at `path` and with `options`: for memory elsewhere that survives more.
    ///
    /// # Errors
    /// As [`Env::segment`].
    pub fn segment_at(&self, path: impl AsRef<Path>, options: &vista::Options) -> Result<Segment> {
        Segment::open(&self.0, path.as_ref(), options)
    }

    /// Does one round of background work, for environments opened with `no_background`.
    ///
    /// # Errors
    /// Something could not be written; the next round tries again.
    pub fn background_step(&self) -> Result<()> {
        crate::files::change::end_left(&self.0);
        let env = Arc::downgrade(&self.0);
        self.0.with_session(|managers, txn| crate::region::background::step(&env, managers, txn))
    }

    /// Returns every lock held or waited for.
    pub fn locks(&self) -> Result<Vec<libtp_lock::LockInfo>> {
        self.0.with_session(|managers, txn| Ok(managers.locks.dump(txn.session())))
    }

    /// Checks everything that a database's pages state about each other. The database must be at rest: changes made
    /// meanwhile can be reported as faults.
    ///
    /// In a database with indices, also checks its list of them and, where this process has an index's function
    /// ([`Db::index`](crate::Db::index)), whether the index leads to each record. In an index, checks whether each
    /// entry leads to a record and, with the function, whether the entry belongs there. Such findings name page 0.
    ///
    /// # Errors
    /// `NoDatabase`; an error that keeps pages from being read at all. Damage of a page is a finding, not an error.
    pub fn verify(&self, name: &str) -> Result<Verified> {
        let txn = self.begin()?;
        let mut verified = crate::db::database::verify(&self.0, name, &txn)?;
        // If this region was given up, the next life may have written pages that look damaged from here.
        if txn.generation().managers.region.is_broken() {
            return Err(Error::Rebuilt);
        }
        txn.commit()?;
        let more = match crate::db::index::verify::disagreements(&self.0, name) {
            // A damaged page, which may be among the findings already.
            Err(Error::Corrupt(_)) if !verified.findings.is_empty() => Vec::new(),
            Err(Error::Corrupt(what)) => vec![what],
            found => found?,
        };
        verified.findings.extend(more.into_iter().map(|what| libtp_record::Finding { page: 0, what }));
        Ok(verified)
    }

    /// Returns every running transaction.
    pub fn transactions(&self) -> Vec<libtp_txn::TxnInfo> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let generation = self.0.newest();
        generation.guarded(|| Ok(generation.managers.transactions())).unwrap_or_default()
    }

    /// Waits until a commit made with [`Txn::commit_async`] is on disk.
    ///
    /// # Errors
    /// `OutcomeUnknown` with its cause when the commit could not be made durable, for example because a write to disk
    /// failed. `Rebuilt` when the memory was made anew before, and the commit is lost.
    pub fn wait_durable(&self, commit: CommitLsn) -> Result<()> {
        self.0.check_process()?;
        let generation = self.0.newest();
        if generation.number() == commit.generation {
            match self.0.wait_durable(&generation, commit.committed) {
                Err(Error::Rebuilt) => {}
                waited => return waited.map_err(Error::behind_a_commit),
            }
        }
        self.0.outcome_of(commit.generation, commit.committed.lsn)
    }

    /// Takes a checkpoint now. Returns false if another session is taking one.
    ///
    /// # Errors
    /// A page or the control file cannot be written; the previous checkpoint stays in force.
    pub fn checkpoint(&self) -> Result<bool> {
        self.0.with_session(|managers, txn| Ok(managers.checkpoint(txn)?.is_some()))
    }

    /// Writes everything committed so far to disk.
    ///
    /// # Errors
    /// `Failed` when writing to disk failed.
    pub fn flush(&self) -> Result<()> {
        self.0.with_session(|managers, txn| {
            managers.log.force(txn.session(), managers.log.tail().minus(8))?;
            Ok(())
        })
    }

    /// Removes the shared memory of environments whose directory is gone. A process also does this, in the directory of
    /// its region, when it makes an environment's memory, and when it first opens an environment there. Returns the
    /// memory that was left because it may hold commits that exist nowhere else.
    pub fn sweep_memory(&self) -> Vec<OrphanedMemory> {
        self.0.platform.sweep()
    }

    /// Returns the directory, for messages.
    pub fn path(&self) -> &Path {
        &self.0.platform.path
    }

    /// Returns the names of the environment's databases, sorted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn databases(&self) -> Result<Vec<String>> {
        crate::db::database::names(&self.0)
    }

    /// Drops a database whose file is missing: the caller decides that the file does not come back. Its committed
    /// records are given up, and the name can be used again. The log kept for the file is freed after the next restart.
    ///
    /// # Errors
    /// `NoDatabase` when no database has that name; `Database` when its file is there, or when it was used since the
    /// environment was opened; `Io`, `Full`.
    pub fn drop_missing(&self, name: &str) -> Result<()> {
        self.0.check_process()?;
        let directory = self.0.platform.directory.as_ref();
        let was_there =
            self.0.with_session(|managers, txn| Ok(libtp_record::drop_missing(managers, txn, directory, name)?))?;
        self.0.databases().remove(name);
        match was_there {
            true => Ok(()),
            false => Err(Error::NoDatabase { name: name.into(), environment: self.path().into() }),
        }
    }

    /// Leaves this handle as a kill would, for the simulation of processes: its sessions stay in shared memory as they
    /// are. The caller must disable the files' handles first; otherwise dropping the last clone closes the environment
    /// in good order.
    #[doc(hidden)]
    pub fn die(&self) {
        self.0.die();
    }

    /// Returns the managers: the log, lock and buffer calls for programs with structures of their own (LIBTP 6).
    #[doc(hidden)]
    pub fn managers(&self) -> Arc<Managers> {
        Arc::clone(&self.0.newest().managers)
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({})", self.path().display())
    }
}

impl Inner {
    pub(crate) fn databases(&self) -> MutexGuard<'_, HashMap<String, Arc<OpenDatabase>>> {
        lock(&self.databases)
    }
}

#[cfg(test)]
impl Inner {
    /// Fails as a machine without free threads does, the number of times that the test asked for.
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
    /// Waits for visits, so that the last handle closes the environment in the caller's thread. A visiting thread that
    /// holds the environment last closes it later, or never if the process ends before.
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
            tracing::error!(%error, "closing the environment was not orderly; the next to open it restarts from the log");
        }
    }
}
