//! fjall, newest release: a log-structured tree in Rust.
//!
//! It uses transactions with one writer at a time: with several writers they conflict on the hot branches and are sent
//! again. The cache holds the bank. `Relaxed` is `PersistMode::Buffer`: a commit is written to the journal and survives
//! the death of the process. `Sync` is `SyncData`, which its documentation names for transactions. Its own lock allows
//! one process at a time.

use std::path::Path;

use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx,
    UserValue,
};

use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, RECORD_BYTES};

const NAME: &str = "fjall";
const CACHE_BYTES: u64 = 256 << 20;

/// A bank in a fjall database of four keyspaces.
pub struct Fjall {
    database: SingleWriterTxDatabase,
    balances: [SingleWriterTxKeyspace; 3],
    /// By the transfer's id.
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

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "environment"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut loaded = 0;
        for (table, records) in Table::BALANCES.into_iter().zip(&self.balances) {
            let mut ingestion = records.inner().start_ingestion().map_err(of_fjall("loading"))?;
            for id in 0..scale.count(table) {
                ingestion.write(id.to_be_bytes(), new_record(id, 0)).map_err(of_fjall("loading"))?;
            }
            ingestion.finish().map_err(of_fjall("loading"))?;
            loaded += u64::from(scale.count(table));
            progress(loaded);
        }
        self.database.persist(PersistMode::SyncAll).map_err(of_fjall("loading"))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession { bank: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let failed = || of_fjall("reading all records");
        let place = Table::BALANCES.into_iter().position(|one| one == table);
        let records = place.map_or(&self.history, |at| &self.balances[at]);
        for (place, pair) in (0..).zip(self.database.read_tx().iter(records)) {
            let (key, record) = pair.into_inner().map_err(failed())?;
            // A history record's key is not an id for the audit.
            let id = key.as_ref().try_into().map_or(place, |id| u64::from(u32::from_be_bytes(id)));
            each(id, &record);
        }
        Ok(())
    }

    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
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
    found.ok_or(Error::Missing { engine: NAME, table: table.name(), id: u64::from(id) })
}
