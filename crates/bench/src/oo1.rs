//! OO1, the benchmark of connected parts (Cattell and Skeen 1992), as LIBTP section 5.2 runs it: ours in three shapes, and peers.
//!
//! | file | what |
//! |---|---|
//! | `graph` | the parts and their connections, always the same, and what a run must meet |
//! | `traversal`, `keys`, `sorted` | seven hops, depth first, over any contender with indices; their keys, and all records in their order |
//! | `indexed`, `hashed`, `linked` | ours: B-trees, hash files, addresses of records kept in records |
//! | `lmdb`, `others` | LMDB, redb and fjall, with indices like ours (feature `peers`) |
//! | `sqlite` | SQLite, with tables and an index (feature `peers`) |
//! | `c_tables` | RocksDB and Berkeley DB, with indices like ours (feature `peers-all`) |
//!
//! A contender is asked for one operation at a time, in a transaction of its own; inserts are on the disk when they are answered.

#[cfg(feature = "peers-all")]
mod c_tables;
mod graph;
mod hashed;
mod indexed;
mod keys;
mod linked;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod others;
mod sorted;
#[cfg(feature = "peers")]
mod sqlite;
mod traversal;

use std::ops::Range;
use std::path::Path;

#[cfg(feature = "peers-all")]
use crate::c_tables::{Bdb, RocksDb, Tables as _};
use crate::error::{Error, Result};

pub use graph::{Connection, Glance, Graph, Part, Seen, CONNECTIONS, CONNECTION_BYTES, PART_BYTES};

/// Hops of a traversal.
pub const HOPS: u32 = 7;
/// Parts that a traversal meets: 1 + 3 + 9 + ... + 3^7.
pub const TRAVERSED: u64 = 3280;
/// Parts of a lookup.
pub const LOOKED_UP: u32 = 1000;
/// Parts of an insert.
pub const INSERTED: u32 = 100;

/// Which way connections are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of a part.
    Forward,
    /// Into a part.
    Backward,
}

/// A database of parts, open.
pub trait Parts {
    /// Opens what one client needs.
    ///
    /// # Errors
    /// The engine's own.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// Brings what was inserted to where it is read from when it is opened again, where that is done later: who keeps it in a log
    /// alone would read all of it into memory then, and nothing of it would be cold.
    ///
    /// # Errors
    /// The engine's own.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// What one client does. What a part looks like goes to `seen`, the benchmark's null procedure.
pub trait Client {
    /// Puts these parts and their connections into the database, which is empty, in the way that it is best at.
    ///
    /// # Errors
    /// The engine's own.
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;

    /// Reads the parts with these ids in one transaction.
    ///
    /// # Errors
    /// The engine's own, or that a part is not there.
    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()>;

    /// Reads all parts that are [`HOPS`] or fewer connections away, each as often as it is met, in one transaction.
    ///
    /// # Errors
    /// As [`Client::lookup`].
    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()>;

    /// Puts these parts and their connections into the database in one transaction, which is on the disk afterwards.
    ///
    /// # Errors
    /// The engine's own.
    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;
}

/// Opens a contender's database in a directory that is there and, the first time, empty.
pub type OpenParts = fn(&Path) -> Result<Box<dyn Parts>>;

/// Ours, by the shape of the connections.
pub fn ours() -> [(&'static str, OpenParts); 3] {
    [
        ("libtp", |path| Ok(Box::new(indexed::Indexed::open(path)?))),
        ("libtp hash", |path| Ok(Box::new(hashed::Hashed::open(path)?))),
        ("libtp links", |path| Ok(Box::new(linked::Linked::open(path)?))),
    ]
}

/// The peers that are in this build, by the names that they have everywhere.
pub fn peers() -> Vec<(&'static str, OpenParts)> {
    vec![
        #[cfg(feature = "peers")]
        (crate::engine_sqlite::NAME, |path| Ok(Box::new(sqlite::Sqlite::open(path)?))),
        #[cfg(feature = "peers")]
        (lmdb::NAME, |path| Ok(Box::new(lmdb::Lmdb::open(path)?))),
        #[cfg(feature = "peers")]
        (others::REDB, |path| Ok(Box::new(others::Redb::open(path)?))),
        #[cfg(feature = "peers")]
        (others::FJALL, |path| Ok(Box::new(others::Fjall::open(path)?))),
        #[cfg(feature = "peers-all")]
        (RocksDb::NAME, |path| Ok(Box::new(c_tables::InC::<RocksDb>::open(path)?))),
        #[cfg(feature = "peers-all")]
        (Bdb::NAME, |path| Ok(Box::new(c_tables::InC::<Bdb>::open(path)?))),
    ]
}

/// A part that connections lead to, or that was put there, and that is not there.
fn not_there(engine: &'static str, id: u32) -> Error {
    Error::engine(engine, "reading a part")(format!("part {id} is not there, or is no part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::EngineKind;
    use crate::cold::forget_files;

    const PARTS: u32 = 1000;

    /// What a contender saw of an operation.
    fn seen_by(work: impl FnOnce(&mut dyn FnMut(Glance)) -> Result<()>) -> Result<Seen> {
        let mut seen = Seen::default();
        work(&mut |part| seen.see(part))?;
        Ok(seen)
    }

    #[test]
    fn every_peer_of_the_build_is_among_the_contenders_once() {
        let peers: Vec<_> = peers().into_iter().map(|(name, _)| name).collect();
        for kind in EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY) {
            let times = peers.iter().filter(|name| **name == kind.name()).count();
            assert_eq!(times, usize::from(kind.is_built_in()), "{}", kind.name());
        }
    }

    #[test]
    fn every_contender_meets_the_parts_that_the_graph_has_before_and_after_inserts_and_when_opened_again() -> Result<()>
    {
        let graph = Graph::make(PARTS, 2);
        for (name, open) in ours().into_iter().chain(peers()) {
            let dir = tempfile::tempdir().map_err(Error::file("make", Path::new("a directory")))?;
            open(dir.path())?.client()?.load(&graph, 1..PARTS + 1)?;
            let mut last = PARTS;
            for _ in 0..3 {
                forget_files(dir.path())?;
                let database = open(dir.path())?;
                let parts = database.client()?;
                for root in [1, 17, PARTS / 2, PARTS] {
                    for way in [Way::Forward, Way::Backward] {
                        let met = seen_by(|seen| parts.traverse(root, way, seen))?;
                        assert_eq!(met, graph.traversed(root, way, last), "{name}, {way:?} from {root} of {last}");
                        assert!(way == Way::Backward || met.count == TRAVERSED, "{name}: {met:?}");
                    }
                }
                let ids: Vec<u32> = (1..=last).rev().step_by(7).collect();
                assert_eq!(seen_by(|seen| parts.lookup(&ids, seen))?, graph.looked_up(&ids), "{name}");
                assert!(seen_by(|seen| parts.lookup(&[last + 1], seen)).is_err(), "{name} has a part too many");
                if last < graph.last() {
                    parts.insert(&graph, last + 1..last + 1 + INSERTED)?;
                    last += INSERTED;
                    database.settle()?;
                }
            }
        }
        Ok(())
    }
}
