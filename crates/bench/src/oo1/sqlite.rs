//! SQLite in the usual style of SQL: a table of parts by id, a table of connections by the part that each leaves, and
//! an index of connections by the part that they lead to. A traversal is one recursive statement: a statement from
//! outside for each part, and one for its neighbours, took 5 % longer, in turns.

use std::ops::Range;
use std::path::Path;

use rusqlite::{params, Connection, Row, Rows, Transaction, TransactionBehavior};

use super::{not_there, sorted, Client, Glance, Graph, Parts, Way, HOPS};
use crate::catalogue::Sharing;
use crate::engine::Durability;
use crate::engine_sqlite::{checkpoint, connect, NAME};
use crate::error::{Error, Result};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS part (
        id INTEGER PRIMARY KEY, x INTEGER NOT NULL, y INTEGER NOT NULL, kind BLOB NOT NULL, built INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS connection (
        source INTEGER NOT NULL, nth INTEGER NOT NULL, target INTEGER NOT NULL, kind BLOB NOT NULL, length INTEGER NOT NULL,
        PRIMARY KEY (source, nth)) WITHOUT ROWID, STRICT;";
/// Made after the table is loaded, so that it is built sorted. It includes the primary key.
const INDEX: &str = "CREATE INDEX arriving ON connection (target)";
const PART: &str = "SELECT id, x, y FROM part WHERE id = ?1";
/// Deepest first. LEFT JOIN makes SQLite look up the parts in that order, and does not skip a missing part.
const FORWARD: &str = "
    WITH RECURSIVE reached (id, hops) AS (
        VALUES (?1, ?2) UNION ALL
        SELECT target, hops - 1 FROM reached CROSS JOIN connection ON source = reached.id WHERE hops > 0 ORDER BY 2)
    SELECT part.id, x, y FROM reached LEFT JOIN part ON part.id = reached.id";
const BACKWARD: &str = "
    WITH RECURSIVE reached (id, hops) AS (
        VALUES (?1, ?2) UNION ALL
        SELECT source, hops - 1 FROM reached CROSS JOIN connection ON target = reached.id WHERE hops > 0 ORDER BY 2)
    SELECT part.id, x, y FROM reached LEFT JOIN part ON part.id = reached.id";

/// An SQLite file.
pub struct Sqlite {
    connection: Connection,
}

fn refused(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Sqlite {
    /// Opens the file in `directory`; its commits are on the disk.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open(directory: &Path) -> Result<Sqlite> {
        let connection = connect(&directory.join("parts.sqlite"), Durability::Sync, Sharing::Alone)?;
        connection.execute_batch(TABLES).map_err(refused("making its tables"))?;
        Ok(Sqlite { connection })
    }

    /// Inserts parts and their connections, and runs the statement `behind`, in one transaction.
    fn put(&self, graph: &Graph, ids: Range<u32>, behind: &str) -> rusqlite::Result<()> {
        let write = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut insert = self.connection.prepare_cached("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for part in sorted::parts(graph, ids.clone()) {
            let built = i64::from_le_bytes(part.built.to_le_bytes());
            insert.execute(params![part.id, part.x, part.y, part.kind, built])?;
        }
        let mut insert = self.connection.prepare_cached("INSERT INTO connection VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (id, nth, connection) in sorted::leaving(graph, ids) {
            insert.execute(params![id, nth, connection.to, connection.kind, connection.length])?;
        }
        write.execute_batch(behind)?;
        write.commit()
    }

    /// Does the reads in one transaction.
    fn read(&self, work: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let read = self.connection.unchecked_transaction()?;
        work()?;
        read.commit()
    }
}

impl Parts for Sqlite {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }

    fn settle(&self) -> Result<()> {
        checkpoint(&self.connection).map_err(refused("making a checkpoint"))
    }
}

impl Client for &Sqlite {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids, INDEX).map_err(refused("loading"))?;
        self.settle()
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let mut missing = None;
        let look = || {
            let mut select = self.connection.prepare_cached(PART)?;
            for id in ids {
                match select.query([id])?.next()? {
                    Some(part) => seen(glance(part)?),
                    None => missing = Some(*id),
                }
            }
            Ok(())
        };
        self.read(look).map_err(refused("reading"))?;
        missing.map_or(Ok(()), |id| Err(not_there(NAME, id)))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
        let statement = match way {
            Way::Forward => FORWARD,
            Way::Backward => BACKWARD,
        };
        let follow = || {
            let mut select = self.connection.prepare_cached(statement)?;
            let mut parts: Rows<'_> = select.query([root, HOPS])?;
            while let Some(part) = parts.next()? {
                seen(glance(part)?);
            }
            Ok(())
        };
        self.read(follow).map_err(refused("following connections"))
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids, "").map_err(refused("inserting"))
    }
}

fn glance(part: &Row<'_>) -> rusqlite::Result<Glance> {
    Ok(Glance { id: part.get(0)?, x: part.get(1)?, y: part.get(2)? })
}
