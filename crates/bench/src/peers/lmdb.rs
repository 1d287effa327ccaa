//! LMDB, through `heed`: the fastest peer without syncs, and the fastest peer at reading.
//!
//! The settings are the best for LMDB: integer keys; the history is appended by number; one cursor finds a record and
//! writes it in place (a get and a put reached 2 % fewer transactions in alternate runs). `Relaxed` is WRITEMAP and
//! NOSYNC: commits are in the map and survive the death of the process, and the system writes the map to the disk
//! later. `Sync` is LMDB's plain mode, which copies pages and syncs twice; WRITEMAP is not faster with syncs. LMDB has
//! one writer at a time by design, so a transfer never aborts, and it has no log.
//!
//! Plain records are loaded by LMDB's append mode, and are read directly in the map. OO1 has the same indices as libtp:
//! the parts by id, the connections by the part that they leave, and the connections by the part that they lead to.
#![allow(unsafe_code)] // Opening a memory map is `unsafe` in heed, and so is a put at a cursor.

use std::ops::Range;
use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U32};
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn, RwTxn, WithTls,
};

use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::oo1::{
    arriving, depth_first, leaving, missing_part, neighbour, sorted, Client, Graph, Look, Parts, VisitedPart, Way,
};
use crate::rows::{Pair, Rows, BATCH};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, RECORD_BYTES};

const NAME: &str = "lmdb";
/// Length of the bank's map: room for ten minutes of history. The file is sparse, so only the used part takes disk
/// space.
const MAP_BYTES: usize = 64 << 30;
/// Length of the map for plain records or parts.
const SMALL_MAP_BYTES: usize = 16 << 30;
/// Number of records in one transaction of the load.
const LOAD_BATCH: u32 = 50_000;

type Records<'e> = Database<'e, U32<NativeEndian>, Bytes, IntegerComparator>;

fn refused(doing: &'static str) -> impl FnOnce(heed::Error) -> Error {
    Error::engine(NAME, doing)
}

/// A bank in an LMDB environment.
pub struct Lmdb {
    env: Env,
}

/// The bank's four open databases.
struct Tables<'e> {
    balances: [Records<'e>; 3],
    history: Records<'e>,
}

impl<'e> Tables<'e> {
    fn of(&self, table: Table) -> &Records<'e> {
        let place = Table::BALANCES.into_iter().position(|one| one == table);
        place.map_or(&self.history, |at| &self.balances[at])
    }
}

impl Lmdb {
    /// Opens the environment in `directory`, and makes the four databases if they do not exist.
    ///
    /// # Errors
    /// LMDB's error.
    pub fn open(directory: &Path, durability: Durability) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(4).max_readers(512);
        let lmdb = Lmdb { env: open(&mut options, directory, durability)? };
        lmdb.tables()?;
        Ok(lmdb)
    }

    fn tables(&self) -> Result<Tables<'_>> {
        let failed = || refused("opening its databases");
        let write = self.env.write_txn().map_err(failed())?;
        self.env
            .create_databases_and_commit(write, |opener, write| {
                let mut create = |table: Table| {
                    let mut options = opener.database_options().types::<U32<NativeEndian>, Bytes>().key_comparator();
                    options.name(table.name()).create(write)
                };
                let [account, teller, branch] = Table::BALANCES;
                let balances = (create(account)?, create(teller)?, create(branch)?);
                Ok(CommitOrAbort::<_, ()>::Commit((balances, create(Table::History)?)))
            })
            .map(|done| match done {
                CommitOrAbort::Commit(((account, teller, branch), history)) => {
                    Tables { balances: [account, teller, branch], history }
                }
                CommitOrAbort::Abort(()) => unreachable!("the closure above always commits"),
            })
            .map_err(failed())
    }
}

/// Opens an environment. With `Relaxed`, sets the flags WRITEMAP and NOSYNC.
fn open(options: &mut EnvOpenOptions<WithTls>, directory: &Path, durability: Durability) -> Result<Env> {
    if durability == Durability::Relaxed {
        // SAFETY: WRITE_MAP demands that no stray pointer writes into the map. The only other unsafe code in this crate
        // calls the libraries of other peers, which do not have addresses of the map. NO_SYNC demands that the caller
        // accepts the loss of the environment in a crash of the system, and the environment is only a benchmark's.
        unsafe { options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC) };
    }
    // SAFETY: only LMDB changes the map's file. The directory belongs to the benchmark and is on a
    // local disk, and all processes of a benchmark open the environment by this function.
    unsafe { options.open(directory) }.map_err(Error::engine(NAME, "opening"))
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "environment"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let failed = || refused("loading");
        let tables = self.tables()?;
        load_in_batches(scale, LOAD_BATCH, progress, |table, ids| {
            let records = tables.of(table);
            let mut write = self.env.write_txn().map_err(failed())?;
            for id in ids {
                let record = new_record(id, 0);
                records.put_with_flags(&mut write, PutFlags::APPEND, &id, &record).map_err(failed())?;
            }
            write.commit().map_err(failed())
        })?;
        self.env.force_sync().map_err(failed())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { env: &self.env, tables: self.tables()? }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let failed = || refused("reading all records");
        let tables = self.tables()?;
        let records = tables.of(table);
        let read = self.env.read_txn().map_err(failed())?;
        for pair in records.iter(&read).map_err(failed())? {
            let (id, record) = pair.map_err(failed())?;
            each(u64::from(id), record);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync().map_err(Error::engine(NAME, "closing"))?;
        // Waits until LMDB has removed the map, because the caller may open the directory again, or remove it.
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'e> {
    env: &'e Env,
    tables: Tables<'e>,
}

