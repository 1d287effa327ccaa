//! Plain records on Berkeley DB and RocksDB. Sorted records are loaded in the fastest way that the engine offers. Other
//! records are put in batches. Commits do not sync the log.

use std::path::Path;

use super::{Pairs, ReadTables, Tables};
use crate::engine::Durability;
use crate::error::Result;
use crate::rows::{Pair, Rows, BATCH, VALUE_BYTES};

/// A database of one table.
pub(crate) struct RowsInC<T>(T);

impl<T: Tables> RowsInC<T> {
    /// Opens the database in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The engine's error.
    pub(crate) fn open(directory: &Path) -> Result<RowsInC<T>> {
        T::open(directory, 1, Durability::Relaxed).map(RowsInC)
    }
}

impl<T: Tables> Rows for RowsInC<T> {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.0.load(&Pairs::of(0, pairs))
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.0.put(&[Pairs::of(0, batch)]))
    }

    fn settle(&self) -> Result<()> {
        self.0.settle()
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let (mut reader, mut value, mut bytes) = (self.0.reader()?, [0; VALUE_BYTES], 0);
        for key in keys {
            bytes += reader.get(0, key, &mut value)?.unwrap_or(0) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        self.0.reader()?.scan(0)
    }
}
