//! libtp with indices, as in the paper: a B-tree of the parts by id, a B-tree of the connections by the part that they
//! leave, and a B-tree of the connections by the part that they lead to.
//!
//! The records of the connections are in the second B-tree, in which a connection is found by the part that it leaves.
//! The third B-tree has only keys. In the paper, connections were records by number, and both indices had these
//! numbers, so each access to a connection cost one more read.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use libtp::{Db, Durability, Env, Load, Snapshot, Txn};

use super::keys::{arriving, leaving, neighbour};
use super::traversal::{depth_first, Look};
use super::{missing_part, sorted, Client, Graph, Parts, VisitedPart, Way};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "libtp";
/// Number of parts that one transaction loads, where the load cannot be sorted as a whole.
pub(super) const BATCH: u32 = 2000;

/// The parts and their connections in three B-trees.
pub struct Indexed {
    env: Env,
    parts: Db,
    from: Db,
    to: Db,
}

pub(super) fn refused(doing: &'static str) -> impl FnOnce(libtp::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Indexed {
    /// Opens the environment in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The library's error.
    pub fn open(directory: &Path) -> Result<Indexed> {
        let env = Env::open_or_create(directory).map_err(refused("opening"))?;
        let open = |name| env.btree(name).map_err(refused("opening"));
        let (parts, from, to) = (open("parts")?, open("from")?, open("to")?);
        Ok(Indexed { env, parts, from, to })
    }

    fn put(&self, txn: &Txn<'_>, graph: &Graph, id: u32) -> libtp::Result<()> {
        let part = graph.part(id);
        self.parts.put(txn, &id.to_be_bytes(), &part.to_bytes())?;
        for (nth, connection) in (0..).zip(&part.out) {
            self.from.put(txn, &leaving(id, nth), &connection.to_bytes())?;
            self.to.put(txn, &arriving(connection.to, id, nth), &[])?;
        }
        Ok(())
    }
}

impl Parts for Indexed {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Indexed {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let parts = sorted::parts(graph, ids.clone()).map(|part| (part.id.to_be_bytes(), part.to_bytes()));
        let from = sorted::leaving(graph, ids.clone());
        let from = from.map(|(id, nth, connection)| (leaving(id, nth), connection.to_bytes()));
        let to = sorted::arriving(graph, ids).map(|(to, from, nth)| (arriving(to, from, nth), []));
        let failed = || refused("loading");
        self.parts.load(&Load::sorted(), parts).map_err(failed())?;
        self.from.load(&Load::sorted(), from).map_err(failed())?;
        self.to.load(&Load::sorted(), to).map_err(failed())?;
        self.env.flush().and_then(|()| self.env.checkpoint()).map(|_| ()).map_err(failed())
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        let mut look = Looking { of: self, snapshot: &snapshot };
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        depth_first(&mut Looking { of: self, snapshot: &snapshot }, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let work = |txn: &Txn<'_>| ids.clone().try_for_each(|id| self.put(txn, graph, id));
        self.env.run_with(Durability::Sync, work).map_err(refused("inserting"))
    }
}

/// The parts that a snapshot shows.
struct Looking<'l> {
    of: &'l Indexed,
    snapshot: &'l Snapshot<'l>,
}

impl Look for Looking<'_> {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        let found =
            self.of.parts.get_with(self.snapshot, &id.to_be_bytes(), VisitedPart::of).map_err(refused("reading"))?;
        found.flatten().ok_or_else(|| missing_part(NAME, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let index = match way {
            Way::Forward => &self.of.from,
            Way::Backward => &self.of.to,
        };
        let key = id.to_be_bytes();
        let mut cursor = index.prefix(self.snapshot, &key).map_err(refused("reading"))?;
        let each = |key: &[u8], value: &[u8]| {
            ids.push(neighbour(way, key, value));
            ControlFlow::<()>::Continue(())
        };
        cursor.for_each(each).map(|_| ()).map_err(refused("reading"))
    }
}
