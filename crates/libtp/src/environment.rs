//! The calls on an environment's handle, [`Env`].
//!
//! This module is above all floors of the crate (ARCHITECTURE.md): it may import from every floor, and no floor imports
//! from it. The state of a handle is in `region/inner.rs`, and opening is in `admin/opening.rs`.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use libtp_record::{Method, Order};

use crate::open::left_memory::OrphanedMemory;
use crate::txn::commit::CommitLsn;
use crate::txn::run::run;
use crate::txn::segment::Segment;
use crate::{
    Builder, Database, Db, Duplicates, Durability, Env, Error, List, LockInfo, Multi, Opened, Recno, Result, Txn,
    Verified,
};

impl Env {
    /// Creates an environment in `directory` with the settings of its `libtp.toml`, if that file exists, and opens it.
    /// Creates the directory if it is missing. If several processes call this function at the same time, one of them
    /// succeeds. A call that failed or was killed has created no environment; a later call may create it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bank");
    /// use libtp::{Env, Error};
    ///
    /// assert!(matches!(Env::open(&path), Err(Error::Environment { .. })), "no environment exists yet");
    /// let env = Env::create(&path)?;
    /// assert!(matches!(Env::create(&path), Err(Error::Environment { .. })), "an environment exists already");
    /// let again = Env::open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Environment` when there is an environment already; else as [`Builder::open`].
    pub fn create(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().create_new(true).open(directory)
    }

