//! The small interface through which every engine runs the same bank.
//!
//! An engine is opened by a function of its own file, loaded once, and then serves any number of sessions, one for each
//! client. The driver makes one dynamic call for each transaction.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::audit::{Audit, Tally};
use crate::error::{Error, Result};
use crate::tpcb::{Scale, Table, Transfer};

/// The events that an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The loss of power: on disk before the answer.
    Sync,
    /// The death of the process; the disk follows later.
    Relaxed,
    /// All events that the memory survives, which must include the death of the process (libtp only); the disk follows
    /// later.
    Rio,
}

/// The extent of a lock, where the engine has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// One record.
    Record,
    /// The page that the record is on, as in the paper.
    Page,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Committed {
        /// The account's new balance; for a read-only transaction the sum of the three read.
        balance: i64,
    },
    /// The transaction was a deadlock's victim. It left no trace and can be sent again.
    Aborted,
}

/// One database engine holding one bank.
pub trait Engine: Send + Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// The extent of its locks, for reports: `record`, `page`, `environment`.
    fn lock_granularity(&self) -> &'static str;

    /// Returns whether a transfer reads a balance under a shared lock before it locks it for the change.
    fn reads_first(&self) -> bool {
        false
    }

    /// Writes accounts, tellers and branches with balance zero into an empty bank. Calls `progress` from time to time
    /// with the number of records written.
    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()>;

    /// Opens the session of one client. Called and used on the client's own thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Calls `each` with every record of a file, in any order: its id (for the history its place), and its bytes. Only
    /// called while no session is active.
    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()>;

    /// Returns the bytes that the engine has written to its log so far, by its own account; 0 if it has no log or does
    /// not report it.
    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns the number of syncs of the engine's log so far, or `None` if it does not report it.
    fn log_syncs(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Closes the bank cleanly; it can be opened again.
    fn close(self: Box<Self>) -> Result<()>;

    /// Reads the whole bank and adds it up.
    fn audit(&self, scale: &Scale) -> Result<Audit> {
        let mut tally = Tally::new(*scale);
        for table in Table::BALANCES {
            self.walk(table, &mut |id, record| tally.see_balance(table, id, record))?;
        }
        self.walk(Table::History, &mut |_, record| tally.see_history(record))?;
        Ok(tally.finish())
    }
}

/// Calls `load` for the records of a new bank, at most `most` of one file at a time, and `progress` after each call with
/// the number of records so far.
///
/// # Errors
/// The error of `load`.
pub fn load_in_batches(
    scale: &Scale,
    most: u32,
    progress: &mut dyn FnMut(u64),
    mut load: impl FnMut(Table, Range<u32>) -> Result<()>,
) -> Result<()> {
    let mut loaded = 0;
    for table in Table::BALANCES {
        let mut id = 0;
        while id < scale.count(table) {
            let end = scale.count(table).min(id.saturating_add(most));
            load(table, id..end)?;
            loaded += u64::from(end - id);
            id = end;
            progress(loaded);
        }
    }
    Ok(())
}

/// The operations of one client.
pub trait Session {
    /// The transaction of TPC-B: three balances change and a history record is written, or nothing.
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome>;

    /// The paper's read-only transaction (§5.1.2): reads the three records of `transfer`.
    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome>;
}

impl Durability {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Relaxed => "relaxed",
            Durability::Rio => "rio",
        }
    }
}

impl Granularity {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Granularity::Record => "record",
            Granularity::Page => "page",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Durability> {
        match name {
            "sync" => Ok(Durability::Sync),
            "relaxed" => Ok(Durability::Relaxed),
            "rio" => Ok(Durability::Rio),
            _ => Err(Error::Settings(format!("{name:?} is not a durability: give sync, relaxed or rio"))),
        }
    }
}

impl FromStr for Granularity {
    type Err = Error;

    fn from_str(name: &str) -> Result<Granularity> {
        match name {
            "record" => Ok(Granularity::Record),
            "page" => Ok(Granularity::Page),
            _ => Err(Error::Settings(format!("{name:?} is not a granularity: give record or page"))),
        }
    }
}
