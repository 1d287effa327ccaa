//! A bank after TPC-B. It has two trees in addition to the balances: a history and notes.
//!
//! A transfer changes an account, a teller and a branch by the same amount. It adds a line to the *history*, after
//! its worker's last line, and puts a *note* under a scattered key. It deletes the note that its worker put 40
//! transfers ago. So the audit needs no other record of the work: the history of a worker must have no gap, the
//! balances must be the sums of the history's lines, and the notes must be those of each worker's last transfers. The
//! audit finds a lost transaction, and a transaction of which only a part is there.

use std::collections::{BTreeMap, BTreeSet};

use libtp::{Bytes, Db, Durability, Env, Result, Settings, Txn};
use libtp_sim::Random;

/// The number of branches. It is small, so that workers often wait for each other.
const BRANCHES: u64 = 4;
const TELLERS: u64 = 40;
/// The number of accounts. It is large, so that pages are replaced.
const ACCOUNTS: u64 = 20_000;
/// Bytes of a balance's record, as in TPC-B.
const RECORD_BYTES: usize = 100;
/// The largest number of notes that one worker has at a time.
const NOTES: u64 = 40;
/// Keys written or read in one transaction while the bank is made or audited.
const BATCH: u64 = 2_000;

/// The bank's databases.
pub struct Bank {
    env: Env,
    balances: Db,
    history: Db,
    notes: Db,
}

/// A transfer, as its line in the history records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    account: u64,
    teller: u64,
    branch: u64,
    delta: i64,
}

/// Returns settings with little memory and short logs: pages are replaced and checkpoints taken while processes die.
pub fn settings() -> Settings {
    Settings {
        memory: Some(Bytes::mib(8)),
        checkpoint_log: Some(Bytes::mib(8)),
        log_segment_max: Some(Bytes::mib(4)),
        ..Settings::default()
    }
}

fn balance_key(kind: char, number: u64) -> Vec<u8> {
    format!("{kind}{number:08}").into_bytes()
}

fn history_key(worker: u64, number: u64) -> Vec<u8> {
    format!("{worker:08}/{number:010}").into_bytes()
}