    /// Opens the environment in `directory` with the settings of its `libtp.toml`, if that file exists.
    ///
    /// # Errors
    /// `Environment` when there is no environment; else as [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().create(false).open(directory)
    }

    /// Opens the environment in `directory`; creates it if it is missing. Any number of processes may call this
    /// function at the same time.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_or_create(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().open(directory)
    }

    /// Opens the environment in `directory` for reading only: this handle refuses every change of records, databases,
    /// files and segments with [`Error::ReadOnly`], and has no transactions. It reads in snapshots ([`Env::snapshot`]).
    /// It allows upkeep, which changes none of these: [`Env::checkpoint`], [`Env::flush`], [`Env::background_step`],
    /// [`Env::sweep_memory`].
    ///
    /// The refusals guard against mistakes in the program. They are no substitute for file permissions, because the
    /// handle joins the shared memory as every handle does: the process must be able to write to the environment's
    /// directory and to the shared memory. The process repairs what dead processes left, restarts the environment from
    /// the log if it is the first process, and writes committed pages to the disk.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop");
    /// use libtp::{Env, Error};
    ///
    /// let env = Env::create(&path)?;
    /// let stock = env.btree("stock")?;
    /// env.run(|txn| stock.put(txn, b"apples", b"3"))?;
    ///
    /// let reader = Env::open_read_only(&path)?;
    /// let stock = reader.btree("stock")?;
    /// assert_eq!(stock.get(&reader.snapshot()?, b"apples")?.as_deref(), Some(&b"3"[..]));
    /// assert!(matches!(reader.begin(), Err(Error::ReadOnly { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Env::open`].
    pub fn open_read_only(directory: impl AsRef<Path>) -> Result<Env> {
        Builder::default().read_only(true).open(directory)
    }

    /// Returns whether this handle refuses every change.
    pub fn is_read_only(&self) -> bool {
        self.0.is_read_only
    }

    /// Returns a builder, to change settings before opening.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the work that opening did: nothing, a repair, or a restart from the log. After commits were lost, every
    /// opening reports the loss ([`Opened::lost`]) until a program has called this function.
    pub fn opened(&self) -> &Opened {
        let opened = &self.0.opened;
        // Relaxed is enough: a second note of the loss changes nothing.
        if opened.lost && !self.0.has_read_loss.swap(true, Ordering::Relaxed) {
            let noted = self.0.with_session(|managers, txn| Ok(managers.note_loss_read(txn.session())?));
            noted.unwrap_or_else(|error| tracing::warn!(%error, "the next opening reports the lost commits again"));
        }
        opened
    }

    /// Begins a transaction: the paper's `txn_begin`.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn begin(&self) -> Result<Txn<'_>> {
        self.begin_with(self.0.durability)
    }

    /// Begins a transaction with the given durability.
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn begin_with(&self, durability: Durability) -> Result<Txn<'_>> {
        self.0.check_writable("transactions")?;
        Txn::begin(&self.0, durability)
    }

    /// Runs `work` in a transaction and commits it. Runs `work` again when the transaction was the victim of a
    /// deadlock, or was undone because of an event outside it ([`Error::is_retryable`](crate::Error::is_retryable)). A
    /// lock timeout ([`Error::LockTimeout`](crate::Error::LockTimeout)) ends the call; [`Env::try_run`] can retry after
    /// that too, and allows an error type of the program's own.
    ///
    /// # Errors
    /// The error that `work` returned, after the transaction was aborted; or the commit's error.
    pub fn run<T>(&self, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        self.run_with(self.0.durability, work)
    }

    /// As [`Env::run`], with the given durability.
    ///
    /// # Errors
    /// As [`Env::run`].
    pub fn run_with<T>(&self, durability: Durability, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
        self.0.check_writable("transactions")?;
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

    /// Works as [`Env::btree`], but waits for other sessions that open, drop or rename the database at most for the time
    /// `longest`, whatever the environment's lock timeout is; zero does not wait. [`Env::btree`] waits for at least
    /// five seconds, because those sessions are usually done in a moment.
    ///
    /// # Errors
    /// `LockTimeout` if another session still has the name; else as [`Env::btree`].
    pub fn btree_within(&self, name: &str, longest: Duration) -> Result<Db> {
        Db::btree_within(&self.0, name, longest)
    }

    /// Opens a hash database; creates it if it is missing. Its keys have no order, and are found in one step.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
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

    /// Opens a list; creates it if it is missing. A list has records of any length, found by number. An insertion
    /// renumbers all records after it.
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
    /// # let env = libtp::Env::create(dir.path())?;
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
    /// `Database`, with the names of both orders, when the database has another order; else as [`Env::btree`].
    pub fn btree_ordered(&self, name: &str, order: impl Order + 'static) -> Result<Db> {
        Db::open_ordered(&self.0, name, Arc::new(order))
    }

    /// Opens a B-tree database whose keys have several values each, sorted or in the order of insertion; creates it if
    /// it is missing.
    ///
    /// # Errors
    /// `Database` when the database was created with other properties; else as [`Env::btree`].
    pub fn multi(&self, name: &str, duplicates: Duplicates) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates.into(), None)
    }

    /// As [`Env::multi`], with keys in the given order.
    ///
    /// # Errors
    /// As [`Env::multi`] and [`Env::btree_ordered`].
    pub fn multi_ordered(&self, name: &str, duplicates: Duplicates, order: impl Order + 'static) -> Result<Multi> {
        Multi::open(&self.0, name, duplicates.into(), Some(Arc::new(order)))
    }

    /// Opens a record-number database whose records have `record_bytes` bytes each; creates it if it is missing.
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

    /// Opens the environment's segment `name` of recoverable memory, with a flat part of `bytes` bytes; creates the
    /// segment if it is missing. The segment is a file in the environment's directory.
    ///
    /// The segment survives the events that its file survives ([`Segment::survives`]), whatever the durability of a
    /// transaction: durability concerns only the log. On ordinary storage the segment survives the death of every
    /// process. If the machine goes down while the segment is in use, the records of `Sync` commits are kept, but the
    /// segment may be torn, and opening it is refused. Opening a segment logs a warning if the environment's commits
    /// survive more events than the segment does. For data that must survive a crash of the machine, use records, or a
    /// segment in memory that survives the crash ([`Env::segment_at`]). The crate `rvm` offers memory with a log on an
    /// ordinary disk, but it joins no transaction.
    ///
    /// # Errors
    /// `Memory` if the segment cannot be created or opened, belongs to another environment, or was in use when the
    /// machine went down and may be torn, as the error says; `Segment`, `Full`, `Io`.
    pub fn segment(&self, name: &str, bytes: u64) -> Result<Segment> {
        self.0.check_writable("segments of memory")?;
        Segment::named(&self.0, name, &vista::Options::new(bytes))
    }

    /// As [`Env::segment`], in the file at `path` and with `options`: for example, in memory that survives more events
    /// than the environment's directory does.
    ///
    /// # Errors
    /// As [`Env::segment`].
    pub fn segment_at(&self, path: impl AsRef<Path>, options: &vista::Options) -> Result<Segment> {
        self.0.check_writable("segments of memory")?;
        Segment::open(&self.0, path.as_ref(), options)
    }

    /// Does one round of background work, for environments opened with `no_background`. Only background work notices that
    /// the file of the shared memory was removed (`rm`, the end of a container): it then writes the log to disk and has
    /// the memory rebuilt. If no process calls this or has background threads, relaxed commits are lost with the last
    /// process after such a removal.
    ///
    /// # Errors
    /// Something could not be written; the next round tries again.
    pub fn background_step(&self) -> Result<()> {
        crate::files::recovery::end_left(&self.0);
        let env = Arc::downgrade(&self.0);
        self.0.with_session(|managers, txn| crate::region::background::step(&env, managers, txn))
    }

    /// Returns every lock that a session holds or waits for.
    pub fn locks(&self) -> Result<Vec<LockInfo>> {
        let locks = self.0.with_session(|managers, txn| Ok(managers.locks.dump(txn.session())))?;
        Ok(locks.into_iter().map(LockInfo::from).collect())
    }

    /// Checks that a database's pages are sound and agree with each other. No transaction may change the database
    /// meanwhile: its changes could be reported as faults.
    ///
    /// In a database with indices, also checks the list of its indices and, where this process has an index's function
    /// ([`Db::index`](crate::Db::index)), whether the index leads to each record. In an index, checks whether each
    /// entry leads to a record and, with the function, whether the record has that key. Findings about indices name
    /// page 0.
    ///
    /// # Errors
    /// `NoDatabase`; an error that keeps pages from being read at all. Damage of a page is a finding, not an error.
    pub fn verify(&self, name: &str) -> Result<Verified> {
        let txn = Txn::begin(&self.0, self.0.durability)?;
        let mut verified = Verified::from(crate::db::opening::verify(&self.0, name, &txn)?);
        // If this region was replaced, sessions of the new region may have written pages that look damaged in this
        // region.
        if txn.generation().managers.region.is_broken() {
            return Err(Error::Rebuilt);
        }
        txn.commit()?;
        let more = match crate::db::index::verify::disagreements(&self.0, name) {
            // The damaged page may be among the findings already.
            Err(Error::Corrupt(_)) if !verified.findings.is_empty() => Vec::new(),
            Err(Error::Corrupt(damage)) => vec![damage.to_string()],
            found => found?,
        };
        verified.findings.extend(more.into_iter().map(|what| crate::Finding { page: 0, what }));
        Ok(verified)
    }

    /// Waits until a commit made with [`Txn::commit_async`] is on disk.
    ///
    /// # Errors
    /// `OutcomeUnknown` with its cause when the commit could not be made durable, for example because a write to disk
    /// failed. `Rebuilt` when the shared memory was rebuilt before the commit was on disk, and the commit is lost.
    pub fn wait_durable(&self, commit: CommitLsn) -> Result<()> {
        self.0.check_process()?;
        let generation = self.0.newest();
        if generation.number() == commit.generation {
            match self.0.wait_durable(&generation, commit.committed) {
                Err(Error::Rebuilt) => {}
                waited => return waited.map_err(Error::after_commit_record),
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
    /// `Failed` when writing to disk failed. `Io` when the process that writes the log is stopped, and this handle has a
    /// lock timeout or the program cancels its waits ([`Durability::Sync`](crate::Durability::Sync)).
    pub fn flush(&self) -> Result<()> {
        self.0.with_session(|managers, txn| {
            managers.log.force(txn.session(), managers.log.tail().minus(8))?;
            Ok(())
        })
    }

    /// Removes the shared memory of environments whose directory is gone, from the directories that may have this
    /// environment's region. The library itself does this once for each directory in each process, when the process
    /// first opens an environment whose region may be in the directory. Returns the memory that the call did not remove
    /// because that memory may hold commits that exist nowhere else.
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
        crate::db::opening::names(&self.0)
    }

    /// Drops a database whose file is missing: the caller decides that the file does not come back. Its committed
    /// records are given up, and the name can be used again. The log kept for the file is freed after the next restart.
    ///
    /// # Errors
    /// `NoDatabase` when no database has that name; `Database` when its file is there, or when it was used since the
    /// environment was opened; `Io`, `Full`.
    pub fn drop_missing(&self, name: &str) -> Result<()> {
        self.0.check_process()?;
        self.0.check_writable("dropping a database")?;
        let directory = self.0.platform.directory.as_ref();
        let was_there =
            self.0.with_session(|managers, txn| Ok(libtp_record::drop_missing(managers, txn, directory, name)?))?;
        self.0.databases().remove(name);
        match was_there {
            true => Ok(()),
            false => Err(Error::NoDatabase { name: name.into(), environment: self.path().into() }),
        }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({})", self.path().display())
    }
}
