//! Begin and end of the workload's transactions, and the work between their steps: flushes, checkpoints, page writes.

use std::rc::Rc;

use libtp::Durability;

use super::client::{Client, Ending};
use super::failed_syncs::{failed_syncs, is_unfinished};
use super::{Runner, Stop};
use crate::library::{Process, Trouble, LATE_TREE};
use crate::oracle::Effects;

impl Runner {
    pub(super) fn begin(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
        self.begun += 1;
        client.number = self.begun;
        client.effects.clear();
        client.seen = 0;
        client.reads.clear();
        client.reads_only = self.random.chance(1, 6);
        client.ending = match self.random.below(20) {
            0..=9 => Ending::Sync,
            10..=14 => Ending::Relaxed,
            15..=16 => Ending::Async,
            _ => Ending::Abort,
        };
        client.left = match self.random.below(25) {
            0 => 30 + self.random.index(40),
            _ => 1 + self.random.index(8),
        };
        let durability = match client.ending {
            Ending::Relaxed => Durability::Relaxed,
            _ => Durability::Sync,
        };
        match client.process.begin(durability) {
            Ok(txn) => client.txn = Some(Rc::new(txn)),
            Err(trouble) => {
                self.ended += 1;
                self.failure(format!("beginning a transaction failed: {trouble}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn abort(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
        self.count_end()?;
        let Some(txn) = client.take_txn() else { return Ok(()) };
        if let Err(trouble) = txn.abort() {
            self.failure(format!("the abort of transaction {} failed: {trouble}", client.number))?;
        }
        Ok(())
    }

    /// Counts an ended transaction. Ends the phase when more than eight transactions have ended after a failed sync.
    pub(super) fn count_end(&mut self) -> Result<(), Stop> {
        self.ended += 1;
        if self.has_failed_sync() {
            self.failed_after += 1;
            if self.failed_after > 8 {
                return Err(Stop::NextPhase);
            }
        }
        Ok(())
    }

    /// Returns whether a sync has failed. After such a failure no commit may be acknowledged.
    ///
    /// Failed syncs of files without their final name do not count: nothing depends on such a file, and it is made
    /// again.
    pub(super) fn has_failed_sync(&self) -> bool {
        if !self.plan.has_faults || self.machine.disk.activity().failed_sync == 0 {
            return false;
        }
        failed_syncs(&self.machine.disk.trace(), self.opened).iter().any(|name| !is_unfinished(name))
    }

    pub(super) fn end(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
        if client.ending == Ending::Abort {
            self.tally.aborts += 1;
            return self.abort(client);
        }
        let disk = self.machine.disk.clone();
        let (begun, had_failed_sync) = (disk.io_index(), self.has_failed_sync());
        let Some(txn) = client.take_txn() else { return Ok(()) };
        let (answer, pending) = match client.ending {
            Ending::Async => match txn.commit_async() {
                Ok(lsn) => (Ok(()), Some(lsn)),
                Err(trouble) => (Err(trouble), None),
            },
            _ => (txn.commit(), None),
        };
        let effects = std::mem::take(&mut client.effects);
        if let Err(trouble) = answer {
            self.doubt(effects, begun, &trouble);
            self.failure(format!("the commit of transaction {} failed: {trouble}", client.number))?;
            return self.count_end();
        }
        if effects.is_empty() {
            if client.ending == Ending::Sync {
                self.history.settle(client.seen);
                self.history.promise(disk.io_index(), client.seen);
            }
            return self.count_end();
        }
        if had_failed_sync {
            let failed = failed_syncs(&disk.trace(), self.opened);
            let what =
                format!("transaction {} was acknowledged after the sync of {failed:?} had failed", client.number);
            return Err(Stop::Wrong(what));
        }
        self.tally.commits += 1;
        for place in effects.keys() {
            self.writers.insert(place.clone(), self.history.len() + 1);
        }
        let commits = self.history.commit(effects, begun, false);
        match (client.ending, pending) {
            (Ending::Sync, _) => self.history.promise(disk.io_index(), commits),
            (_, Some(lsn)) => self.pending.push((lsn, commits)),
            _ => {}
        }
        self.count_end()
    }

    /// Records a commit whose call failed. The transaction is aborted if the disk was full; otherwise its commit is
    /// doubtful.
    pub(super) fn doubt(&mut self, effects: Effects, begun: usize, trouble: &Trouble) {
        if !effects.is_empty() && !matches!(trouble, Trouble::Full(_)) {
            for place in effects.keys() {
                self.writers.insert(place.clone(), self.history.len() + 1);
            }
            self.history.commit(effects, begun, true);
        }
    }

    /// Does the work of background threads, and of callers that wait for commits. It is done between the steps of
    /// transactions.
    pub(super) fn chores(&mut self, processes: &[Process]) -> Result<(), Stop> {
        let process = &processes[self.random.index(processes.len())];
        self.load_seldom(processes)?;
        self.compact_seldom(processes)?;
        let done = match self.random.below(300) {
            0..=2 => process.checkpoint().map(|_| ()),
            3..=4 => process.flush().map(|()| self.promise_all()),
            5..=20 => process.background_step(),
            21..=30 => match self.pending.pop() {
                Some((lsn, commits)) => {
                    process.wait_durable(lsn).map(|()| self.history.promise(self.machine.disk.io_index(), commits))
                }
                None => Ok(()),
            },
            31 if self.ended > self.plan.transactions / 8 => process.tree(LATE_TREE).map(|_| ()),
            _ => Ok(()),
        };
        match done {
            Ok(()) => Ok(()),
            Err(trouble) => self.failure(format!("background work failed: {trouble}")),
        }
    }

    pub(super) fn promise_all(&mut self) {
        self.history.promise(self.machine.disk.io_index(), self.history.len());
    }
}
