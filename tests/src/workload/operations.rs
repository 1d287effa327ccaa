//! The operations of the workload's transactions.

use super::answers::merged;
use super::client::{Client, Problem};
use super::{ranges, Runner, ACCOUNTS};
use crate::library::{Trouble, Way, CELL_BYTES, HASH, LATE_TREE};
use crate::oracle::{brief, cell, Place, Table, Value};

impl Runner {
    /// Sets a savepoint, makes a few operations, and usually rolls back to the savepoint.
    pub(super) fn nest(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let txn = client.txn.clone().expect("operations are made between begin and end");
        let before = client.effects.clone();
        let savepoint = txn.savepoint();
        for _ in 0..1 + self.parts.below(5) {
            match self.parts.chance(1, 6) {
                true => self.nest(client)?,
                false => self.operate(client)?,
            }
        }
        if self.parts.chance(1, 4) {
            savepoint.keep();
            return Ok(());
        }
        client.effects = before;
        savepoint.roll_back().map_err(|error| Problem::Trouble(Trouble::from(error)))
    }

    pub(super) fn operate(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        match self.ranges.below(50) {
            0..=1 => return self.range(client),
            2..=4 if !client.reads_only => return self.several(client),
            5..=6 => return self.line(client),
            _ => {}
        }
        if client.reads_only {
            return match self.random.below(4) {
                0 => self.scan(client),
                _ => self.get(client),
            };
        }
        match self.random.below(100) {
            0..=44 => self.put(client),
            45..=49 => self.put_new(client),
            50..=63 => self.delete(client),
            64..=73 => self.get(client),
            74..=78 => self.scan(client),
            79..=86 => self.append(client),
            87..=94 => self.change_cell(client),
            _ => self.put_ascending(client),
        }
    }

    pub(super) fn any_tree_place(&mut self) -> Place {
        let number = self.random.index(ACCOUNTS);
        match self.random.below(10) {
            0 => (Table::Tree(LATE_TREE), format!("late/{:03}", number % 60).into_bytes()),
            1..=2 => {
                let back = self.random.below(80);
                ranges::journal(self.journal.saturating_sub(back))
            }
            // Some keys are long, so that inner pages split too.
            3 => {
                let key = format!("account/{number:04}/{}", "long".repeat(40 + number % 40));
                (Table::Tree("accounts"), key.into_bytes())
            }
            4..=5 => (Table::Tree(HASH), format!("part/{number:04}").into_bytes()),
            _ => (Table::Tree("accounts"), format!("account/{number:04}").into_bytes()),
        }
    }

    /// Returns the place of a random cell. The cell need not exist yet: a transaction that finds no cell there keeps
    /// other transactions from adding it.
    pub(super) fn any_cell(&mut self) -> Place {
        cell(1 + self.random.below(self.cells + 2))
    }

    pub(super) fn new_value(&mut self, client: &Client<'_>) -> Value {
        let bytes = match self.random.below(20) {
            0..=12 => 20 + self.random.index(180),
            13..=17 => 200 + self.random.index(1000),
            18 => self.random.index(12),
            _ => 4500 + self.random.index(9000),
        };
        self.filled(client, bytes)
    }

    pub(super) fn filled(&mut self, client: &Client<'_>, bytes: usize) -> Value {
        let mut value = format!("t{}.{} ", client.number, client.left).into_bytes();
        let salt = self.random.next_u64().to_le_bytes();
        while value.len() < bytes {
            let at = value.len();
            value.push(salt[at % 8] ^ at.to_le_bytes()[0]);
        }
        value.truncate(bytes);
        value.into()
    }

    pub(super) fn put(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_tree_place();
        let value = self.new_value(client);
        client.process.put(client.txn(), &place, &value)?;
        client.effects.insert(place, Some(value));
        Ok(())
    }

    pub(super) fn put_ascending(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        self.journal += 1;
        let place = ranges::journal(self.journal);
        let value = self.new_value(client);
        client.process.put(client.txn(), &place, &value)?;
        client.effects.insert(place, Some(value));
        Ok(())
    }

    pub(super) fn put_new(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_tree_place();
        let value = self.new_value(client);
        let Table::Tree(tree) = place.0 else { return Ok(()) };
        let is_new = client.process.put_new(client.txn(), tree, &place.1, &value)?;
        client.has_read(&place);
        let before = self.check_there(client, &place, !is_new)?;
        if before.is_none() {
            client.effects.insert(place, Some(value));
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_tree_place();
        let was_there = client.process.delete(client.txn(), &place)?;
        self.check_there(client, &place, was_there)?;
        if was_there {
            client.effects.insert(place, None);
        }
        Ok(())
    }

    pub(super) fn append(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let value = self.filled(client, CELL_BYTES as usize);
        let number = client.process.append(client.txn(), &value)?;
        let place = cell(number);
        self.check_there(client, &place, false)?;
        self.cells = self.cells.max(number);
        client.effects.insert(place, Some(value));
        Ok(())
    }

    pub(super) fn change_cell(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_cell();
        if self.view(client, &place).is_none() {
            let found = client.process.get(client.txn(), &place)?;
            client.has_read(&place);
            return self.check_value(client, &place, found.as_ref());
        }
        if self.random.chance(1, 5) {
            let was_there = client.process.delete(client.txn(), &place)?;
            self.check_there(client, &place, was_there)?;
            client.effects.insert(place, None);
        } else {
            let value = self.filled(client, CELL_BYTES as usize);
            client.process.put(client.txn(), &place, &value)?;
            client.effects.insert(place, Some(value));
        }
        Ok(())
    }

    pub(super) fn get(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = if self.random.chance(1, 5) { self.any_cell() } else { self.any_tree_place() };
        let found = client.process.get(client.txn(), &place)?;
        client.seen = client.seen.max(self.writer_of(&place, found.as_ref()));
        client.has_read(&place);
        self.check_value(client, &place, found.as_ref())
    }

    pub(super) fn scan(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let (table, key) = self.any_tree_place();
        let Table::Tree(tree) = table else { return Ok(()) };
        let way = if self.random.coin() { Way::Up } else { Way::Down };
        let limit = 1 + self.random.index(12);
        let found = client.process.scan(client.txn(), tree, Some(&key), way, limit)?;
        for (key, value) in &found {
            client.seen = client.seen.max(self.writer_of(&(table, key.clone()), Some(value)));
        }
        let wanted = merged(self.history.last(), &client.effects, &(table, key.clone()), way, limit);
        client.has_scanned(&(table, key.clone()), way, found.last().filter(|_| found.len() == limit));
        if found != wanted {
            let keys = |records: &[(Vec<u8>, Value)]| -> Vec<String> {
                records
                    .iter()
                    .map(|(key, value)| format!("{} ({})", String::from_utf8_lossy(key), brief(Some(value))))
                    .collect()
            };
            // Where calls may fail, a range is not judged: a doubtful commit may or may not be in it. Single reads are
            // judged.
            if !self.plan.has_faults {
                return Err(Problem::Wrong(format!(
                    "WRONG scan {way:?} of {tree} from {}: found {:?}, wanted {:?}",
                    String::from_utf8_lossy(&key),
                    keys(&found),
                    keys(&wanted)
                )));
            }
        }
        Ok(())
    }
}
