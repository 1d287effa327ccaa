//! A bank: transfers between accounts by many threads at once, an error of the program's own, and an audit that blocks
//! no transfer.
//!
//! `cargo run --release -p libtp --example bank`

use std::io::Write;
use std::path::Path;

use libtp::{Env, Error, Run, Table};

const ACCOUNTS: u32 = 20;
const CENTS: i64 = 100;

/// The reason why a transfer was not made.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such account.
    NoAccount(u32),
    /// The account has fewer cents.
    TooLittle(i64),
    /// The library's own error.
    Library(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Library(error)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NoAccount(number) => write!(f, "there is no account {number}"),
            Refusal::TooLittle(cents) => write!(f, "the account has {cents} cents"),
            Refusal::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// The accounts. The key of an account is its number, and the value is its balance in cents.
#[derive(Clone)]
pub struct Bank {
    env: Env,
    accounts: Table<u32, i64>,
}

impl Bank {
    /// Opens the bank, and makes it if it is missing.
    pub fn open(path: &Path) -> libtp::Result<Bank> {
        let env = Env::open_or_create(path)?;
        let accounts = env.table("accounts")?;
        Ok(Bank { env, accounts })
    }

    /// Moves cents from one account to another, or changes nothing.
    pub fn transfer(&self, from: u32, to: u32, cents: i64) -> Result<(), Refusal> {
        // A deadlock's victim runs again; a refusal ends the transaction.
        self.env.try_run(&Run::new(), |txn| {
            let had = self.accounts.get_for_update(txn, from)?.ok_or(Refusal::NoAccount(from))?;
            if had < cents {
                return Err(Refusal::TooLittle(had));
            }
            self.accounts.put(txn, from, had - cents)?;
            let has = self.accounts.get_for_update(txn, to)?.ok_or(Refusal::NoAccount(to))?;
            Ok(self.accounts.put(txn, to, has + cents)?)
        })
    }

    /// Returns the sum of all accounts at one moment.
    pub fn audit(&self) -> libtp::Result<i64> {
        self.accounts.iter(&self.env.snapshot()?).map(|row| Ok(row?.1)).sum()
    }
}

/// Makes transfers in several threads while an audit reads the accounts. Then prints a report.
pub fn show(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let bank = Bank::open(path)?;
    bank.env.run(|txn| (0..ACCOUNTS).try_for_each(|number| bank.accounts.put(txn, number, CENTS)))?;
    let sum = i64::from(ACCOUNTS) * CENTS;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bank = bank.clone();
            scope.spawn(move || {
                for step in 0..100_u32 {
                    let (from, to) = ((thread * 7 + step) % ACCOUNTS, (thread + step * 3 + 1) % ACCOUNTS);
                    match bank.transfer(from, to, i64::from(step % 9)) {
                        Ok(()) | Err(Refusal::TooLittle(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
        for _ in 0..20 {
            assert_eq!(bank.audit().expect("the audit reads"), sum);
        }
    });
    writeln!(out, "audit: {} cents in {ACCOUNTS} accounts", bank.audit()?)?;
    for (from, to, cents) in [(1, 99, 1), (2, 3, 1_000_000)] {
        let refusal = bank.transfer(from, to, cents).err().map(|refusal| refusal.to_string());
        let told = refusal.as_deref().map_or("made", |told| told.split(" has ").next().unwrap_or(told));
        writeln!(out, "{cents} cents from {from} to {to}: {told}")?;
    }
    assert_eq!(bank.audit()?, sum);
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    show(&directory.path().join("bank"), &mut std::io::stdout())
}
