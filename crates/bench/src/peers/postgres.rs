//! PostgreSQL, in a server of the benchmark (`postgres_server`), through the crate `postgres`: the relational database
//! of LIBTP figure 6.
//!
//! The settings are the best that PostgreSQL's documentation has for this transaction. A function in the server carries
//! out the transaction, so a transaction is one message to the server and one answer. Pages have free space for new
//! versions of their rows (`fillfactor`). `Relaxed` is `fsync=off`: commits are written to the log's file and survive
//! the death of the server's processes. (With `synchronous_commit=off`, their death would lose some commits.) `Sync` is
//! the server's default.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, NoTls, Statement};

use super::postgres_server::{Server, NAME};
use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{new_record, Scale, Table, Transfer, BALANCE_AT, RECORD_BYTES};

/// Offset of the filler in a record.
const FILLER_AT: usize = BALANCE_AT + 8;
/// Offset of the filler in a history record.
const HISTORY_FILLER_AT: usize = 28;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS account (id int NOT NULL, balance bigint NOT NULL, filler bytea NOT NULL) WITH (fillfactor = 80);
    CREATE TABLE IF NOT EXISTS teller (id int NOT NULL, balance bigint NOT NULL, filler bytea NOT NULL) WITH (fillfactor = 20);
    CREATE TABLE IF NOT EXISTS branch (id int NOT NULL, balance bigint NOT NULL, filler bytea NOT NULL) WITH (fillfactor = 10);
    CREATE TABLE IF NOT EXISTS history (
        id bigint NOT NULL, amount bigint NOT NULL, account int NOT NULL, teller int NOT NULL, branch int NOT NULL, filler bytea NOT NULL);
    CREATE OR REPLACE FUNCTION transfer(number bigint, sum bigint, one int, two int, three int, rest bytea) RETURNS bigint AS $$
    DECLARE changed bigint;
    BEGIN
        UPDATE account SET balance = balance + sum WHERE id = one RETURNING balance INTO changed;
        INSERT INTO history VALUES (number, sum, one, two, three, rest);
        UPDATE teller SET balance = balance + sum WHERE id = two;
        UPDATE branch SET balance = balance + sum WHERE id = three;
        RETURN changed;
    END $$ LANGUAGE plpgsql;";

const TRANSFER: &str = "SELECT transfer($1, $2, $3, $4, $5, $6)";
const SUM: &str = "SELECT (SELECT balance FROM account WHERE id = $1) + (SELECT balance FROM teller WHERE id = $2)
    + (SELECT balance FROM branch WHERE id = $3)";

/// A bank in a PostgreSQL server that has no other database.
pub struct Postgres {
    /// The connection for the load and the audit, while no client is active.
    own: Mutex<Client>,
    server: Server,
}

fn of_postgres(doing: &'static str) -> impl FnOnce(postgres::Error) -> Error {
    move |error| {
        let why = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
        Error::engine(NAME, doing)(why)
    }
}

fn id_of(id: u32) -> i32 {
    i32::from_le_bytes(id.to_le_bytes())
}

fn of_id(id: i32) -> u32 {
    u32::from_le_bytes(id.to_le_bytes())
}

impl Postgres {
    /// Starts a server on the bank in `directory`, and makes the four tables if they do not exist.
    ///
    /// # Errors
    /// `Settings` if PostgreSQL is not installed; otherwise PostgreSQL's error.
    pub fn open(directory: &Path, durability: Durability) -> Result<Postgres> {
        let server = Server::start(directory, durability)?;
        let mut own = Client::connect(&server.parameters(), NoTls).map_err(of_postgres("opening"))?;
        own.batch_execute(&format!("SET client_min_messages = warning; {TABLES}"))
            .map_err(of_postgres("making its tables"))?;
        Ok(Postgres { own: Mutex::new(own), server })
    }

    fn with_own<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Client) -> std::result::Result<T, postgres::Error>,
    ) -> Result<T> {
        work(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner)).map_err(of_postgres(doing))
    }

    /// Copies the records into a table and then makes its index, as PostgreSQL's manual recommends for much data.
    fn fill(&self, table: Table, count: u32) -> Result<()> {
        let doing = "loading";
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let name = table.name();
        let mut rows = own.copy_in(&format!("COPY {name} FROM STDIN")).map_err(of_postgres(doing))?;
        let mut line = String::new();
        for id in 0..count {
            line.clear();
            line.push_str(&format!("{id}\t0\t\\\\x"));
            new_record(id, 0)[FILLER_AT..].iter().for_each(|byte| line.push_str(&format!("{byte:02x}")));
            line.push('\n');
            rows.write_all(line.as_bytes()).map_err(Error::engine(NAME, doing))?;
        }
        rows.finish().map_err(of_postgres(doing))?;
        own.batch_execute(&format!("ALTER TABLE {name} ADD PRIMARY KEY (id)")).map_err(of_postgres(doing))
    }
}

