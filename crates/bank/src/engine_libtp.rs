//! The bank in libtp, through its public interface only: accounts, tellers and branches in B-trees, the history in a
//! recno database.
//!
//! A transfer changes a balance by one call, `add`, which takes the exclusive lock before it reads the balance. So
//! transfers upgrade locks only in a bank with [`Libtp::reading_first`]. Keys are ids of four big-endian bytes.

use std::path::Path;

use libtp::{Db, Env, Reader, Recno, Txn};

use crate::engine::{load_in_batches, Durability, Engine, Granularity, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{balance_of, new_record, Scale, Table, Transfer, BALANCE_AT, HISTORY_BYTES};

const NAME: &str = "libtp";
/// Number of records in one transaction of the load, and of the audit.
const BATCH: u32 = 5_000;

/// A bank in an environment.
pub struct Libtp {
    env: Env,
    balances: [Db; 3],
    history: Recno,
    durability: Durability,
    granularity: Granularity,
    reads_first: bool,
    reads_snapshots: bool,
    reversed_one_in: u32,
}

impl Libtp {
    /// Makes a bank in a new environment whose trees have neither locks nor log (LIBTP 5.1.1, NOTP). With `once`, the
    /// environment also writes each page once, without the double-write file, and does not sync pages.
    ///
    /// # Errors
    /// The reason why the environment cannot be made.
    #[cfg(feature = "unprotected")]
    pub fn unprotected(directory: &Path, once: bool) -> Result<Libtp> {
        let builder = Env::builder().unprotected();
        Libtp::build(
            if once { builder.writing_once() } else { builder },
            directory,
            Durability::Relaxed,
            Granularity::Record,
            &mut |_| {},
        )
    }

    /// Opens the environment in `directory`, makes or recovers it if necessary, and makes the four databases if they do
    /// not exist. Calls `watch` with the progress of a recovery: the step, the bytes done, and the total bytes.
    ///
    /// # Errors
    /// The reason why the environment cannot be opened.
    pub fn open(
        directory: &Path,
        durability: Durability,
        granularity: Granularity,
        watch: &mut libtp::Watch<'_>,
    ) -> Result<Libtp> {
        Libtp::build(Env::builder(), directory, durability, granularity, watch)
    }

    fn build(
        builder: libtp::Builder,
        directory: &Path,
        durability: Durability,
        granularity: Granularity,
        watch: &mut libtp::Watch<'_>,
    ) -> Result<Libtp> {
        let failed = || Error::engine::<libtp::Error>(NAME, "opening");
        let mut builder = builder.durability(in_libtp(durability));
        for table in [Table::Account, Table::Teller, Table::Branch, Table::History] {
            let locked = match granularity {
                Granularity::Record => libtp::Granularity::Record,
                Granularity::Page => libtp::Granularity::Page,
            };
            builder = builder.granularity(table.name(), locked);
        }
        let env = builder.open_watched(directory, watch).map_err(failed())?;
        let open = |table: Table| env.btree(table.name()).map_err(failed());
        let balances = [open(Table::Account)?, open(Table::Teller)?, open(Table::Branch)?];
        let bytes = u32::try_from(HISTORY_BYTES).expect("a history record has 50 bytes");
        let history = env.recno(Table::History.name(), bytes).map_err(failed())?;
        Ok(Libtp {
            env,
            balances,
            history,
            durability,
            granularity,
            reads_first: false,
            reads_snapshots: false,
            reversed_one_in: 0,
        })
    }

    /// Makes transfers read each balance under a shared lock and then upgrade the lock to an exclusive lock, as the
    /// paper's programs did. Two transfers deadlock if both have read the same balance.
    #[must_use]
    pub fn reading_first(mut self, reads_first: bool) -> Libtp {
        self.reads_first = reads_first;
        self
    }

    /// Makes each read-only transaction read from a snapshot, without locks, as the peers do. Without this setting, the
    /// transactions take shared locks, as the paper's programs did.
    #[must_use]
    pub fn reading_snapshots(mut self, reads_snapshots: bool) -> Libtp {
        self.reads_snapshots = reads_snapshots;
        self
    }

    /// Makes one in `transfers` transfers take its locks in reverse order; zero: no transfer. The account of a transfer
    /// determines whether its order is reversed. Transfers cannot deadlock while all of them take their locks in the
    /// same order.
    #[must_use]
    pub fn reversing_one_in(mut self, transfers: u32) -> Libtp {
        self.reversed_one_in = transfers;
        self
    }

    /// Returns the environment, for calls that the bank does not offer.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Opens a client's session whose transactions have this durability instead of the bank's.
    pub fn session_at(&self, durability: Durability) -> LibtpSession<'_> {
        LibtpSession { bank: self, durability: in_libtp(durability) }
    }

    /// Writes the records `ids` of one table in one transaction.
    fn load_batch(&self, table: Table, ids: std::ops::Range<u32>) -> Result<()> {
        let place = Table::BALANCES.into_iter().position(|one| one == table).expect("the history begins empty");
        let db = &self.balances[place];
        let loaded = self.env.run_with(libtp::Durability::Relaxed, |txn| {
            ids.clone().try_for_each(|id| db.put(txn, &key_of(id), &new_record(id, 0)))
        });
        loaded.map_err(Error::engine(NAME, table_doing(table)))
    }

    /// Reads one table, in a transaction for each batch of records. No session changes the bank meanwhile, so the
    /// transaction need not lock the whole table.
    fn walk_balances(&self, db: &Db, each: &mut dyn FnMut(u64, &[u8])) -> libtp::Result<()> {
        let mut next = Some(0);
        while let Some(from) = next {
            let txn = self.env.begin()?;
            let mut cursor = db.cursor(&txn);
            let mut record = cursor.seek(&key_of(from))?;
            next = None;
            for _ in 0..BATCH {
                let Some((key, value)) = record else { break };
                let id = id_of(&key);
                each(id, &value);
                next = u32::try_from(id).ok().and_then(|id| id.checked_add(1));
                record = cursor.next()?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }

    fn walk_history(&self, each: &mut dyn FnMut(u64, &[u8])) -> libtp::Result<()> {
        let mut next = Some(1);
        while let Some(from) = next {
            let txn = self.env.begin()?;
            let mut cursor = self.history.cursor(&txn);
            let mut record = cursor.seek(from)?;
            next = None;
            for _ in 0..BATCH {
                let Some((number, value)) = record else { break };
                each(number, &value);
                next = number.checked_add(1);
                record = cursor.next()?;
            }
            drop(cursor);
            txn.commit()?;
        }
        Ok(())
    }
}

impl Engine for Libtp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        self.granularity.name()
    }

    fn reads_first(&self) -> bool {
        self.reads_first
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let failed = || Error::engine::<libtp::Error>(NAME, "writing the loaded bank to disk");
        load_in_batches(scale, BATCH, progress, |table, ids| self.load_batch(table, ids))?;
        self.env.flush().map_err(failed())?;
        // The call returns false only if the background thread is making a checkpoint, which has the same effect.
        self.env.checkpoint().map_err(failed())?;
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.session_at(self.durability)))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let place = Table::BALANCES.into_iter().position(|one| one == table);
        let walked = match place {
            Some(at) => self.walk_balances(&self.balances[at], each),
            None => self.walk_history(each),
        };
        walked.map_err(Error::engine(NAME, "reading all records"))
    }

    fn log_bytes(&self) -> Result<u64> {
        Ok(self.env.stats().map_err(Error::engine(NAME, "reading its statistics"))?.log_bytes_written)
    }

    fn log_syncs(&self) -> Result<Option<u64>> {
        Ok(Some(self.env.stats().map_err(Error::engine(NAME, "reading its statistics"))?.log_syncs))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.flush().map_err(Error::engine(NAME, "closing"))
    }
}

