//! SQLite, through `rusqlite`. The build script compiles SQLite.
//!
//! The settings are the best that SQLite's documentation has for several clients: write-ahead log, `BEGIN IMMEDIATE`
//! for writes, a busy timeout instead of errors, one connection for each client, statements prepared once, the file
//! mapped, a page cache in which the bank fits. `Relaxed` is `synchronous=OFF`: a commit is written to the log file and
//! survives the death of the process. `Sync` is `FULL`: the log is synced at each commit. SQLite has one writer at a
//! time by design, so a transfer never aborts. Several processes may use one bank.
//!
//! A separate SELECT reads the account's new balance. An UPDATE with RETURNING took 5 % longer when both were measured
//! in alternate runs. Balances are columns, as usual in SQL; for the audit, the columns are put together as the bytes
//! of a record.
//!
//! OO1 has the usual tables of SQL: a table of parts by id, a table of connections by the part at their beginning,
//! and an index of the connections by the part at their end. A traversal is one recursive statement. Two statements for
//! each part, one for the part and one for its neighbours, took 5 % longer in alternate runs. Plain records are in a
//! table without row ids, in key order. One transaction loads them, and a checkpoint at the end copies the log into the
//! file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{params, Connection, OpenFlags, Row, Transaction, TransactionBehavior};

use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::kinds::Sharing;
use crate::oo1::{missing_part, sorted, Client, Graph, Parts, VisitedPart, Way, HOPS};
use crate::rows::{Pair, Rows, BATCH};
use crate::tpcb::{new_record, Scale, Table, Transfer, BALANCE_AT, RECORD_BYTES};

const NAME: &str = "sqlite";
const FILE: &str = "bank.sqlite";
/// The busy timeout: the longest wait of a writer for another writer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Offset of the filler in a record.
const FILLER_AT: usize = BALANCE_AT + 8;
/// Offset of the filler in a history record.
const HISTORY_FILLER_AT: usize = 28;
const STATEMENTS_KEPT: usize = 32;
/// Log size, in pages of 4 KiB, at which a checkpoint copies the log into the file: a quarter of the cache. A page that
/// changes several times between two checkpoints is copied once. SQLite's default is 1000 pages. One transaction of
/// many random inserts writes more than 1000 pages, and a few hundred short transactions do the same.
const CHECKPOINT_PAGES: i64 = 16_384;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS teller (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS branch (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS history (
        id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, account INTEGER NOT NULL, teller INTEGER NOT NULL,
        branch INTEGER NOT NULL, filler BLOB NOT NULL);";

/// The statements that change a balance, in the order of [`Table::BALANCES`].
const CHANGES: [&str; 3] = [
    "UPDATE account SET balance = balance + ?2 WHERE id = ?1",
    "UPDATE teller SET balance = balance + ?2 WHERE id = ?1",
    "UPDATE branch SET balance = balance + ?2 WHERE id = ?1",
];
/// The statements that read a balance, in the order of [`Table::BALANCES`].
const BALANCES: [&str; 3] = [
    "SELECT balance FROM account WHERE id = ?1",
    "SELECT balance FROM teller WHERE id = ?1",
    "SELECT balance FROM branch WHERE id = ?1",
];

/// A bank in an SQLite file.
pub struct Sqlite {
    path: PathBuf,
    durability: Durability,
    sharing: Sharing,
    /// The connection for the load and the audit, while no client is active.
    own: Mutex<Connection>,
}

fn of_sqlite(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Sqlite {
    /// Opens the file in `directory`, and makes the four tables if they do not exist.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open(directory: &Path, durability: Durability, sharing: Sharing) -> Result<Sqlite> {
        let path = directory.join(FILE);
        let own = connect(&path, durability, sharing)?;
        own.execute_batch(TABLES).map_err(of_sqlite("making its tables"))?;
        Ok(Sqlite { path, durability, sharing, own: Mutex::new(own) })
    }

    fn with_own<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        work(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens a new connection to a file.
fn connect(path: &Path, durability: Durability, sharing: Sharing) -> Result<Connection> {
    let failed = || of_sqlite("opening");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed())?;
    connection.busy_timeout(PATIENCE).map_err(failed())?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    let synchronous = if durability == Durability::Sync { "FULL" } else { "OFF" };
    let settings = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -262144; \
         PRAGMA mmap_size = 1073741824; PRAGMA temp_store = MEMORY;"
    );
    connection.execute_batch(&settings).map_err(failed())?;
    let pages = if sharing == Sharing::Doomed { 0 } else { CHECKPOINT_PAGES };
    let set = connection.query_row(&format!("PRAGMA wal_autocheckpoint = {pages}"), [], |row| row.get::<_, i64>(0));
    match set.map_err(failed())? {
        now if now == pages => Ok(connection),
        now => Err(Error::Settings(format!(
            "SQLite makes a checkpoint after {now} pages of log, although the setting is {pages}"
        ))),
    }
}

impl Engine for Sqlite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "environment"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        load_in_batches(scale, u32::MAX, progress, |table, ids| {
            self.with_own(|own| fill(own, table, ids.end)).map_err(of_sqlite("loading"))
        })?;
        self.with_own(|own| checkpoint(own)).map_err(of_sqlite("loading"))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession { connection: connect(&self.path, self.durability, self.sharing)? }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let walked = self.with_own(|own| match table {
            Table::History => walk_history(own, each),
            Table::Account | Table::Teller | Table::Branch => walk_balances(own, table, each),
        });
        walked.map_err(of_sqlite("reading all records"))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let own = self.own.into_inner().unwrap_or_else(PoisonError::into_inner);
        own.close().map_err(|(_, why)| of_sqlite("closing")(why))
    }
}

