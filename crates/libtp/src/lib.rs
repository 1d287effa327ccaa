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
//! let env = libtp::Env::open(path)?;
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

/// Compiles the example of the README with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod archive;
mod attach;
mod background;
mod backup;
mod compact;
mod cursor;
mod database;
mod databases;
mod emptied;
mod environment;
mod error;
mod files;
mod filling;
mod generation;
mod huge_pages;
mod index;
mod joined;
mod judge;
mod keep;
mod keys;
mod leave;
mod left_memory;
mod list;
mod load;
mod lock_wait;
mod log_reading;
mod log_type;
mod look;
mod multi;
mod object_lock;
mod page_file;
mod panics;
mod passing;
mod platform;
mod rebuild;
mod record_types;
mod rescue;
mod restore;
mod run;
mod salvage;
mod savepoint;
mod segment;
mod settings;
mod snapshot;
mod sort;
mod stats;
mod stored;
mod text_file;
mod txn;
mod unclaimed;
mod unfinished;
mod versions;
mod visit;
mod warm_start;
mod watching;

pub use archive::LogFile;
pub use attach::{How, Opened};
#[doc(hidden)]
pub use attach::{Memory, Platform, SharedMemory};
pub use backup::BackedUp;
pub use compact::Compaction;
pub use cursor::{Cursor, Pair, RecnoCursor};
pub use database::{Database, Db, Recno};
pub use databases::{ListedDatabase, SUCCESSOR};
pub use environment::{Builder, Env};
pub use error::{Error, Result};
pub use files::WaitingFile;
pub use filling::Filling;
pub use index::{Index, IndexCursor, IndexEntry, IndexKeys};
pub use joined::Joined;
pub use keep::Keep;
pub use keys::Keys;
pub use left_memory::OrphanedMemory;
pub use libtp_lock::{Deadlock, Edge, LockInfo, LockName, LockerId, Mode};
pub use libtp_process::cancel_waits;
#[doc(hidden)]
pub use libtp_process::cancels;
#[cfg(feature = "kernel-latches")]
pub use libtp_process::KernelLatches;
pub use libtp_process::{RepairTimes, SessionId, Times};
pub use libtp_record::order;
pub use libtp_record::{Duplicates, Finding, Link, Order, PageCopy, PageLock, Verified};
pub use libtp_txn::{Durability, State, TxnInfo};
pub use list::{List, ListCursor, ListPlace};
pub use load::{Load, LoadWatch};
pub use lock_wait::{Blocker, LockWait};
pub use log_reading::LogRecord;
pub use log_type::LogType;
pub use multi::{Multi, MultiCursor};
pub use page_file::PageFile;
pub use passing::Detached;
pub use restore::{Backup, Checked, RestorePoint, Restored};
pub use rio::Survives;
pub use run::Run;
pub use salvage::{Salvaged, SalvagedCount};
pub use savepoint::Savepoint;
pub use segment::Segment;
pub use settings::{Bytes, DatabaseSettings, Granularity, Replacement, Settings, Victim, SETTINGS_NAME};
pub use snapshot::{HeldSnapshot, Reader, Snapshot};
pub use stats::{DatabaseInfo, Pool, Stats};
pub use stored::Stored;
pub use text_file::{TextFile, TextForm};
pub use txn::{CommitLsn, Txn};
pub use versions::{file_versions, FileVersion};
pub use vista;
pub use watching::{HeldLatch, JoinedSegment, OpeningProcess, ProcessState, Repairs, SessionState, WaitsFor};
