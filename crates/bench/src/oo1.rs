//! OO1, the benchmark of connected parts (Cattell and Skeen 1992), as in LIBTP section 5.2: libtp in three shapes, and
//! peers.
//!
//! | file | contents |
//! |---|---|
//! | `graph` | the parts and their connections, always the same, and the expected results |
//! | `traversal`, `keys`, `sorted` | seven hops, depth first, over any contender with indices; the indices' keys, and
//! all records in their order |
//! | `indexed`, `hashed`, `linked` | libtp: B-trees, hash files, addresses of records kept in records |
//!
//! A contender carries out one operation at a time, in its own transaction. Inserts are on the disk when they are
//! acknowledged.

mod graph;
mod hashed;
mod indexed;
mod keys;
mod linked;
pub(crate) mod sorted;
mod traversal;

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};

pub use graph::{Connection, Glance, Graph, Part, Seen, CONNECTIONS, CONNECTION_BYTES, PART_BYTES};
#[cfg(feature = "peers")]
pub(crate) use keys::{arriving, leaving, neighbour};
#[cfg(feature = "peers")]
pub(crate) use traversal::{depth_first, Look};

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

    /// Moves inserted records to the place from which they are read after the next opening, for an engine that would
    /// otherwise do so later. If the records were only in a log, that opening would read all of them into memory, and
    /// no record would be cold.
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

/// Returns the error for a part that a connection leads to, or that was inserted, and that does not exist.
pub(crate) fn not_there(engine: &'static str, id: u32) -> Error {
    Error::engine(engine, "reading a part")(format!("part {id} is not there, or is no part"))
}