fn fill(own: &mut Connection, table: Table, count: u32) -> rusqlite::Result<()> {
    let txn = own.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = txn.prepare(&format!("INSERT INTO {} VALUES (?1, 0, ?2)", table.name()))?;
        for id in 0..count {
            insert.execute(params![id, &new_record(id, 0)[FILLER_AT..]])?;
        }
    }
    txn.commit()
}

/// Copies the whole log into the file.
fn checkpoint(own: &Connection) -> rusqlite::Result<()> {
    own.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn walk_balances(own: &Connection, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> rusqlite::Result<()> {
    let mut select = own.prepare(&format!("SELECT id, balance, filler FROM {}", table.name()))?;
    let mut rows = select.query([])?;
    let mut record = Vec::with_capacity(RECORD_BYTES);
    while let Some(row) = rows.next()? {
        let id = row.get::<_, u32>(0)?;
        record.clear();
        record.extend(u64::from(id).to_le_bytes());
        record.extend(row.get::<_, i64>(1)?.to_le_bytes());
        record.extend(row.get_ref(2)?.as_blob()?);
        each(u64::from(id), &record);
    }
    Ok(())
}

fn walk_history(own: &Connection, each: &mut dyn FnMut(u64, &[u8])) -> rusqlite::Result<()> {
    let mut select = own.prepare("SELECT id, amount, account, teller, branch, filler FROM history")?;
    let mut rows = select.query([])?;
    let mut record = Vec::new();
    for place in 0.. {
        let Some(row) = rows.next()? else { break };
        record.clear();
        record.extend(row.get::<_, i64>(0)?.to_le_bytes());
        record.extend(row.get::<_, i64>(1)?.to_le_bytes());
        for column in 2..5 {
            record.extend(row.get::<_, u32>(column)?.to_le_bytes());
        }
        record.extend(row.get_ref(5)?.as_blob()?);
        each(place, &record);
    }
    Ok(())
}

struct SqliteSession {
    connection: Connection,
}

impl SqliteSession {
    fn transfer(&self, transfer: &Transfer) -> rusqlite::Result<Option<i64>> {
        let one = |sql: &str| -> rusqlite::Result<usize> { self.connection.prepare_cached(sql)?.execute([]) };
        one("BEGIN IMMEDIATE")?;
        let done = self.changes(transfer);
        match &done {
            Ok(Some(_)) => one("COMMIT")?,
            // The transfer's error is returned, not an error of the rollback.
            Ok(None) | Err(_) => one("ROLLBACK").unwrap_or(0),
        };
        done
    }

    /// Makes the changes. Returns the account's new balance, or `None` if one of the three records does not exist.
    fn changes(&self, transfer: &Transfer) -> rusqlite::Result<Option<i64>> {
        for (table, sql) in Table::BALANCES.into_iter().zip(CHANGES) {
            let id = transfer.record_in(table);
            if self.connection.prepare_cached(sql)?.execute(params![id, transfer.amount])? == 0 {
                return Ok(None);
            }
        }
        let balance = self.balance(BALANCES[0], transfer.account)?;
        let history = transfer.to_history();
        let id = i64::from_le_bytes(transfer.id.to_le_bytes());
        self.connection.prepare_cached("INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
            id,
            transfer.amount,
            transfer.account,
            transfer.teller,
            transfer.branch,
            &history[HISTORY_FILLER_AT..]
        ])?;
        Ok(balance)
    }

    fn balance(&self, sql: &str, id: u32) -> rusqlite::Result<Option<i64>> {
        let mut select = self.connection.prepare_cached(sql)?;
        let mut rows = select.query([id])?;
        rows.next()?.map(|row| row.get(0)).transpose()
    }

    fn sum(&self, transfer: &Transfer) -> rusqlite::Result<Option<i64>> {
        let mut sum = 0;
        for (table, sql) in Table::BALANCES.into_iter().zip(BALANCES) {
            let Some(balance) = self.balance(sql, transfer.record_in(table))? else { return Ok(None) };
            sum += balance;
        }
        Ok(Some(sum))
    }
}

impl Session for SqliteSession {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        committed(self.transfer(transfer).map_err(of_sqlite("carrying out a transfer"))?, transfer)
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let failed = || of_sqlite("reading three records");
        let one = |sql: &str| -> rusqlite::Result<usize> { self.connection.prepare_cached(sql)?.execute([]) };
        one("BEGIN").map_err(failed())?;
        let sum = self.sum(transfer);
        one("COMMIT").map_err(failed())?;
        committed(sum.map_err(failed())?, transfer)
    }
}

