//! Databases of every kind, transactions that change them, and a model of the contents at each LSN. There are a B-tree,
//! a hash file with an index, numbered records, a list that renumbers, and a tree whose keys have several values. Some
//! transactions roll back to a savepoint.
//!
//! Every transaction notes the LSN of its commit record. Transactions that change the same record are ordered by
//! their locks, which are released after the commit record has its LSN. So the state at an LSN is the result of the
//! commits with lower LSNs, in the order of their LSNs.

use std::collections::BTreeMap;

use libtp::{Db, Duplicates, Env, Error, Index, IndexKeys, List, Multi, Recno, Result, Txn};
use libtp_sim::Random;

/// The number of accounts. Transactions move money between accounts, so the sum does not change.
pub const ACCOUNTS: u64 = 48;
/// The money of each account at first.
const MONEY: u64 = 1000;
const PARTS: u64 = 240;
const CELLS: u64 = 60;
const CELL_BYTES: usize = 40;
/// The approximate number of lines in the list.
const LINES: u64 = 12;
/// The number of keys that have several values.
const TAGS: u64 = 16;
/// If a key has more values than this, a new value usually replaces the first value.
const VALUES_MAX: usize = 5;
/// The names of the databases, in the order of their numbers in [`Place`], and then the name of the index of `parts`.
pub const NAMES: [&str; 6] = ["accounts", "parts", "cells", "lines", "tags", "parts by length"];

/// A record: the number of its database, and its key. The list counts as one record, and so do all values of one key.
pub type Place = (u8, u64);
/// Every record.
pub type Model = BTreeMap<Place, Vec<u8>>;

/// A transaction that committed.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The LSN of its commit record.
    pub lsn: u64,
    /// Its changes; `None` for a deletion.
    pub effects: BTreeMap<Place, Option<Vec<u8>>>,
}

/// Returns the state after all commits with an LSN below `end`.
pub fn model_at(commits: &[Commit], end: u64) -> Model {
    let mut sorted: Vec<&Commit> = commits.iter().filter(|commit| commit.lsn < end).collect();
    sorted.sort_by_key(|commit| commit.lsn);
    let mut model = Model::new();
    for (place, value) in sorted.into_iter().flat_map(|commit| &commit.effects) {
        match value {
            Some(value) => model.insert(*place, value.clone()),
            None => model.remove(place),
        };
    }
    model
}

/// The handles of the environment and its databases.
pub struct Shop {
    accounts: Db,
    parts: Db,
    cells: Recno,
    lines: List,
    tags: Multi,
    by_length: Index,
    pub env: Env,
}

/// Gives the index keys of a part: its length, and its first byte.
fn index_keys(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.len().to_be_bytes());
    value.first().into_iter().for_each(|byte| keys.add([*byte]));
}

/// Encodes several records as one value.
fn joined(records: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    records.into_iter().flat_map(|record| [&record.len().to_le_bytes()[..], &record].concat()).collect()
}

impl Shop {
    /// Opens the databases, or makes them if they are missing.
    pub fn open(env: Env) -> Result<Shop> {
        let (accounts, parts) = (env.btree(NAMES[0])?, env.hash(NAMES[1])?);
        let cells = env.recno(NAMES[2], u32::try_from(CELL_BYTES).unwrap())?;
        let (lines, tags) = (env.list(NAMES[3])?, env.multi(NAMES[4], Duplicates::AsTheyCame)?);
        let by_length = parts.index(NAMES[5], index_keys)?;
        Ok(Shop { accounts, parts, cells, lines, tags, by_length, env })
    }

    /// Runs the first transaction of a new shop.
    pub fn stock(&self) -> Result<Commit> {
        let txn = self.env.begin()?;
        let mut effects = BTreeMap::new();
        for account in 0..ACCOUNTS {
            self.set(&txn, (0, account), Some(MONEY.to_le_bytes().to_vec()), &mut effects)?;
        }
        for cell in 0..CELLS {
            let value = vec![1; CELL_BYTES];
            let number = self.cells.append(&txn, &value)?;
            assert_eq!(number, cell + 1);
            effects.insert((2, number), Some(value));
        }
        self.commit(txn, true, effects)
    }

    fn commit(&self, txn: Txn<'_>, is_sync: bool, effects: BTreeMap<Place, Option<Vec<u8>>>) -> Result<Commit> {
        let commit = txn.commit_async()?;
        if is_sync {
            self.env.wait_durable(commit)?;
        }
        Ok(Commit { lsn: commit.lsn(), effects })
    }

