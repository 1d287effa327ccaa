//! An environment: a directory that any number of processes open at once.
//!
//! The only place that sees all managers. It calls their doors top-down to create, attach and repair (DESIGN 3, 6), and
//! keeps what is one process's own: the open databases, and what it has of the region (`life.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtp_process::ForkMark;
use libtp_record::{Duplicates, Method, Order, Verified};
use libtp_txn::Managers;
use rio::Survives;

use crate::attach::{self, Attached, Create, Opened, Platform};
use crate::database::{wait_of, OpenDatabase};
use crate::files;
use crate::index::KeptIndices;
use crate::keep::Keep;
use crate::left_memory::LeftMemory;
use crate::life::{Present, Refused};
use crate::log_type::{self, LogType};
use crate::passing::PassedOn;
use crate::run::run;
use crate::segment::{OpenSegments, Segment};
use crate::settings::{Bytes, Granularity, Replacement, Settings};
use crate::txn::CommitLsn;
use crate::visit::Visits;
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
    /// Tells us from a child that fork makes of us.
    pub(crate) mark: ForkMark,
    /// The process that opened it.
    pub(crate) pid: u32,
    /// What it has of the region.
    pub(crate) present: Present,
    /// Held by who begins a new life; what has kept the last one who tried from it.
    pub(crate) renewing: Mutex<Option<Refused>>,
    pub(crate) databases: Mutex<HashMap<String, Arc<OpenDatabase>>>,
    /// Whether each file has indices, as this process knows it: a file that was renamed may be open under two names.
    pub(crate) index_notes: Mutex<HashMap<u32, Arc<AtomicBool>>>,
    /// The indices that this process can keep.
    pub(crate) indices: KeptIndices,
    pub(crate) segments: OpenSegments,
    /// What it knows of plain files.
    pub(crate) files: files::Home,
    /// Transactions that were passed on by this handle and not yet taken over, as far as it knows.
    pub(crate) passed_on: PassedOn,
    pub(crate) platform: Platform,
    pub(crate) settings: Settings,
    /// Visits of the library's own threads.
    pub(crate) visits: Visits,
    pub(crate) durability: Durability,
    /// How long a lock is waited for.
    pub(crate) wait: libtp_lock::Wait,
    /// How many threads the machine is yet to refuse.
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
    /// Where the log's segment files lie.
    #[must_use]
    pub fn log_directory(mut self, path: impl Into<PathBuf>) -> Builder {
        self.settings.log_directory = Some(path.into());
        self
    }

    /// The memory the page cache may use.
    #[must_use]
    pub fn memory(mut self, bytes: Bytes) -> Builder {
        self.settings.memory = Some(bytes);
        self
    }

    /// When a commit is answered, unless the transaction says otherwise.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.settings.durability = Some(durability);
        self
    }

    /// Where the shared memory lies: a directory that all processes see, `/dev/shm` by default. For [`Durability::Rio`] one on
    /// memory that outlives the system.
    #[must_use]
    pub fn region_directory(mut self, path: impl Into<PathBuf>) -> Builder {
        self.settings.region_directory = Some(path.into());
        self
    }

    /// What the memory there survives, on the operator's word, where that is more than can be found out: better said in
    /// `libtp.toml`, for all processes alike. The word is for the processor's cache, too: nothing is written back from it then, also
    /// where that was found to be needed. So say it only where a start after a crash leaves the cache, or empties it into memory.
    #[must_use]
    pub fn region_survives(mut self, what: Survives) -> Builder {
        self.settings.region_survives = Some(what);
        self
    }

    /// Which frame gives way.
    #[must_use]
    pub fn replacement(mut self, replacement: Replacement) -> Builder {
        self.settings.replacement = Some(replacement);
        self
    }

    /// Nothing is locked and nothing is logged, for measurements of what protection costs (LIBTP 5.1.1, NOTP): by one thread, in a new
    /// environment that is removed afterwards, for an abort takes nothing back, and after a crash its files are good for nothing.
    #[cfg(feature = "unprotected")]
    #[must_use]
    pub fn unprotected(mut self) -> Builder {
        self.settings.is_unprotected = true;
        self
    }

    /// Beside [`Builder::unprotected`]: pages go straight home, and no sync waits for them.
    #[cfg(feature = "unprotected")]
    #[must_use]
    pub fn writing_once(mut self) -> Builder {
        self.settings.writes_once = true;
        self
    }

    /// What is locked in one database.
    #[must_use]
    pub fn granularity(mut self, database: &str, granularity: Granularity) -> Builder {
        self.settings.database.entry(database.into()).or_default().granularity = Some(granularity);
        self
    }

    /// Whether full leaves of one B-tree share with their neighbours before they split. Keys that come in any order leave leaves 0.81 full
    /// then, and not 0.69: a file that is 15 % smaller, for inserts that are a quarter slower. It is said for what this
    /// environment puts, not of the file, and does nothing where pages are locked.
    #[must_use]
    pub fn dense(mut self, database: &str, is_dense: bool) -> Builder {
        self.settings.database.entry(database.into()).or_default().dense = Some(is_dense);
        self
    }

    /// A buffer pool of its own for one database.
    #[must_use]
    pub fn own_pool(mut self, database: &str, bytes: Bytes) -> Builder {
        self.settings.database.entry(database.into()).or_default().own_pool = Some(bytes);
        self
    }

    /// The page size of one database, when it is made here: 4 to 64 KiB.
    #[must_use]
    pub fn page_size(mut self, database: &str, bytes: Bytes) -> Builder {
        self.settings.database.entry(database.into()).or_default().page_bytes = Some(bytes);
        self
    }

    /// The longest a lock is waited for: for ever if nothing is said, and a year where more is said. A transaction may say otherwise
    /// ([`Txn::set_lock_timeout`]).
    #[must_use]
    pub fn lock_timeout(mut self, longest: Duration) -> Builder {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.settings.lock_timeout_millis = Some(millis.min(crate::settings::bounds::LOCK_TIMEOUT_MILLIS_MAX));
        self
    }

    /// All settings at once; what was set before is kept where `settings` says nothing.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings.over(self.settings);
        self
    }

    /// Whether a missing environment is made (it is, by default).
    #[must_use]
    pub fn create(mut self, create: bool) -> Builder {
        self.create = Some(create);
        self
    }

    /// What is right where shared memory and log files disagree, which opening otherwise refuses to guess. Changes nothing
    /// where they agree.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Builder {
        self.keep = Some(keep);
        self
    }

    /// Registers a log-record type of the program: every process that changes or takes back something by it does so before opening.
    #[must_use]
    pub fn log_type(mut self, log_type: LogType) -> Builder {
        self.log_types.push(log_type);
        self
    }

    /// Opens the environment in `directory`.
    ///
    /// # Errors
    /// `Environment` when it cannot be opened, with what to do; `Corrupt` when restart met damage; `Settings`; `Io`.
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Env> {
        let directory = directory.as_ref();
        let platform = self.platform(directory)?;
        self.open_on(platform, &mut |_, _, _| {})
    }

    /// As [`Builder::open`], telling `watch` how far a restart is: what it does, bytes done, bytes in all.
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

    /// The machine's disk and memory, as builder and settings file say together where they are.
    pub(crate) fn platform(&self, directory: &Path) -> Result<Platform> {
        let create = self.creates();
        // Settings are refused before a directory is made.
        self.settings.check()?;
        let home = Platform::posix(directory, &Settings::default(), create)?;
        home.check_local()?;
        let settings = self.settings.clone().over(home.settings_file()?);
        settings.check()?;
        Platform::posix(directory, &settings, create)
    }

    /// Opens an environment on another disk and memory than the machine's: for simulation.
    ///
    /// # Errors
    /// As [`Builder::open`].
    #[doc(hidden)]
    pub fn open_on(&self, platform: Platform, watch: &mut dyn FnMut(&'static str, u64, u64)) -> Result<Env> {
        let create = if self.creates() { Create::IfMissing } else { Create::Never };
        self.open_and(create, platform, watch)
    }

    /// Opens an environment, and does that where there is none.
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
            // The next to use the environment begins the next life, with threads of its own.
            Ok(()) | Err(Error::Rebuilt) => {
                // Of those at work somebody has done it, or does it when one of them dies.
                if env.opened().how != attach::How::Joined {
                    files::recover(&env.0);
                }
                #[cfg(feature = "unprotected")]
                if self.settings.is_unprotected {
                    // Pages that no record was logged for name the first record of the log: so that there is one.
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

    /// Whether a missing environment is made.
    pub(crate) fn creates(&self) -> bool {
        self.create.unwrap_or(true)
    }

    /// What was set here, and where nothing was, what the file says.
    pub(crate) fn settings_over(&self, file: Settings) -> Settings {
        self.settings.clone().over(file)
    }
}

impl Env {
    /// Opens the environment in `directory` with the settings of its `libtp.toml`, if there is one, and makes it if it
    /// is missing.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().open(directory)
    }

    /// Sets something before opening.
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
            files: files::Home::default(),
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

    /// What opening did: nothing, a repair, or a restart from the log.
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

    /// Begins a transaction with a durability of its own.
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn begin_with(&self, durability: Durability) -> Result<Txn<'_>> {
        Txn::begin(&self.0, durability)
    }

    /// Runs `work` in a transaction and commits it; runs it again when it was chosen to end a deadlock. A lock that is not granted in
    /// time ([`Error::LockTimeout`](crate::Error::LockTimeout)) ends it: [`Env::try_run`] runs it again after that, too, if it is asked to, and takes an error
    /// type of the program's own.
    ///
    /// # Errors
    /// What `work` returned, after the transaction was aborted; or the commit's error.
    pub fn run<T>(&self, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        run(&self.0, self.0.durability, work)
    }

    /// As [`Env::run`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Env::run`].
    pub fn run_with<T>(&self, durability: Durability, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        run(&self.0, durability, work)
    }

    /// Opens a B-tree database and makes it if it is missing.
    ///
    /// # Errors
    /// `Database` when the name belongs to another kind or cannot be a file's; `Full`, `Io`, `Corrupt`.
    pub fn btree(&self, name: &str) -> Result<Db> {
        Db::open(&self.0, name, Method::Btree)
    }

    /// Opens a hash database and makes it if it is missing: its keys have no order, and are found in one step.
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

    /// Opens a list and makes it if it is missing: records of any length by number, where an insertion renumbers all that follow.
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn list(&self, name: &str) -> Result<List> {
        List::open(&self.0, name)
    }

    /// Opens a B-tree database whose keys are in an order of their own, and makes it if it is missing. The order's name is
    /// kept in its file.
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
    /// `Database` when the database has another order, with both names; else as [`Env::btree`].
    pub fn btree_ordered(&self, name: &str, order: impl Order + 'static) -> Result<Db> {
        Db::open_ordered(&self.0, name, Arc::new(order))
    }

    /// Opens a B-tree database whose keys have several values each, sorted or as they came, and makes it if it is missing.
    ///
    /// # Errors
    /// `Database` when it was made otherwise; else as [`Env::btree`].
    pub fn multi(&self, name: &str, duplicates: Duplicates) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates, None)
    }

    /// As [`Env::multi`], with keys in an order of their own.
    ///
    /// # Errors
    /// As [`Env::multi`] and [`Env::btree_ordered`].
    pub fn multi_ordered(&self, name: &str, duplicates: Duplicates, order: impl Order + 'static) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates, Some(Arc::new(order)))
    }

    /// Opens a record-number database of records of `record_bytes`, and makes it if it is missing.
    ///
    /// # Errors
    /// As [`Env::btree`]; `Database` when its records have another length.
    pub fn recno(&self, name: &str, record_bytes: u32) -> Result<Recno> {
        Recno::open(&self.0, name, Some(record_bytes))
    }

    /// Opens a database that is there, of whatever kind.
    ///
    /// # Errors
    /// `NoDatabase` when it is missing; else as [`Env::btree`].
    pub fn database(&self, name: &str) -> Result<Database> {
        Database::open(&self.0, name)
    }

    /// Opens a segment of recoverable memory of the environment, whose flat part has `bytes` bytes, and makes it if it is
    /// missing. It is a file in the environment's directory.
    ///
    /// It keeps what such a file keeps ([`Segment::survives`]), whatever the durability of a transaction says, which is of the log
    /// alone. On ordinary storage that is the death of every process. When the machine goes down while it is in use, the records
    /// of `Sync` commits are there, and the segment is refused, never opened torn. Opening it logs a warning where commits of
    /// the environment outlive more than it does. What has to outlive the machine lies in memory that does
    /// ([`Env::segment_at`]), or in records; the crate `rvm` has memory with a log on an ordinary disk, which joins no transaction.
    ///
    /// # Errors
    /// `Memory` if it cannot be made or opened, is another environment's, or was in use when the machine went down and may be
    /// torn, as the error says; `Segment`, `Full`, `Io`.
    pub fn segment(&self, name: &str, bytes: u64) -> Result<Segment> {
        Segment::named(&self.0, name, &vista::Options::new(bytes))
    }

    /// As [`Env::segment`], in the file at `path`, and as `options` say: memory that survives more lies elsewhere.
    ///
    /// # Errors
    /// As [`Env::segment`].
    pub fn segment_at(&self, path: impl AsRef<Path>, options: &vista::Options) -> Result<Segment> {
        Segment::open(&self.0, path.as_ref(), options)
    }

    /// One round of background work, for who opened with `no_background`.
    ///
    /// # Errors
    /// Something could not be written; it is tried again in the next round.
    pub fn background_step(&self) -> Result<()> {
        crate::files::end_left(&self.0);
        let env = Arc::downgrade(&self.0);
        self.0.with_session(|managers, who| crate::background::step(&env, managers, who))
    }

    /// Every lock held or waited for.
    pub fn locks(&self) -> Result<Vec<libtp_lock::LockInfo>> {
        self.0.with_session(|managers, who| Ok(managers.locks.dump(who.session())))
    }

    /// Looks at everything a database's pages say of each other. For a database at rest: changes made meanwhile can be
    /// reported as faults.
    ///
    /// Of a database that has indices also its list of them, and, where this process has the function of one ([`Db::index`](crate::Db::index)),
    /// whether it leads to each record; of an index, whether each entry leads to a record, and with the function whether it belongs
    /// there. Such findings name page 0.
    ///
    /// # Errors
    /// `NoDatabase`; what keeps pages from being read at all, other than their damage, which is a finding.
    pub fn verify(&self, name: &str) -> Result<Verified> {
        let txn = self.begin()?;
        let mut verified = crate::database::verify(&self.0, name, &txn)?;
        // Beside memory that was given up the next life writes pages, and they look damaged from here.
        if txn.life().managers.region.is_broken() {
            return Err(Error::Rebuilt);
        }
        txn.commit()?;
        let more = match crate::index::verify::disagreements(&self.0, name) {
            // A damaged page, which may be told already.
            Err(Error::Corrupt(_)) if !verified.findings.is_empty() => Vec::new(),
            Err(Error::Corrupt(what)) => vec![what],
            found => found?,
        };
        verified.findings.extend(more.into_iter().map(|what| libtp_record::Finding { page: 0, what }));
        Ok(verified)
    }

    /// Every running transaction.
    pub fn transactions(&self) -> Vec<libtp_txn::TxnInfo> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let life = self.0.newest();
        life.guarded(|| Ok(life.managers.transactions())).unwrap_or_default()
    }

    /// Waits until a commit made with [`Txn::commit_async`] is on disk.
    ///
    /// # Errors
    /// `OutcomeUnknown` with its cause when it could not be made sure of: writing to disk failed, say. `Rebuilt` when the memory
    /// was made anew before, and it is lost.
    pub fn wait_durable(&self, commit: CommitLsn) -> Result<()> {
        self.0.check_process()?;
        let life = self.0.newest();
        if life.number() == commit.life {
            match self.0.wait_durable(&life, commit.committed) {
                Err(Error::Rebuilt) => {}
                waited => return waited.map_err(Error::behind_a_commit),
            }
        }
        self.0.outcome_of(commit.life, commit.committed.lsn)
    }

    /// Takes a checkpoint now. False if another session is taking one.
    ///
    /// # Errors
    /// A page or the control file cannot be written; the previous checkpoint stays in force.
    pub fn checkpoint(&self) -> Result<bool> {
        self.0.with_session(|managers, who| Ok(managers.checkpoint(who)?.is_some()))
    }

    /// Writes to disk what has been committed so far.
    ///
    /// # Errors
    /// `Failed` when writing to disk failed.
    pub fn flush(&self) -> Result<()> {
        self.0.with_session(|managers, who| {
            managers.log.force(who.session(), managers.log.tail().minus(8))?;
            Ok(())
        })
    }

    /// Removes the shared memory of environments whose directory is gone, as whoever makes an environment's memory does
    /// too, where this one's lies, and a process that opens one for the first time there. Returns what was left because it may hold commits that are nowhere else.
    pub fn sweep_memory(&self) -> Vec<LeftMemory> {
        self.0.platform.sweep()
    }

    /// The directory, for messages.
    pub fn path(&self) -> &Path {
        &self.0.platform.path
    }

    /// The names of its databases, sorted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn databases(&self) -> Result<Vec<String>> {
        crate::database::names(&self.0)
    }

    /// Drops a database whose file is missing: the decision that the file does not come back. What was committed there is given up,
    /// and the name can be used again. The log that was kept for the file is set free after the next restart.
    ///
    /// # Errors
    /// `NoDatabase` when no database has that name; `Database` when its file is there, or when it was used since the environment
    /// was opened; `Io`, `Full`.
    pub fn drop_missing(&self, name: &str) -> Result<()> {
        self.0.check_process()?;
        let directory = self.0.platform.directory.as_ref();
        let was_there =
            self.0.with_session(|managers, who| Ok(libtp_record::drop_missing(managers, who, directory, name)?))?;
        self.0.databases().remove(name);
        match was_there {
            true => Ok(()),
            false => Err(Error::NoDatabase { name: name.into(), environment: self.path().into() }),
        }
    }

    /// What a kill leaves of this handle, for the simulation of processes: its sessions stay in shared memory as they are.
    /// The files' handles must have been made useless before, or dropping the last clone of it would leave in good order.
    #[doc(hidden)]
    pub fn die(&self) {
        self.0.die();
    }

    /// The managers below: the log, lock and buffer calls for programs with structures of their own (LIBTP 6).
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
    /// The error of a machine that has no more threads, as often as that was asked for.
    pub(crate) fn refuse_thread(&self) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        match self.threads_refused.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(Error::Io("no more threads, for a test".into())),
            Err(_) => Ok(()),
        }
    }
}

/// The longest time that the drop of a handle waits for visits. A visit may wait for the disk.
const VISIT_PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Env {
    /// Waits for visits, so that the last handle closes the environment in the caller's thread. A visitor that has the
    /// environment last closes it later, or never if the process ends before.
    fn drop(&mut self) {
        // The child of a fork has no such thread, and its copy of the count may never fall.
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

/// A lock whose holder panicked guards a plain list, which is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