fn committed(balance: Option<i64>, transfer: &Transfer) -> Result<Outcome> {
    let missing = || Error::missing(NAME, Table::Account, transfer.account);
    Ok(Outcome::Committed { balance: balance.ok_or_else(missing)? })
}

/// The tables of OO1.
const PARTS: &str = "
    CREATE TABLE IF NOT EXISTS part (
        id INTEGER PRIMARY KEY, x INTEGER NOT NULL, y INTEGER NOT NULL, kind BLOB NOT NULL, built INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS connection (
        source INTEGER NOT NULL, nth INTEGER NOT NULL, target INTEGER NOT NULL, kind BLOB NOT NULL, length INTEGER NOT NULL,
        PRIMARY KEY (source, nth)) WITHOUT ROWID, STRICT;";
/// Makes the index after the table is loaded, so that SQLite builds it sorted. The index includes the primary key.
const INDEX: &str = "CREATE INDEX arriving ON connection (target)";
const PART: &str = "SELECT id, x, y FROM part WHERE id = ?1";
/// The forward traversal, depth first. LEFT JOIN makes SQLite look up the parts in the order of the traversal, and
/// gives a row of NULLs for a missing part.
const FORWARD: &str = "
    WITH RECURSIVE reached (id, hops) AS (
        VALUES (?1, ?2) UNION ALL
        SELECT target, hops - 1 FROM reached CROSS JOIN connection ON source = reached.id WHERE hops > 0 ORDER BY 2)
    SELECT part.id, x, y FROM reached LEFT JOIN part ON part.id = reached.id";
const BACKWARD: &str = "
    WITH RECURSIVE reached (id, hops) AS (
        VALUES (?1, ?2) UNION ALL
        SELECT source, hops - 1 FROM reached CROSS JOIN connection ON target = reached.id WHERE hops > 0 ORDER BY 2)
    SELECT part.id, x, y FROM reached LEFT JOIN part ON part.id = reached.id";

/// The parts and their connections, in an SQLite file.
pub struct SqliteParts {
    connection: Connection,
}

impl SqliteParts {
    /// Opens the file in `directory`, with synced commits.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open(directory: &Path) -> Result<SqliteParts> {
        let connection = connect(&directory.join("parts.sqlite"), Durability::Sync, Sharing::Alone)?;
        connection.execute_batch(PARTS).map_err(of_sqlite("making its tables"))?;
        Ok(SqliteParts { connection })
    }

    /// Inserts parts and their connections, and then runs the statement `then`, in one transaction.
    fn put(&self, graph: &Graph, ids: Range<u32>, then: &str) -> rusqlite::Result<()> {
        let write = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut insert = self.connection.prepare_cached("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for part in sorted::parts(graph, ids.clone()) {
            let built = i64::from_le_bytes(part.built.to_le_bytes());
            insert.execute(params![part.id, part.x, part.y, part.kind, built])?;
        }
        let mut insert = self.connection.prepare_cached("INSERT INTO connection VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (id, nth, connection) in sorted::leaving(graph, ids) {
            insert.execute(params![id, nth, connection.to, connection.kind, connection.length])?;
        }
        write.execute_batch(then)?;
        write.commit()
    }

    /// Does the reads in one transaction.
    fn read(&self, work: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let read = self.connection.unchecked_transaction()?;
        work()?;
        read.commit()
    }
}

