//! redb, newest release.
//!
//! The bank's tables have integer keys and records of a fixed size, and the bank fits into the cache. `Sync` is redb's
//! `Durability::Immediate`. `Relaxed` is `Durability::None`, which is *less* durable than the relaxed commits of the
//! other engines: a commit is only in the process's memory. redb has no mode between the two. Several processes may
//! share a bank in redb's mode `MultiWriter`. This mode refuses `None`, so each commit is synced, which is *more*
//! durable than the relaxed commits of the other engines. redb has one writer at a time, so a transfer never aborts,
//! and it has no log.
//!
//! OO1 has the same indices as libtp, with typed keys, as redb's documentation advises. Plain records are put by
//! commits that are not synced, which redb's documentation recommends for speed.

use std::ops::Range;
use std::path::Path;

use redb::{
    ConcurrencyMode, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::kinds::Sharing;
use crate::oo1::{depth_first, missing_part, neighbour, sorted, Client, Graph, Look, Parts, VisitedPart, Way};
use crate::rows::{Pair, Rows, BATCH};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, HISTORY_BYTES, RECORD_BYTES};

const NAME: &str = "redb";
const FILE: &str = "bank.redb";
const CACHE_BYTES: usize = 256 << 20;

type Balances = TableDefinition<'static, u32, [u8; RECORD_BYTES]>;
/// The history, by the transfer's id.
const HISTORY: TableDefinition<'static, u64, [u8; HISTORY_BYTES]> = TableDefinition::new("history");

/// A bank in a redb file.
pub struct Redb {
    database: Database,
    durability: redb::Durability,
}

/// Returns a function that converts an error of redb, which has many types of errors, to this crate's error.
fn of_redb<E: Into<redb::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::engine(NAME, doing)(error.into())
}

fn balances(table: Table) -> Balances {
    TableDefinition::new(table.name())
}

impl Redb {
    /// Opens the file in `directory`, and makes the four tables if they do not exist.
    ///
    /// # Errors
    /// redb's error.
    pub fn open(directory: &Path, durability: Durability, sharing: Sharing) -> Result<Redb> {
        let is_alone = matches!(sharing, Sharing::Alone | Sharing::Doomed);
        let mode = if is_alone { ConcurrencyMode::ExclusiveWriter } else { ConcurrencyMode::MultiWriter };
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES).set_concurrency_mode(mode);
        let database = builder.create(directory.join(FILE)).map_err(of_redb("opening"))?;
        let durability = match durability {
            Durability::Relaxed if is_alone => redb::Durability::None,
            Durability::Relaxed | Durability::Sync | Durability::Rio => redb::Durability::Immediate,
        };
        let bank = Redb { database, durability };
        bank.write(redb::Durability::Immediate, "making its tables", |write| {
            for table in Table::BALANCES {
                write.open_table(balances(table)).map_err(of_redb("making its tables"))?;
            }
            write.open_table(HISTORY).map(|_| ()).map_err(of_redb("making its tables"))
        })?;
        Ok(bank)
    }

    /// Does `work` in a transaction, and commits the transaction.
    fn write<T>(
        &self,
        durability: redb::Durability,
        doing: &'static str,
        work: impl FnOnce(&WriteTransaction) -> Result<T>,
    ) -> Result<T> {
        let mut write = self.database.begin_write().map_err(of_redb(doing))?;
        write.set_durability(durability).map_err(Error::engine(NAME, doing))?;
        let done = work(&write)?;
        write.commit().map_err(of_redb(doing))?;
        Ok(done)
    }
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "environment"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        load_in_batches(scale, u32::MAX, progress, |table, mut ids| {
            self.write(redb::Durability::Immediate, "loading", |write| {
                let mut records = write.open_table(balances(table)).map_err(of_redb("loading"))?;
                ids.try_for_each(|id| records.insert(id, new_record(id, 0)).map(|_| ()).map_err(of_redb("loading")))
            })
        })
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { bank: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let failed = "reading all records";
        let read = self.database.begin_read().map_err(of_redb(failed))?;
        if table == Table::History {
            let records = read.open_table(HISTORY).map_err(of_redb(failed))?;
            for (place, pair) in (0..).zip(records.iter().map_err(of_redb(failed))?) {
                each(place, &pair.map_err(of_redb(failed))?.1.value());
            }
            return Ok(());
        }
        let records = read.open_table(balances(table)).map_err(of_redb(failed))?;
        for pair in records.iter().map_err(of_redb(failed))? {
            let (id, record) = pair.map_err(of_redb(failed))?;
            each(u64::from(id.value()), &record.value());
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.write(redb::Durability::Immediate, "closing", |_| Ok(()))?;
        self.database.close().map_err(of_redb("closing"))
    }
}