    fn set(
        &self,
        txn: &Txn<'_>,
        place: Place,
        value: Option<Vec<u8>>,
        effects: &mut BTreeMap<Place, Option<Vec<u8>>>,
    ) -> Result<()> {
        let key = place.1.to_be_bytes();
        match (place.0, &value) {
            (0, Some(value)) => self.accounts.put(txn, &key, value)?,
            (1, Some(value)) => self.parts.put(txn, &key, value)?,
            (2, Some(value)) => self.cells.put(txn, place.1, value)?,
            (0, None) => drop(self.accounts.delete(txn, &key)?),
            (1, None) => drop(self.parts.delete(txn, &key)?),
            _ => drop(self.cells.delete(txn, place.1)?),
        }
        effects.insert(place, value);
        Ok(())
    }

    /// Runs one transaction of a few changes. Returns `None` if it aborted.
    pub fn trade(&self, random: &mut Random) -> Result<Option<Commit>> {
        let seed = random.next_u64();
        loop {
            match self.try_trade(&mut Random::new(seed)) {
                Err(Error::Deadlock | Error::LockTimeout(_) | Error::Rebuilt) => std::thread::yield_now(),
                traded => return traded,
            }
        }
    }

    fn try_trade(&self, random: &mut Random) -> Result<Option<Commit>> {
        let txn = self.env.begin()?;
        let mut effects = BTreeMap::new();
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        if from != to {
            let balance = |account: u64| -> Result<u64> {
                let value =
                    self.accounts.get_for_update(&txn, &account.to_be_bytes())?.expect("accounts are never deleted");
                Ok(u64::from_le_bytes(value[..8].try_into().unwrap()))
            };
            let (had, has) = (balance(from)?, balance(to)?);
            let sum = random.below(had.min(50) + 1);
            // Makes values of many lengths, so that pages split.
            let filled = |money: u64, length: u64| {
                let mut value = money.to_le_bytes().to_vec();
                value.resize(usize::try_from(8 + length).unwrap(), 7);
                value
            };
            self.set(&txn, (0, from), Some(filled(had - sum, random.below(300))), &mut effects)?;
            self.set(&txn, (0, to), Some(filled(has + sum, random.below(300))), &mut effects)?;
        }
        for _ in 0..random.below(5) {
            let place = (1, random.below(PARTS));
            let length = if random.chance(1, 12) { 3000 + random.below(9000) } else { random.below(200) };
            let byte = random.next_u64().to_le_bytes()[0];
            let value = (!random.chance(1, 4)).then(|| vec![byte; usize::try_from(length).unwrap()]);
            self.set(&txn, place, value, &mut effects)?;
        }
        let cell = vec![random.next_u64().to_le_bytes()[1]; CELL_BYTES];
        self.set(&txn, (2, 1 + random.below(CELLS)), Some(cell), &mut effects)?;
        if random.chance(1, 3) {
            self.write_line(&txn, random, &mut effects)?;
        }
        if random.coin() {
            self.tag(&txn, random, &mut effects)?;
        }
        if random.chance(1, 4) {
            // The changes after the savepoint are rolled back, so they are not added to `effects`.
            let (savepoint, mut nothing) = (txn.savepoint(), BTreeMap::new());
            self.set(&txn, (1, random.below(PARTS)), Some(vec![3; 30]), &mut nothing)?;
            self.tag(&txn, random, &mut nothing)?;
            self.write_line(&txn, random, &mut nothing)?;
            savepoint.roll_back()?;
        }
        if random.chance(1, 8) {
            txn.abort()?;
            return Ok(None);
        }
        self.commit(txn, random.chance(1, 6), effects).map(Some)
    }

    /// Adds, changes or removes a line of the list.
    fn write_line(
        &self,
        txn: &Txn<'_>,
        random: &mut Random,
        effects: &mut BTreeMap<Place, Option<Vec<u8>>>,
    ) -> Result<()> {
        self.lines.lock(txn)?;
        let count = self.lines.count(txn)?;
        let number = 1 + random.below(count.max(1));
        let line = vec![random.next_u64().to_le_bytes()[2]; usize::try_from(random.below(120)).unwrap()];
        match random.below(3) {
            0 if count >= LINES => drop(self.lines.delete(txn, number)?),
            1 if count >= LINES => self.lines.put(txn, number, &line)?,
            _ if count > 0 && random.coin() => drop(self.lines.insert_before(txn, number, &line)?),
            _ => drop(self.lines.append(txn, &line)?),
        }
        effects.insert((3, 0), Some(self.all_lines(txn)?));
        Ok(())
    }

