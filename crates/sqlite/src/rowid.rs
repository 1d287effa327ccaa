//! Numbers of new rows.
//!
//! The last number of each table is a record of `sql.rowid`. The environment has one of two rules (`PRAGMA tp_rowid`):
//!
//! * exact: the first insert of a transaction into a table locks the table's record until the transaction ends. Other
//!   inserts that need a number of that table wait. So rows become visible in the order of their numbers, and the
//!   numbers of an undone transaction are given again.
//! * free: a transaction beside the main one counts up, so no insert waits for another's end. Numbers have gaps where
//!   transactions were undone, except where no other transaction took a number since: then the number is given back.
//!
//! A wrong count overwrites no row. A transaction looks a free number up before its use, and stores an exact number as
//! a new key.
//!
//! A transaction counts by itself in a table whose record it has locked, and in a table that it made or emptied. It
//! stores such a count at its commit.

use std::collections::hash_map::{Entry, HashMap};
use std::time::Duration;

use libtp::{Db, Durability, Txn};

use crate::answer::Outcome;
use crate::home::Home;
use crate::keys;

/// The rule of an environment for new rowids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Exact,
    Free,
}

/// A table into which a transaction inserts.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) home: &'a Home,
    pub(crate) rule: Rule,
    pub(crate) txn: &'a Txn<'static>,
    pub(crate) tree: &'a Db,
    pub(crate) root: u32,
    /// The longest wait for a lock of a transaction beside the main one.
    pub(crate) wait: Duration,
}

/// The numbers that a transaction has taken.
#[derive(Default)]
pub(crate) struct Numbers {
    /// By root, the tables in which the transaction counts by itself.
    own: HashMap<u32, OwnCount>,
    given: Vec<Given>,
    /// Numbers that the transaction took before its statements run again, and takes again.
    again: Vec<Given>,
    /// Whether the next roll back is of a transaction whose statements run again.
    runs_again: bool,
    /// Tables whose count was wrong, until a commit.
    wrong: Vec<u32>,
    /// The length of `given` at the last mark.
    marked: usize,
    /// The number that was given last, until its row is stored. It stays unused if the row is ignored.
    unused: Option<(u32, i64)>,
}

/// The count of a table, if the transaction has locked the table's record or all of its rows.
struct OwnCount {
    /// The last number; `None` if it must be looked up.
    last: Option<i64>,
    /// The count in the record; `None` if there is none, or if the transaction emptied the table.
    stored: Option<i64>,
}

/// Numbers in a row, from `before` + 1 to `number`.
struct Given {
    root: u32,
    before: i64,
    number: i64,
}

/// The number of attempts to find a free number.
const ATTEMPTS: usize = 1000;

impl Numbers {
    /// Returns a number for a new row, or `None` if there is none above all others.
    pub(crate) fn take(&mut self, table: Table<'_>) -> Outcome<Option<i64>> {
        let unused = self.unused.filter(|(root, _)| *root == table.root).map(|(_, number)| number);
        if table.rule == Rule::Exact {
            self.hold(table)?;
        }
        let taken = match (self.own.get(&table.root), unused) {
            (Some(own), _) => {
                let last = own.last.map_or_else(|| table.highest(), Ok)?.max(0);
                unused.filter(|number| *number == last).or_else(|| last.checked_add(1))
            }
            (None, Some(number)) if table.is_free(number)? => unused,
            (None, _) => self.take_beside(table)?,
        };
        if let Some(number) = taken.filter(|number| unused != Some(*number)) {
            self.give(table.root, number - 1, number);
        }
        self.unused = taken.map(|number| (table.root, number)).or(self.unused);
        Ok(taken)
    }

    /// Notes that the numbers of a table go from `before` to `number`.
    fn give(&mut self, root: u32, before: i64, number: i64) {
        if let Some(own) = self.own.get_mut(&root) {
            own.last = Some(number);
        }
        match self.given[self.marked..].last_mut() {
            Some(last) if last.root == root && last.number == before => last.number = number,
            _ => self.given.push(Given { root, before, number }),
        }
    }

    /// Returns whether the number of a row is one that the transaction took, in a table where it counts by itself.
    pub(crate) fn is_own(&self, root: u32, rowid: i64) -> bool {
        self.unused == Some((root, rowid)) && self.own.contains_key(&root)
    }

