//! redb and fjall with indices like libtp's; redb's keys are typed, as its documentation advises.

use std::ops::Range;
use std::path::Path;

use fjall::{Database as FjallDatabase, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::keys::{arriving, leaving, neighbour};
use super::traversal::{depth_first, Look};
use super::{not_there, sorted, Client, Glance, Graph, Parts, Way};
use crate::error::{Error, Result};

pub(super) const REDB: &str = "redb";
pub(super) const FJALL: &str = "fjall";
const CACHE_BYTES: usize = 256 << 20;
const PARTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("parts");
/// By the part that a connection leaves, and which of its connections it is.
const FROM: TableDefinition<'_, (u32, u8), &[u8]> = TableDefinition::new("from");
/// By the part that a connection leads to, the part that it leaves, and which of its connections it is.
const TO: TableDefinition<'_, (u32, u32, u8), ()> = TableDefinition::new("to");

/// A redb file of three tables.
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
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("parts.redb"));
        Ok(Redb { database: database.map_err(of_redb("opening"))? })
    }

    fn look(&self) -> Result<LookingInRedb> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        Ok(LookingInRedb {
            parts: read.open_table(PARTS).map_err(of_redb("reading"))?,
            from: read.open_table(FROM).map_err(of_redb("reading"))?,
            to: read.open_table(TO).map_err(of_redb("reading"))?,
        })
    }
}

