//! libtp as a contender for plain records: a B-tree in an environment. Reads are in a snapshot.

use std::ops::ControlFlow;
use std::path::Path;

use libtp::{Bytes, Db, Durability, Env, Load};

use super::{Pair, Rows, BATCH};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "libtp";
/// The name of the contender with the setting `dense`: a full leaf moves records to a neighbour before it is split.
pub(super) const DENSE: &str = "dense";
const DATABASE: &str = "records";
/// Bytes of the page cache. The whole database fits, as the peers' databases fit into the system's file cache.
const MEMORY: Bytes = Bytes::mib(256);

/// A B-tree in an environment that has no other database.
pub struct Libtp {
    env: Env,
    records: Db,
}

fn refused(doing: &'static str) -> impl FnOnce(libtp::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Libtp {
    /// Opens the environment in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The library's error.
    pub fn open(directory: &Path, is_dense: bool) -> Result<Libtp> {
        let env =
            Env::builder().memory(MEMORY).dense(DATABASE, is_dense).open(directory).map_err(refused("opening"))?;
        let records = env.btree(DATABASE).map_err(refused("opening"))?;
        Ok(Libtp { env, records })
    }
}

impl Rows for Libtp {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        let pairs = pairs.iter().map(|(key, value)| (key, value));
        self.records.load(&Load::sorted(), pairs).map(|_| ()).map_err(refused("loading"))
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        for batch in pairs.chunks(BATCH) {
            self.env
                .run_with(Durability::Relaxed, |txn| {
                    batch.iter().try_for_each(|(key, value)| self.records.put(txn, key, value))
                })
                .map_err(refused("inserting"))?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.env.flush().and_then(|()| self.env.checkpoint()).map(|_| ()).map_err(refused("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        let mut bytes = 0;
        for key in keys {
            let found = self.records.get_with(&snapshot, key, <[u8]>::len).map_err(refused("reading"))?;
            bytes += found.unwrap_or(0) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        let mut bytes = 0;
        let all = |key: &[u8], value: &[u8]| {
            bytes += (key.len() + value.len()) as u64;
            ControlFlow::<()>::Continue(())
        };
        self.records.cursor(&snapshot).for_each(all).map_err(refused("reading"))?;
        Ok(bytes)
    }
}
