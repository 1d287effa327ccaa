//! The kinds of work of several processes: for each kind, its tables, its step, and its audit.

use rusqlite::{params, Connection, OptionalExtension, Result};
use serde::{Deserialize, Serialize};

use super::{begin, one_of, order_entry, FILLER};
use crate::random::Random;

/// Number of accounts; the steps update them.
const ROWS: u32 = 10_000;
/// Number of jobs in the queue at the beginning and at the end.
const JOBS: i64 = 1_000;
const TELLERS: u32 = 100;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// An UPDATE of a random row.
    Update,
    /// An INSERT into a table with an index.
    Insert,
    /// A transaction of a SELECT, two UPDATEs of random rows and an INSERT.
    Short,
    /// Claim the first job of a queue, delete it, and insert a new job.
    Queue,
    /// New orders, payments and reads of orders, after TPC-C.
    OrderEntry,
}

impl Work {
    /// All kinds, in the order of the report.
    pub const ALL: [Work; 5] = [Work::Update, Work::Insert, Work::Short, Work::Queue, Work::OrderEntry];

    /// Returns the name on the command line and in figures.
    pub fn name(self) -> &'static str {
        match self {
            Work::Update => "update",
            Work::Insert => "insert",
            Work::Short => "short",
            Work::Queue => "queue",
            Work::OrderEntry => "order-entry",
        }
    }

    /// Returns a description of the step, for the report.
    pub fn about(self) -> &'static str {
        match self {
            Work::Update => "UPDATE of one of 10,000 rows; each statement is a transaction",
            Work::Insert => "INSERT into a table with an index; each statement is a transaction",
            Work::Short => "a transaction of a SELECT, two UPDATEs and an INSERT",
            Work::Queue => {
                "UPDATE .. RETURNING of the first job of 1,000, its DELETE, and the INSERT of a new job; each \
                 statement is a transaction"
            }
            Work::OrderEntry => "new orders of five lines, payments and reads of orders, after TPC-C",
        }
    }

    /// Makes and fills the tables.
    pub(super) fn make(self, connection: &mut Connection) -> Result<()> {
        let transaction = begin(connection)?;
        match self {
            Work::Update | Work::Short => {
                transaction.execute_batch(
                    "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler TEXT NOT NULL);
                     CREATE TABLE teller (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
                     CREATE TABLE history (id INTEGER PRIMARY KEY, account INTEGER, amount INTEGER, filler TEXT);",
                )?;
                let mut account = transaction.prepare("INSERT INTO account VALUES (?1, 0, ?2)")?;
                (1..=ROWS).try_for_each(|id| account.execute(params![id, FILLER]).map(drop))?;
                let mut teller = transaction.prepare("INSERT INTO teller VALUES (?1, 0)")?;
                (1..=TELLERS).try_for_each(|id| teller.execute([id]).map(drop))?;
            }
            Work::Insert => transaction.execute_batch(
                "CREATE TABLE event (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, filler TEXT NOT NULL);
                 CREATE INDEX event_kind ON event (kind);",
            )?,
            Work::Queue => {
                transaction.execute_batch(
                    "CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, body TEXT NOT NULL);
                     CREATE INDEX job_waiting ON job (id) WHERE state = 0;",
                )?;
                let mut job = transaction.prepare(PUT)?;
                (0..JOBS).try_for_each(|_| job.execute([FILLER]).map(drop))?;
            }
            Work::OrderEntry => order_entry::make(&transaction)?,
        }
        transaction.commit()
    }

    /// Runs one step.
    pub(super) fn step(self, connection: &mut Connection, random: &mut Random) -> Result<()> {
        match self {
            Work::Update => {
                let change = "UPDATE account SET balance = balance + 1 WHERE id = ?1";
                connection.prepare_cached(change)?.execute([one_of(random, ROWS)]).map(drop)
            }
            Work::Insert => {
                let insert = "INSERT INTO event (kind, filler) VALUES (?1, ?2)";
                connection.prepare_cached(insert)?.execute(params![one_of(random, ROWS), FILLER]).map(drop)
            }
            Work::Short => short(connection, random),
            Work::Queue => {
                let claim = "UPDATE job SET state = 1 WHERE id = (SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT 1) RETURNING id";
                let claimed: Option<i64> =
                    connection.prepare_cached(claim)?.query_row([], |row| row.get(0)).optional()?;
                if let Some(id) = claimed {
                    connection.prepare_cached("DELETE FROM job WHERE id = ?1")?.execute([id])?;
                    connection.prepare_cached(PUT)?.execute([FILLER])?;
                }
                Ok(())
            }
            Work::OrderEntry => order_entry::step(connection, random),
        }
    }

    /// Compares the tables with the number of steps. Returns `ok`, or a description of the first fault.
    pub(super) fn audit(self, connection: &Connection, steps: u64) -> Result<String> {
        let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
        let steps = i64::try_from(steps).unwrap_or(i64::MAX);
        let found = match self {
            Work::Update => vec![("sum of balances", number("SELECT sum(balance) FROM account")?, steps)],
            Work::Insert => vec![
                ("number of rows", number("SELECT count(*) FROM event NOT INDEXED")?, steps),
                (
                    "number of entries of the index",
                    number("SELECT count(*) FROM event INDEXED BY event_kind WHERE kind >= 0")?,
                    steps,
                ),
            ],
            Work::Short => vec![
                ("number of rows of the history", number("SELECT count(*) FROM history")?, steps),
                (
                    "sum of the accounts' balances",
                    number("SELECT sum(balance) FROM account")?,
                    number("SELECT coalesce(sum(amount), 0) FROM history")?,
                ),
                (
                    "sum of the tellers' balances",
                    number("SELECT sum(balance) FROM teller")?,
                    number("SELECT sum(balance) FROM account")?,
                ),
            ],
            Work::Queue => vec![("number of waiting jobs", number("SELECT count(*) FROM job WHERE state = 0")?, JOBS)],
            Work::OrderEntry => order_entry::audit(connection)?,
        };
        let wrong = found.into_iter().find(|(_, found, wanted)| found != wanted);
        Ok(wrong.map_or_else(|| "ok".to_owned(), |(of, found, wanted)| format!("{of}: {found} instead of {wanted}")))
    }
}

const PUT: &str = "INSERT INTO job (state, body) VALUES (0, ?1)";

fn short(connection: &mut Connection, random: &mut Random) -> Result<()> {
    let (account, teller) = (one_of(random, ROWS), one_of(random, TELLERS));
    let transaction = begin(connection)?;
    let balance: i64 = transaction
        .prepare_cached("SELECT balance FROM account WHERE id = ?1")?
        .query_row([account], |row| row.get(0))?;
    let amount = 1 + balance % 7;
    transaction
        .prepare_cached("UPDATE account SET balance = balance + ?2 WHERE id = ?1")?
        .execute([account, amount])?;
    transaction.prepare_cached("UPDATE teller SET balance = balance + ?2 WHERE id = ?1")?.execute([teller, amount])?;
    transaction
        .prepare_cached("INSERT INTO history (account, amount, filler) VALUES (?1, ?2, ?3)")?
        .execute(params![account, amount, FILLER])?;
    transaction.commit()
}
