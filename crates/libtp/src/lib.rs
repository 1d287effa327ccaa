//! libtp: transactions that any number of processes share.
//!
//! An [`Env`] is a directory. Any number of processes open it at the same time and change its databases in
//! transactions. They share one page cache, one lock table and one log in memory; a process that is killed at any
//! instruction is repaired by the others. There is no server, and nothing has to be sized or set.
//!
//! # In ten minutes
//!
//! **A table.** [`Env::table`] opens a table of typed keys and values, in the order of the keys. [`Env::run`] runs a
//! transaction and commits it; a transaction that was chosen to end a deadlock runs again.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("bank");
//! use libtp::Env;
//!
//! let env = Env::open_or_create(&path)?;
//! let accounts = env.table::<String, i64>("accounts")?;
//! env.run(|txn| {
//!     accounts.put(txn, "alice", 10)?;
//!     accounts.put(txn, "bob", 20)
//! })?;
//! env.run(|txn| {
//!     let cents = accounts.get_for_update(txn, "alice")?.unwrap_or(0);
//!     accounts.put(txn, "alice", cents + 5)
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A transaction sees and changes records as if it ran alone (strict two-phase locking, gaps between keys included).
//! `get_for_update` locks for writing already when it reads: two transactions that first lock a record for reading and
//! then write it would wait for each other.
//!
//! **Many records.** Ranges are iterators, from both ends. A [`Snapshot`] reads the state that was committed at one
//! moment, without locks: it waits for no writer, and no writer waits for it.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let env = libtp::Env::create(dir.path())?;
//! let visits = env.table::<(String, u64), String>("visits")?;
//! env.run(|txn| {
//!     visits.put(txn, ("alice", 3), "rome")?;
//!     visits.put(txn, ("alice", 20), "paris")?;
//!     visits.put(txn, ("bob", 7), "oslo")
//! })?;
//! let snapshot = env.snapshot()?;
//! for visit in visits.range(&snapshot, ("alice", 0)..("alice", 10))? {
//!     let ((name, day), town) = visit?;
//!     println!("{name} was in {town} on day {day}");
//! }
//! let last = visits.with_first(&snapshot, "alice")?.next_back().transpose()?;
//! assert_eq!(last.map(|(_, town)| town).as_deref(), Some("paris"));
//! # drop(snapshot);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Integers, strings, bytes, options and tuples are keys and values. With the feature `serde`, a value may have any
//! type that serde knows (`Serde`).
//!
//! **Bytes.** Below the tables are databases of bytes: [`Db`], a B-tree ([`Env::btree`]) or a hash file
//! ([`Env::hash`]); [`Multi`], with several values for each key; [`Recno`] and [`List`], records by number. An
//! [`Index`] finds records by keys that a function computes, and changes together with the records.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let env = libtp::Env::create(dir.path())?;
//! let people = env.btree("people")?;
//! let by_town = people.index("people by town", |_name, town, keys| keys.add(town))?;
//! env.run(|txn| {
//!     people.put(txn, b"ada", b"London")?;
//!     people.put(txn, b"kurt", b"Brno")?;
//!     for pair in people.range(txn, "a".."k")? {
//!         let (name, town) = pair?;
//!         assert_eq!((&name[..], &town[..]), (&b"ada"[..], &b"London"[..]));
//!     }
//!     assert_eq!(by_town.keys(txn, b"Brno")?, [b"kurt"]);
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **When a commit returns.** [`Durability`] decides. With [`Durability::Sync`], the default, a commit returns when it
//! is on disk. With [`Durability::Relaxed`] a commit returns immediately: it survives the death of any process, and is
//! on disk a tenth of a second later. With [`Durability::Rio`] a commit returns immediately, and survives a crash of
//! the system, too, where the memory outlives such a crash.
//!
//! **What goes wrong.** [`Error`] has a variant for each case in which a program acts differently.
//! [`Error::is_retryable`] says whether running the transaction again may help; [`Env::run`] then runs it again by
//! itself. A lock timeout names the transaction and the process that hold the lock. Damage names file and page
//! ([`Damage`]). With [`Env::try_run`], an error of the program's own ends the transaction. For a part of a transaction
//! that may fail alone, use a [`Savepoint`] or [`Txn::nested`].
//!
//! **Opening.** [`Env::create`] makes a new environment, and refuses an existing environment. [`Env::open`] opens an
//! existing environment. [`Env::open_or_create`] does either: use it if several programs share an environment and any
//! of them may be the first. [`Env::open_read_only`] refuses every change of data. [`Env::builder`] has the settings.
//!
//! # Examples to run
//!
//! `cargo run --release -p libtp --example NAME`:
//!
//! |name|shows|
//! |---|---|
//! |`bank`|transfers by many threads, an error of the program's own, an audit that blocks no transfer|
//! |`job_queue`|processes that share a queue and are killed: each job is done once|
//! |`session_cache`|sessions found by token, ended by time or by user|
//! |`from_sqlite`|a table of SQLite becomes a typed table with an index|
//! |`passwd`|plain files that change together with records|
//! |`message_queue`, `token`|memory that changes together with records ([`Env::segment`])|
//! |`protected`|pages, log records and locks of the program's own ([`Env::pages`])|
//! |`many_databases`|a hundred thousand databases|
//!
//! # Beyond
//!
//! Backups of an environment while it is used ([`Env::backup`]), restores to any moment ([`Backup`]), loads ([`Load`]),
//! transactions that another process continues ([`Txn::detach`]), recoverable memory ([`Env::segment`], the crate
//! [`vista`]).
//!
//! Paper: Seltzer and Olson, "LIBTP: Portable, Modular Transactions for UNIX", 1992. This crate is the interface for
//! applications: the managers of the paper's figure 1 are crates of their own.
#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

