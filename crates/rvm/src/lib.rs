//! rvm: recoverable memory for machines whose memory does not survive. The new bytes of each transaction go to a log on
//! a disk.
//!
//! Paper: Rio Vista, section 2, after Satyanarayanan's RVM. The paper compares Vista with RVM. Here RVM is also the
//! mode for plain disks: a segment whose commits are on disk. A transaction is a transaction of vista, with its undo
//! log in memory. When the transaction ends, the after-images of its ranges are written to a redo log and synced. When
//! the log is full it is *truncated*: the bytes that it covers are written to the database, and the log is restarted.
//!
//! A directory has two files ([`docs/formats/rvm.md`](../../../docs/formats/rvm.md)): `database`, with the bytes of a
//! segment's file at the last truncation, and `log`. The segment itself is in memory that ends with the process: an
//! unnamed file in `/dev/shm`. The opening reads the database and repeats the log. On a directory in memory that
//! survives, this is the paper's RVM on Rio: the same system calls, which then reach no disk.
//!
//! This log is not the library's log. The records of the library's log belong to transactions of an environment, and
//! all processes of that environment read them. The records here are places and bytes of one process, and end with the
//! next truncation.
//!
//! # Example
//! ```
//! # let directory = std::env::temp_dir().join(format!("rvm-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! let mut memory = rvm::Options::new(1 << 20).open(&directory)?;
//! let mut txn = memory.begin()?;
//! txn.set_range(0, 5)?.copy_from_slice(b"hello");
//! txn.end()?;
//! assert_eq!(&memory.segment().bytes()[..5], b"hello");
//! memory.close()?;
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod file_cache;
mod journal;
mod lines;
mod memory;
mod options;
mod record;
mod redo_log;

pub use error::{Error, Result};
pub use memory::{Rvm, Txn};
pub use options::Options;