impl Session for LmdbSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let failed = || refused("carrying out a transfer");
        let mut write = self.env.write_txn().map_err(failed())?;
        let [account, teller, branch] = &self.tables.balances;
        let balance = change(account, &mut write, Table::Account, transfer)?;
        change(teller, &mut write, Table::Teller, transfer)?;
        change(branch, &mut write, Table::Branch, transfer)?;
        let history = &self.tables.history;
        // No record is ever deleted from the history, and there is one writer at a time, so the history's length is the
        // next free number.
        let place = history.len(&write).map_err(failed())?;
        let place = u32::try_from(place).map_err(Error::engine(NAME, "numbering the history"))?;
        history.put_with_flags(&mut write, PutFlags::APPEND, &place, &transfer.to_history()).map_err(failed())?;
        write.commit().map_err(failed())?;
        Ok(Outcome::Committed { balance })
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let failed = || refused("reading three records");
        let read = self.env.read_txn().map_err(failed())?;
        let mut balance = 0;
        for (table, records) in Table::BALANCES.into_iter().zip(&self.tables.balances) {
            balance += balance_of(find(records, &read, table, transfer.record_in(table))?);
        }
        Ok(Outcome::Committed { balance })
    }
}

#[inline]
fn change(records: &Records<'_>, write: &mut RwTxn<'_>, table: Table, transfer: &Transfer) -> Result<i64> {
    let id = transfer.record_in(table);
    let failed = || refused("changing a record");
    let mut at = records.range_mut(write, &(id..=id)).map_err(failed())?;
    let (_, found) = at.next().transpose().map_err(failed())?.ok_or_else(|| Error::missing(NAME, table, id))?;
    let mut record: [u8; RECORD_BYTES] =
        found.try_into().map_err(Error::engine(NAME, "reading a record of 100 bytes"))?;
    let balance = add_to_balance(&mut record, transfer.amount);
    // SAFETY: no reference into the database is alive: the key is a local variable, and the record was copied.
    unsafe { at.put_current(&id, &record) }.map_err(failed())?;
    Ok(balance)
}

#[inline]
fn find<'t>(records: &Records<'_>, txn: &'t RoTxn<'_>, table: Table, id: u32) -> Result<&'t [u8]> {
    let found = records.get(txn, &id).map_err(Error::engine(NAME, "reading a record"))?;
    found.ok_or_else(|| Error::missing(NAME, table, id))
}

type ById<'e> = Database<'e, U32<NativeEndian>, Bytes, IntegerComparator>;
type Index<'e> = Database<'e, Bytes, Bytes>;

/// The parts and their connections, in an LMDB environment of three databases.
pub struct LmdbParts {
    env: Env,
}

/// The three open databases of parts and connections.
#[derive(Clone, Copy)]
struct PartTables<'e> {
    parts: ById<'e>,
    from: Index<'e>,
    to: Index<'e>,
}

impl LmdbParts {
    /// Opens the environment in `directory` in LMDB's plain mode, which is durable.
    ///
    /// # Errors
    /// LMDB's error.
    pub fn open(directory: &Path) -> Result<LmdbParts> {
        let mut options = EnvOpenOptions::new();
        options.map_size(SMALL_MAP_BYTES).max_dbs(3);
        Ok(LmdbParts { env: open(&mut options, directory, Durability::Sync)? })
    }

    fn tables(&self) -> Result<PartTables<'_>> {
        let write = self.env.write_txn().map_err(refused("opening"))?;
        let made = self.env.create_databases_and_commit(write, |opener, write| {
            let mut by_id = opener.database_options().types::<U32<NativeEndian>, Bytes>().key_comparator();
            let parts = by_id.name("parts").create(write)?;
            let mut index = opener.database_options().types::<Bytes, Bytes>();
            let from = index.name("from").create(write)?;
            let to = index.name("to").create(write)?;
            Ok(CommitOrAbort::<_, ()>::Commit((parts, (from, to))))
        });
        match made.map_err(refused("opening"))? {
            CommitOrAbort::Commit((parts, (from, to))) => Ok(PartTables { parts, from, to }),
            CommitOrAbort::Abort(()) => unreachable!("the closure above always commits"),
        }
    }
}

impl Parts for LmdbParts {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(PartsClient { env: &self.env, tables: self.tables()? }))
    }
}

