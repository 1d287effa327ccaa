//! The databases of an environment, and their records in a model.
//!
//! Processes do each operation once before they are stepped. The keys or records of these first runs begin with `warm`,
//! and are not in the model.

use std::collections::BTreeMap;

use libtp::{Db, Durability, Env, Recno, Result, Txn};
use libtp_tests::transfers::Bank;

/// The beginning of keys and records that the model leaves out.
pub const WARM: &str = "warm";
/// Bytes of a chunk of the log's ring.
const CHUNK: u64 = 256 << 10;
/// The number of records of each database at the beginning.
const RECORDS: u64 = 40;

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    /// A B-tree of short records.
    Tree,
    /// A hash file.
    Hash,
    /// A B-tree of long records.
    Wide,
    /// Records by number.
    Numbers,
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub database: Database,
    /// The key; empty for a record by number, which is appended.
    pub key: Vec<u8>,
    /// The new value; `None` to delete the record.
    pub value: Option<Vec<u8>>,
}

/// The records of all databases. The key of a record by number is its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<(Database, Vec<u8>), Vec<u8>>);

impl Contents {
    /// Makes the change.
    pub fn apply(&mut self, edit: &Edit) {
        let key = if edit.database == Database::Numbers { edit.value.clone().unwrap() } else { edit.key.clone() };
        match &edit.value {
            Some(value) => self.add(edit.database, key, value.clone()),
            None => drop(self.0.remove(&(edit.database, key))),
        }
    }

    fn add(&mut self, database: Database, key: Vec<u8>, value: Vec<u8>) {
        if !key.starts_with(WARM.as_bytes()) {
            self.0.insert((database, key), value);
        }
    }

    /// Describes the first difference to the contents that were found.
    pub fn apart(&self, found: &Contents) -> Option<String> {
        let text = |(database, key): &(Database, Vec<u8>)| format!("{database:?} {}", String::from_utf8_lossy(key));
        let short = |value: Option<&Vec<u8>>| {
            value.map(|value| format!("{} of {} bytes", String::from_utf8_lossy(&value[..8]), value.len()))
        };
        let all = self.0.keys().chain(found.0.keys());
        let mut differing = all.filter(|key| self.0.get(*key) != found.0.get(*key));
        let key = differing.next()?;
        Some(format!("{} should be {:?} and is {:?}", text(key), short(self.0.get(key)), short(found.0.get(key))))
    }
}

/// A process's handles.
pub struct World {
    pub env: Env,
    pub tree: Db,
    pub hash: Db,
    pub wide: Db,
    pub numbers: Recno,
    pub bank: Bank,
}

/// Returns the value that the transaction `nth` stores.
pub fn value(nth: u64) -> Vec<u8> {
    format!("{nth:08}").into_bytes()
}

/// Returns the key of a record that exists from the beginning.
pub fn key(number: u64) -> Vec<u8> {
    format!("k{number:03}").into_bytes()
}

impl World {
    /// Opens all databases.
    pub fn open(env: Env) -> Result<World> {
        let (tree, hash, wide) = (env.btree("tree")?, env.hash("hash")?, env.btree("wide")?);
        let (numbers, bank) = (env.recno("numbers", 8)?, Bank::open(&env)?);
        Ok(World { env, tree, hash, wide, numbers, bank })
    }

    /// Fills new databases.
    pub fn fill(&self) -> Result<()> {
        self.env.run_with(Durability::Sync, |txn| {
            for number in 0..RECORDS {
                self.tree.put(txn, &key(number), &value(0))?;
                self.hash.put(txn, &key(number), &value(0))?;
            }
            self.wide.put(txn, &key(0), &value(0))?;
            self.numbers.append(txn, &value(0)).map(drop)
        })
    }

    /// Makes the change.
    pub fn apply(&self, txn: &Txn<'_>, edit: &Edit) -> Result<()> {
        match (&edit.value, self.db(edit.database)) {
            (Some(value), Some(db)) => db.put(txn, &edit.key, value),
            (None, Some(db)) => db.delete(txn, &edit.key).map(drop),
            (value, None) => self.numbers.append(txn, value.as_ref().unwrap()).map(drop),
        }
    }

    /// Locks the record, and returns whether the change is there.
    pub fn has(&self, txn: &Txn<'_>, edit: &Edit) -> Result<bool> {
        match self.db(edit.database) {
            Some(db) => Ok(db.get_for_update(txn, &edit.key)? == edit.value),
            None => Ok(self.numbers.cursor(txn).last()?.map(|(_, record)| record) == edit.value),
        }
    }

    /// Reads a record of each database, so that the transaction has used each database.
    pub fn touch(&self, txn: &Txn<'_>) -> Result<()> {
        [&self.tree, &self.hash, &self.wide].into_iter().try_for_each(|db| db.get(txn, &key(0)).map(drop))?;
        self.numbers.get(txn, 1).map(drop)
    }

    fn db(&self, database: Database) -> Option<&Db> {
        match database {
            Database::Tree => Some(&self.tree),
            Database::Hash => Some(&self.hash),
            Database::Wide => Some(&self.wide),
            Database::Numbers => None,
        }
    }

    /// Reads all records in one transaction.
    pub fn contents(&self) -> Result<Contents> {
        self.env.run(|txn| {
            let mut contents = Contents::default();
            for database in [Database::Tree, Database::Hash, Database::Wide] {
                let mut cursor = self.db(database).unwrap().cursor(txn);
                let mut at = cursor.first()?;
                while let Some((key, value)) = at {
                    contents.add(database, key, value);
                    at = cursor.next()?;
                }
            }
            let mut cursor = self.numbers.cursor(txn);
            let mut at = cursor.first()?;
            while let Some((number, record)) = at {
                let is_there = contents.0.contains_key(&(Database::Numbers, record.clone()));
                let key = if is_there { format!("again at {number}").into_bytes() } else { record.clone() };
                contents.add(Database::Numbers, key, record);
                at = cursor.next()?;
            }
            Ok(contents)
        })
    }

    /// Commits changes until the log ends just before the end of a chunk of the ring. So the next record begins in one
    /// chunk and ends in another.
    pub fn fill_chunk(&self) -> Result<()> {
        let log = &self.env.managers().log;
        let left = || CHUNK - log.tail().raw() % CHUNK;
        let put = |bytes: usize| {
            self.env.run_with(Durability::Relaxed, |txn| self.tree.put(txn, WARM.as_bytes(), &vec![b'w'; bytes]))
        };
        for nth in 0.. {
            // Each put has a different value, because a put of the same value is no change.
            match left() {
                0..=72 => break,
                73..=4000 => put(8 + nth % 2)?,
                _ => put(1000 + nth % 2)?,
            }
        }
        Ok(())
    }
}
