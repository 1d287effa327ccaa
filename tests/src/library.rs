//! The library as the crash tests use it: the only file here that names the library's calls.
//!
//! A [`Machine`] is a simulated disk and memory that simulated processes share. To simulate a power cut, a test loses
//! the memory and opens a crash image. To simulate the death of the processes, it forgets them and opens the same disk.

mod load;
mod records;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use libtp::{
    Bytes, CommitLsn, DatabaseSettings, Db, Duplicates, Durability, Env, Error, Granularity, IndexKeys, Keep, Multi,
    Platform, Recno, Replacement, Savepoint, Settings, SharedMemory, Txn,
};
use libtp_io::Directory;
use libtp_sim::{SimDisk, SimProcess};

use crate::oracle::{cell, State, Table, Value};
use crate::versions::platform;

pub use load::LOADED;

/// Bytes of a cell.
pub const CELL_BYTES: u32 = 40;
/// The trees that exist from the beginning.
pub const TREES: [&str; 3] = ["accounts", "journal", HASH];
/// The hash file among [`TREES`].
pub const HASH: &str = "parts";
/// A tree that is made in the middle of the workload.
pub const LATE_TREE: &str = "late";

/// A database whose keys have sets of values. In the oracle, each pair is a place of its own: the key, a bar, and the
/// value. The value at such a place is empty.
pub const SETS: &str = "sets";
/// A database whose keys have lists of values. In the oracle, the key is a place, and the value there is all values of
/// the key, each followed by a line feed.
pub const LISTS: &str = "lists";
/// A list whose records are renumbered. In the oracle, the whole list is one value: all records, each followed by a
/// line feed.
pub const LINES: &str = "lines";

/// The reason that a call failed, as far as the tests distinguish reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Another transaction has the lock.
    Conflict,
    /// The disk is full; nothing was changed.
    Full(String),
    /// The environment accepts no more changes.
    Failed(String),
    /// Damage was found.
    Damaged(String),
    /// A scan returned records in a wrong order. Such a scan might never end.
    Disorder(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Conflict => f.write_str("a lock was not granted"),
            Trouble::Full(text)
            | Trouble::Failed(text)
            | Trouble::Damaged(text)
            | Trouble::Disorder(text)
            | Trouble::Other(text) => f.write_str(text),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let text = error.to_string();
        match error {
            Error::LockTimeout(_) | Error::Deadlock => Trouble::Conflict,
            Error::Full { .. } => Trouble::Full(text),
            Error::Failed(_) => Trouble::Failed(text),
            Error::Corrupt(_) => Trouble::Damaged(text),
            _ => Trouble::Other(text),
        }
    }
}

type Answer<T> = Result<T, Trouble>;

/// A change of a list.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A record added after the last record.
    Append(Vec<u8>),
    /// A record inserted before the record with this number.
    Insert(u64, Vec<u8>),
    /// A new value of the record with this number.
    Replace(u64, Vec<u8>),
    /// Removal of the records from the first number up to the second.
    Delete(u64, u64),
}

/// The configuration of a test environment: small, so that a short workload meets every case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// The log is in its own directory.
    pub has_log_directory: bool,
    /// Locks on the accounts cover pages.
    pub locks_pages: bool,
    /// Replacement takes the least recently used frames instead of the frames that the clock finds.
    pub is_lru: bool,
    /// The redo of a restart runs on several threads. The result is the same, but pages go to the disk in a different
    /// order each time, so it may take several runs to repeat a failure.
    pub recovers_on_threads: bool,
}

impl Layout {
    /// Returns the layout of a seed. Consecutive seeds have different layouts.
    pub fn of_seed(seed: u64) -> Layout {
        Layout {
            has_log_directory: seed % 3 == 0,
            locks_pages: seed % 5 == 4,
            is_lru: seed % 2 == 0,
            recovers_on_threads: seed % 4 == 3,
        }
    }

