//! Bulk loads: new trees, each loaded with many records in one call. Some loads fail in the middle and are repeated.

use super::{Runner, Stop};
use crate::library::{Process, Trouble, LOADED};
use crate::oracle::{Effects, Place, Table, Value};

impl Runner {
    /// Compacts a tree in one call of 60, while transactions run.
    pub(super) fn compact_seldom(&mut self, processes: &[Process]) -> Result<(), Stop> {
        if !self.loads.chance(1, 60) {
            return Ok(());
        }
        let process = &processes[self.loads.index(processes.len())];
        let trees = ["accounts", "journal", LOADED[0]];
        let tree = trees[self.loads.index(if self.loaded > 0 { 3 } else { 2 })];
        match process.compact(tree) {
            // Another transaction has locked the whole tree.
            Ok(()) | Err(Trouble::Conflict) => Ok(()),
            Err(trouble) => self.failure(format!("compacting {tree} failed: {trouble}")),
        }
    }

    /// Loads the next tree if it is due, in one call of 40.
    pub(super) fn load_seldom(&mut self, processes: &[Process]) -> Result<(), Stop> {
        let is_due = self.ended > self.plan.transactions * (self.loaded + 1) / (LOADED.len() + 1);
        if self.loaded == LOADED.len() || !is_due || !self.loads.chance(1, 40) {
            return Ok(());
        }
        let (tree, process) = (LOADED[self.loaded], &processes[self.loads.index(processes.len())]);
        let is_sorted = self.loads.coin();
        let mut records: Vec<(Vec<u8>, Value)> = Vec::new();
        for number in 0..100 + self.loads.index(500) {
            let bytes = if self.loads.chance(1, 60) { 5000 } else { self.loads.index(200) };
            let key = match self.loads.chance(1, 10) {
                true => format!("{number:05}/{}", "long".repeat(self.loads.index(150))),
                false => format!("{number:05}"),
            };
            records.push((key.into_bytes(), vec![b'v'; bytes].into()));
        }
        if !is_sorted {
            for at in (1..records.len()).rev() {
                records.swap(at, self.loads.index(at + 1));
            }
            // Repeats the first key at the end. The load must store the later value.
            let again = (records[0].0.clone(), Value::from(&b"the later"[..]));
            records.push(again);
        }
        let broken_at = self.loads.chance(1, 3).then(|| self.loads.index(records.len()));
        let disk = self.machine.disk.clone();
        let (begun, had_failed_sync) = (disk.io_index(), self.has_failed_sync());
        let place = |key: &Vec<u8>| -> Place { (Table::Tree(tree), key.clone()) };
        let answer = process.load(tree, &records, is_sorted, broken_at);
        if matches!(answer, Ok(false)) {
            return Ok(());
        }
        let effects: Effects = records.iter().map(|(key, value)| (place(key), Some(value.clone()))).collect();
        if let Err(trouble) = answer {
            if broken_at.is_none() {
                self.doubt(effects, begun, &trouble);
            }
            self.loaded += 1;
            return self.failure(format!("loading {tree} failed: {trouble}"));
        }
        if had_failed_sync {
            return Err(Stop::Wrong(format!("{tree} was loaded after a sync had failed")));
        }
        self.loaded += 1;
        for place in effects.keys() {
            self.writers.insert(place.clone(), self.history.len() + 1);
        }
        let commits = self.history.commit(effects, begun, false);
        self.history.promise(disk.io_index(), commits);
        Ok(())
    }
}