struct RedbSession<'b> {
    bank: &'b Redb,
}

impl Session for RedbSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let doing = "carrying out a transfer";
        self.bank.write(self.bank.durability, doing, |write| {
            let [account, teller, branch] = Table::BALANCES;
            let balance = change(write, account, transfer)?;
            change(write, teller, transfer)?;
            change(write, branch, transfer)?;
            let mut history = write.open_table(HISTORY).map_err(of_redb(doing))?;
            history.insert(transfer.id, transfer.to_history()).map_err(of_redb(doing))?;
            Ok(Outcome::Committed { balance })
        })
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let doing = "reading three records";
        let read = self.bank.database.begin_read().map_err(of_redb(doing))?;
        let mut balance = 0;
        for table in Table::BALANCES {
            let records = read.open_table(balances(table)).map_err(of_redb(doing))?;
            let id = transfer.record_in(table);
            let record =
                records.get_owned(id).map_err(of_redb(doing))?.ok_or_else(|| Error::missing(NAME, table, id))?;
            balance += balance_of(&record.value());
        }
        Ok(Outcome::Committed { balance })
    }
}

fn change(write: &WriteTransaction, table: Table, transfer: &Transfer) -> Result<i64> {
    let doing = "changing a record";
    let mut records = write.open_table(balances(table)).map_err(of_redb(doing))?;
    let id = transfer.record_in(table);
    let mut record = records.get(id).map_err(of_redb(doing))?.ok_or_else(|| Error::missing(NAME, table, id))?.value();
    let balance = add_to_balance(&mut record, transfer.amount);
    records.insert(id, record).map_err(of_redb(doing))?;
    Ok(balance)
}

const PARTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("parts");
/// The connections by the part that they leave. The key has this part, and the connection's number among the part's
/// connections.
const FROM: TableDefinition<'_, (u32, u8), &[u8]> = TableDefinition::new("from");
/// The connections by the part that they lead to. The key has this part, the part that the connection leaves, and the
/// connection's number among the connections of the part that it leaves.
const TO: TableDefinition<'_, (u32, u32, u8), ()> = TableDefinition::new("to");

/// The table of plain records.
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// The parts and their connections, in a redb file of three tables.
pub struct RedbParts {
    database: Database,
}

impl RedbParts {
    /// Opens the file in `directory`.
    ///
    /// # Errors
    /// redb's error.
    pub fn open(directory: &Path) -> Result<RedbParts> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("parts.redb"));
        Ok(RedbParts { database: database.map_err(of_redb("opening"))? })
    }

    fn look(&self) -> Result<Looking> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        Ok(Looking {
            parts: read.open_table(PARTS).map_err(of_redb("reading"))?,
            from: read.open_table(FROM).map_err(of_redb("reading"))?,
            to: read.open_table(TO).map_err(of_redb("reading"))?,
        })
    }
}

impl Parts for RedbParts {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &RedbParts {
    fn load(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let write = self.database.begin_write().map_err(of_redb("loading"))?;
        {
            let mut parts = write.open_table(PARTS).map_err(of_redb("loading"))?;
            for part in sorted::parts(graph, ids.clone()) {
                parts.insert(part.id, &part.to_bytes()[..]).map_err(of_redb("loading"))?;
            }
            let mut from = write.open_table(FROM).map_err(of_redb("loading"))?;
            for (id, nth, connection) in sorted::leaving(graph, ids.clone()) {
                from.insert((id, nth), &connection.to_bytes()[..]).map_err(of_redb("loading"))?;
            }
            let mut to = write.open_table(TO).map_err(of_redb("loading"))?;
            for connection in sorted::arriving(graph, ids) {
                to.insert(connection, ()).map_err(of_redb("loading"))?;
            }
        }
        write.commit().map_err(of_redb("loading"))
    }

