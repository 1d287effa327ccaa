//! SQLite: a table without row ids in key order, one transaction for the load; its log is checkpointed in the end.

use std::path::Path;

use rusqlite::{params, Connection, Transaction, TransactionBehavior};

use super::{Pair, Rows, BATCH};
use crate::catalogue::Sharing;
use crate::engine::Durability;
use crate::engine_sqlite::{checkpoint, connect};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "SQLite";
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT";

/// An SQLite file of one table.
pub struct Sqlite {
    connection: Connection,
}

fn refused(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Sqlite {
    /// Opens the file in `directory`: commits are written to the log and not synced.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open(directory: &Path) -> Result<Sqlite> {
        let connection = connect(&directory.join("records.sqlite"), Durability::Relaxed, Sharing::Alone)?;
        connection.execute_batch(TABLE).map_err(refused("opening"))?;
        Ok(Sqlite { connection })
    }

    fn put(&self, pairs: &[Pair]) -> rusqlite::Result<()> {
        let write = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut insert = self.connection.prepare_cached("INSERT INTO records VALUES (?1, ?2)")?;
        for (key, value) in pairs {
            insert.execute(params![key, value])?;
        }
        write.commit()
    }

    /// Syncs the earlier commits with one more, empty commit: it makes sure that there is a log to copy into the file,
    /// which syncs the whole file.
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

impl Rows for Sqlite {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(pairs).map_err(refused("loading"))
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.put(batch)).map_err(refused("inserting"))
    }

    fn settle(&self) -> Result<()> {
        self.sync().map_err(refused("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        self.sizes(keys).map_err(refused("reading"))
    }

    fn scan(&self) -> Result<u64> {
        self.size_of_all().map_err(refused("reading"))
    }
}
