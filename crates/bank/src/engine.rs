//! The interface through which every engine runs the same bank.
//!
//! Each engine's source file has the function that opens the engine. The bank is loaded once; then the engine serves
//! any number of sessions, one for each client. The driver makes one dynamic call for each transaction.

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
    /// A loss of power: the commit is on disk before it is acknowledged.
    Sync,
    /// The death of the process; the commit is on disk soon afterwards.
    Relaxed,
    /// The events that the shared memory survives: at least the death of the process. The commit is on disk soon
    /// afterwards. Only libtp has this durability.
    Rio,
}

/// The unit that one lock covers, for engines with more than one unit.
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
    /// The engine acknowledged the commit.
    Committed {
        /// The account's new balance; for a read-only transaction, the sum of the three balances that it read.
        balance: i64,
    },
    /// The transaction was the victim of a deadlock and was rolled back. The client may send it again.
    Aborted,
}

/// One database engine holding one bank.
pub trait Engine: Send + Sync {
    /// Returns the engine's name in reports.
    fn name(&self) -> &'static str;

    /// Returns what a lock of this engine covers, for reports: `record`, `page`, `environment`, `bank` or `none`.
    fn lock_granularity(&self) -> &'static str;

    /// Returns whether a transfer first reads each balance under a shared lock, and then locks the balance for the
    /// change.
    fn reads_first(&self) -> bool {
        false
    }

    /// Writes accounts, tellers and branches with balance zero into an empty bank. Calls `progress` from time to time
    /// with the number of records written.
    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()>;

    /// Opens the session of one client. The client's own thread makes this call and uses the session.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Calls `each` for every record of a table, in any order, with the record's id and bytes. A history record has its
    /// place in the table instead of an id. The caller makes sure that no session is active.
    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()>;

    /// Returns the bytes that the engine reports to have written to its log so far; 0 if it has no log or does not
    /// report the bytes.
    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns the number of syncs of the engine's log so far, or `None` if the engine does not report the number.
    fn log_syncs(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Closes the bank cleanly; it can be opened again.
    fn close(self: Box<Self>) -> Result<()>;

    /// Audits the whole bank.
    fn audit(&self, scale: &Scale) -> Result<Audit> {
        let mut tally = Tally::new(*scale);
        for table in Table::BALANCES {
            self.walk(table, &mut |id, record| tally.see_balance(table, id, record))?;
        }
        self.walk(Table::History, &mut |_, record| tally.see_history(record))?;
        Ok(tally.finish())
    }
}

/// Loads a new bank in batches. Each call of `load` gets at most `most` ids of one table; after each call, `progress`
/// gets the number of records loaded so far.
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
    /// Runs TPC-B's transaction: changes three balances and writes a history record, all of it or nothing.
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome>;

    /// Runs the paper's read-only transaction (§5.1.2): reads the account, the teller and the branch of `transfer`.
    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome>;
}

impl Durability {
    /// Returns the name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Relaxed => "relaxed",
            Durability::Rio => "rio",
        }
    }
}

impl Granularity {
    /// Returns the name in settings and reports.
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