impl Engine for Postgres {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "record"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut loaded = 0;
        for table in Table::BALANCES {
            self.fill(table, scale.count(table))?;
            loaded += u64::from(scale.count(table));
            progress(loaded);
        }
        // Each command has its own call, because several commands in one call are a transaction, and VACUUM cannot run
        // in a transaction.
        self.with_own("loading", |own| own.batch_execute("VACUUM ANALYZE"))?;
        self.with_own("loading", |own| own.batch_execute("CHECKPOINT"))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let failed = || of_postgres("opening a connection");
        let mut client = Client::connect(&self.server.parameters(), NoTls).map_err(failed())?;
        let transfer = client.prepare(TRANSFER).map_err(failed())?;
        let sum = client.prepare(SUM).map_err(failed())?;
        Ok(Box::new(PostgresSession { client, transfer, sum }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.with_own("reading all records", |own| match table {
            Table::History => walk_history(own, each),
            Table::Account | Table::Teller | Table::Branch => walk_balances(own, table, each),
        })
    }

    fn log_bytes(&self) -> Result<u64> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let bytes: i64 = self.with_own("reading the size of its log", |own| own.query_one(sql, &[])?.try_get(0))?;
        Ok(bytes.unsigned_abs())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Postgres { own, server } = *self;
        drop(own);
        server.stop()
    }
}

fn walk_balances(
    own: &mut Client,
    table: Table,
    each: &mut dyn FnMut(u64, &[u8]),
) -> std::result::Result<(), postgres::Error> {
    let sql = format!("SELECT id, balance, filler FROM {}", table.name());
    let mut rows = own.query_raw(&sql, std::iter::empty::<i64>())?;
    let mut record = Vec::with_capacity(RECORD_BYTES);
    while let Some(row) = rows.next()? {
        let id = u64::from(of_id(row.try_get(0)?));
        record.clear();
        record.extend(id.to_le_bytes());
        record.extend(row.try_get::<_, i64>(1)?.to_le_bytes());
        record.extend(row.try_get::<_, &[u8]>(2)?);
        each(id, &record);
    }
    Ok(())
}

fn walk_history(own: &mut Client, each: &mut dyn FnMut(u64, &[u8])) -> std::result::Result<(), postgres::Error> {
    let sql = "SELECT id, amount, account, teller, branch, filler FROM history";
    let mut rows = own.query_raw(sql, std::iter::empty::<i64>())?;
    let mut record = Vec::new();
    for place in 0.. {
        let Some(row) = rows.next()? else { break };
        record.clear();
        record.extend(row.try_get::<_, i64>(0)?.to_le_bytes());
        record.extend(row.try_get::<_, i64>(1)?.to_le_bytes());
        for column in 2..5 {
            record.extend(row.try_get::<_, i32>(column)?.to_le_bytes());
        }
        record.extend(row.try_get::<_, &[u8]>(5)?);
        each(place, &record);
    }
    Ok(())
}

struct PostgresSession {
    client: Client,
    transfer: Statement,
    sum: Statement,
}

impl Session for PostgresSession {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let history = transfer.to_history();
        let id = i64::from_le_bytes(transfer.id.to_le_bytes());
        let ids = [transfer.account, transfer.teller, transfer.branch].map(id_of);
        let filler = &history[HISTORY_FILLER_AT..];
        let row = self
            .client
            .query_one(&self.transfer, &[&id, &transfer.amount, &ids[0], &ids[1], &ids[2], &filler])
            .and_then(|row| row.try_get(0));
        match row {
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => Ok(Outcome::Aborted),
            row => committed(row.map_err(of_postgres("carrying out a transfer"))?, transfer),
        }
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = [transfer.account, transfer.teller, transfer.branch].map(id_of);
        let row = self.client.query_one(&self.sum, &[&ids[0], &ids[1], &ids[2]]).and_then(|row| row.try_get(0));
        committed(row.map_err(of_postgres("reading three records"))?, transfer)
    }
}

fn committed(balance: Option<i64>, transfer: &Transfer) -> Result<Outcome> {
    let missing = || Error::Missing { engine: NAME, table: Table::Account.name(), id: u64::from(transfer.account) };
    Ok(Outcome::Committed { balance: balance.ok_or_else(missing)? })
}