/// A client's session with libtp.
pub struct LibtpSession<'b> {
    bank: &'b Libtp,
    durability: libtp::Durability,
}

impl Session for LibtpSession<'_> {
    #[inline]
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let txn = self.bank.env.begin_with(self.durability).map_err(Error::engine(NAME, "beginning a transfer"))?;
        match change(self.bank, &txn, transfer) {
            Ok(balance) => ended(txn.commit(), balance, "committing a transfer"),
            Err(Trouble::Missing(table)) => Err(missing(table, transfer)),
            Err(Trouble::Refused(error)) => aborted(txn, error, "carrying out a transfer"),
        }
    }

    #[inline]
    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        if self.bank.reads_snapshots {
            let snapshot = self.bank.env.snapshot().map_err(Error::engine(NAME, "taking a snapshot"))?;
            return match read(self.bank, &snapshot, transfer) {
                Ok(balance) => Ok(Outcome::Committed { balance }),
                Err(Trouble::Missing(table)) => Err(missing(table, transfer)),
                Err(Trouble::Refused(error)) => Err(Error::engine(NAME, "reading three records")(error)),
            };
        }
        let txn = self.bank.env.begin_with(self.durability).map_err(Error::engine(NAME, "beginning to read"))?;
        match read(self.bank, &txn, transfer) {
            Ok(balance) => ended(txn.commit(), balance, "ending a read-only transaction"),
            Err(Trouble::Missing(table)) => Err(missing(table, transfer)),
            Err(Trouble::Refused(error)) => aborted(txn, error, "reading three records"),
        }
    }
}