/// Compiles the example of the README with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod admin;
mod db;
mod environment;
mod files;
mod ground;
mod open;
mod region;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod txn;
mod typed;

pub use admin::archive::LogFile;
pub use admin::backup::BackedUp;
pub use admin::filling::Filling;
pub use admin::restore::{Backup, Checked, RestorePoint, Restored};
pub use admin::salvage::{Salvaged, SalvagedCount};
pub use admin::stats::{DatabaseInfo, Pool, Stats};
pub use admin::versions::{file_versions, FileVersion};
pub use admin::watching::{HeldLatch, JoinedSegment, OpeningProcess, Repairs, SessionState, TxnInfo, WaitsFor};
pub use db::any_kind::Database;
pub use db::compact::Compaction;
pub use db::cursor::{Cursor, Pair, RecnoCursor};
pub use db::databases::ListedDatabase;
pub use db::handle::{Db, Recno};
pub use db::index::{Index, IndexCursor, IndexEntry};
pub use db::iterators::{IndexEntries, ListRecords, MultiPairs, Pairs, Records};
pub use db::keys::Keys;
pub use db::list::{List, ListCursor, ListPlace};
pub use db::load::Load;
pub use db::multi::{Multi, MultiCursor};
pub use db::opening::SUCCESSOR;
pub use db::page_file::PageFile;
pub use db::reader::Reader;
pub use db::stored::Stored;
pub use db::text_file::{TextFile, TextForm};
pub use files::recovery::WaitingFile;
pub use ground::damage::Damage;
pub use ground::durability::Durability;
pub use ground::error::{Error, Result};
pub use ground::lock_wait::{Blocker, LockWait};
pub use ground::locks::{Deadlock, Edge, LockInfo, Mode, PageLock};
pub use ground::process_state::ProcessState;
pub use ground::progress::{Progress, Watch};
pub use ground::records::{Duplicates, Finding, Link, Verified};
pub use ground::sessions::{RepairTimes, SessionId, State, Times};
pub use ground::settings::{Bytes, DatabaseSettings, Granularity, Replacement, Settings, Victim, SETTINGS_NAME};
pub use open::builder::Builder;
pub use open::keep::Keep;
pub use open::left_memory::OrphanedMemory;
pub use open::log_type::LogType;
pub use open::opening::{Opened, OpenedBy};
pub use region::inner::Env;
pub use region::kept_indices::IndexKeys;
#[cfg(any(test, feature = "testing"))]
pub use testing::{Memory, Platform, SharedMemory};
pub use txn::commit::CommitLsn;
pub use txn::joined::Joined;
pub use txn::log_reading::LogRecord;
pub use txn::passing::Detached;
pub use txn::run::Run;
pub use txn::savepoint::Savepoint;
pub use txn::segment::Segment;
pub use txn::snapshot::{HeldSnapshot, Snapshot};
pub use txn::transaction::Txn;
pub use typed::key::{Key, KeyLike};
#[cfg(feature = "serde")]
pub use typed::serialized::Serde;
pub use typed::table::{Rows, Table};
pub use typed::value::{Value, ValueLike};

// These items come from the crates below. Each is part of this crate's interface and changes with this crate's version
// only.
//
// Names that programs pass on or look at, and the copy of a page:
pub use libtp_lock::{LockName, LockerId};
pub use libtp_record::PageCopy;
// The crate `vista` has the same type in its interface:
pub use rio::Survives;
// The order of a database's keys, which a program may provide:
pub use libtp_record::{order, Order};
// A call without a handle:
pub use libtp_process::cancel_waits;
// Recoverable memory is a crate of its own, whose segments take part in transactions:
pub use vista;
// For the interface for C, which uses this function together with `Txn::heed_cancels_since`:
#[doc(hidden)]
pub use libtp_process::cancels;
// For the measurement of the paper's figure 5:
#[cfg(feature = "kernel-latches")]
pub use libtp_process::KernelLatches;