impl Parts for Redb {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Redb {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let write = self.database.begin_write().map_err(of_redb("loading"))?;
        {
            let mut parts = write.open_table(PARTS).map_err(of_redb("loading"))?;
            for part in sorted::parts(graph, ids.clone()) {
                parts.insert(part.id, &part.to_bytes()[..]).map_err(of_redb("loading"))?;
            }
            let mut from = write.open_table(FROM).map_err(of_redb("loading"))?;
            for (id, nth, connection) in sorted::leaving(graph, ids.clone()) {
                from.insert((id, nth), &connection.to_bytes()[..]).map_err(of_redb("loading"))?;
            }
            let mut to = write.open_table(TO).map_err(of_redb("loading"))?;
            for connection in sorted::arriving(graph, ids) {
                to.insert(connection, ()).map_err(of_redb("loading"))?;
            }
        }
        write.commit().map_err(of_redb("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let mut look = self.look()?;
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
        depth_first(&mut self.look()?, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let write = self.database.begin_write().map_err(of_redb("inserting"))?;
        {
            let mut parts = write.open_table(PARTS).map_err(of_redb("inserting"))?;
            let mut from = write.open_table(FROM).map_err(of_redb("inserting"))?;
            let mut to = write.open_table(TO).map_err(of_redb("inserting"))?;
            for part in ids.map(|id| graph.part(id)) {
                parts.insert(part.id, &part.to_bytes()[..]).map_err(of_redb("inserting"))?;
                for (nth, connection) in (0..).zip(&part.out) {
                    from.insert((part.id, nth), &connection.to_bytes()[..]).map_err(of_redb("inserting"))?;
                    to.insert((connection.to, part.id, nth), ()).map_err(of_redb("inserting"))?;
                }
            }
        }
        write.commit().map_err(of_redb("inserting"))
    }
}

/// The tables of a read-only redb transaction.
struct LookingInRedb {
    parts: ReadOnlyTable<u32, &'static [u8]>,
    from: ReadOnlyTable<(u32, u8), &'static [u8]>,
    to: ReadOnlyTable<(u32, u32, u8), ()>,
}

impl Look for LookingInRedb {
    fn part(&mut self, id: u32) -> Result<Glance> {
        let found = self.parts.get(id).map_err(of_redb("reading"))?;
        found.and_then(|part| Glance::of(part.value())).ok_or_else(|| not_there(REDB, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        if way == Way::Forward {
            for pair in self.from.range((id, 0)..=(id, u8::MAX)).map_err(of_redb("reading"))? {
                let (_, connection) = pair.map_err(of_redb("reading"))?;
                ids.push(neighbour(way, &[], connection.value()));
            }
            return Ok(());
        }
        for pair in self.to.range((id, 0, 0)..=(id, u32::MAX, u8::MAX)).map_err(of_redb("reading"))? {
            let (key, _) = pair.map_err(of_redb("reading"))?;
            ids.push(key.value().1);
        }
        Ok(())
    }
}

/// A fjall database of three keyspaces.
pub struct Fjall {
    database: FjallDatabase,
    parts: Keyspace,
    from: Keyspace,
    to: Keyspace,
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
        let open = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(of_fjall("opening"));
        let (parts, from, to) = (open("parts")?, open("from")?, open("to")?);
        Ok(Fjall { database, parts, from, to })
    }
}

/// Loads sorted pairs into an empty keyspace.
fn ingest<const K: usize, const V: usize>(
    keyspace: &Keyspace,
    pairs: impl Iterator<Item = ([u8; K], [u8; V])>,
) -> Result<()> {
    let mut ingestion = keyspace.start_ingestion().map_err(of_fjall("loading"))?;
    for (key, value) in pairs {
        ingestion.write(&key[..], &value[..]).map_err(of_fjall("loading"))?;
    }
    ingestion.finish().map_err(of_fjall("loading"))
}

impl Parts for Fjall {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }

    fn settle(&self) -> Result<()> {
        let mut all = [&self.parts, &self.from, &self.to].into_iter();
        all.try_for_each(Keyspace::rotate_memtable_and_wait).map_err(of_fjall("writing its tables"))
    }
}

impl Client for &Fjall {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let parts = sorted::parts(graph, ids.clone()).map(|part| (part.id.to_be_bytes(), part.to_bytes()));
        let from = sorted::leaving(graph, ids.clone());
        let from = from.map(|(id, nth, connection)| (leaving(id, nth), connection.to_bytes()));
        let to = sorted::arriving(graph, ids).map(|(to, from, nth)| (arriving(to, from, nth), []));
        ingest(&self.parts, parts)?;
        ingest(&self.from, from)?;
        ingest(&self.to, to)?;
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let mut look = LookingInFjall(self);
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
        depth_first(&mut LookingInFjall(self), root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for part in ids.map(|id| graph.part(id)) {
            batch.insert(&self.parts, part.id.to_be_bytes(), part.to_bytes());
            for (nth, connection) in (0..).zip(&part.out) {
                batch.insert(&self.from, leaving(part.id, nth), connection.to_bytes());
                batch.insert(&self.to, arriving(connection.to, part.id, nth), []);
            }
        }
        batch.commit().map_err(of_fjall("inserting"))
    }
}

/// The newest state of a fjall database. No client writes meanwhile.
struct LookingInFjall<'f>(&'f Fjall);

impl Look for LookingInFjall<'_> {
    fn part(&mut self, id: u32) -> Result<Glance> {
        let found = self.0.parts.get(id.to_be_bytes()).map_err(of_fjall("reading"))?;
        found.and_then(|part| Glance::of(&part)).ok_or_else(|| not_there(FJALL, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let index = match way {
            Way::Forward => &self.0.from,
            Way::Backward => &self.0.to,
        };
        for pair in index.prefix(id.to_be_bytes()) {
            let (key, value) = pair.into_inner().map_err(of_fjall("reading"))?;
            ids.push(neighbour(way, &key, &value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_in_fjalls_tables_and_not_in_its_log_alone_once_it_settles() -> Result<()> {
        let (graph, dir) = (Graph::make(500, 1), tempfile::tempdir().unwrap());
        let fjall = Fjall::open(dir.path())?;
        let tables = || [&fjall.parts, &fjall.from, &fjall.to].map(Keyspace::table_count);
        fjall.client()?.load(&graph, 1..501)?;
        assert_eq!(tables(), [1; 3], "sorted records become tables at once");
        fjall.client()?.insert(&graph, 501..601)?;
        assert_eq!(tables(), [1; 3]);
        fjall.settle()?;
        assert!(tables().iter().all(|count| *count > 1), "{:?}", tables());
        Ok(())
    }
}
