//! Numbers of new rows.
//!
//! The last number of each table is a record of `sql.rowid`. A transaction beside the main one counts it up, so no insert
//! waits for another's end. Numbers have gaps where transactions were undone, except where no other transaction took a number since: then the
//! number is given back. Each number is looked up before use, so a wrong count costs a search and no row.
//!
//! A transaction that made or emptied a table holds the whole of it. It counts by itself, and stores the count at its
//! commit.

use std::collections::HashMap;
use std::time::Duration;

use libtp::{Db, Durability, Txn};

use crate::answer::Outcome;
use crate::home::Home;
use crate::keys;

/// The numbers that a transaction has taken.
#[derive(Default)]
pub(crate) struct Numbers {
    /// By root, the last number of a table that the transaction made or emptied; `None` if it must be looked up.
    own: HashMap<u32, Option<i64>>,
    given: Vec<Given>,
    /// The number that was given last, until its row is put. An ignored row leaves it.
    unused: Option<(u32, i64)>,
}

struct Given {
    root: u32,
    before: i64,
    number: i64,
}

/// The number of attempts to find a free number.
const ATTEMPTS: usize = 1000;

impl Numbers {
    /// Returns a number for a new row, or `None` if there is none above all others.
    pub(crate) fn take(
        &mut self,
        home: &Home,
        txn: &Txn<'_>,
        tree: &Db,
        root: u32,
        wait: Duration,
    ) -> Outcome<Option<i64>> {
        if let Some(&last) = self.own.get(&root) {
            return self.take_own(txn, tree, root, last);
        }
        if let Some((_, number)) = self.unused.filter(|(of, _)| *of == root) {
            if is_free(txn, tree, number)? {
                return Ok(Some(number));
            }
        }
        let mut above = None;
        for _ in 0..ATTEMPTS {
            let Some((before, number)) = next(home, tree, root, above, wait)? else { return Ok(None) };
            if is_free(txn, tree, number)? {
                self.given.push(Given { root, before, number });
                self.unused = Some((root, number));
                return Ok(Some(number));
            }
            above = Some(number);
        }
        Ok(None)
    }

    fn take_own(&mut self, txn: &Txn<'_>, tree: &Db, root: u32, last: Option<i64>) -> Outcome<Option<i64>> {
        let highest = || Ok::<_, libtp::Error>(tree.cursor(txn).last()?.map_or(0, |(key, _)| keys::rowid_of(&key)));
        let mut number = last.map_or_else(highest, Ok)?.max(0).checked_add(1);
        if let Some(counted) = number {
            if !is_free(txn, tree, counted)? {
                number = highest()?.max(0).checked_add(1);
            }
        }
        if number.is_some() {
            self.own.insert(root, number);
        }
        Ok(number)
    }

    /// Notes the row that is put.
    pub(crate) fn note(&mut self, home: &Home, root: u32, rowid: i64, wait: Duration) -> Outcome<()> {
        if let Some(last) = self.own.get_mut(&root) {
            *last = last.map(|last| last.max(rowid));
            return Ok(());
        }
        if self.unused == Some((root, rowid)) {
            self.unused = None;
            return Ok(());
        }
        if rowid <= 0 || home.has_reached(root, rowid) {
            return Ok(());
        }
        raise(home, root, rowid, wait)
    }

    /// Notes that the transaction made or emptied the tree of a root.
    pub(crate) fn note_empty(&mut self, root: u32) {
        self.own.insert(root, Some(0));
    }

    /// Returns the number of numbers taken.
    pub(crate) fn taken(&self) -> usize {
        self.given.len()
    }

    /// Gives the numbers back that were taken after the first `kept`. A number that is not the last any more stays a gap.
    pub(crate) fn give_back(&mut self, home: &Home, kept: usize, wait: Duration) {
        let mut rows: HashMap<u32, Given> = HashMap::new();
        for given in self.given.drain(kept.min(self.given.len())..).rev() {
            match rows.get_mut(&given.root) {
                // Numbers in a row go back at once.
                Some(row) if row.before == given.number => row.before = given.before,
                Some(_) => {}
                None => drop(rows.insert(given.root, given)),
            }
        }
        for row in rows.values() {
            // A failure leaves a gap.
            let _ = lower(home, row, wait);
        }
        self.unused = None;
        // A table may have fewer rows than was counted.
        self.own.values_mut().for_each(|last| *last = None);
    }

