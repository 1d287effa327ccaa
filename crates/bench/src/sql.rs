//! Measures SQL: SQLite on an environment is compared with SQLite on a file. The measurements of these two sides
//! alternate.
//!
//! Both sides use the same build of SQLite, with the same options and the same statements. A database whose name ends
//! in `.tp` is an environment. A database with another name is a file in WAL mode, which SQLite's own code reads and
//! writes. The file has the settings that SQLite's documentation recommends: a page cache of 64 MiB, 1 GiB of the file
//! mapped, a checkpoint after 64 MiB of log, a busy timeout in place of errors.
//!
//! [`shared`] has the work of several processes, [`bulk`] the work of one process. Both check the results.

pub mod bulk;
mod order_entry;
pub mod report;
pub mod shared;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};

use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::random::Random;
// Links the SQLite that `rusqlite` calls.
use libtp_sqlite as _;

pub use report::{run_sql, SqlOutcome, SqlSettings};
pub use work::Work;

const FILLER: &str = "a filler of the usual length of a row, sixty-four bytes of text.";
/// The busy timeout: far longer than any wait in a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two kinds of database that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// An environment of libtp.
    Libtp,
    /// A file of SQLite.
    File,
}

impl Side {
    /// Both sides, in the order of the tables.
    pub const BOTH: [Side; 2] = [Side::Libtp, Side::File];

    /// Returns the side's name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Side::Libtp => "libtp",
            Side::File => "SQLite",
        }
    }

    /// Returns the path of this side's database in a directory.
    pub fn place(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Side::Libtp => "bench.tp",
            Side::File => "bench.db",
        })
    }
}

/// Opens the database of a side, and makes it if it is missing.
///
/// # Errors
/// `Engine` with SQLite's message.
pub fn open(side: Side, directory: &Path, durability: Durability) -> Result<Connection> {
    let opened = || {
        let connection = Connection::open(side.place(directory))?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        if side == Side::File {
            connection.pragma_update(None, "cache_size", -65_536)?;
            connection.pragma_update(None, "mmap_size", 1 << 30)?;
            connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
        }
        let synchronous = match durability {
            Durability::Sync => "FULL",
            _ => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    opened().map_err(of(side, "opening"))
}

fn of(side: Side, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    Error::engine(side.name(), doing)
}

/// Returns a number from one to `count`.
fn one_of(random: &mut Random, count: u32) -> i64 {
    i64::from(random.below(count)) + 1
}

/// Begins a transaction that is going to write (`BEGIN IMMEDIATE`).
fn begin(connection: &mut Connection) -> rusqlite::Result<rusqlite::Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}
