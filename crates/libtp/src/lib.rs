//! libtp: transactions that any number of processes share.
//!
//! An [`Env`] is a directory. Any number of processes open it at once and change its databases in transactions
//! ([`Txn`]): [`Db`], a B-tree or a hash file, and [`Recno`], records by number. The processes share one page cache,
//! one lock table and one log in memory.
//! Nothing has to be sized or set.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("bank");
//! let env = libtp::Env::open_or_create(path)?;
//! let accounts = env.btree("accounts")?;
//! env.run(|txn| {
//!     accounts.put(txn, b"alice", b"10")?;
//!     accounts.put(txn, b"bob", b"20")
//! })?;
//! assert_eq!(env.run(|txn| accounts.get(txn, b"bob"))?.as_deref(), Some(&b"20"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A transaction sees and changes records as if it ran alone (strict two-phase locking, gaps between keys included).
//! [`Durability`] says when a commit returns: when it is on disk ([`Durability::Sync`]); at once, surviving the death
//! of any process and on disk a tenth of a second later ([`Durability::Relaxed`]); or at once, surviving a crash of the
//! system too ([`Durability::Rio`], where the memory outlives such a crash). When transactions wait for each other in a
//! circle, one of them gets [`Error::Deadlock`]; [`Env::run`] runs it again. A [`Snapshot`] reads the state that was
//! committed at one moment, without locks.
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
pub use ground::error::{Error, Result};
pub use ground::lock_wait::{Blocker, LockWait};
pub use ground::process_state::ProcessState;
pub use ground::progress::{Progress, Watch};
pub use ground::settings::{Bytes, DatabaseSettings, Granularity, Replacement, Settings, Victim, SETTINGS_NAME};
pub use open::builder::Builder;
pub use open::keep::Keep;
pub use open::left_memory::OrphanedMemory;
pub use open::log_type::LogType;
pub use open::opening::{How, Opened};
pub use region::inner::Env;
pub use region::kept_indices::IndexKeys;
#[cfg(any(test, feature = "testing"))]
pub use testing::{Memory, Platform, SharedMemory};
pub use txn::joined::Joined;
pub use txn::log_reading::LogRecord;
pub use txn::passing::Detached;
pub use txn::run::Run;
pub use txn::savepoint::Savepoint;
pub use txn::segment::Segment;
pub use txn::snapshot::{HeldSnapshot, Snapshot};
pub use txn::transaction::{CommitLsn, Txn};
pub use typed::key::{Key, KeyLike};
#[cfg(feature = "serde")]
pub use typed::serialized::Serde;
pub use typed::table::{Rows, Table};
pub use typed::value::{Value, ValueLike};

// Of the crates below. Each is part of this crate's interface and changes with this crate's version only.
//
// Plain values that programs pass on or look at:
pub use libtp_lock::{Deadlock, Edge, LockInfo, LockName, LockerId, Mode};
pub use libtp_process::{RepairTimes, SessionId, Times};
pub use libtp_record::{Duplicates, Finding, Link, PageCopy, PageLock, Verified};
pub use libtp_txn::{Durability, State};
pub use rio::Survives;
// The order of a database's keys, which a program may provide:
pub use libtp_record::{order, Order};
// A call without a handle:
pub use libtp_process::cancel_waits;
// Recoverable memory is a crate of its own, whose segments take part in transactions:
pub use vista;
// For the interface for C, which begins its transactions itself; with `Txn::heed_cancels_since`:
#[doc(hidden)]
pub use libtp_process::cancels;
// For the measurement of the paper's figure 5:
#[cfg(feature = "kernel-latches")]
pub use libtp_process::KernelLatches;