    fn settings(self) -> Settings {
        let small_pages = DatabaseSettings { page_bytes: Some(Bytes::kib(4)), ..DatabaseSettings::default() };
        let granularity = self.locks_pages.then_some(Granularity::Page);
        let accounts = DatabaseSettings { granularity, ..small_pages.clone() };
        let names = ["journal", LATE_TREE, HASH, SETS, LISTS, LINES, "cells"].into_iter().chain(LOADED);
        let names = names.map(|name| (name.to_owned(), small_pages.clone()));
        Settings {
            no_background: true,
            recovery_threads: self.recovers_on_threads.then_some(2),
            memory: Some(Bytes::kib(192)),
            log_segment_first: Some(Bytes::kib(16)),
            log_segment_max: Some(Bytes::kib(64)),
            checkpoint_log: Some(Bytes::kib(96)),
            lock_timeout_millis: Some(0),
            // Nothing may depend on the clock.
            relaxed_millis: Some(3_600_000),
            replacement: self.is_lru.then_some(Replacement::Lru),
            database: [("accounts".to_owned(), accounts)].into_iter().chain(names).collect(),
            ..Settings::default()
        }
    }
}

/// A simulated machine.
#[derive(Clone)]
pub struct Machine {
    /// Its disk.
    pub disk: SimDisk,
    memory: SharedMemory,
    layout: Layout,
    keep: Option<Keep>,
}

impl Machine {
    /// Returns a machine with this disk and nothing in its memory.
    pub fn new(disk: SimDisk, layout: Layout) -> Machine {
        Machine { disk, memory: SharedMemory::new(), layout, keep: None }
    }

    /// Returns a machine with this disk and this memory.
    pub fn with_memory(disk: SimDisk, layout: Layout, memory: SharedMemory) -> Machine {
        Machine { disk, memory, layout, keep: None }
    }

    /// Sets the user's decision to keep the files where files and memory disagree.
    #[must_use]
    pub fn keeping_files(self) -> Machine {
        Machine { keep: Some(Keep::Files), ..self }
    }

    /// Starts a process, which opens the environment and the databases.
    ///
    /// # Errors
    /// The errors of opening.
    pub fn start(&self) -> Answer<Process> {
        self.start_in(|directory| directory)
    }

    /// Starts a process that uses the disk through the directory that `through` returns.
    ///
    /// # Errors
    /// The errors of opening.
    pub fn start_in(&self, through: impl FnOnce(Arc<dyn Directory>) -> Arc<dyn Directory>) -> Answer<Process> {
        let view = self.disk.process_view();
        let env = self.open(through(view.directory()))?;
        Process::new(env, view)
    }

    /// Forgets the contents of the processes' shared memory.
    pub fn lose_memory(&self) {
        self.memory.lose();
    }

    fn open(&self, directory: Arc<dyn Directory>) -> Answer<Env> {
        let log_directory = match self.layout.has_log_directory {
            true => directory.subdirectory("log").map_err(|error| Trouble::Other(error.to_string()))?,
            false => Arc::clone(&directory),
        };
        let platform = Platform { log_directory, ..platform(directory, &self.memory) };
        let mut builder = Env::builder().settings(self.layout.settings());
        if let Some(keep) = self.keep {
            builder = builder.keep(keep);
        }
        Ok(builder.open_on(platform, &mut |_| {})?)
    }
}

/// A process that has opened the environment.
pub struct Process {
    // Rust drops the fields in this order. The handles of databases keep the environment open, so they come first.
    trees: RefCell<HashMap<&'static str, Db>>,
    cells: RefCell<Option<Recno>>,
    env: Env,
    view: SimProcess,
}

/// A running transaction.
pub struct Running<'p>(Txn<'p>);

impl<'p> Running<'p> {
    /// Makes a savepoint.
    pub fn savepoint(&self) -> Savepoint<'_, 'p> {
        self.0.savepoint()
    }
    /// Commits, and waits until the commit is as durable as the transaction asked for.
    ///
    /// # Errors
    /// The errors of committing.
    pub fn commit(self) -> Answer<()> {
        Ok(self.0.commit()?)
    }

