//! Transfers between accounts, each with a line in a journal.
//!
//! The sum of all balances never changes, and each balance agrees with the journal. So the audit finds a transaction
//! that is partly missing, or that is there twice.

use std::collections::{BTreeMap, BTreeSet};

use libtp::{Db, Durability, Env, Reader, Result, Snapshot, Txn};
use libtp_sim::Random;

/// The number of accounts. It is small, so that processes often use the same account.
const ACCOUNTS: u64 = 40;
/// The first balance of every account.
const BALANCE: i64 = 1_000;
/// The sum of all balances, at all times.
pub const MONEY: i64 = 40 * BALANCE;

/// The bank's databases.
pub struct Bank {
    env: Env,
    accounts: Db,
    journal: Db,
}

/// A transfer: the process that made it, and the transfer's number in that process.
pub type TransferId = (u64, u64);

fn account_key(account: u64) -> Vec<u8> {
    format!("account/{account:04}").into_bytes()
}

fn journal_key((worker, number): TransferId) -> Vec<u8> {
    format!("journal/{worker:04}/{number:08}").into_bytes()
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().expect("balances have eight bytes"))
}

impl Bank {
    /// Opens the bank, and fills it if it is new.
    ///
    /// # Errors
    /// The library's errors.
    pub fn open(env: &Env) -> Result<Bank> {
        let bank = Bank { env: env.clone(), accounts: env.btree("accounts")?, journal: env.btree("journal")? };
        bank.env.run(|txn| {
            // The account is read for update. So if several processes open the bank at once, one of them fills it, and
            // the others find it filled.
            if bank.accounts.get_for_update(txn, &account_key(0))?.is_none() {
                for account in 0..ACCOUNTS {
                    bank.accounts.put(txn, &account_key(account), &BALANCE.to_le_bytes())?;
                }
            }
            Ok(())
        })?;
        Ok(bank)
    }

    /// Makes one transfer.
    ///
    /// # Errors
    /// The library's errors.
    ///
    /// # Panics
    /// If an account is missing.
    pub fn transfer(&self, id: TransferId, random: &mut Random, durability: Durability) -> Result<()> {
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let amount = i64::try_from(random.below(50)).expect("the number is below 50");
        let text = format!("{from} {to} {amount}");
        self.env.run_with(durability, |txn| {
            for (account, change) in [(from, -amount), (to, amount)] {
                let balance =
                    number(&self.accounts.get(txn, &account_key(account))?.expect("accounts are never deleted"));
                self.accounts.put(txn, &account_key(account), &(balance + change).to_le_bytes())?;
            }
            self.journal.put_new(txn, &journal_key(id), text.as_bytes())
        })
    }

    /// Returns the transfers in the journal if all balances agree with it.
    ///
    /// # Errors
    /// Describes the difference.
    pub fn audit(&self) -> std::result::Result<BTreeSet<TransferId>, String> {
        let read = |txn: &Txn<'_>| self.all(txn);
        let (accounts, journal) = self.env.run(read).map_err(|error| format!("the audit cannot read: {error}"))?;
        Bank::compare(&accounts, &journal)
    }

    /// Returns the transfers in the journal as a snapshot shows it, if all balances in the snapshot agree with it.
    ///
    /// # Errors
    /// Describes the difference.
    pub fn audit_in(&self, snapshot: &Snapshot<'_>) -> std::result::Result<BTreeSet<TransferId>, String> {
        let read = self.all(snapshot);
        let (accounts, journal) = read.map_err(|error| format!("the audit cannot read: {error}"))?;
        Bank::compare(&accounts, &journal)
    }

    fn all(&self, reader: &impl Reader) -> Result<(Vec<libtp::Pair>, Vec<libtp::Pair>)> {
        Ok((pairs(&self.accounts, reader)?, pairs(&self.journal, reader)?))
    }

    fn compare(accounts: &[libtp::Pair], journal: &[libtp::Pair]) -> std::result::Result<BTreeSet<TransferId>, String> {
        let mut wanted: BTreeMap<Vec<u8>, i64> = (0..ACCOUNTS).map(|one| (account_key(one), BALANCE)).collect();
        let mut transfers = BTreeSet::new();
        for (key, line) in journal {
            let text = String::from_utf8_lossy(line);
            let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [from, to, amount] = numbers[..] else { return Err(format!("an unknown journal line: {text:?}")) };
            let amount = i64::try_from(amount).map_err(|_| format!("an unknown journal line: {text:?}"))?;
            *wanted.entry(account_key(from)).or_default() -= amount;
            *wanted.entry(account_key(to)).or_default() += amount;
            transfers.insert(id_of(key).ok_or_else(|| format!("an unknown journal key: {key:?}"))?);
        }
        let found: BTreeMap<Vec<u8>, i64> = accounts.iter().map(|(key, value)| (key.clone(), number(value))).collect();
        if found.values().sum::<i64>() != MONEY {
            return Err(format!("the sum of all balances should be {MONEY} and is {}", found.values().sum::<i64>()));
        }
        match wanted == found {
            true => Ok(transfers),
            false => Err(format!("balances and journal disagree: {}", apart(&wanted, &found))),
        }
    }
}

/// Describes the accounts whose balances disagree with the journal.
fn apart(wanted: &BTreeMap<Vec<u8>, i64>, found: &BTreeMap<Vec<u8>, i64>) -> String {
    let differ = wanted.iter().filter(|(key, balance)| found.get(*key) != Some(balance));
    let text = differ.map(|(key, balance)| {
        format!("{} should be {balance} and is {:?}", String::from_utf8_lossy(key), found.get(key))
    });
    text.collect::<Vec<_>>().join(", ")
}

/// Returns the transfer that a process reports with the line `ack WORKER NUMBER`.
pub fn acknowledgement(line: &str) -> Option<TransferId> {
    let (worker, number) = line.strip_prefix("ack ")?.split_once(' ')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}

fn id_of(key: &[u8]) -> Option<TransferId> {
    let (worker, number) = std::str::from_utf8(key).ok()?.strip_prefix("journal/")?.split_once('/')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}

fn pairs(db: &Db, reader: &impl Reader) -> Result<Vec<libtp::Pair>> {
    let (mut cursor, mut pairs) = (db.cursor(reader), Vec::new());
    while let Some(pair) = cursor.next()? {
        pairs.push(pair);
    }
    Ok(pairs)
}
