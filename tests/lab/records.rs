//! Records of the library itself: their changes, and the check of their contents.
//!
//! There are two environments. Their files are on a disk, whose page cache is lost in a crash of the system. Both
//! environments acknowledge commits from memory. A warm start keeps the memory of the first environment, and the
//! library detects this. The memory of the second environment is lost, although it was declared to survive. The second
//! environment is a control. It must refuse to open at first, then lose commits, and report the loss.
//!
//! Any other deviation causes a panic and fails the run, in the control, too. The control may lose any number of its
//! last commits, but no part of a commit.

use libtp::{Bytes, Db, Durability, Env, Error, Keep, OpenedBy, Recno, Settings, Survives};

use crate::business::Draw;

const ACCOUNTS: usize = 64;
/// Number of transfers that the ledger keeps.
const KEPT: u64 = 512;
/// Bytes of a transfer in the ledger. Filler bytes follow the transfer.
const TRANSFER: usize = 48;

/// The directories of an environment, and the declaration about its memory.
struct Place {
    name: &'static str,
    files: &'static str,
    memory: &'static str,
    declared: Option<Survives>,
}

const KEPT_OVER_STARTS: Place = Place { name: "records", files: "/d/records", memory: "/p", declared: None };
const LOST: Place = Place { name: "lost", files: "/d/lost", memory: "/tmp", declared: Some(Survives::System) };

impl Place {
    /// Makes settings with small files. So checkpoints run between two crashes, and the log fills several files. At
    /// every second start, and always in the control, no background thread writes the log to the disk. In the control,
    /// much more log is written between two checkpoints.
    fn builder(&self, boots: usize) -> libtp::Builder {
        let is_control = self.declared.is_some();
        let is_lazy = is_control || boots % 2 == 1;
        Env::builder().settings(Settings {
            durability: Some(Durability::Rio),
            region_directory: Some(self.memory.into()),
            region_survives: self.declared,
            memory: Some(Bytes::mib(4)),
            log_segment_first: Some(Bytes::kib(64)),
            log_segment_max: Some(Bytes::kib(256)),
            checkpoint_log: (!is_control).then_some(Bytes::kib(512)),
            relaxed_millis: is_lazy.then_some(3_600_000),
            ..Settings::default()
        })
    }
}

/// A committed transfer: its number, and the digest of all transfers up to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub number: u64,
    pub digest: u64,
}

/// An environment: accounts whose sum never changes, and a ledger that explains each balance.
pub struct Books {
    env: Env,
    accounts: Recno,
    ledger: Db,
    last: Committed,
}

