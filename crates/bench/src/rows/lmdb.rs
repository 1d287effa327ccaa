//! LMDB: sorted records by its append mode, reads directly in its map.

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, PutFlags};

use super::{Pair, Rows, BATCH};
use crate::engine::Durability;
use crate::engine_lmdb::open;
use crate::error::{Error, Result};

pub(super) const NAME: &str = "LMDB";
/// Address space, not disk: the file is sparse.
const MAP_BYTES: usize = 16 << 30;

/// An LMDB environment of one database.
pub struct Lmdb {
    env: Env,
}

type Records<'e> = Database<'e, Bytes, Bytes>;

fn refused(doing: &'static str) -> impl FnOnce(heed::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Lmdb {
    /// Opens the environment in `directory`: WRITEMAP and NOSYNC, its fastest mode, and synced by `settle`.
    ///
    /// # Errors
    /// LMDB's error.
    pub fn open(directory: &Path) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        let lmdb = Lmdb { env: open(&mut options, directory, Durability::Relaxed)? };
        lmdb.records()?;
        Ok(lmdb)
    }

    fn records(&self) -> Result<Records<'_>> {
        let write = self.env.write_txn().map_err(refused("opening"))?;
        let made = self.env.create_databases_and_commit(write, |opener, write| {
            let records = opener.database_options().types::<Bytes, Bytes>().create(write)?;
            Ok(CommitOrAbort::<_, ()>::Commit(records))
        });
        match made.map_err(refused("opening"))? {
            CommitOrAbort::Commit(records) => Ok(records),
            CommitOrAbort::Abort(()) => unreachable!("the closure above always commits"),
        }
    }

    fn put(&self, records: &Records<'_>, pairs: &[Pair], flags: PutFlags) -> Result<()> {
        let mut write = self.env.write_txn().map_err(refused("writing"))?;
        for (key, value) in pairs {
            records.put_with_flags(&mut write, flags, key, value).map_err(refused("writing"))?;
        }
        write.commit().map_err(refused("writing"))
    }
}

impl Rows for Lmdb {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(&self.records()?, pairs, PutFlags::APPEND)
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        let records = self.records()?;
        pairs.chunks(BATCH).try_for_each(|batch| self.put(&records, batch, PutFlags::empty()))
    }

    fn settle(&self) -> Result<()> {
        self.env.force_sync().map_err(refused("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let records = self.records()?;
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut bytes = 0;
        for key in keys {
            bytes += records.get(&read, key).map_err(refused("reading"))?.map_or(0, <[u8]>::len) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let records = self.records()?;
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut bytes = 0;
        for pair in records.iter(&read).map_err(refused("reading"))? {
            let (key, value) = pair.map_err(refused("reading"))?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }
}
