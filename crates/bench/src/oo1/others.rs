//! redb and fjall with indices like ours; redb's keys have their types, as its documents advise.

use std::ops::Range;
use std::path::Path;

use fjall::{Database as FjallDatabase, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::indexed::BATCH;
use super::keys::{arriving, leaving, neighbour};
use super::traversal::{depth_first, Look};
use super::{not_there, Client, Glance, Graph, Parts, Way};
use crate::error::{Error, Result};

pub(super) const REDB: &str = "redb";
pub(super) const FJALL: &str = "fjall";
const CACHE_BYTES: usize = 256 << 20;
const PARTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("parts");
/// The part that is left, and which of its connections.
const FROM: TableDefinition<'_, (u32, u8), &[u8]> = TableDefinition::new("from");
/// The part that is reached, the one that is left, and which of its connections.
const TO: TableDefinition<'_, (u32, u32, u8), ()> = TableDefinition::new("to");

/// A redb file of three tables.
pub struct Redb {
    database: Database,
}

/// redb's errors are of many types, all of which become this one.
fn of_redb<E: Into<redb::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::engine(REDB, doing)(error.into())
}

impl Redb {
    /// Opens the file in `directory`.
    ///
    /// # Errors
    /// redb's.
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
        self.insert(graph, ids)
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

/// The tables of a redb transaction that reads.
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
    /// fjall's.
    pub fn open(directory: &Path) -> Result<Fjall> {
        let database = FjallDatabase::builder(directory).cache_size(CACHE_BYTES as u64).open();
        let database = database.map_err(of_fjall("opening"))?;
        let open = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(of_fjall("opening"));
        let (parts, from, to) = (open("parts")?, open("from")?, open("to")?);
        Ok(Fjall { database, parts, from, to })
    }
}

impl Parts for Fjall {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Fjall {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        for first in ids.clone().step_by(BATCH as usize) {
            let last = ids.end.min(first.saturating_add(BATCH));
            self.insert(graph, first..last)?;
        }
        Ok(())
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let mut look = LookingInFjall(self);
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
        depth_first(&mut LookingInFjall(self), root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
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

/// What is newest in a fjall database; nobody writes meanwhile.
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
