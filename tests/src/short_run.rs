//! A few commits on a simulated disk, and the judgement of the images that a power cut then leaves.

use libtp::Durability;
use libtp_sim::{LossMode, SimDisk};

use crate::crash_image::{judge, Thoroughness};
use crate::library::{Layout, Machine, Process, Running, Trouble};
use crate::oracle::{Effects, History, Table, Value};

/// Prefix of the names of the log's segments; a segment that is being prepared has another name.
pub const LOG: &str = "log.0";

/// Describes a failure that makes a run useless, because the tested event did not happen.
pub fn unusable(trouble: Trouble) -> String {
    format!("UNUSABLE: {trouble}")
}

/// A simulated machine with the history of its commits.
pub struct ShortRun {
    /// The machine.
    pub machine: Machine,
    /// The commits and their promises.
    pub history: History,
    layout: Layout,
    seed: u64,
    records: u64,
}

impl ShortRun {
    /// Makes a machine whose transactions put `records` records each.
    pub fn new(seed: u64, records: u64) -> ShortRun {
        let layout = Layout::of_seed(seed);
        ShortRun { machine: Machine::new(SimDisk::new(seed), layout), history: History::new(), layout, seed, records }
    }

    /// Begins a transaction and puts its records under keys that begin with `group`.
    ///
    /// # Errors
    /// The library's errors.
    pub fn change<'p>(&self, process: &'p Process, group: &str, text: &str) -> Result<(Running<'p>, Effects), Trouble> {
        let txn = process.begin(Durability::Sync)?;
        let mut effects = Effects::new();
        for number in 0..self.records {
            let place = (Table::Tree("accounts"), format!("{group}/{number:04}").into_bytes());
            let value = Value::from(format!("{text} {number} {}", self.seed).as_bytes());
            process.put(&txn, &place, &value)?;
            effects.insert(place, Some(value));
        }
        Ok((txn, effects))
    }

    /// Commits a transaction, and records the commit as durable.
    ///
    /// # Errors
    /// The library's errors.
    pub fn put(&mut self, process: &Process, group: &str, text: &str) -> Result<(), Trouble> {
        let begun = self.machine.disk.io_index();
        let (txn, effects) = self.change(process, group, text)?;
        txn.commit()?;
        let commits = self.history.commit(effects, begun, false);
        self.history.promise(self.machine.disk.io_index(), commits);
        Ok(())
    }

    /// Cuts the power at the I/O index `position`, and judges the image of each loss mode.
    ///
    /// # Errors
    /// A promised commit is lost; the error names the `event` before the power cut.
    pub fn judge(&self, position: usize, event: &str) -> Result<(), String> {
        let mut walk = self.machine.disk.crash_images();
        walk.advance_to(position);
        for mode in LossMode::ALL {
            let allowed = self.history.allowed_at(position);
            judge(&walk.image(mode, self.seed), self.layout, &self.history, allowed, Thoroughness::default())
                .map_err(|wrong| format!("{wrong}, after {event} ({mode:?})"))?;
        }
        Ok(())
    }
}