/// Returns the key of a note. The keys of consecutive notes are far apart in the tree.
fn note_key(worker: u64, number: u64) -> Vec<u8> {
    let scattered = (worker << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{scattered:016x}/{worker:08}/{number:010}").into_bytes()
}

fn numbers(key: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(key).ok()?;
    let mut parts = text.rsplit('/').map(|part| part.parse().ok());
    let (number, worker) = (parts.next()??, parts.next()??);
    Some((worker, number))
}

fn balance(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Line {
    fn new(random: &mut Random) -> Line {
        let delta = i64::try_from(random.below(2_000)).expect("small") - 1_000;
        let teller = random.below(TELLERS);
        Line { account: random.below(ACCOUNTS), teller, branch: teller % BRANCHES, delta }
    }

    fn bytes(self) -> Vec<u8> {
        format!("{} {} {} {} {:.<20}", self.account, self.teller, self.branch, self.delta, "").into_bytes()
    }

    fn of(bytes: &[u8]) -> Option<Line> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (account, teller, branch) = (number()?, number()?, number()?);
        Some(Line { account, teller, branch, delta: words.next()?.parse().ok()? })
    }

    fn balances(self) -> [Vec<u8>; 3] {
        [balance_key('a', self.account), balance_key('t', self.teller), balance_key('b', self.branch)]
    }
}

impl Bank {
    /// Opens the bank.
    ///
    /// # Errors
    /// The library's errors.
    pub fn open(env: &Env) -> Result<Bank> {
        Ok(Bank {
            env: env.clone(),
            balances: env.btree("balances")?,
            history: env.btree("history")?,
            notes: env.btree("notes")?,
        })
    }

    /// Writes a zero balance for every account, teller and branch.
    ///
    /// # Errors
    /// The library's errors.
    ///
    /// # Panics
    /// Never.
    pub fn fill(&self) -> Result<()> {
        for (kind, count) in [('a', ACCOUNTS), ('t', TELLERS), ('b', BRANCHES)] {
            for first in (0..count).step_by(usize::try_from(BATCH).expect("small")) {
                self.env.run_with(Durability::Relaxed, |txn| {
                    (first..count.min(first + BATCH))
                        .try_for_each(|one| self.balances.put(txn, &balance_key(kind, one), &[0; RECORD_BYTES]))
                })?;
            }
        }
        self.env.flush()
    }

    /// Makes the transfer `number` of a worker.
    ///
    /// # Errors
    /// The library's errors.
    ///
    /// # Panics
    /// If a balance or an old note of the worker is missing.
    pub fn transfer(&self, worker: u64, number: u64, random: &mut Random, durability: Durability) -> Result<()> {
        let line = Line::new(random);
        let mut keys = line.balances();
        // One transfer in 100 locks its balances in reverse order, so some workers deadlock.
        if random.chance(1, 100) {
            keys.reverse();
        }
        self.env.run_with(durability, |txn| {
            for key in &keys {
                let add = |bytes: &mut [u8]| {
                    let after = balance(bytes) + line.delta;
                    bytes[..8].copy_from_slice(&after.to_le_bytes());
                    after
                };
                let after = match number % 2 {
                    0 => self.balances.add(txn, key, 0, line.delta)?,
                    _ => self.balances.update_with(txn, key, add)?,
                };
                after.expect("balances are never deleted");
            }
            self.history.put_new(txn, &history_key(worker, number), &line.bytes())?;
            self.notes.put_new(txn, &note_key(worker, number), &[b'n'; 60])?;
            if let Some(old) = number.checked_sub(NOTES) {
                let was_there = self.notes.delete(txn, &note_key(worker, old))?;
                assert!(was_there, "note {old} of worker {worker} is gone");
            }
            Ok(())
        })
    }

    /// Returns the number of transfers of each worker, if all books agree.
    ///
    /// # Errors
    /// Describes the disagreement.
    pub fn audit(&self) -> std::result::Result<BTreeMap<u64, u64>, String> {
        let mut sums: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        let mut transfers: BTreeMap<u64, u64> = BTreeMap::new();
        self.each(&self.history, |key, value| {
            let unknown = || format!("an unknown line of the history: {:?}", String::from_utf8_lossy(key));
            let (worker, number) = numbers(key).ok_or_else(unknown)?;
            let line = Line::of(value).ok_or_else(unknown)?;
            let next = transfers.entry(worker).or_default();
            if number != *next {
                return Err(format!("worker {worker}: transfer {next} is missing, though {number} is there"));
            }
            *next += 1;
            line.balances().into_iter().for_each(|key| *sums.entry(key).or_default() += line.delta);
            Ok(())
        })?;
        let mut balances = 0;
        self.each(&self.balances, |key, value| {
            balances += 1;
            let (found, wanted) = (balance(value), sums.get(key).copied().unwrap_or(0));
            let name = String::from_utf8_lossy(key);
            (found == wanted)
                .then_some(())
                .ok_or_else(|| format!("balance {name} is {found}; its history says {wanted}"))
        })?;
        if balances != ACCOUNTS + TELLERS + BRANCHES {
            return Err(format!("{balances} balances were found"));
        }
        self.audit_notes(&transfers)?;
        Ok(transfers)
    }

    fn audit_notes(&self, transfers: &BTreeMap<u64, u64>) -> std::result::Result<(), String> {
        let last =
            |(&worker, &count): (&u64, &u64)| (count.saturating_sub(NOTES)..count).map(move |number| (worker, number));
        let wanted: BTreeSet<(u64, u64)> = transfers.iter().flat_map(last).collect();
        let mut found = BTreeSet::new();
        self.each(&self.notes, |key, _| {
            found.extend(numbers(key));
            Ok(())
        })?;
        match (wanted.difference(&found).next(), found.difference(&wanted).next()) {
            (None, None) => Ok(()),
            (Some(missing), _) => Err(format!("note {missing:?} is missing, though its transfer is there")),
            (_, Some(left)) => {
                Err(format!("note {left:?} is there, but its transfer is missing, or a later one deleted it"))
            }
        }
    }

    /// Reads all pairs, [`BATCH`] in one transaction. No other session may change the bank meanwhile, because then the
    /// batches would not agree.
    fn each(
        &self,
        db: &Db,
        mut look: impl FnMut(&[u8], &[u8]) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        let mut from = Vec::new();
        loop {
            let read = |txn: &Txn<'_>| {
                let (mut cursor, mut pairs) = (db.cursor(txn), Vec::new());
                let mut at = cursor.seek(&from)?;
                while let Some(pair) = at {
                    pairs.push(pair);
                    at = if pairs.len() as u64 == BATCH { None } else { cursor.next()? };
                }
                Ok(pairs)
            };
            let pairs = self.env.run(read).map_err(|error| format!("{} cannot be read: {error}", db.name()))?;
            pairs.iter().try_for_each(|(key, value)| look(key, value))?;
            let Some((last, _)) = pairs.last() else { return Ok(()) };
            from = [last, &[0][..]].concat();
        }
    }
}