    fn lookup(&self, ids: &[u32], seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        let mut look = self.look()?;
        ids.iter().try_for_each(|id| look.part(*id).map(&mut *seen))
    }

    fn traverse(&self, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
        depth_first(&mut self.look()?, root, way, seen)
    }

    fn insert(&self, graph: &Graph, ids: Range<u32>) -> Result<()> {
        let write = self.database.begin_write().map_err(of_redb("inserting"))?;
        {
            let mut parts = write.open_table(PARTS).map_err(of_redb("inserting"))?;
            let mut from = write.open_table(FROM).map_err(of_redb("inserting"))?;
            let mut to = write.open_table(TO).map_err(of_redb("inserting"))?;
            for part in ids.map(|id| graph.part(id)) {
                parts.insert(part.id, &part.to_bytes()[..]).map_err(of_redb("inserting"))?;
                for (nth, connection) in (0..).zip(&part.out) {
                    from.insert((part.id, nth), &connection.to_bytes()[..]).map_err(of_redb("inserting"))?;
                    to.insert((connection.to, part.id, nth), ()).map_err(of_redb("inserting"))?;
                }
            }
        }
        write.commit().map_err(of_redb("inserting"))
    }
}

/// The tables of a read-only redb transaction.
struct Looking {
    parts: ReadOnlyTable<u32, &'static [u8]>,
    from: ReadOnlyTable<(u32, u8), &'static [u8]>,
    to: ReadOnlyTable<(u32, u32, u8), ()>,
}

impl Look for Looking {
    fn part(&mut self, id: u32) -> Result<VisitedPart> {
        let found = self.parts.get(id).map_err(of_redb("reading"))?;
        found.and_then(|part| VisitedPart::of(part.value())).ok_or_else(|| missing_part(NAME, id))
    }

    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()> {
        if way == Way::Forward {
            for pair in self.from.range((id, 0)..=(id, u8::MAX)).map_err(of_redb("reading"))? {
                let (_, connection) = pair.map_err(of_redb("reading"))?;
                ids.push(neighbour(way, &[], connection.value()));
            }
            return Ok(());
        }
        for pair in self.to.range((id, 0, 0)..=(id, u32::MAX, u8::MAX)).map_err(of_redb("reading"))? {
            let (key, _) = pair.map_err(of_redb("reading"))?;
            ids.push(key.value().1);
        }
        Ok(())
    }
}

/// Plain records, in a redb file of one table.
pub struct RedbRows {
    database: Database,
}

impl RedbRows {
    /// Opens the file in `directory`.
    ///
    /// # Errors
    /// redb's error.
    pub fn open(directory: &Path) -> Result<RedbRows> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("records.redb"));
        Ok(RedbRows { database: database.map_err(of_redb("opening"))? })
    }

    fn put(&self, pairs: &[Pair], durability: redb::Durability) -> Result<()> {
        let mut write = self.database.begin_write().map_err(of_redb("writing"))?;
        write.set_durability(durability).map_err(Error::engine(NAME, "writing"))?;
        {
            let mut table = write.open_table(RECORDS).map_err(of_redb("writing"))?;
            for (key, value) in pairs {
                table.insert(&key[..], &value[..]).map_err(of_redb("writing"))?;
            }
        }
        write.commit().map_err(of_redb("writing"))
    }
}

impl Rows for RedbRows {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(pairs, redb::Durability::Immediate)
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.put(batch, redb::Durability::None))
    }

    fn settle(&self) -> Result<()> {
        self.put(&[], redb::Durability::Immediate)
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        let table = read.open_table(RECORDS).map_err(of_redb("reading"))?;
        let mut bytes = 0;
        for key in keys {
            bytes += table.get(&key[..]).map_err(of_redb("reading"))?.map_or(0, |value| value.value().len()) as u64;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        let read = self.database.begin_read().map_err(of_redb("reading"))?;
        let table = read.open_table(RECORDS).map_err(of_redb("reading"))?;
        let mut bytes = 0;
        for pair in table.iter().map_err(of_redb("reading"))? {
            let (key, value) = pair.map_err(of_redb("reading"))?;
            bytes += (key.value().len() + value.value().len()) as u64;
        }
        Ok(bytes)
    }
}
