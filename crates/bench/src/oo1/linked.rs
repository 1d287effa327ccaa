//! libtp with addresses of records in records: a traversal follows a connection without a search, as LIBTP 5.2.2
//! proposes.
//!
//! Parts are records of a recno database. A record's number is its address, which never changes
//! (docs/design/0010-links.md). A part's record includes the three connections that leave the part. The connections
//! that lead to a part form a chain: the part's record has the first connection, and each connection has the next
//! connection into the same target.
//!
//! A record consists of the part (30 bytes), the first connection into the part (5), and for each of its three
//! connections the target (4), type and length (14), and the next connection into the same target (5). In a chain, a
//! connection is stored as the part that it leaves (4; zero: end of the chain) and its number among that part's three
//! connections (1).

use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;
use std::path::Path;

use libtp::{Durability, Env, Reader, Recno, Txn};

use super::indexed::{refused, BATCH, NAME};
use super::{missing_part, Client, Graph, Parts, VisitedPart, Way, CONNECTIONS, CONNECTION_BYTES, HOPS, PART_BYTES};
use crate::error::Result;

const PLACE_BYTES: usize = 5;
const OUT: usize = PART_BYTES + PLACE_BYTES;
const OUT_BYTES: usize = CONNECTION_BYTES + PLACE_BYTES;
const RECORD_BYTES: usize = OUT + CONNECTIONS * OUT_BYTES;

/// The place of a connection: the part that it leaves (zero: no connection), and its number among that part's three
/// connections.
type Place = (u32, u8);

/// The parts and their connections in one recno database.
pub struct Linked {
    env: Env,
    parts: Recno,
}

/// A part's record.
struct Record(Vec<u8>);

impl Record {
    fn new(graph: &Graph, id: u32) -> Record {
        let part = graph.part(id);
        let mut bytes = vec![0; RECORD_BYTES];
        bytes[..PART_BYTES].copy_from_slice(&part.to_bytes());
        for (connection, room) in part.out.iter().zip(bytes[OUT..].chunks_exact_mut(OUT_BYTES)) {
            room[..CONNECTION_BYTES].copy_from_slice(&connection.to_bytes());
        }
        Record(bytes)
    }

    fn place(&self, at: usize) -> Place {
        let [a, b, c, d, nth] = *self.0[at..].first_chunk().expect("a record has its length");
        (u32::from_le_bytes([a, b, c, d]), nth)
    }

    fn set_place(&mut self, at: usize, (from, nth): Place) {
        self.0[at..at + 4].copy_from_slice(&from.to_le_bytes());
        self.0[at + 4] = nth;
    }

    /// Returns the part that a connection leads to.
    fn to(&self, nth: usize) -> u32 {
        let to = self.0[OUT + nth * OUT_BYTES..].first_chunk().expect("a record has its length");
        u32::from_le_bytes(*to)
    }

    /// Returns the first connection into this part.
    fn first_into(&self) -> Place {
        self.place(PART_BYTES)
    }

    /// Returns the connection that follows this part's connection `nth` in the chain of its target.
    fn next_into(&self, nth: u8) -> Place {
        self.place(next_at(nth))
    }
}

fn next_at(nth: u8) -> usize {
    OUT + usize::from(nth).min(CONNECTIONS - 1) * OUT_BYTES + CONNECTION_BYTES
}

/// Returns the records of the new parts `ids`, and the changed records of the parts that their connections lead to. The
/// connections are added to the chains of their targets. `read` returns the record of an existing part.
fn chained(
    graph: &Graph,
    ids: Range<u32>,
    mut read: impl FnMut(u32) -> libtp::Result<Option<Vec<u8>>>,
) -> libtp::Result<BTreeMap<u32, Record>> {
    let mut records: BTreeMap<u32, Record> = ids.clone().map(|id| (id, Record::new(graph, id))).collect();
    for id in ids {
        for (nth, connection) in (0..).zip(&graph.part(id).out) {
            let to = match records.entry(connection.to) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(room) => {
                    let found = read(connection.to)?.filter(|bytes| bytes.len() == RECORD_BYTES);
                    let what = format!("part {} is missing", connection.to);
                    room.insert(Record(found.ok_or(libtp::Error::Database { name: "parts".into(), what })?))
                }
            };
            let next = to.first_into();
            to.set_place(PART_BYTES, (id, nth));
            let from = records.get_mut(&id).expect("the part is new");
            from.set_place(next_at(nth), next);
        }
    }
    Ok(records)
}

impl Linked {
    /// Opens the environment in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// The library's error.
    pub fn open(directory: &Path) -> Result<Linked> {
        let env = Env::open_or_create(directory).map_err(refused("opening"))?;
        let bytes = u32::try_from(RECORD_BYTES).expect("a record has some hundred bytes");
        let parts = env.recno("parts", bytes).map_err(refused("opening"))?;
        Ok(Linked { env, parts })
    }

    fn put(&self, txn: &Txn<'_>, records: &[(u32, Record)]) -> libtp::Result<()> {
        records.iter().try_for_each(|(id, record)| self.parts.put(txn, u64::from(*id), &record.0))
    }

    fn record(&self, reader: &impl Reader, id: u32) -> Result<Record> {
        let found = self.parts.get(reader, u64::from(id)).map_err(refused("reading"))?;
        found.map(Record).ok_or_else(|| missing_part(NAME, id))
    }

    /// Visits a part, and all parts within `hops` hops of it. Returns the part's record.
    fn follow(
        &self,
        reader: &impl Reader,
        id: u32,
        hops: u32,
        way: Way,
        seen: &mut dyn FnMut(VisitedPart),
    ) -> Result<Record> {
        let record = self.record(reader, id)?;
        seen(VisitedPart::of(&record.0).ok_or_else(|| missing_part(NAME, id))?);
        if hops == 0 {
            return Ok(record);
        }
        if way == Way::Forward {
            for nth in 0..CONNECTIONS {
                self.follow(reader, record.to(nth), hops - 1, way, seen)?;
            }
            return Ok(record);
        }
        let (mut from, mut nth) = record.first_into();
        while from != 0 {
            (from, nth) = self.follow(reader, from, hops - 1, way, seen)?.next_into(nth);
        }
        Ok(record)
    }
}

impl Parts for Linked {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Linked {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let records: Vec<_> = chained(graph, ids, |_| Ok(None)).map_err(refused("loading"))?.into_iter().collect();
        for batch in records.chunks(BATCH as usize) {
            self.env.run_with(Durability::Relaxed, |txn| self.put(txn, batch)).map_err(refused("loading"))?;
        }
        self.env.flush().and_then(|()| self.env.checkpoint()).map(|_| ()).map_err(refused("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        ids.iter().try_for_each(|id| {
            let record = self.record(&snapshot, *id)?;
            seen(VisitedPart::of(&record.0).ok_or_else(|| missing_part(NAME, *id))?);
            Ok(())
        })
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let snapshot = self.env.snapshot().map_err(refused("reading"))?;
        self.follow(&snapshot, root, HOPS, way, seen).map(|_| ())
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let work = |txn: &Txn<'_>| {
            let records = chained(graph, ids.clone(), |id| self.parts.get(txn, u64::from(id)))?;
            self.put(txn, &records.into_iter().collect::<Vec<_>>())
        };
        self.env.run_with(Durability::Sync, work).map_err(refused("inserting"))
    }
}
