//! fjall, newest release: a log-structured tree in Rust.
//!
//! The bank uses transactions with one writer at a time, because transactions of several writers conflict on the hot
//! branches and must be repeated. The bank fits into the cache. `Relaxed` is `PersistMode::Buffer`: a commit is written
//! to the journal and survives the death of the process. `Sync` is `SyncData`, which fjall's documentation recommends
//! for transactions. fjall's lock allows one process at a time.
//!
//! OO1 has the same indices as libtp. Sorted pairs are loaded by fjall's ingestion.

use std::ops::Range;
use std::path::Path;

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace,
    SingleWriterWriteTx, UserValue,
};

use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::oo1::{
    arriving, depth_first, leaving, missing_part, neighbour, sorted, Client, Graph, Look, Parts, VisitedPart, Way,
};
use crate::rows::{Pair, Rows, BATCH};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, RECORD_BYTES};

const NAME: &str = "fjall";
const CACHE_BYTES: u64 = 256 << 20;

/// A bank in a fjall database of four keyspaces.
pub struct Fjall {
    database: SingleWriterTxDatabase,
    balances: [SingleWriterTxKeyspace; 3],
    /// The history, by the transfer's id.
    history: SingleWriterTxKeyspace,
    mode: PersistMode,
}

fn of_fjall(doing: &'static str) -> impl FnOnce(fjall::Error) -> Error {
    Error::engine(NAME, doing)
}

impl Fjall {
    /// Opens the database in `directory`.
    ///
    /// # Errors
    /// fjall's error.
    pub fn open(directory: &Path, durability: Durability) -> Result<Fjall> {
        let failed = || of_fjall("opening");
        let database = SingleWriterTxDatabase::builder(directory).cache_size(CACHE_BYTES).open().map_err(failed())?;
        // Every read of a balance finds its key.
        let options = || KeyspaceCreateOptions::default().expect_point_read_hits(true);
        let open = |table: Table| database.keyspace(table.name(), options).map_err(failed());
        let [account, teller, branch] = Table::BALANCES;
        let balances = [open(account)?, open(teller)?, open(branch)?];
        let history = open(Table::History)?;
        let mode = match durability {
            Durability::Relaxed => PersistMode::Buffer,
            Durability::Sync | Durability::Rio => PersistMode::SyncData,
        };
        Ok(Fjall { database, balances, history, mode })
    }
}

impl Fjall {
    fn keyspace(&self, table: Table) -> &SingleWriterTxKeyspace {
        let place = Table::BALANCES.into_iter().position(|one| one == table);
        place.map_or(&self.history, |at| &self.balances[at])
    }
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "environment"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        load_in_batches(scale, u32::MAX, progress, |table, ids| {
            let pairs = ids.map(|id| (id.to_be_bytes(), new_record(id, 0)));
            ingest(self.keyspace(table).inner(), pairs)
        })?;
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("loading"))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession { bank: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let failed = || of_fjall("reading all records");
        let records = self.keyspace(table);
        for (place, pair) in (0..).zip(self.database.read_tx().iter(records)) {
            let (key, record) = pair.into_inner().map_err(failed())?;
            // The key of a history record has eight bytes, so it is not read as an id of four bytes: the audit gets the
            // record's place instead.
            let id = key.as_ref().try_into().map_or(place, |id| u64::from(u32::from_be_bytes(id)));
            each(id, &record);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("closing"))
    }
}

struct FjallSession<'b> {
    bank: &'b Fjall,
}

impl Session for FjallSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let mut write = self.bank.database.write_tx().durability(Some(self.bank.mode));
        let mut balances = [0; 3];
        for (at, (table, records)) in Table::BALANCES.into_iter().zip(&self.bank.balances).enumerate() {
            balances[at] = change(&mut write, records, table, transfer)?;
        }
        write.insert(&self.bank.history, transfer.id.to_be_bytes(), transfer.to_history());
        write.commit().map_err(of_fjall("carrying out a transfer"))?;
        Ok(Outcome::Committed { balance: balances[0] })
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let read = self.bank.database.read_tx();
        let mut balance = 0;
        for (table, records) in Table::BALANCES.into_iter().zip(&self.bank.balances) {
            balance += balance_of(&find(&read, records, table, transfer.record_in(table))?);
        }
        Ok(Outcome::Committed { balance })
    }
}

fn change(
    write: &mut SingleWriterWriteTx<'_>,
    records: &SingleWriterTxKeyspace,
    table: Table,
    transfer: &Transfer,
) -> Result<i64> {
    let id = transfer.record_in(table);
    let found = find(write, records, table, id)?;
    let mut record: [u8; RECORD_BYTES] =
        found.as_ref().try_into().map_err(Error::engine(NAME, "reading a record of 100 bytes"))?;
    let balance = add_to_balance(&mut record, transfer.amount);
    write.insert(records, id.to_be_bytes(), record);
    Ok(balance)
}

