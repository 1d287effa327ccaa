//! Mixed transactions of four simulated processes. One thread interleaves their steps, and one seed determines the run.
//!
//! The workload has five phases. After phase 1, two processes leave and two others join. After phase 2, all processes
//! are killed, and the next process repairs their shared memory. After phase 3, all processes leave in good order.
//! After phase 4, all processes are killed and their memory is lost, but the disk loses nothing. After phase 5, all
//! processes leave. Transactions that are open at a kill must be undone.
//!
//! Small pages, a small cache and small log segments let five hundred transactions meet every case: splits, values of
//! many pages, evictions of uncommitted pages, checkpoints, recycled segments, aborts of long transactions.
//!
//! Every answer of the library is compared with the model at once: a wrong answer fails the workload even without a
//! crash.

mod answers;
mod client;
mod failed_syncs;
mod lines;
mod loads;
mod operations;
mod ranges;
mod transactions;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use libtp::{CommitLsn, Durability};
use libtp_sim::{Accepted, Random, SimDisk, WholeWrites};

use crate::library::{Layout, Machine, Process, Running, Trouble, Way};
use crate::oracle::{name, Allowed, Era, History, Place};

use client::Client;
use client::Problem;
use failed_syncs::failed_syncs;

/// A plan of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed, which determines the whole run.
    pub seed: u64,
    /// The number of transactions of the run.
    pub transactions: usize,
    /// Calls of the disk may fail. A transaction that meets an error is aborted, and the next transaction begins.
    pub has_faults: bool,
}

impl Plan {
    /// Returns the workload of docs/reliability.md.
    pub fn full(seed: u64) -> Plan {
        Plan { seed, transactions: 500, has_faults: false }
    }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Transactions that committed something.
    pub commits: u64,
    /// Transactions that were aborted on purpose.
    pub aborts: u64,
    /// Transactions that were refused a lock and were aborted.
    pub conflicts: u64,
    /// Calls that failed because of a fault of the disk.
    pub failures: u64,
}

impl Tally {
    /// Returns the sums of both counts.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            commits: self.commits + other.commits,
            aborts: self.aborts + other.aborts,
            conflicts: self.conflicts + other.conflicts,
            failures: self.failures + other.failures,
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} commits, {} aborts, {} conflicts", self.commits, self.aborts, self.conflicts)
    }
}

/// A workload that has run.
pub struct Run {
    /// The machine, with its disk and the record of all its changes.
    pub machine: Machine,
    /// The histories of the eras, in order.
    pub eras: Vec<Era>,
    /// Counts.
    pub tally: Tally,
    /// If the run ended between the loss of memory and the check of the state after it: the I/O index of the loss.
    pub lost_at: Option<usize>,
}

impl Run {
    /// Returns the history of the era of an I/O index.
    pub fn history_at(&self, position: usize) -> &History {
        let at = self.eras.partition_point(|era| era.from <= position);
        &self.eras[at.max(1) - 1].history
    }

    /// Returns the states that may be found when the environment is opened on the machine's final memory and disk.
    pub fn allowed_at_end(&self) -> Allowed {
        self.lost_at.map_or(self.history().allowed_at_end(), |position| self.history().allowed_at(position))
    }

    /// Returns the whole history.
    pub fn history(&self) -> &History {
        &self.eras[self.eras.len() - 1].history
    }
}

/// Runs a plan on a new disk; `prepare` may make the disk's calls fail.
///
/// # Errors
/// The library answered wrongly, or failed although no call of the disk was made to fail.
pub fn run(plan: Plan, prepare: impl FnOnce(&SimDisk)) -> Result<Run, String> {
    let disk = SimDisk::new(plan.seed);
    if let Some(promise) = promise_of(plan.seed) {
        disk.promise_whole_writes(promise);
    }
    prepare(&disk);
    let machine = Machine::new(disk, Layout::of_seed(plan.seed));
    let mut runner = Runner {
        plan,
        machine: machine.clone(),
        random: Random::new(plan.seed ^ 0x776f_726b),
        parts: Random::new(plan.seed ^ 0x7061_7274),
        ranges: Random::new(plan.seed ^ 0x7261_6e67),
        loads: Random::new(plan.seed ^ 0x6c6f_6164),
        loaded: 0,
        history: History::new(),
        from: 0,
        lost_at: None,
        past: Vec::new(),
        writers: BTreeMap::new(),
        pending: Vec::new(),
        cells: 0,
        journal: 0,
        begun: 0,
        ended: 0,
        opened: 0,
        failed_after: 0,
        tally: Tally::default(),
    };
    if let Err(Stop::Wrong(what)) = runner.phases() {
        return Err(format!("{what}, while the workload ran"));
    }
    let Runner { history, tally, mut past, from, lost_at, .. } = runner;
    past.push(Era { from, history });
    Ok(Run { machine, eras: past, tally, lost_at })
}