/// Opens the environment with kept memory and the control, and prints their state if the machine was started before.
pub fn open(boots: usize) -> (Books, Books) {
    let kept = Books::open(&KEPT_OVER_STARTS.builder(boots), &KEPT_OVER_STARTS, "");
    let (builder, mut refused) = (LOST.builder(boots), "");
    if boots > 0 {
        let error =
            builder.open(LOST.files).expect_err("the environment opened without the memory that has its commits");
        assert!(
            matches!(error, Error::Environment { .. }),
            "the environment without its memory is refused for another reason: {error}"
        );
        refused = " refused at first";
    }
    (kept, Books::open(&builder.keep(Keep::Files), &LOST, refused))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// Returns the digest of a transfer and all transfers before it.
fn digest(before: u64, from: u64, to: u64, amount: u64) -> u64 {
    [from, to, amount].iter().fold(before, |sum, value| (sum ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
}

fn fill(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

impl Books {
    fn open(builder: &libtp::Builder, place: &Place, refused: &str) -> Books {
        let env = builder.open(place.files).unwrap_or_else(|error| panic!("{}: {error}", place.name));
        let (accounts, ledger) = (env.recno("accounts", 16).unwrap(), env.btree("ledger").unwrap());
        let mut books = Books { env, accounts, ledger, last: Committed { number: 0, digest: 0 } };
        let before = books.look().unwrap_or_else(|what| panic!("{}: {what}", place.name));
        let (opened, stats) = (books.env.opened(), books.env.stats().unwrap());
        if opened.how == OpenedBy::Created {
            return books;
        }
        println!(
            "LAB FOUND {} ended={} digest={:x} before={before:x} how={:?} lost={} survives={} log_bytes={} undone={}{refused}",
            place.name,
            books.last.number,
            books.last.digest,
            opened.how,
            opened.lost,
            stats.survives,
            opened.log_bytes,
            opened.undone
        );
        books
    }

    /// Returns the last committed transfer.
    pub fn last(&self) -> Committed {
        self.last
    }

    /// Reads and checks the whole state. Returns the digest of all transfers but the last.
    fn look(&mut self) -> Result<u64, String> {
        for name in ["accounts", "ledger"] {
            let found = self.env.verify(name).map_err(|error| error.to_string())?.findings;
            if !found.is_empty() {
                return Err(format!("{name}: {found:?}"));
            }
        }
        let txn = self.env.begin().unwrap();
        let mut balances = [(0, 0); ACCOUNTS];
        let (mut before, mut count) = (0, 0);
        let mut cursor = self.ledger.cursor(&txn);
        let mut entry = cursor.first().unwrap();
        while let Some((key, value)) = entry {
            let this = number(&key);
            let word = |index: usize| number(&value[index * 8..]);
            let (from, to, sum) = (word(0), word(1), word(5));
            if count > 0 && (this != self.last.number + 1 || digest(self.last.digest, from, to, word(2)) != sum) {
                return Err(format!(
                    "transfer {this} has a wrong number or digest after transfer {}",
                    self.last.number
                ));
            }
            if value[TRANSFER..].iter().any(|&byte| byte != fill(this)) {
                return Err(format!("transfer {this} differs from the stored value"));
            }
            for (account, balance) in [(from, word(3)), (to, word(4))] {
                let account = usize::try_from(account).ok().and_then(|account| balances.get_mut(account));
                *account.ok_or_else(|| format!("transfer {this} names no account"))? = (balance, this);
            }
            before = self.last.digest;
            self.last = Committed { number: this, digest: sum };
            count += 1;
            entry = cursor.next().unwrap();
        }
        if count != self.last.number.min(KEPT) {
            return Err(format!("the ledger has {count} transfers up to {}", self.last.number));
        }
        let mut total = 0_u64;
        for (account, in_ledger) in (0..).zip(balances) {
            let found = self.account(&txn, account);
            total = total.wrapping_add(found.0);
            let is_older = in_ledger.1 == 0 && found.1 <= self.last.number.saturating_sub(KEPT);
            if found != in_ledger && !is_older {
                return Err(format!("account {account} has {found:?}, but the ledger has {in_ledger:?}"));
            }
        }
        if total != 0 {
            return Err(format!("the accounts' sum is {total:#x}"));
        }
        txn.commit().unwrap();
        Ok(before)
    }

    /// Returns an account's balance, and the number of the transfer that set it.
    fn account(&self, txn: &libtp::Txn<'_>, account: u64) -> (u64, u64) {
        let record = self.accounts.get(txn, account + 1).unwrap();
        record.map_or((0, 0), |record| (number(&record), number(&record[8..])))
    }

    /// Runs transfers until one commits.
    pub fn step(&mut self, draw: &mut Draw) -> Committed {
        loop {
            if let Some(committed) = self.transfer(draw) {
                self.last = committed;
                return committed;
            }
        }
    }

    /// Runs one transfer. Returns `None` if it aborted.
    fn transfer(&self, draw: &mut Draw) -> Option<Committed> {
        let this = self.last.number + 1;
        let accounts = ACCOUNTS as u64;
        let from = draw.below(accounts);
        let to = (from + 1 + draw.below(accounts - 1)) % accounts;
        let amount = draw.below(1000);
        let txn = self.env.begin().unwrap();
        let from_after = self.account(&txn, from).0.wrapping_sub(amount);
        let to_after = self.account(&txn, to).0.wrapping_add(amount);
        for (account, balance) in [(from, from_after), (to, to_after)] {
            let record = [balance.to_be_bytes(), this.to_be_bytes()].concat();
            self.accounts.put(&txn, account + 1, &record).unwrap();
        }
        let sum = digest(self.last.digest, from, to, amount);
        let mut value = [from, to, amount, from_after, to_after, sum].map(u64::to_be_bytes).concat();
        value.resize(TRANSFER + usize::try_from(draw.below(400)).unwrap(), fill(this));
        self.ledger.put_new(&txn, &this.to_be_bytes(), &value).unwrap();
        if this > KEPT {
            assert!(self.ledger.delete(&txn, &(this - KEPT).to_be_bytes()).unwrap());
        }
        if draw.below(8) == 0 {
            txn.abort().unwrap();
            return None;
        }
        txn.commit().unwrap();
        Some(Committed { number: this, digest: sum })
    }
}