    /// Commits without waiting.
    ///
    /// # Errors
    /// The errors of committing.
    pub fn commit_async(self) -> Answer<CommitLsn> {
        Ok(self.0.commit_async()?)
    }

    /// Kills the process that runs the transaction.
    pub fn die(self) {
        self.0.die();
    }

    /// Aborts.
    ///
    /// # Errors
    /// The errors of aborting.
    pub fn abort(self) -> Answer<()> {
        Ok(self.0.abort()?)
    }
}

/// The direction in which a key range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From low keys to high.
    Up,
    /// From high keys to low.
    Down,
}

impl Process {
    fn new(env: Env, view: SimProcess) -> Answer<Process> {
        let process = Process { trees: RefCell::default(), cells: RefCell::new(None), env, view };
        for tree in TREES {
            process.tree(tree)?;
        }
        process.cells()?;
        Ok(process)
    }

    /// Kills the process, so that its destructors change nothing.
    pub fn kill(self) {
        self.view.kill();
        self.env.die();
    }

    /// Opens a tree, or makes the tree if it is missing.
    ///
    /// # Errors
    /// The errors of opening.
    pub fn tree(&self, name: &'static str) -> Answer<Db> {
        if let Some(tree) = self.trees.borrow().get(name) {
            return Ok(tree.clone());
        }
        let tree = if name == HASH { self.env.hash(name)? } else { self.env.btree(name)? };
        if let Some(index) = index_of(name) {
            tree.index(index, parts)?;
        }
        self.trees.borrow_mut().insert(name, tree.clone());
        Ok(tree)
    }

    fn multi(&self, name: &str) -> Answer<Multi> {
        let duplicates = if name == SETS { Duplicates::Sorted } else { Duplicates::AsTheyCame };
        Ok(self.env.multi(name, duplicates)?)
    }