fn find(readable: &impl Readable, records: &SingleWriterTxKeyspace, table: Table, id: u32) -> Result<UserValue> {
    let found = readable.get(records, id.to_be_bytes()).map_err(of_fjall("reading a record"))?;
    found.ok_or_else(|| Error::missing(NAME, table, id))
}

/// The parts and their connections, in a fjall database of three keyspaces.
pub struct FjallParts {
    database: Database,
    parts: Keyspace,
    from: Keyspace,
    to: Keyspace,
}

impl FjallParts {
    /// Opens the database in `directory`.
    ///
    /// # Errors
    /// fjall's error.
    pub fn open(directory: &Path) -> Result<FjallParts> {
        let database = Database::builder(directory).cache_size(CACHE_BYTES).open();
        let database = database.map_err(of_fjall("opening"))?;
        let open = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(of_fjall("opening"));
        let (parts, from, to) = (open("parts")?, open("from")?, open("to")?);
        Ok(FjallParts { database, parts, from, to })
    }
}

/// Loads sorted pairs into an empty keyspace.
fn ingest<const K: usize, const V: usize>(
    keyspace: &Keyspace,
    pairs: impl Iterator<Item = ([u8; K], [u8; V])>,
) -> Result<()> {
    let mut ingestion = keyspace.start_ingestion().map_err(of_fjall("loading"))?;
    for (key, value) in pairs {
        ingestion.write(&key[..], &value[..]).map_err(of_fjall("loading"))?;
    }
    ingestion.finish().map_err(of_fjall("loading"))
}

impl Parts for FjallParts {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }

    fn settle(&self) -> Result<()> {
        let mut all = [&self.parts, &self.from, &self.to].into_iter();
        all.try_for_each(Keyspace::rotate_memtable_and_wait).map_err(of_fjall("writing its tables"))
    }
}

impl Client for &FjallParts {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let parts = sorted::parts(graph, ids.clone()).map(|part| (part.id.to_be_bytes(), part.to_bytes()));
        let from = sorted::leaving(graph, ids.clone());
        let from = from.map(|(id, nth, connection)| (leaving(id, nth), connection.to_bytes()));
        let to = sorted::arriving(graph, ids).map(|(to, from, nth)| (arriving(to, from, nth), []));
        ingest(&self.parts, parts)?;
        ingest(&self.from, from)?;
        ingest(&self.to, to)?;
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let mut look = Looking(self);
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        depth_first(&mut Looking(self), root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
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

/// The newest state of a fjall database. It does not change during a read, because the only client does one operation
/// at a time.
struct Looking<'f>(&'f FjallParts);

impl Look for Looking<'_> {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        let found = self.0.parts.get(id.to_be_bytes()).map_err(of_fjall("reading"))?;
        found.and_then(|part| VisitedPart::of(&part)).ok_or_else(|| missing_part(NAME, id))
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

/// Plain records, in a fjall database of one keyspace.
pub struct FjallRows {
    database: Database,
    records: Keyspace,
}

impl FjallRows {
    /// Opens the database in `directory`.
    ///
    /// # Errors
    /// fjall's error.
    pub fn open(directory: &Path) -> Result<FjallRows> {
        let database = Database::builder(directory).cache_size(CACHE_BYTES).open();
        let database = database.map_err(of_fjall("opening"))?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default).map_err(of_fjall("opening"))?;
        Ok(FjallRows { database, records })
    }
}

impl Rows for FjallRows {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        ingest(&self.records, pairs.iter().copied())
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        for pairs in pairs.chunks(BATCH) {
            let mut batch = self.database.batch();
            pairs.iter().for_each(|(key, value)| batch.insert(&self.records, key, value));
            batch.commit().map_err(of_fjall("inserting"))?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        // The measured bytes do not include logs, and fjall's journal is a log. So the records are written to tables.
        self.records.rotate_memtable_and_wait().map_err(of_fjall("writing its tables"))?;
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let mut bytes = 0;
        for key in keys {
            bytes += self.records.get(key).map_err(of_fjall("reading"))?.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let mut bytes = 0;
        for pair in self.records.iter() {
            let (key, value) = pair.into_inner().map_err(of_fjall("reading"))?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_settle_the_inserted_records_are_in_the_tables_of_fjall() -> Result<()> {
        let (graph, dir) = (Graph::make(500, 1), tempfile::tempdir().unwrap());
        let fjall = FjallParts::open(dir.path())?;
        let tables = || [&fjall.parts, &fjall.from, &fjall.to].map(Keyspace::table_count);
        fjall.client()?.load(&graph, 1..501)?;
        assert_eq!(tables(), [1; 3], "the load did not write one table for each keyspace");
        fjall.client()?.insert(&graph, 501..601)?;
        assert_eq!(tables(), [1; 3]);
        fjall.settle()?;
        assert!(tables().iter().all(|count| *count > 1), "{:?}", tables());
        Ok(())
    }
}
