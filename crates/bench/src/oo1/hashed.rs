//! libtp with hash files. The first has the parts by id. The second has, for each part, one record with all connections
//! that leave the part. The third has, for each part, one record with all connections that lead to it.

use std::ops::Range;
use std::path::Path;

use libtp::{Db, Durability, Env, Reader, Snapshot, Txn};

use super::indexed::{refused, BATCH, NAME};
use super::traversal::{depth_first, Look};
use super::{missing_part, Client, Graph, Parts, VisitedPart, Way, CONNECTION_BYTES};
use crate::error::Result;

/// The parts and their connections in three hash files.
pub struct Hashed {
    env: Env,
    parts: Db,
    from: Db,
    to: Db,
}

impl Hashed {
    /// Opens the environment in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The library's error.
    pub fn open(directory: &Path) -> Result<Hashed> {
        let env = Env::open_or_create(directory).map_err(refused("opening"))?;
        let open = |name| env.hash(name).map_err(refused("opening"));
        let (parts, from, to) = (open("parts")?, open("from")?, open("to")?);
        Ok(Hashed { env, parts, from, to })
    }

    fn put(&self, txn: &Txn<'_>, graph: &Graph, id: u32) -> libtp::Result<()> {
        let part = graph.part(id);
        self.parts.put(txn, &id.to_be_bytes(), &part.to_bytes())?;
        let out: Vec<u8> = part.out.iter().flat_map(|connection| connection.to_bytes()).collect();
        self.from.put(txn, &id.to_be_bytes(), &out)
    }

    /// Adds a connection from the part `from` to the record of the connections into the part `to`.
    fn arrive(&self, txn: &Txn<'_>, to: u32, from: u32) -> libtp::Result<()> {
        let mut all = self.to.get_for_update(txn, &to.to_be_bytes())?.unwrap_or_default();
        all.extend_from_slice(&from.to_le_bytes());
        self.to.put(txn, &to.to_be_bytes(), &all)
    }
}

impl Parts for Hashed {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Hashed {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        for batch in ids.clone().collect::<Vec<u32>>().chunks(BATCH as usize) {
            let work = |txn: &Txn<'_>| {
                for id in batch {
                    self.put(txn, graph, *id)?;
                    let known = graph.into_part(*id).iter().filter(|(from, _)| ids.contains(from));
                    let all: Vec<u8> = known.flat_map(|(from, _)| from.to_le_bytes()).collect();
                    if !all.is_empty() {
                        self.to.put(txn, &id.to_be_bytes(), &all)?;
                    }
                }
                Ok(())
            };
            self.env.run_with(Durability::Relaxed, work).map_err(refused("loading"))?;
        }
        self.env.flush().and_then(|()| self.env.checkpoint()).map(|_| ()).map_err(refused("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        ids.iter().try_for_each(|id| part_of(&self.parts, &snapshot, *id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        depth_first(&mut Looking { of: self, snapshot: &snapshot }, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let work = |txn: &Txn<'_>| {
            for id in ids.clone() {
                self.put(txn, graph, id)?;
                graph.part(id).out.iter().try_for_each(|connection| self.arrive(txn, connection.to, id))?;
            }
            Ok(())
        };
        self.env.run_with(Durability::Sync, work).map_err(refused("inserting"))
    }
}

/// Returns a part by its id.
pub(super) fn part_of(parts: &Db, reader: &impl Reader, id: u32) -> Result<VisitedPart> {
    let found = parts.get_with(reader, &id.to_be_bytes(), VisitedPart::of).map_err(refused("reading"))?;
    found.flatten().ok_or_else(|| missing_part(NAME, id))
}

/// The parts that a snapshot shows.
struct Looking<'l> {
    of: &'l Hashed,
    snapshot: &'l Snapshot<'l>,
}

impl Look for Looking<'_> {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        part_of(&self.of.parts, self.snapshot, id)
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let (file, each) = match way {
            Way::Forward => (&self.of.from, CONNECTION_BYTES),
            Way::Backward => (&self.of.to, size_of::<u32>()),
        };
        let read = |all: &[u8]| {
            ids.extend(all.chunks_exact(each).filter_map(<[u8]>::first_chunk).map(|id| u32::from_le_bytes(*id)));
        };
        // A part without a record has no connections in this direction.
        file.get_with(self.snapshot, &id.to_be_bytes(), read).map(|_| ()).map_err(refused("reading"))
    }
}
