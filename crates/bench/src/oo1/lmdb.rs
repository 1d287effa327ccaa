//! LMDB with indices like libtp's: parts by id, connections by the part they leave, and by the part they lead to.

use std::ops::Range;
use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U32};
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn};

use super::keys::{arriving, leaving, neighbour};
use super::traversal::{depth_first, Look};
use super::{not_there, sorted, Client, Glance, Graph, Parts, Way};
use crate::engine::Durability;
use crate::engine_lmdb::open;
use crate::error::{Error, Result};

pub(super) const NAME: &str = "lmdb";
/// Address space, not disk: the file is sparse.
const MAP_BYTES: usize = 16 << 30;

type ById<'e> = Database<'e, U32<NativeEndian>, Bytes, IntegerComparator>;
type Index<'e> = Database<'e, Bytes, Bytes>;

/// An LMDB environment of three databases.
pub struct Lmdb {
    env: Env,
}

/// The three open databases.
#[derive(Clone, Copy)]
struct Tables<'e> {
    parts: ById<'e>,
    from: Index<'e>,
    to: Index<'e>,
}

fn refused(doing: &'static str) -> impl FnOnce(heed::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Lmdb {
    /// Opens the environment in `directory` in LMDB's plain mode, which is durable.
    ///
    /// # Errors
    /// LMDB's error.
    pub fn open(directory: &Path) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(3);
        Ok(Lmdb { env: open(&mut options, directory, Durability::Sync)? })
    }

    fn tables(&self) -> Result<Tables<'_>> {
        let write = self.env.write_txn().map_err(refused("opening"))?;
        let made = self.env.create_databases_and_commit(write, |opener, write| {
            let mut by_id = opener.database_options().types::<U32<NativeEndian>, Bytes>().key_comparator();
            let parts = by_id.name("parts").create(write)?;
            let mut index = opener.database_options().types::<Bytes, Bytes>();
            let from = index.name("from").create(write)?;
            let to = index.name("to").create(write)?;
            Ok(CommitOrAbort::<_, ()>::Commit((parts, (from, to))))
        });
        match made.map_err(refused("opening"))? {
            CommitOrAbort::Commit((parts, (from, to))) => Ok(Tables { parts, from, to }),
            CommitOrAbort::Abort(()) => unreachable!("the closure above always commits"),
        }
    }
}

impl Parts for Lmdb {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(LmdbClient { env: &self.env, tables: self.tables()? }))
    }
}

struct LmdbClient<'e> {
    env: &'e Env,
    tables: Tables<'e>,
}

impl LmdbClient<'_> {
    fn put(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let (Tables { parts, from, to }, doing) = (&self.tables, "inserting");
        let mut write = self.env.write_txn().map_err(refused(doing))?;
        for part in ids.map(|id| graph.part(id)) {
            parts.put(&mut write, &part.id, &part.to_bytes()).map_err(refused(doing))?;
            for (nth, connection) in (0..).zip(&part.out) {
                from.put(&mut write, &leaving(part.id, nth), &connection.to_bytes()).map_err(refused(doing))?;
                to.put(&mut write, &arriving(connection.to, part.id, nth), &[]).map_err(refused(doing))?;
            }
        }
        write.commit().map_err(refused(doing))
    }
}

impl Client for LmdbClient<'_> {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let (Tables { parts, from, to }, append) = (&self.tables, PutFlags::APPEND);
        let failed = || refused("loading");
        let mut write = self.env.write_txn().map_err(failed())?;
        for part in sorted::parts(graph, ids.clone()) {
            parts.put_with_flags(&mut write, append, &part.id, &part.to_bytes()).map_err(failed())?;
        }
        for (id, nth, connection) in sorted::leaving(graph, ids.clone()) {
            from.put_with_flags(&mut write, append, &leaving(id, nth), &connection.to_bytes()).map_err(failed())?;
        }
        for (id, from, nth) in sorted::arriving(graph, ids) {
            to.put_with_flags(&mut write, append, &arriving(id, from, nth), &[]).map_err(failed())?;
        }
        write.commit().map_err(failed())
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut look = Looking { tables: self.tables, read: &read };
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let read = self.env.read_txn().map_err(refused("reading"))?;
        depth_first(&mut Looking { tables: self.tables, read: &read }, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids)
    }
}

struct Looking<'l> {
    tables: Tables<'l>,
    read: &'l RoTxn<'l>,
}

impl Look for Looking<'_> {
    fn part(&mut self, id: u32) -> Result<Glance> {
        let found = self.tables.parts.get(self.read, &id).map_err(refused("reading"))?;
        found.and_then(Glance::of).ok_or_else(|| not_there(NAME, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let index = match way {
            Way::Forward => &self.tables.from,
            Way::Backward => &self.tables.to,
        };
        for pair in index.prefix_iter(self.read, &id.to_be_bytes()).map_err(refused("reading"))? {
            let (key, value) = pair.map_err(refused("reading"))?;
            ids.push(neighbour(way, key, value));
        }
        Ok(())
    }
}