    /// Makes the next numbers of a table come from its highest row: the count was wrong. The next commit stores a right
    /// one.
    pub(crate) fn distrust(&mut self, root: u32) {
        self.own.insert(root, OwnCount { last: None, stored: None });
        self.unused = None;
        self.wrong.push(root);
    }

    /// Locks a table's record until the transaction ends.
    fn hold(&mut self, table: Table<'_>) -> Outcome<()> {
        if let Entry::Vacant(place) = self.own.entry(table.root) {
            let stored = count(table.home.numbers().get_for_update(table.txn, &table.root.to_be_bytes())?);
            let stored = stored.filter(|_| !self.wrong.contains(&table.root));
            let last = stored.map_or_else(|| table.highest_committed(), Ok)?;
            place.insert(OwnCount { last: Some(last), stored });
        }
        Ok(())
    }

    fn take_beside(&mut self, table: Table<'_>) -> Outcome<Option<i64>> {
        while let Some(number) = self.next_again(table.root) {
            if table.is_free(number)? {
                return Ok(Some(number));
            }
        }
        let mut above = None;
        for _ in 0..ATTEMPTS {
            let Some(number) = next(table, above)? else { return Ok(None) };
            if table.is_free(number)? {
                return Ok(Some(number));
            }
            above = Some(number);
        }
        Ok(None)
    }

    fn next_again(&mut self, root: u32) -> Option<i64> {
        let place = self.again.iter().position(|given| given.root == root)?;
        let given = &mut self.again[place];
        given.before += 1;
        let number = given.before;
        if number == given.number {
            self.again.remove(place);
        }
        Some(number)
    }

    /// Keeps the numbers over the next roll back: the transaction's statements run again.
    pub(crate) fn keep_for_replay(&mut self) {
        self.runs_again = true;
    }

    /// Notes a row that is put under a number that no row had.
    pub(crate) fn note(&mut self, table: Table<'_>, rowid: i64) -> Outcome<()> {
        if self.unused == Some((table.root, rowid)) {
            self.unused = None;
            return Ok(());
        }
        if rowid <= 0 {
            return Ok(());
        }
        if !self.own.contains_key(&table.root) {
            let snapshot = table.home.env().snapshot()?;
            let counted = count(table.home.numbers().get(&snapshot, &table.root.to_be_bytes())?);
            if counted.is_some_and(|last| last >= rowid) {
                return Ok(());
            }
            if table.rule == Rule::Exact {
                self.hold(table)?;
            }
        }
        match self.own.get(&table.root).map(|own| own.last) {
            Some(Some(last)) if last < rowid => self.give(table.root, last, rowid),
            Some(_) => {}
            None => raise(table, rowid)?,
        }
        Ok(())
    }

    /// Notes that the transaction made or emptied the tree of a root.
    pub(crate) fn note_empty(&mut self, root: u32) {
        self.own.insert(root, OwnCount { last: Some(0), stored: None });
    }

    /// Returns a mark for [`Numbers::give_back`].
    pub(crate) fn mark(&mut self) -> usize {
        self.marked = self.given.len();
        self.marked
    }

    /// Gives the numbers back that were taken since a mark. A number that is no longer the last one stays a gap.
    pub(crate) fn give_back(&mut self, home: &Home, mark: usize, wait: Duration) {
        let mut rows: HashMap<u32, Given> = HashMap::new();
        for given in self.given.drain(mark.min(self.given.len())..).rev() {
            match (self.own.get_mut(&given.root), rows.get_mut(&given.root)) {
                (Some(own), _) => own.last = Some(given.before),
                // Numbers in a row go back at once.
                (None, Some(row)) if row.before == given.number => row.before = given.before,
                (None, Some(_)) => {}
                (None, None) => drop(rows.insert(given.root, given)),
            }
        }
        for row in rows.values() {
            // A failure leaves a gap.
            let _ = lower(home, row, wait);
        }
        self.marked = self.marked.min(mark);
        self.unused = None;
        // A table that was emptied may have its rows again.
        self.own.values_mut().filter(|own| own.stored.is_none()).for_each(|own| own.last = None);
    }