    /// Stores the counts of the transaction's own tables, in the transaction.
    pub(crate) fn store(&self, home: &Home, txn: &Txn<'_>) -> Outcome<()> {
        for (root, last) in &self.own {
            match last {
                Some(last) => home.numbers().put(txn, &root.to_be_bytes(), &last.to_be_bytes())?,
                // The next insert looks the highest row up.
                None => drop(home.numbers().delete(txn, &root.to_be_bytes())?),
            }
        }
        Ok(())
    }

    /// Ends the transaction.
    pub(crate) fn end(&mut self, home: &Home, is_committed: bool, wait: Duration) {
        self.own.keys().for_each(|root| home.forget_reached(*root));
        match (is_committed, self.unused) {
            (false, _) => self.give_back(home, 0, wait),
            (true, Some((root, number))) => {
                let last = self.given.iter().rfind(|given| given.root == root && given.number == number);
                let _ = last.map(|given| lower(home, given, wait));
            }
            (true, None) => {}
        }
        *self = Numbers::default();
    }
}

fn is_free(txn: &Txn<'_>, tree: &Db, number: i64) -> Outcome<bool> {
    Ok(tree.get_for_update(txn, &keys::of_rowid(number))?.is_none())
}

fn count(record: Option<Vec<u8>>) -> Option<i64> {
    record.and_then(|record| record.try_into().ok()).map(i64::from_be_bytes)
}

/// Counts up. Returns the count before and after; above the highest row if there is no count, or if a number `above` was taken.
fn next(home: &Home, tree: &Db, root: u32, above: Option<i64>, wait: Duration) -> Outcome<Option<(i64, i64)>> {
    let key = root.to_be_bytes();
    let counted = home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(wait));
        let before = match (count(home.numbers().get_for_update(txn, &key)?), above) {
            (Some(before), None) => before,
            (before, above) => {
                let snapshot = home.env().snapshot()?;
                let highest = tree.cursor(&snapshot).last()?.map_or(0, |(key, _)| keys::rowid_of(&key));
                highest.max(before.unwrap_or(0)).max(above.unwrap_or(0)).max(0)
            }
        };
        let Some(number) = before.checked_add(1) else { return Ok(None) };
        home.numbers().put(txn, &key, &number.to_be_bytes())?;
        Ok(Some((before, number)))
    })?;
    if let Some((_, number)) = counted {
        home.note_reached(root, number);
    }
    Ok(counted)
}

/// Raises a count that is lower than a row that the program numbered. Without a count the next insert looks the highest row up.
fn raise(home: &Home, root: u32, rowid: i64, wait: Duration) -> Outcome<()> {
    let key = root.to_be_bytes();
    let reached = home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(wait));
        match count(home.numbers().get_for_update(txn, &key)?) {
            None => Ok(None),
            Some(last) if last >= rowid => Ok(Some(last)),
            Some(_) => home.numbers().put(txn, &key, &rowid.to_be_bytes()).map(|()| Some(rowid)),
        }
    })?;
    if let Some(reached) = reached {
        home.note_reached(root, reached);
    }
    Ok(())
}

/// Takes back the last number.
fn lower(home: &Home, given: &Given, wait: Duration) -> Outcome<()> {
    let key = given.root.to_be_bytes();
    home.forget_reached(given.root);
    home.env().run_with(Durability::Relaxed, |txn| {
        txn.set_lock_timeout(Some(wait));
        match count(home.numbers().get_for_update(txn, &key)?) {
            Some(last) if last == given.number => home.numbers().put(txn, &key, &given.before.to_be_bytes()),
            _ => Ok(()),
        }
    })?;
    Ok(())
}
