//! Rowids of new rows. A rowid is called a number here.
//!
//! `sql.rowid` has a record for each table, the count: the last number that was given to a row. The environment has one
//! of two rules (`PRAGMA tp_rowid`):
//!
//! * exact: the first insert of a transaction into a table locks the table's count until the transaction ends. Other
//!   inserts that need a number of this table wait. So rows become visible in the order of their numbers, and the
//!   numbers of an undone transaction are given again.
//! * free: a separate short transaction raises the count, so no insert waits until another transaction ends. When a
//!   transaction is undone, the count is lowered again if no later number was taken; otherwise the transaction's
//!   numbers stay unused.
//!
//! A wrong count does not overwrite a row. With the rule free, a transaction checks that there is no row with the
//! number before it uses the number. With the rule exact, it stores the row as a new key, which fails if the row
//! exists.
//!
//! A transaction has its own count of a table if it has locked the table's count, or has made or emptied the table. It
//! stores its own counts at its commit.

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
    /// The longest wait for a lock by a separate transaction that changes the count.
    pub(crate) wait: Duration,
}

/// The numbers that a connection's transaction has taken.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The transaction's own counts, by root.
    own: HashMap<u32, OwnCount>,
    given: Vec<Given>,
    /// Numbers that the transaction took before it was the victim of a deadlock. The statements that run again take
    /// these numbers again.
    again: Vec<Given>,
    /// Whether the statements of the transaction run again after its next rollback.
    runs_again: bool,
    /// Tables whose count was found to be wrong since the last commit.
    wrong: Vec<u32>,
    /// The length of `given` at the last savepoint.
    marked: usize,
    /// The number that was given last, if its row was not stored yet. If SQLite ignores the row, no row gets the
    /// number.
    unused: Option<(u32, i64)>,
}

/// A transaction's own count of a table: it has locked the table's record in `sql.rowid`, or all of the table's rows.
struct OwnCount {
    /// The last number; `None` if the highest row must be looked up.
    last: Option<i64>,
    /// The count in `sql.rowid`; `None` if there is no record, or if the transaction has made or emptied the table.
    stored: Option<i64>,
}

/// Consecutive numbers of a table, from `before` + 1 to `number`.
struct Given {
    root: u32,
    before: i64,
    number: i64,
}

/// The number of attempts to find a free number.
const ATTEMPTS: usize = 1000;

impl Numbers {
    /// Returns the number for a new row, or `None` if the last number is the largest possible number.
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

    /// Notes that the transaction has taken the numbers from `before` + 1 to `number` of a table.
    fn give(&mut self, root: u32, before: i64, number: i64) {
        if let Some(own) = self.own.get_mut(&root) {
            own.last = Some(number);
        }
        match self.given[self.marked..].last_mut() {
            Some(last) if last.root == root && last.number == before => last.number = number,
            _ => self.given.push(Given { root, before, number }),
        }
    }

    /// Returns whether a rowid is the number that was given last, in a table of which the transaction has its own
    /// count.
    pub(crate) fn is_own(&self, root: u32, rowid: i64) -> bool {
        self.unused == Some((root, rowid)) && self.own.contains_key(&root)
    }

    /// Notes that the count of a table was wrong: the next number is the highest row's number plus one, and the next
    /// commit stores a correct count.
    pub(crate) fn distrust(&mut self, root: u32) {
        self.own.insert(root, OwnCount { last: None, stored: None });
        self.unused = None;
        self.wrong.push(root);
    }

    /// Locks a table's count until the transaction ends, and begins the transaction's own count.
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

    /// Notes that the statements of the transaction run again after its next rollback, and then take the same numbers.
    pub(crate) fn keep_for_replay(&mut self) {
        self.runs_again = true;
    }

    /// Notes that a row is stored under a number that no row had.
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

    /// Notes that the transaction has made or emptied the tree of a root.
    pub(crate) fn note_empty(&mut self, root: u32) {
        self.own.insert(root, OwnCount { last: Some(0), stored: None });
    }

    /// Returns a mark for [`Numbers::give_back`], at a new savepoint.
    pub(crate) fn mark(&mut self) -> usize {
        self.marked = self.given.len();
        self.marked
    }

    /// Lowers each count to its value at a mark, so that the numbers taken since then are given again. If another
    /// transaction has taken a later number, the numbers stay unused.
    pub(crate) fn give_back(&mut self, home: &Home, mark: usize, wait: Duration) {
        let mut rows: HashMap<u32, Given> = HashMap::new();
        for given in self.given.drain(mark.min(self.given.len())..).rev() {
            match (self.own.get_mut(&given.root), rows.get_mut(&given.root)) {
                (Some(own), _) => own.last = Some(given.before),
                // Consecutive numbers are given back by one change of the count.
                (None, Some(row)) if row.before == given.number => row.before = given.before,
                (None, Some(_)) => {}
                (None, None) => drop(rows.insert(given.root, given)),
            }
        }
        for row in rows.values() {
            // After a failure the numbers stay unused.
            let _ = lower(home, row, wait);
        }
        self.marked = self.marked.min(mark);
        self.unused = None;
        // If the rollback has undone the emptying of a table, the table has its rows again.
        self.own.values_mut().filter(|own| own.stored.is_none()).for_each(|own| own.last = None);
    }

    /// Stores the transaction's own counts in `sql.rowid`, as a part of the transaction.
    pub(crate) fn store(&self, home: &Home, txn: &Txn<'_>) -> Outcome<()> {
        for (root, own) in &self.own {
            let key = root.to_be_bytes();
            // If SQLite has ignored the last row, the next transaction gets its number.
            let is_ignored = self.unused.is_some() && self.unused == own.last.map(|last| (*root, last));
            match own.last.map(|last| last - i64::from(is_ignored)) {
                Some(last) if own.stored == Some(last) => {}
                Some(last) => home.numbers().put(txn, &key, &last.to_be_bytes())?,
                // Without a record, the next insert looks up the highest row.
                None => drop(home.numbers().delete(txn, &key)?),
            }
        }
        Ok(())
    }

    /// Notes the end of the transaction. If the transaction was undone, gives back its numbers.
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

    /// Returns the number of the highest row, and locks the row.
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

/// Raises the count by one, and returns it. If there is no count, or if the number `above` was not free, the new count
/// is also above the highest row.
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

/// Raises the count to the rowid of a row that the program has numbered, if the count is lower. If there is no count,
/// does nothing: the next insert looks up the highest row.
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

/// If no later number was taken, lowers the count to the number before the given numbers.
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