/// Returns what the disk of a seed promises to write whole: nothing, all pages, all pages although it soon refuses
/// them, or all pages although it refuses those of some processes.
fn promise_of(seed: u64) -> Option<WholeWrites> {
    let accepted = match seed % 4 {
        0 => return None,
        1 => Accepted::All,
        2 => Accepted::First(10 + seed % 37),
        _ => Accepted::OfOddProcesses,
    };
    Some(WholeWrites { bytes: 512..=8192, accepted })
}

/// The reason that a workload ends early.
enum Stop {
    /// The environment accepts no more changes until all processes have closed it.
    NextPhase,
    /// The environment could not be opened, or its state could not be judged, because of the disk's faults.
    Cut,
    /// The library did something wrong.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

struct Runner {
    plan: Plan,
    machine: Machine,
    random: Random,
    /// Random numbers for the parts of transactions.
    parts: Random,
    /// Random numbers for the ranges that are counted and deleted.
    ranges: Random,
    /// Random numbers for the loads.
    loads: Random,
    /// The number of trees loaded so far.
    loaded: usize,
    history: History,
    /// The I/O index at which the era of `history` begins, and the eras before it.
    from: usize,
    past: Vec<Era>,
    lost_at: Option<usize>,
    /// The last commit that changed each place.
    writers: BTreeMap<Place, usize>,
    /// Commits that no caller has waited for yet.
    pending: Vec<(CommitLsn, usize)>,
    cells: u64,
    journal: u64,
    begun: u64,
    ended: usize,
    /// The I/O index after the last opening at which no other process had the environment open.
    opened: usize,
    /// The number of transactions that ended after the first failed sync.
    failed_after: usize,
    tally: Tally,
}

const PROCESSES: usize = 4;
const PHASES: usize = 5;
const ACCOUNTS: usize = 300;

impl Runner {
    fn phases(&mut self) -> Result<(), Stop> {
        let mut processes = self.start_all(PROCESSES)?;
        self.phase(&processes, 1, true)?;
        processes.truncate(2);
        let newcomers = self.start_all(2)?;
        processes.extend(newcomers);
        self.phase(&processes, 2, false)?;
        processes.into_iter().for_each(Process::kill);
        let processes = self.open_again()?;
        self.compare(&processes[0], "after all processes were killed")?;
        self.phase(&processes, 3, true)?;
        drop(processes);
        let processes = self.open_again()?;
        self.compare(&processes[1], "after all processes left")?;
        self.phase(&processes, 4, false)?;
        processes.into_iter().for_each(Process::kill);
        self.machine.lose_memory();
        self.lost_at = Some(self.machine.disk.io_index());
        let processes = self.open_again()?;
        self.begin_era(&processes[0])?;
        self.phase(&processes, PHASES, true)
    }

    /// Begins a new era after the memory was lost. Commits that were not promised to be durable may be lost; the new
    /// era's history omits those that were lost.
    fn begin_era(&mut self, process: &Process) -> Result<(), Stop> {
        let when = "after all processes were killed and their memory lost";
        let position = self.machine.disk.io_index();
        let state = match process.state(Way::Up) {
            Ok(state) => state,
            Err(_) if self.plan.has_faults => return Err(Stop::Cut),
            Err(trouble) => return Err(Stop::Wrong(format!("{when}, reading failed: {trouble}"))),
        };
        match self.history.judge(&state, self.history.allowed_at(position)) {
            Ok(Some(commits)) => {
                let from = self.machine.disk.io_index();
                let history = self.history.resumed(commits, from);
                let before = std::mem::replace(&mut self.history, history);
                self.past.push(Era { from: std::mem::replace(&mut self.from, from), history: before });
                self.lost_at = None;
                self.pending.clear();
                self.writers.clear();
                for (effects, number) in self.history.effects().zip(1..) {
                    self.writers.extend(effects.keys().map(|place| (place.clone(), number)));
                }
                Ok(())
            }
            Ok(None) => Err(Stop::Cut),
            Err(what) => Err(Stop::Wrong(format!("{when} ({}): {what}", process.opened()))),
        }
    }

    /// Starts processes while no process has the environment open. So earlier failures of syncs do not forbid commits.
    ///
    /// Ends the run if the sync of a directory has failed: the directory's names may then be lost at any time, until
    /// the disk is mounted again. Real filesystems refuse further work in this case.
    fn open_again(&mut self) -> Result<Vec<Process>, Stop> {
        let names = failed_syncs(&self.machine.disk.trace(), 0);
        if self.plan.has_faults && names.iter().any(|name| name == "/" || name == "log") {
            return Err(Stop::Cut);
        }
        self.failed_after = 0;
        let first = self.start_all(1)?;
        self.opened = self.machine.disk.io_index();
        let others = self.start_all(PROCESSES - 1)?;
        Ok(first.into_iter().chain(others).collect())
    }

    fn start_all(&mut self, count: usize) -> Result<Vec<Process>, Stop> {
        let mut processes = Vec::new();
        for _ in 0..count {
            match self.machine.start() {
                Ok(process) => processes.push(process),
                Err(_) if self.plan.has_faults => return Err(Stop::Cut),
                Err(trouble) => return Err(Stop::Wrong(format!("opening failed: {trouble}"))),
            }
        }
        Ok(processes)
    }