    /// Stores, as a part of the transaction, the counts of the tables in which the transaction counted by itself.
    pub(crate) fn store(&self, home: &Home, txn: &Txn<'_>) -> Outcome<()> {
        for (root, own) in &self.own {
            let key = root.to_be_bytes();
            // The number of an ignored row is given again.
            let is_ignored = self.unused.is_some() && self.unused == own.last.map(|last| (*root, last));
            match own.last.map(|last| last - i64::from(is_ignored)) {
                Some(last) if own.stored == Some(last) => {}
                Some(last) => home.numbers().put(txn, &key, &last.to_be_bytes())?,
                // The next insert looks the highest row up.
                None => drop(home.numbers().delete(txn, &key)?),
            }
        }
        Ok(())
    }

    /// Ends the transaction.
    pub(crate) fn end(&mut self, home: &Home, is_committed: bool, wait: Duration) {
        if !is_committed {
            let own = &self.own;
            self.given.retain(|given| !own.contains_key(&given.root));
            if self.runs_again {
                let (again, wrong) = (std::mem::take(&mut self.given), std::mem::take(&mut self.wrong));
                *self = Numbers { again, wrong, ..Numbers::default() };
                return;
            }
            self.give_back(home, 0, wait);
        } else if let Some((root, number)) = self.unused.filter(|(root, _)| !self.own.contains_key(root)) {
            let _ = lower(home, &Given { root, before: number - 1, number }, wait);
        }
        let wrong = if is_committed { Vec::new() } else { std::mem::take(&mut self.wrong) };
        *self = Numbers { wrong, ..Numbers::default() };
    }
}

impl Table<'_> {
    fn is_free(&self, number: i64) -> Outcome<bool> {
        Ok(self.tree.get_for_update(self.txn, &keys::of_rowid(number))?.is_none())
    }

    /// Returns the highest number of all rows. Locks that row.
    fn highest(&self) -> libtp::Result<i64> {
        Ok(self.tree.cursor(self.txn).last()?.map_or(0, |(key, _)| keys::rowid_of(&key)))
    }

    fn highest_committed(&self) -> libtp::Result<i64> {
        let snapshot = self.home.env().snapshot()?;
        Ok(self.tree.cursor(&snapshot).last()?.map_or(0, |(key, _)| keys::rowid_of(&key)))
    }
}

fn count(record: Option<Vec<u8>>) -> Option<i64> {
    record.and_then(|record| record.try_into().ok()).map(i64::from_be_bytes)
}

/// Counts up. Returns the new count; above the highest row if there is no count, or if a number `above` was taken.
fn next(table: Table<'_>, above: Option<i64>) -> Outcome<Option<i64>> {
    let (home, key) = (table.home, table.root.to_be_bytes());
    let counted = home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(table.wait));
        let before = match (count(home.numbers().get_for_update(txn, &key)?), above) {
            (Some(before), None) => before,
            (before, above) => table.highest_committed()?.max(before.unwrap_or(0)).max(above.unwrap_or(0)).max(0),
        };
        let Some(number) = before.checked_add(1) else { return Ok(None) };
        home.numbers().put(txn, &key, &number.to_be_bytes())?;
        Ok(Some(number))
    })?;
    Ok(counted)
}

/// Raises a count that is lower than a row that the program numbered. Without a count the next insert looks the highest
/// row up.
fn raise(table: Table<'_>, rowid: i64) -> Outcome<()> {
    let (home, key) = (table.home, table.root.to_be_bytes());
    home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(table.wait));
        match count(home.numbers().get_for_update(txn, &key)?) {
            Some(last) if last < rowid => home.numbers().put(txn, &key, &rowid.to_be_bytes()),
            _ => Ok(()),
        }
    })?;
    Ok(())
}

/// Takes back the last number.
fn lower(home: &Home, given: &Given, wait: Duration) -> Outcome<()> {
    let key = given.root.to_be_bytes();
    home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(wait));
        match count(home.numbers().get_for_update(txn, &key)?) {
            Some(last) if last == given.number => home.numbers().put(txn, &key, &given.before.to_be_bytes()),
            _ => Ok(()),
        }
    })?;
    Ok(())
}