/// The reason why a transfer did not reach its commit.
enum Trouble {
    Missing(Table),
    Refused(libtp::Error),
}

impl From<libtp::Error> for Trouble {
    fn from(error: libtp::Error) -> Trouble {
        Trouble::Refused(error)
    }
}

/// Makes the transfer's changes. Returns the account's new balance.
#[inline]
fn change(bank: &Libtp, txn: &Txn<'_>, transfer: &Transfer) -> std::result::Result<i64, Trouble> {
    let [account, teller, branch] = &bank.balances;
    let add = |db: &Db, table: Table, id: u32| {
        if bank.reads_first {
            db.get_with(txn, &key_of(id), balance_of)?.ok_or(Trouble::Missing(table))?;
        }
        db.add(txn, &key_of(id), BALANCE_AT, transfer.amount)?.ok_or(Trouble::Missing(table))
    };
    let is_reversed = bank.reversed_one_in != 0 && transfer.account % bank.reversed_one_in == 0;
    if is_reversed {
        add(branch, Table::Branch, transfer.branch)?;
        add(teller, Table::Teller, transfer.teller)?;
    }
    let balance = add(account, Table::Account, transfer.account)?;
    if !is_reversed {
        add(teller, Table::Teller, transfer.teller)?;
        add(branch, Table::Branch, transfer.branch)?;
    }
    bank.history.append(txn, &transfer.to_history())?;
    Ok(balance)
}

#[inline]
fn read(bank: &Libtp, reader: &impl Reader, transfer: &Transfer) -> std::result::Result<i64, Trouble> {
    let mut sum = 0;
    for (table, db) in Table::BALANCES.into_iter().zip(&bank.balances) {
        let balance = db.get_with(reader, &key_of(transfer.record_in(table)), balance_of)?;
        sum += balance.ok_or(Trouble::Missing(table))?;
    }
    Ok(sum)
}

/// Returns the outcome of a commit. A transaction that the commit refuses as the victim of a deadlock was rolled back.
fn ended(committed: libtp::Result<()>, balance: i64, doing: &'static str) -> Result<Outcome> {
    match committed {
        Ok(()) => Ok(Outcome::Committed { balance }),
        Err(error) if error.is_retryable() => Ok(Outcome::Aborted),
        Err(error) => Err(Error::engine(NAME, doing)(error)),
    }
}

#[cold]
fn aborted(txn: Txn<'_>, error: libtp::Error, doing: &'static str) -> Result<Outcome> {
    if !error.is_retryable() {
        return Err(Error::engine(NAME, doing)(error));
    }
    txn.abort().map_err(Error::engine(NAME, "aborting a transfer"))?;
    Ok(Outcome::Aborted)
}

#[cold]
fn missing(table: Table, transfer: &Transfer) -> Error {
    Error::missing(NAME, table, transfer.record_in(table))
}

fn table_doing(table: Table) -> &'static str {
    match table {
        Table::Account => "loading accounts",
        Table::Teller => "loading tellers",
        Table::Branch => "loading branches",
        Table::History => "loading the history",
    }
}

fn in_libtp(durability: Durability) -> libtp::Durability {
    match durability {
        Durability::Sync => libtp::Durability::Sync,
        Durability::Relaxed => libtp::Durability::Relaxed,
        Durability::Rio => libtp::Durability::Rio,
    }
}

/// Returns a record's key. The bytes are big-endian, so that the order of keys is the order of ids.
#[inline]
fn key_of(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

/// Returns the id in a key. A key of another length becomes an id above every bank's scale, which the audit reports.
fn id_of(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, |key| u64::from(u32::from_be_bytes(key)))
}
