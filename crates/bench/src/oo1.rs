//! OO1, the benchmark of connected parts (Cattell and Skeen 1992), as in LIBTP section 5.2: libtp in three shapes, and
//! peers.
//!
//! | file | contents |
//! |---|---|
//! | `graph` | the parts and their connections, always the same, and the expected results |
//! | `traversal`, `keys`, `sorted` | seven hops, depth first, over any contender with indices; the indices' keys, and
//! all records in their order |
//! | `indexed`, `hashed`, `linked` | libtp: B-trees, hash files, addresses of records kept in records |
//! | `lmdb`, `others` | LMDB, redb and fjall, with indices like libtp's (feature `peers`) |
//! | `sqlite` | SQLite, with tables and an index (feature `peers`) |
//! | `c_tables` | RocksDB and Berkeley DB, with indices like libtp's (feature `peers-all`) |
//!
//! A contender carries out one operation at a time, in its own transaction. Inserts are on the disk when they are
//! acknowledged.

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
/// Parts that a traversal visits: 1 + 3 + 9 + ... + 3^7.
pub const TRAVERSED: u64 = 3280;
/// Parts of a lookup.
pub const LOOKED_UP: u32 = 1000;
/// Parts of an insert.
pub const INSERTED: u32 = 100;

/// The direction in which connections are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of a part.
    Forward,
    /// Into a part.
    Backward,
}

/// An open database of parts.
pub trait Parts {
    /// Opens the client of one thread.
    ///
    /// # Errors
    /// The engine's error.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// Moves inserted records to the place that reads use after the next opening, if the engine does that late. An
    /// engine that keeps them only in a log would read all of them into memory then, and none would be cold.
    ///
    /// # Errors
    /// The engine's error.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// The operations of one client. Each visited part goes to `seen`, the benchmark's null procedure.
pub trait Client {
    /// Loads these parts and their connections into the empty database, in the engine's best way.
    ///
    /// # Errors
    /// The engine's error.
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;

    /// Reads the parts with these ids in one transaction.
    ///
    /// # Errors
    /// The engine's error, or a part that does not exist.
    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()>;

    /// Reads all parts within [`HOPS`] connections, each as often as it is reached, in one transaction.
    ///
    /// # Errors
    /// As [`Client::lookup`].
    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()>;

    /// Inserts these parts and their connections in one transaction, which is on the disk afterwards.
    ///
    /// # Errors
    /// The engine's error.
    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;
}

/// Opens a contender's database in an existing directory, which is empty the first time.
pub type OpenParts = fn(&Path) -> Result<Box<dyn Parts>>;

/// Returns libtp's contenders, by the shape of the connections.
pub fn ours() -> [(&'static str, OpenParts); 3] {
    [
        ("libtp", |path| Ok(Box::new(indexed::Indexed::open(path)?))),
        ("libtp hash", |path| Ok(Box::new(hashed::Hashed::open(path)?))),
        ("libtp links", |path| Ok(Box::new(linked::Linked::open(path)?))),
    ]
}

/// Returns the peers in this build, by their usual names.
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

/// Returns the error for a part that a connection leads to, or that was inserted, and that does not exist.
fn not_there(engine: &'static str, id: u32) -> Error {
    Error::engine(engine, "reading a part")(format!("part {id} is not there, or is no part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::EngineKind;
    use crate::cold::forget_files;

    const PARTS: u32 = 1000;

    /// Returns the parts that a contender saw in an operation.
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
