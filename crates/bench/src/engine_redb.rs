//! redb, newest release.
//!
//! Its tables have integer keys and records of a fixed size; a cache that holds the bank. `Sync` is its
//! `Durability::Immediate`. `Relaxed` is `Durability::None`, which is *less* than the other engines do: such a commit
//! is only in the process's memory. It has nothing between the two. Several processes may share a bank in its mode
//! `MultiWriter`, which refuses `None`: there each commit is synced, which is *more* than the other engines do. It has
//! one writer at a time, so a transfer never aborts, and it has no log.

use std::path::Path;

use redb::{ConcurrencyMode, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::catalogue::Sharing;
use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
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

/// Converts redb's errors, which are of many types, into this one.
fn of_redb<E: Into<redb::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::engine(NAME, doing)(error.into())
}

fn balances(table: Table) -> Balances {
    TableDefinition::new(table.name())
}

impl Redb {
    /// Opens the file in `directory`, and makes the four tables if they are not there.
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

    /// Does `work` in a transaction, and commits it.
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
        let mut loaded = 0;
        for table in Table::BALANCES {
            self.write(redb::Durability::Immediate, "loading", |write| {
                let mut records = write.open_table(balances(table)).map_err(of_redb("loading"))?;
                (0..scale.count(table))
                    .try_for_each(|id| records.insert(id, new_record(id, 0)).map(|_| ()).map_err(of_redb("loading")))
            })?;
            loaded += u64::from(scale.count(table));
            progress(loaded);
        }
        Ok(())
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

    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
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
            let record = records.get_owned(id).map_err(of_redb(doing))?.ok_or_else(|| missing(table, id))?;
            balance += balance_of(&record.value());
        }
        Ok(Outcome::Committed { balance })
    }
}

fn change(write: &WriteTransaction, table: Table, transfer: &Transfer) -> Result<i64> {
    let doing = "changing a record";
    let mut records = write.open_table(balances(table)).map_err(of_redb(doing))?;
    let id = transfer.record_in(table);
    let mut record = records.get(id).map_err(of_redb(doing))?.ok_or_else(|| missing(table, id))?.value();
    let balance = add_to_balance(&mut record, transfer.amount);
    records.insert(id, record).map_err(of_redb(doing))?;
    Ok(balance)
}

fn missing(table: Table, id: u32) -> Error {
    Error::Missing { engine: NAME, table: table.name(), id: u64::from(id) }
}
