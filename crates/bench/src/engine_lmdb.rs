//! LMDB, through `heed`: the fastest peer without sync, and the one to beat at reading.
//!
//! Its best settings: integer keys, the history appended by number, records found and written in place by one cursor (a
//! get and a put: 2 % less, in turns). `Relaxed` is WRITEMAP and NOSYNC: commits survive the death of the process, and
//! LMDB writes nothing until the system does. `Sync` is its plain mode, which copies pages and syncs twice; WRITEMAP is
//! no faster there. It has one writer at a time by design, so a transfer never aborts, and it has no log.
#![allow(unsafe_code)] // Opening a memory map is `unsafe` in heed, and so is a put at a cursor.

use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U32};
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn, RwTxn, WithTls,
};

use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, RECORD_BYTES};

const NAME: &str = "lmdb";
/// Address space, not disk: the file is sparse. Enough for ten minutes of history.
const MAP_BYTES: usize = 64 << 30;
/// Records of one transaction of the load.
const LOAD_BATCH: u32 = 50_000;

type Records<'e> = Database<'e, U32<NativeEndian>, Bytes, IntegerComparator>;

/// A bank in an LMDB environment.
pub struct Lmdb {
    env: Env,
}

/// The four open files.
struct Tables<'e> {
    balances: [Records<'e>; 3],
    history: Records<'e>,
}

impl Lmdb {
    /// Opens the environment in `directory`, and makes the four files if they are not there.
    pub fn open(directory: &Path, durability: Durability) -> Result<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(4).max_readers(512);
        let lmdb = Lmdb { env: open(&mut options, directory, durability)? };
        lmdb.tables()?;
        Ok(lmdb)
    }

    fn tables(&self) -> Result<Tables<'_>> {
        let failed = || Error::engine::<heed::Error>(NAME, "opening its files");
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

/// Opens an environment; with `Relaxed` in modes WRITEMAP and NOSYNC.
pub(crate) fn open(options: &mut EnvOpenOptions<WithTls>, directory: &Path, durability: Durability) -> Result<Env> {
    if durability == Durability::Relaxed {
        // SAFETY: WRITE_MAP demands that no stray pointer writes into the map (the only other unsafe code in this crate
        // is the C of other peers and their libraries, which know no address of the map). NO_SYNC demands that a crash
        // of the system may lose the environment, which belongs to a benchmark.
        unsafe { options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC) };
    }
    // SAFETY: the map's file is changed only through LMDB: the directory is the benchmark's own,
    // on a local disk, and every process of a benchmark opens it by this function.
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
        let failed = || Error::engine::<heed::Error>(NAME, "loading");
        let tables = self.tables()?;
        let mut loaded = 0;
        for (table, records) in Table::BALANCES.into_iter().zip(&tables.balances) {
            let mut id = 0;
            while id < scale.count(table) {
                let end = scale.count(table).min(id + LOAD_BATCH);
                let mut write = self.env.write_txn().map_err(failed())?;
                for id in id..end {
                    let record = new_record(id, 0);
                    records.put_with_flags(&mut write, PutFlags::APPEND, &id, &record).map_err(failed())?;
                }
                write.commit().map_err(failed())?;
                loaded += u64::from(end - id);
                id = end;
                progress(loaded);
            }
        }
        self.env.force_sync().map_err(failed())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { env: &self.env, tables: self.tables()? }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let failed = || Error::engine::<heed::Error>(NAME, "reading all records");
        let tables = self.tables()?;
        let place = Table::BALANCES.into_iter().position(|one| one == table);
        let records = place.map_or(&tables.history, |at| &tables.balances[at]);
        let read = self.env.read_txn().map_err(failed())?;
        for pair in records.iter(&read).map_err(failed())? {
            let (id, record) = pair.map_err(failed())?;
            each(u64::from(id), record);
        }
        Ok(())
    }

    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync().map_err(Error::engine(NAME, "closing"))?;
        // Waits until the map is gone: a caller may open the directory again, or remove it.
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
        let failed = || Error::engine::<heed::Error>(NAME, "carrying out a transfer");
        let mut write = self.env.write_txn().map_err(failed())?;
        let [account, teller, branch] = &self.tables.balances;
        let balance = change(account, &mut write, Table::Account, transfer)?;
        change(teller, &mut write, Table::Teller, transfer)?;
        change(branch, &mut write, Table::Branch, transfer)?;
        let history = &self.tables.history;
        // Records are never deleted from the history, and there is one writer, so its length is the next free number.
        let place = history.len(&write).map_err(failed())?;
        let place = u32::try_from(place).map_err(Error::engine(NAME, "numbering the history"))?;
        history.put_with_flags(&mut write, PutFlags::APPEND, &place, &transfer.to_history()).map_err(failed())?;
        write.commit().map_err(failed())?;
        Ok(Outcome::Committed { balance })
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let failed = || Error::engine::<heed::Error>(NAME, "reading three records");
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
    let failed = || Error::engine::<heed::Error>(NAME, "changing a record");
    let mut at = records.range_mut(write, &(id..=id)).map_err(failed())?;
    let (_, found) = at.next().transpose().map_err(failed())?.ok_or_else(|| missing(table, id))?;
    let mut record: [u8; RECORD_BYTES] =
        found.try_into().map_err(Error::engine(NAME, "reading a record of 100 bytes"))?;
    let balance = add_to_balance(&mut record, transfer.amount);
    // SAFETY: no borrow from the database is alive: the key is ours, and the record was copied.
    unsafe { at.put_current(&id, &record) }.map_err(failed())?;
    Ok(balance)
}

#[inline]
fn find<'t>(records: &Records<'_>, txn: &'t RoTxn<'_>, table: Table, id: u32) -> Result<&'t [u8]> {
    let found = records.get(txn, &id).map_err(Error::engine(NAME, "reading a record"))?;
    found.ok_or_else(|| missing(table, id))
}

fn missing(table: Table, id: u32) -> Error {
    Error::Missing { engine: NAME, table: table.name(), id: u64::from(id) }
}