struct PartsClient<'e> {
    env: &'e Env,
    tables: PartTables<'e>,
}

impl PartsClient<'_> {
    fn put(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let (PartTables { parts, from, to }, doing) = (&self.tables, "inserting");
        let mut write = self.env.write_txn().map_err(refused(doing))?;
        for part in ids.map(|id| graph.part(id)) {
            parts.put(&mut write, &part.id, &part.to_bytes()).map_err(refused(doing))?;
            for (nth, connection) in (0..).zip(&part.out) {
                from.put(&mut write, &leaving(part.id, nth), &connection.to_bytes()).map_err(refused(doing))?;
                to.put(&mut write, &arriving(connection.to, part.id, nth), &[]).map_err(refused(doing))?;
            }
        }
        write.commit().map_err(refused(doing))
    }
}

impl Client for PartsClient<'_> {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let (PartTables { parts, from, to }, append) = (&self.tables, PutFlags::APPEND);
        let failed = || refused("loading");
        let mut write = self.env.write_txn().map_err(failed())?;
        for part in sorted::parts(graph, ids.clone()) {
            parts.put_with_flags(&mut write, append, &part.id, &part.to_bytes()).map_err(failed())?;
        }
        for (id, nth, connection) in sorted::leaving(graph, ids.clone()) {
            from.put_with_flags(&mut write, append, &leaving(id, nth), &connection.to_bytes()).map_err(failed())?;
        }
        for (id, from, nth) in sorted::arriving(graph, ids) {
            to.put_with_flags(&mut write, append, &arriving(id, from, nth), &[]).map_err(failed())?;
        }
        write.commit().map_err(failed())
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut look = Looking { tables: self.tables, read: &read };
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let read = self.env.read_txn().map_err(refused("reading"))?;
        depth_first(&mut Looking { tables: self.tables, read: &read }, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        self.put(graph, ids)
    }
}

struct Looking<'l> {
    tables: PartTables<'l>,
    read: &'l RoTxn<'l>,
}

impl Look for Looking<'_> {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        let found = self.tables.parts.get(self.read, &id).map_err(refused("reading"))?;
        found.and_then(VisitedPart::of).ok_or_else(|| missing_part(NAME, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        let index = match way {
            Way::Forward => &self.tables.from,
            Way::Backward => &self.tables.to,
        };
        for pair in index.prefix_iter(self.read, &id.to_be_bytes()).map_err(refused("reading"))? {
            let (key, value) = pair.map_err(refused("reading"))?;
            ids.push(neighbour(way, key, value));
        }
        Ok(())
    }
}

/// Plain records, in an LMDB environment of one database.
pub struct LmdbRows {
    env: Env,
}

impl LmdbRows {
    /// Opens the environment in `directory` with WRITEMAP and NOSYNC, LMDB's fastest mode. `settle` syncs it.
    ///
    /// # Errors
    /// LMDB's error.
    pub fn open(directory: &Path) -> Result<LmdbRows> {
        let mut options = EnvOpenOptions::new();
        options.map_size(SMALL_MAP_BYTES);
        let lmdb = LmdbRows { env: open(&mut options, directory, Durability::Relaxed)? };
        lmdb.records()?;
        Ok(lmdb)
    }

    fn records(&self) -> Result<Index<'_>> {
        let write = self.env.write_txn().map_err(refused("opening"))?;
        let made = self.env.create_databases_and_commit(write, |opener, write| {
            let records = opener.database_options().types::<Bytes, Bytes>().create(write)?;
            Ok(CommitOrAbort::<_, ()>::Commit(records))
        });
        match made.map_err(refused("opening"))? {
            CommitOrAbort::Commit(records) => Ok(records),
            CommitOrAbort::Abort(()) => unreachable!("the closure above always commits"),
        }
    }

    fn put(&self, records: &Index<'_>, pairs: &[Pair], flags: PutFlags) -> Result<()> {
        let mut write = self.env.write_txn().map_err(refused("writing"))?;
        for (key, value) in pairs {
            records.put_with_flags(&mut write, flags, key, value).map_err(refused("writing"))?;
        }
        write.commit().map_err(refused("writing"))
    }
}

impl Rows for LmdbRows {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(&self.records()?, pairs, PutFlags::APPEND)
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        let records = self.records()?;
        pairs.chunks(BATCH).try_for_each(|batch| self.put(&records, batch, PutFlags::empty()))
    }

    fn settle(&self) -> Result<()> {
        self.env.force_sync().map_err(refused("writing everything to disk"))
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let records = self.records()?;
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut bytes = 0;
        for key in keys {
            bytes += records.get(&read, key).map_err(refused("reading"))?.map_or(0, <[u8]>::len) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let records = self.records()?;
        let read = self.env.read_txn().map_err(refused("reading"))?;
        let mut bytes = 0;
        for pair in records.iter(&read).map_err(refused("reading"))? {
            let (key, value) = pair.map_err(refused("reading"))?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }
}
