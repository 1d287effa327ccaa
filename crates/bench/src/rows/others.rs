//! redb and fjall in the way that their documentation calls fast: commits that are not synced, and a cache that holds
//! the database.

use std::path::Path;

use fjall::{Database as FjallDatabase, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Pair, Rows, BATCH, CACHE_BYTES};
use crate::error::{Error, Result};

pub(super) const REDB: &str = "redb";
pub(super) const FJALL: &str = "fjall";
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// A redb file of one table.
pub struct Redb {
    database: Database,
}

/// Converts redb's errors, which are of many types, into this one.
fn of_redb<E: Into<redb::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::engine(REDB, doing)(error.into())
}

impl Redb {
    /// Opens the file in `directory`.
    ///
    /// # Errors
    /// redb's error.
    pub fn open(directory: &Path) -> Result<Redb> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("records.redb"));
        Ok(Redb { database: database.map_err(of_redb("opening"))? })
    }

    fn put(&self, pairs: &[Pair], durability: Durability) -> Result<()> {
        let mut write = self.database.begin_write().map_err(of_redb("writing"))?;
        write.set_durability(durability).map_err(Error::engine(REDB, "writing"))?;
        {
            let mut table = write.open_table(RECORDS).map_err(of_redb("writing"))?;
            for (key, value) in pairs {
                table.insert(&key[..], &value[..]).map_err(of_redb("writing"))?;
            }
        }
        write.commit().map_err(of_redb("writing"))
    }
}

impl Rows for Redb {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(pairs, Durability::Immediate)
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.put(batch, Durability::None))
    }

    fn settle(&self) -> Result<()> {
        self.put(&[], Durability::Immediate)
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        let table = read.open_table(RECORDS).map_err(of_redb("reading"))?;
        let mut bytes = 0;
        for key in keys {
            bytes += table.get(&key[..]).map_err(of_redb("reading"))?.map_or(0, |value| value.value().len()) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        let table = read.open_table(RECORDS).map_err(of_redb("reading"))?;
        let mut bytes = 0;
        for pair in table.iter().map_err(of_redb("reading"))? {
            let (key, value) = pair.map_err(of_redb("reading"))?;
            bytes += (key.value().len() + value.value().len()) as u64;
        }
        Ok(bytes)
    }
}

/// A fjall database of one keyspace.
pub struct Fjall {
    database: FjallDatabase,
    records: Keyspace,
}

fn of_fjall(doing: &'static str) -> impl FnOnce(fjall::Error) -> Error {
    Error::engine(FJALL, doing)
}

impl Fjall {
    /// Opens the database in `directory`.
    ///
    /// # Errors
    /// fjall's error.
    pub fn open(directory: &Path) -> Result<Fjall> {
        let database = FjallDatabase::builder(directory).cache_size(CACHE_BYTES as u64).open();
        let database = database.map_err(of_fjall("opening"))?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default).map_err(of_fjall("opening"))?;
        Ok(Fjall { database, records })
    }
}

impl Rows for Fjall {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        let mut ingestion = self.records.start_ingestion().map_err(of_fjall("loading"))?;
        pairs.iter().try_for_each(|(key, value)| ingestion.write(key, value)).map_err(of_fjall("loading"))?;
        ingestion.finish().map_err(of_fjall("loading"))
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        for pairs in pairs.chunks(BATCH) {
            let mut batch = self.database.batch();
            pairs.iter().for_each(|(key, value)| batch.insert(&self.records, key, value));
            batch.commit().map_err(of_fjall("inserting"))?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        // Its journal is a log: records belong into tables.
        self.records.rotate_memtable_and_wait().map_err(of_fjall("writing its tables"))?;
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let mut bytes = 0;
        for key in keys {
            bytes += self.records.get(key).map_err(of_fjall("reading"))?.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let mut bytes = 0;
        for pair in self.records.iter() {
            let (key, value) = pair.into_inner().map_err(of_fjall("reading"))?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }
}