    fn all_lines(&self, txn: &Txn<'_>) -> Result<Vec<u8>> {
        let (mut cursor, mut lines) = (self.lines.cursor(txn), Vec::new());
        while let Some((_, line)) = cursor.next()? {
            lines.push(line);
        }
        Ok(joined(lines))
    }

    /// Adds a value to a key. Then sometimes removes all values of the key, or its first value if it has many.
    fn tag(&self, txn: &Txn<'_>, random: &mut Random, effects: &mut BTreeMap<Place, Option<Vec<u8>>>) -> Result<()> {
        let number = random.below(TAGS);
        let key = number.to_be_bytes();
        let value = vec![random.next_u64().to_le_bytes()[3]; usize::try_from(random.below(300)).unwrap()];
        self.tags.put(txn, &key, &value)?;
        let values = self.tags.values(txn, &key)?;
        match random.below(6) {
            0 => drop(self.tags.delete(txn, &key)?),
            _ if values.len() > VALUES_MAX => drop(self.tags.delete_value(txn, &key, &values[0])?),
            _ => {}
        }
        let values = self.tags.values(txn, &key)?;
        effects.insert((4, number), (!values.is_empty()).then(|| joined(values)));
        Ok(())
    }

    /// Begins a transaction, which writes a record and stays open.
    pub fn unfinished(&self, random: &mut Random) -> Result<Txn<'_>> {
        let txn = self.env.begin()?;
        self.set(&txn, (1, PARTS + random.below(1000)), Some(vec![9; 100]), &mut BTreeMap::new())?;
        Ok(txn)
    }

    /// Returns every record.
    pub fn state(&self) -> Result<Model> {
        let txn = self.env.begin()?;
        let mut model = Model::new();
        for (number, db) in [(0, &self.accounts), (1, &self.parts)] {
            let mut cursor = db.cursor(&txn);
            while let Some((key, value)) = cursor.next()? {
                model.insert((number, u64::from_be_bytes(key[..8].try_into().unwrap())), value);
            }
        }
        let mut cells = self.cells.cursor(&txn);
        while let Some((number, value)) = cells.next()? {
            model.insert((2, number), value);
        }
        drop(cells);
        let lines = self.all_lines(&txn)?;
        if !lines.is_empty() {
            model.insert((3, 0), lines);
        }
        for number in 0..TAGS {
            let values = self.tags.values(&txn, &number.to_be_bytes())?;
            if !values.is_empty() {
                model.insert((4, number), joined(values));
            }
        }
        txn.commit()?;
        Ok(model)
    }

    /// Returns the faults in the structures of the databases.
    pub fn findings(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        for name in self.env.databases()? {
            findings.extend(self.env.verify(&name)?.findings.into_iter().map(|finding| format!("{name}: {finding:?}")));
        }
        let txn = self.env.begin()?;
        let of_index = self.by_length.verify(&txn)?;
        txn.commit()?;
        findings.extend(of_index.into_iter().map(|finding| format!("{}: {finding}", NAMES[5])));
        Ok(findings)
    }
}

/// Returns the sum of all accounts.
pub fn money(model: &Model) -> u64 {
    let accounts = model.range((0, 0)..(1, 0));
    accounts.map(|(_, value)| u64::from_le_bytes(value[..8].try_into().unwrap())).sum()
}

/// Checks that a restored shop has the state of the model at the LSN `end`, and that its structures are right.
pub fn judge(shop: &Shop, commits: &[Commit], end: u64) {
    let (found, wanted) = (shop.state().unwrap(), model_at(commits, end));
    let places = wanted.keys().chain(found.keys());
    let other = places.filter(|place| wanted.get(place) != found.get(place)).count();
    assert_eq!(other, 0, "number of records that differ from the state at LSN {end}, of {} commits", commits.len());
    assert_eq!(money(&found), ACCOUNTS * MONEY, "the sum of all accounts has changed");
    assert_eq!(shop.findings().unwrap(), Vec::<String>::new());
}
