//! OO1 on Berkeley DB and RocksDB, with the same indices as libtp: the parts by id, the connections by the part that
//! they leave, and the connections by the part that they lead to.

use std::ffi::c_int;
use std::ops::Range;
use std::path::Path;

use super::{Pairs, ReadTables, Tables};
use crate::engine::Durability;
use crate::error::Result;
use crate::oo1::{
    arriving, depth_first, leaving, missing_part, neighbour, sorted, Client, Graph, Look, Parts, VisitedPart, Way,
    CONNECTION_BYTES, PART_BYTES,
};

const PARTS: c_int = 0;
const FROM: c_int = 1;
const TO: c_int = 2;

/// A database of three tables with durable commits.
pub(crate) struct PartsInC<T>(T);

impl<T: Tables> PartsInC<T> {
    /// Opens the database in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The engine's error.
    pub(crate) fn open(directory: &Path) -> Result<PartsInC<T>> {
        T::open(directory, 3, Durability::Sync).map(PartsInC)
    }
}

/// The pairs of the three tables. The pairs of a table are sorted by key, except those of `to` in an insert.
struct Records {
    parts: Vec<([u8; 4], [u8; PART_BYTES])>,
    from: Vec<([u8; 5], [u8; CONNECTION_BYTES])>,
    to: Vec<([u8; 9], [u8; 0])>,
}

impl Records {
    /// Returns the pairs of the parts `ids`. `to` has the pairs of the third table.
    fn of(graph: &Graph, ids: Range<u32>, to: Vec<([u8; 9], [u8; 0])>) -> Records {
        let parts = sorted::parts(graph, ids.clone()).map(|part| (part.id.to_be_bytes(), part.to_bytes()));
        let from = sorted::leaving(graph, ids).map(|(id, nth, connection)| (leaving(id, nth), connection.to_bytes()));
        Records { parts: parts.collect(), from: from.collect(), to }
    }

    fn pairs(&self) -> [Pairs<'_>; 3] {
        [Pairs::of(PARTS, &self.parts), Pairs::of(FROM, &self.from), Pairs::of(TO, &self.to)]
    }
}

impl<T: Tables> Parts for PartsInC<T> {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }

    fn settle(&self) -> Result<()> {
        self.0.settle()
    }
}

impl<T: Tables> Client for &PartsInC<T> {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let to = sorted::arriving(graph, ids.clone()).map(|(to, from, nth)| (arriving(to, from, nth), []));
        let records = Records::of(graph, ids, to.collect());
        records.pairs().iter().try_for_each(|pairs| self.0.load(pairs))?;
        self.0.settle()
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let mut look = Looking::<T>(self.0.reader()?);
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        depth_first(&mut Looking::<T>(self.0.reader()?), root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let to = sorted::leaving(graph, ids.clone()).map(|(id, nth, to)| (arriving(to.to, id, nth), []));
        self.0.put(&Records::of(graph, ids, to.collect()).pairs())
    }
}

/// A reader, for lookups and traversals of parts.
struct Looking<'t, T: Tables + 't>(T::Reader<'t>);

impl<T: Tables> Look for Looking<'_, T> {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        let mut part = [0; PART_BYTES];
        let bytes = self.0.get(PARTS, &id.to_be_bytes(), &mut part)?;
        bytes.and_then(|bytes| VisitedPart::of(part.get(..bytes)?)).ok_or_else(|| missing_part(T::NAME, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let index = match way {
            Way::Forward => FROM,
            Way::Backward => TO,
        };
        self.0.prefix(index, &id.to_be_bytes(), |key, value| ids.push(neighbour(way, key, value)))
    }
}
