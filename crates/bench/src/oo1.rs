//! OO1, the benchmark of connected parts (Cattell and Skeen 1992), as in LIBTP section 5.2: libtp with three kinds of
//! databases, and peers.
//!
//! | file | contents |
//! |---|---|
//! | `graph` | the parts and their connections, which are the same in every run, and the expected results |
//! | `traversal` | the traversal of a contender with indices: seven hops, depth first |
//! | `keys` | the keys of the indices |
//! | `sorted` | the parts and connections in the order of the indices' keys |
//! | `indexed`, `hashed`, `linked` | libtp with B-trees, with hash files, with addresses of records in records |
//!
//! A contender carries out one operation at a time, each in a transaction. An insert is acknowledged when it is on
//! disk.

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

pub use graph::{Connection, Graph, Part, Seen, VisitedPart, CONNECTIONS, CONNECTION_BYTES, PART_BYTES};
#[cfg(feature = "peers")]
pub(crate) use keys::{arriving, leaving, neighbour};
#[cfg(feature = "peers")]
pub(crate) use traversal::{depth_first, Look};

/// Number of hops of a traversal.
pub const HOPS: u32 = 7;
/// Number of parts that a forward traversal visits: 1 + 3 + 9 + ... + 3^7.
pub const TRAVERSED: u64 = 3280;
/// Number of parts of a lookup.
pub const LOOKED_UP: u32 = 1000;
/// Number of parts of an insert.
pub const INSERTED: u32 = 100;

/// The direction in which a traversal follows connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Along a connection, to the part that it leads to.
    Forward,
    /// Against a connection, to the part that it leaves.
    Backward,
}

/// An open database of parts.
pub trait Parts {
    /// Opens the client of one thread.
    ///
    /// # Errors
    /// The engine's error.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// Makes the engine move inserted records from its log to its data files, if it would otherwise do so later. If
    /// records were only in the log, the next opening would read them into memory, and a cold operation would find them
    /// there.
    ///
    /// # Errors
    /// The engine's error.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// The operations of one client. Each operation passes the parts that it visits to `seen`, the benchmark's null
/// procedure.
pub trait Client {
    /// Loads these parts and their connections into the empty database, as fast as the engine can.
    ///
    /// # Errors
    /// The engine's error.
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;

    /// Reads the parts with these ids in one transaction.
    ///
    /// # Errors
    /// The engine's error; `Engine` if a part does not exist.
    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()>;

    /// Reads all parts within [`HOPS`] connections of `root` in one transaction. Reads a part once for each path that
    /// leads to the part.
    ///
    /// # Errors
    /// The engine's error; `Engine` if a part does not exist.
    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()>;

    /// Inserts these parts and their connections in one transaction. Returns when the transaction is on disk.
    ///
    /// # Errors
    /// The engine's error.
    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()>;
}

/// A function that opens a contender's database in an existing directory. If the directory is empty, the function makes
/// the database.
pub type OpenParts = fn(&Path) -> Result<Box<dyn Parts>>;

/// Returns libtp's contenders, each with its name.
pub fn ours() -> [(&'static str, OpenParts); 3] {
    [
        ("libtp", |path| Ok(Box::new(indexed::Indexed::open(path)?))),
        ("libtp hash", |path| Ok(Box::new(hashed::Hashed::open(path)?))),
        ("libtp links", |path| Ok(Box::new(linked::Linked::open(path)?))),
    ]
}

/// Returns the error for a part that must exist and is missing or damaged.
pub(crate) fn missing_part(engine: &'static str, id: u32) -> Error {
    Error::engine(engine, "reading a part")(format!("part {id} is missing, or its record is too short"))
}