impl Parts for SqliteParts {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }

    fn settle(&self) -> Result<()> {
        checkpoint(&self.connection).map_err(of_sqlite("making a checkpoint"))
    }
}

impl Client for &SqliteParts {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids, INDEX).map_err(of_sqlite("loading"))?;
        self.settle()
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let mut missing = None;
        let look = || {
            let mut select = self.connection.prepare_cached(PART)?;
            for id in ids {
                match select.query([id])?.next()? {
                    Some(part) => seen(glance(part)?),
                    None => missing = Some(*id),
                }
            }
            Ok(())
        };
        self.read(look).map_err(of_sqlite("reading"))?;
        missing.map_or(Ok(()), |id| Err(missing_part(NAME, id)))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let statement = match way {
            Way::Forward => FORWARD,
            Way::Backward => BACKWARD,
        };
        let follow = || {
            let mut select = self.connection.prepare_cached(statement)?;
            let mut parts: rusqlite::Rows<'_> = select.query([root, HOPS])?;
            while let Some(part) = parts.next()? {
                seen(glance(part)?);
            }
            Ok(())
        };
        self.read(follow).map_err(of_sqlite("following connections"))
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids, "").map_err(of_sqlite("inserting"))
    }
}

fn glance(part: &Row<'_>) -> rusqlite::Result<VisitedPart> {
    Ok(VisitedPart { id: part.get(0)?, x: part.get(1)?, y: part.get(2)? })
}

/// The table of plain records.
const ROWS: &str =
    "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT";

/// Plain records, in an SQLite file of one table.
pub struct SqliteRows {
    connection: Connection,
}

impl SqliteRows {
    /// Opens the file in `directory`, with commits that are written to the log and not synced.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open(directory: &Path) -> Result<SqliteRows> {
        let connection = connect(&directory.join("records.sqlite"), Durability::Relaxed, Sharing::Alone)?;
        connection.execute_batch(ROWS).map_err(of_sqlite("opening"))?;
        Ok(SqliteRows { connection })
    }

    fn put(&self, pairs: &[Pair]) -> rusqlite::Result<()> {
        let write = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut insert = self.connection.prepare_cached("INSERT INTO records VALUES (?1, ?2)")?;
        for (key, value) in pairs {
            insert.execute(params![key, value])?;
        }
        write.commit()
    }

    /// Makes the earlier commits durable. A further commit makes sure that the log is not empty. Then a checkpoint
    /// copies the log into the file and syncs the whole file.
    fn sync(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA user_version = 1")?;
        checkpoint(&self.connection)?;
        self.connection.execute_batch("PRAGMA synchronous = OFF")
    }

    fn sizes(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> rusqlite::Result<u64> {
        let read = self.connection.unchecked_transaction()?;
        let mut select = self.connection.prepare_cached("SELECT value FROM records WHERE key = ?1")?;
        let mut bytes = 0;
        for key in keys {
            let mut found = select.query(params![key])?;
            if let Some(row) = found.next()? {
                bytes += row.get_ref(0)?.as_blob()?.len() as u64;
            }
        }
        drop(select);
        read.commit()?;
        Ok(bytes)
    }

    fn size_of_all(&self) -> rusqlite::Result<u64> {
        let read = self.connection.unchecked_transaction()?;
        let mut select = self.connection.prepare_cached("SELECT key, value FROM records ORDER BY key")?;
        let (mut rows, mut bytes) = (select.query([])?, 0);
        while let Some(row) = rows.next()? {
            bytes += (row.get_ref(0)?.as_blob()?.len() + row.get_ref(1)?.as_blob()?.len()) as u64;
        }
        drop(rows);
        drop(select);
        read.commit()?;
        Ok(bytes)
    }
}

impl Rows for SqliteRows {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(pairs).map_err(of_sqlite("loading"))
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.put(batch)).map_err(of_sqlite("inserting"))
    }

    fn settle(&self) -> Result<()> {
        self.sync().map_err(of_sqlite("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        self.sizes(keys).map_err(of_sqlite("reading"))
    }

    fn scan(&self) -> Result<u64> {
        self.size_of_all().map_err(of_sqlite("reading"))
    }
}