    /// Checks that the state is exactly the committed state.
    fn compare(&mut self, process: &Process, when: &str) -> Result<(), Stop> {
        match process.state(Way::Up) {
            Ok(state) => match self.history.judge(&state, self.history.allowed_at_end()) {
                Ok(_) => Ok(()),
                Err(what) => Err(Stop::Wrong(format!("{when} ({}): {what}", process.opened()))),
            },
            Err(_) if self.plan.has_faults => Ok(()),
            Err(trouble) => Err(Stop::Wrong(format!("{when}, reading failed: {trouble}"))),
        }
    }

    /// Runs the phase's share of the transactions. Transactions that are open at the phase's end are dropped if the
    /// phase is orderly; otherwise they die with their processes.
    fn phase(&mut self, processes: &[Process], phase: usize, is_orderly: bool) -> Result<(), Stop> {
        let mut clients: Vec<Client<'_>> = processes.iter().map(Client::new).collect();
        while self.ended < self.plan.transactions * phase / PHASES {
            let (at, before) = (self.random.index(clients.len()), self.history.len());
            let stepped = self.step(&mut clients[at]).and_then(|()| self.chores(processes));
            let stepped = stepped.and_then(|()| self.check_reads(&clients, at, before));
            if let Err(stop) = stepped {
                if matches!(stop, Stop::NextPhase) {
                    self.ended = self.plan.transactions * phase / PHASES;
                    break;
                }
                // The sessions are not ended in good order: the end might wait for ever for latches or locks that
                // stayed held.
                kill_all(clients);
                return Err(stop);
            }
        }
        if self.plan.has_faults {
            self.check_readable_records(processes)?;
        }
        if is_orderly {
            // Some transactions end by being dropped, which aborts them.
            drop(clients);
        } else {
            kill_all(clients);
        }
        Ok(())
    }

    /// Checks that the last commit changed no place that another running transaction has read.
    fn check_reads(&self, clients: &[Client<'_>], committer: usize, before: usize) -> Result<(), Stop> {
        let Some(effects) = self.history.effects().nth_back(0).filter(|_| self.history.len() > before) else {
            return Ok(());
        };
        let others = clients.iter().enumerate().filter(|(at, client)| *at != committer && client.txn.is_some());
        for (_, reader) in others {
            for (from, to) in &reader.reads {
                if let Some((place, _)) =
                    effects.range((Bound::Included(from), to.as_ref())).find(|(it, _)| it.0 == from.0)
                {
                    return Err(Stop::Wrong(format!(
                        "WRONG: transaction {} read {}, and before its end transaction {} committed a change of this \
                         record",
                        reader.number,
                        name(place),
                        clients[committer].number
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks that every record that can still be read is right, also after the environment has stopped accepting
    /// changes.
    fn check_readable_records(&mut self, processes: &[Process]) -> Result<(), Stop> {
        let places: Vec<Place> = self.history.last().records().keys().step_by(3).cloned().collect();
        for (at, place) in places.iter().enumerate() {
            let mut client = Client::new(&processes[at % processes.len()]);
            let Ok(txn) = client.process.begin(Durability::Relaxed) else { continue };
            if let Ok(found) = client.process.get(&txn, place) {
                client.txn = Some(Rc::new(txn));
                if let Err(Problem::Wrong(what)) = self.check_value(&client, place, found.as_ref()) {
                    return Err(Stop::Wrong(format!("{what}, read after calls of the disk had failed")));
                }
            }
        }
        Ok(())
    }

    fn step<'p>(&mut self, client: &mut Client<'p>) -> Result<(), Stop> {
        if client.txn.is_none() {
            return self.begin(client);
        }
        if client.left == 0 {
            return self.end(client);
        }
        client.left -= 1;
        let is_part = !client.reads_only && self.parts.chance(1, 12);
        let done = if is_part { self.nest(client) } else { self.operate(client) };
        match done {
            Ok(()) => Ok(()),
            Err(Problem::Wrong(what)) => Err(Stop::Wrong(what)),
            Err(Problem::Trouble(Trouble::Conflict)) => {
                self.tally.conflicts += 1;
                self.abort(client)
            }
            Err(Problem::Trouble(trouble)) => {
                self.failure(format!("an operation of transaction {} failed: {trouble}", client.number))?;
                self.abort(client)
            }
        }
    }

    /// Counts an error of the library. The error is wrong unless the plan lets calls of the disk fail.
    fn failure(&mut self, what: String) -> Result<(), Stop> {
        self.tally.failures += 1;
        if self.plan.has_faults && !what.contains("WRONG") {
            return Ok(());
        }
        Err(Stop::Wrong(what))
    }
}

/// Leaves the transactions in the state in which they would be if their processes were killed. The caller kills the
/// processes.
fn kill_all(clients: Vec<Client<'_>>) {
    clients.into_iter().filter_map(|mut client| client.take_txn()).for_each(Running::die);
}