    /// Counts the values of a key.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn count_values(&self, txn: &Running<'_>, name: &str, key: &[u8]) -> Answer<u64> {
        Ok(self.multi(name)?.count(&txn.0, key)?)
    }

    /// Removes a key with all its values; returns the number of values.
    ///
    /// # Errors
    /// The errors of removing.
    pub fn delete_values(&self, txn: &Running<'_>, name: &str, key: &[u8]) -> Answer<u64> {
        Ok(self.multi(name)?.delete(&txn.0, key)?)
    }

    /// Returns whether there is a tree with this name.
    ///
    /// # Errors
    /// The errors of listing.
    pub fn has_tree(&self, name: &str) -> Answer<bool> {
        Ok(self.env.databases()?.iter().any(|one| one == name))
    }

    fn cells(&self) -> Answer<Recno> {
        if let Some(cells) = &*self.cells.borrow() {
            return Ok(cells.clone());
        }
        let cells = self.env.recno("cells", CELL_BYTES)?;
        *self.cells.borrow_mut() = Some(cells.clone());
        Ok(cells)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// The errors of beginning.
    pub fn begin(&self, durability: Durability) -> Answer<Running<'_>> {
        Ok(Running(self.env.begin_with(durability)?))
    }

    /// Waits until a commit is on disk.
    ///
    /// # Errors
    /// The commit does not become durable.
    pub fn wait_durable(&self, commit: CommitLsn) -> Answer<()> {
        Ok(self.env.wait_durable(commit)?)
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    /// A commit does not become durable.
    pub fn flush(&self) -> Answer<()> {
        Ok(self.env.flush()?)
    }

    /// Takes a checkpoint.
    ///
    /// # Errors
    /// The errors of the checkpoint.
    pub fn checkpoint(&self) -> Answer<bool> {
        Ok(self.env.checkpoint()?)
    }

    /// Writes every changed page to its file.
    ///
    /// # Errors
    /// The errors of the buffer manager.
    pub fn write_pages(&self) -> Answer<()> {
        let managers = self.env.managers();
        let txn = managers.join().map_err(Error::from)?;
        let written = managers.buffers.write_all(txn.session());
        managers.leave(txn);
        written.map(|_| ()).map_err(|error| Trouble::Other(error.to_string()))
    }

    /// Does the background thread's present work.
    ///
    /// # Errors
    /// The errors of its work.
    pub fn background_step(&self) -> Answer<()> {
        Ok(self.env.background_step()?)
    }

    /// Returns whether opening found that commits which were answered from memory may be lost.
    pub fn has_lost(&self) -> bool {
        self.env.opened().lost
    }

    /// Describes what opening did.
    pub fn opened(&self) -> String {
        format!("{:?}", self.env.opened())
    }

    /// Reads every record of every database in one `Sync` transaction.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn state(&self, way: Way) -> Answer<State> {
        let mut state = State::default();
        let txn = self.begin(Durability::Sync)?;
        let names = self.env.databases()?;
        for tree in
            TREES.into_iter().chain([LATE_TREE]).chain(LOADED).filter(|tree| names.iter().any(|name| name == tree))
        {
            for (key, value) in self.scan(&txn, tree, None, way, usize::MAX)? {
                if state.get(&(Table::Tree(tree), key.clone())).is_some() {
                    return Err(Trouble::Other(format!(
                        "a scan of {tree} returned {} twice",
                        String::from_utf8_lossy(&key)
                    )));
                }
                state.put(&(Table::Tree(tree), key), Some(&value));
            }
        }
        verify_indices(self, &txn.0, &names)?;
        for multi in [SETS, LISTS].into_iter().filter(|multi| names.iter().any(|name| name == multi)) {
            for (place, value) in self.state_of_multi(&txn, multi, way)? {
                state.put(&place, Some(&value));
            }
        }
        if names.iter().any(|name| name == LINES) {
            if let Some(lines) = self.lines(&txn, way)? {
                state.put(&(Table::Tree(LINES), LINES.into()), Some(&Value::from(lines)));
            }
        }
        let cells = self.cells()?;
        let mut cursor = cells.cursor(&txn.0);
        let mut at = if way == Way::Up { cursor.first()? } else { cursor.last()? };
        while let Some((number, value)) = at {
            state.put(&cell(number), Some(&Value::from(value)));
            at = if way == Way::Up { cursor.next()? } else { cursor.prev()? };
        }
        drop(cursor);
        txn.commit()?;
        Ok(state)
    }

    /// Checks every page and link, and returns the findings; empty if all is well.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn findings(&self) -> Answer<Vec<String>> {
        let mut findings = Vec::new();
        for name in self.env.databases()? {
            findings.extend(self.env.verify(&name)?.findings.into_iter().map(|finding| format!("{name}: {finding:?}")));
        }
        Ok(findings)
    }
}

/// Returns the name of a database's index, if the database has an index.
fn index_of(tree: &str) -> Option<&'static str> {
    match tree {
        HASH => Some("hash by parts"),
        LATE_TREE => Some("late by parts"),
        _ => None,
    }
}

/// Gives the index keys of a record: the value's length, and each of the value's first three letters.
fn parts(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.len().to_be_bytes());
    value.iter().take(3).for_each(|letter| keys.add([*letter]));
}

/// Compares each existing index with its records.
fn verify_indices(process: &Process, txn: &Txn<'_>, names: &[String]) -> Result<(), Trouble> {
    let indexed = [HASH, LATE_TREE].into_iter().filter(|tree| names.iter().any(|name| name == tree));
    for (tree, name) in indexed.filter_map(|tree| Some((tree, index_of(tree)?))) {
        let db: Db = process.tree(tree)?;
        let findings = db.index(name, parts)?.verify(txn)?;
        if let Some(first) = findings.first() {
            return Err(Trouble::Other(format!("{} findings in an index, the first: {first}", findings.len())));
        }
    }
    Ok(())
}
