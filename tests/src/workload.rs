//! Mixed transactions of four simulated processes, interleaved step by step by one thread, all from one seed.
//!
//! Five phases. After the first, two processes leave and two others join. After the second, all processes are killed
//! and their shared memory is repaired. After the third, all leave in good order. After the fourth, all are killed and
//! their memory is lost, while the machine goes on. After the last, all leave. Transactions that are open at a kill
//! must vanish.
//!
//! Small pages, a small cache and small log segments let five hundred transactions meet every case: splits, values of
//! many pages, evictions of uncommitted pages, checkpoints, recycled segments, aborts of long transactions.
//!
//! Every answer of the library is compared with the model at once: a wrong answer fails the workload even without a
//! crash.

mod failed_syncs;
mod lines;
mod loads;
mod ranges;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use libtp::{CommitLsn, Durability};
use libtp_sim::{Random, SimDisk};

use crate::library::{Layout, Machine, Process, Running, Trouble, Way, CELL_BYTES, HASH, LATE_TREE};
use crate::oracle::{brief, cell, name, Allowed, Effects, Era, History, Place, State, Table, Value};

use failed_syncs::{failed_syncs, is_unfinished};

/// A plan of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed, which determines the whole run.
    pub seed: u64,
    /// Transactions in all.
    pub transactions: usize,
    /// Calls may fail: a transaction that meets an error is aborted and the next transaction begins.
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
    /// Transactions that met a lock and were aborted.
    pub conflicts: u64,
    /// Calls that failed because of a planted fault.
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
    /// The history with its promises, era by era.
    pub eras: Vec<Era>,
    /// Counts.
    pub tally: Tally,
    /// The I/O index at which the memory was lost, if the state after that loss could not be read yet.
    pub lost_at: Option<usize>,
}

impl Run {
    /// Returns the history as of an I/O index.
    pub fn history_at(&self, position: usize) -> &History {
        let at = self.eras.partition_point(|era| era.from <= position);
        &self.eras[at.max(1) - 1].history
    }

    /// Returns the states that the machine's memory and disk together may have.
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
/// The library answered wrongly, or failed without a planted fault.
pub fn run(plan: Plan, prepare: impl FnOnce(&SimDisk)) -> Result<Run, String> {
    let disk = SimDisk::new(plan.seed);
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

/// The reason that a workload ends early.
enum Stop {
    /// The environment accepts no more changes until it is opened anew.
    NextPhase,
    /// The environment could not be opened, or its state not be judged, and the faults explain that.
    Cut,
    /// The library is wrong.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

/// How a transaction is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Sync,
    Relaxed,
    Async,
    Abort,
}

struct Client<'p> {
    process: &'p Process,
    /// Shared with the open part of the transaction, if there is one.
    txn: Option<Rc<Running<'p>>>,
    number: u64,
    effects: Effects,
    /// The highest commit whose effects were read.
    seen: usize,
    /// The read places: no other transaction may change them before this one ends.
    reads: Vec<(Place, Bound<Place>)>,
    ending: Ending,
    reads_only: bool,
    left: usize,
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
    /// The number of trees that are loaded.
    loaded: usize,
    history: History,
    /// The I/O index at which `history` begins to hold, and the eras before it.
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
    /// The I/O index at which the environment was opened while no process had it open.
    opened: usize,
    /// Transactions ended since the first sync failed.
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

    /// Begins a new era after the memory was lost: commits without a promise may be lost, and a lost commit counts as
    /// never made.
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

    /// Starts processes while no process has the environment open: earlier failures no longer apply.
    ///
    /// Ends the run if the sync of a directory has failed. Only a new mount makes its names trustworthy again, and
    /// real filesystems refuse to go on.
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

    /// Checks that the state is exactly the committed one.
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

    /// Runs the phase's share of the transactions. Open transactions are dropped at its end, or left for the kill.
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
                // A wrong state may include latches and locks that an orderly end would wait for.
                kill_all(clients);
                return Err(stop);
            }
        }
        if self.plan.has_faults {
            self.look_around(processes)?;
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
                        "WRONG: transaction {} read {}, and before it ended transaction {} changed that and committed",
                        reader.number,
                        name(place),
                        clients[committer].number
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks that everything that can still be read is right, also when nothing can be written any more.
    fn look_around(&mut self, processes: &[Process]) -> Result<(), Stop> {
        let places: Vec<Place> = self.history.last().records().keys().step_by(3).cloned().collect();
        for (at, place) in places.iter().enumerate() {
            let mut client = Client::new(&processes[at % processes.len()]);
            let Ok(txn) = client.process.begin(Durability::Relaxed) else { continue };
            if let Ok(found) = client.process.get(&txn, place) {
                client.txn = Some(Rc::new(txn));
                if let Err(Problem::Wrong(what)) = self.check_value(&client, place, found.as_ref()) {
                    return Err(Stop::Wrong(format!("{what}, read after calls had failed")));
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

    /// Counts an error of the library: expected where calls fail, and otherwise wrong.
    fn failure(&mut self, what: String) -> Result<(), Stop> {
        self.tally.failures += 1;
        if self.plan.has_faults && !what.contains("WRONG") {
            return Ok(());
        }
        Err(Stop::Wrong(what))
    }

    fn begin(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
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

    fn abort(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
        self.count_end()?;
        let Some(txn) = client.take_txn() else { return Ok(()) };
        if let Err(trouble) = txn.abort() {
            self.failure(format!("the abort of transaction {} failed: {trouble}", client.number))?;
        }
        Ok(())
    }

    /// Counts an ended transaction. A run with faults ends some time after a sync has failed.
    fn count_end(&mut self) -> Result<(), Stop> {
        self.ended += 1;
        if self.has_failed_sync() {
            self.failed_after += 1;
            if self.failed_after > 8 {
                return Err(Stop::NextPhase);
            }
        }
        Ok(())
    }

    /// Returns whether a sync has failed after which nothing may be acknowledged any more.
    ///
    /// A file without its final name is given up as a whole when its sync fails: nothing depends on it yet.
    fn has_failed_sync(&self) -> bool {
        if !self.plan.has_faults || self.machine.disk.activity().failed_sync == 0 {
            return false;
        }
        failed_syncs(&self.machine.disk.trace(), self.opened).iter().any(|name| !is_unfinished(name))
    }

    fn end(&mut self, client: &mut Client<'_>) -> Result<(), Stop> {
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

    /// Records a commit whose call failed: aborted if the disk was full, otherwise doubtful.
    fn doubt(&mut self, effects: Effects, begun: usize, trouble: &Trouble) {
        if !effects.is_empty() && !matches!(trouble, Trouble::Full(_)) {
            for place in effects.keys() {
                self.writers.insert(place.clone(), self.history.len() + 1);
            }
            self.history.commit(effects, begun, true);
        }
    }

    /// Does the work of background threads and of impatient callers between the transactions.
    fn chores(&mut self, processes: &[Process]) -> Result<(), Stop> {
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

    fn promise_all(&mut self) {
        self.history.promise(self.machine.disk.io_index(), self.history.len());
    }

    /// Runs a part of the transaction, a few operations long, and usually rolls it back.
    fn nest(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
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

    fn operate(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
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

    fn any_tree_place(&mut self) -> Place {
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

    /// Returns a cell's place, also of a cell that does not exist yet: a transaction that read it keeps other
    /// transactions from adding it.
    fn any_cell(&mut self) -> Place {
        cell(1 + self.random.below(self.cells + 2))
    }

    fn new_value(&mut self, client: &Client<'_>) -> Value {
        let bytes = match self.random.below(20) {
            0..=12 => 20 + self.random.index(180),
            13..=17 => 200 + self.random.index(1000),
            18 => self.random.index(12),
            _ => 4500 + self.random.index(9000),
        };
        self.filled(client, bytes)
    }

    fn filled(&mut self, client: &Client<'_>, bytes: usize) -> Value {
        let mut value = format!("t{}.{} ", client.number, client.left).into_bytes();
        let salt = self.random.next_u64().to_le_bytes();
        while value.len() < bytes {
            let at = value.len();
            value.push(salt[at % 8] ^ at.to_le_bytes()[0]);
        }
        value.truncate(bytes);
        value.into()
    }

    fn put(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_tree_place();
        let value = self.new_value(client);
        client.process.put(client.txn(), &place, &value)?;
        client.effects.insert(place, Some(value));
        Ok(())
    }

    fn put_ascending(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        self.journal += 1;
        let place = ranges::journal(self.journal);
        let value = self.new_value(client);
        client.process.put(client.txn(), &place, &value)?;
        client.effects.insert(place, Some(value));
        Ok(())
    }

    fn put_new(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
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

    fn delete(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = self.any_tree_place();
        let was_there = client.process.delete(client.txn(), &place)?;
        self.check_there(client, &place, was_there)?;
        if was_there {
            client.effects.insert(place, None);
        }
        Ok(())
    }

    fn append(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let value = self.filled(client, CELL_BYTES as usize);
        let number = client.process.append(client.txn(), &value)?;
        let place = cell(number);
        self.check_there(client, &place, false)?;
        self.cells = self.cells.max(number);
        client.effects.insert(place, Some(value));
        Ok(())
    }

    fn change_cell(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
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

    fn get(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place = if self.random.chance(1, 5) { self.any_cell() } else { self.any_tree_place() };
        let found = client.process.get(client.txn(), &place)?;
        client.seen = client.seen.max(self.writer_of(&place, found.as_ref()));
        client.has_read(&place);
        self.check_value(client, &place, found.as_ref())
    }

    fn scan(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
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
            // A doubtful commit may or may not be seen: single reads are judged, ranges are not.
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

    /// Returns the last commit that changed a place, or 0 if the found value is not that commit's: a doubtful commit
    /// may be missing, and a reader that finds it missing has not seen it.
    fn writer_of(&self, place: &Place, found: Option<&Value>) -> usize {
        let number = self.writers.get(place).copied().unwrap_or(0);
        let effects = number.checked_sub(1).and_then(|at| self.history.effects().nth(at));
        let made = effects.and_then(|effects| effects.get(place));
        if made.is_some_and(|made| made.as_ref() == found) {
            number
        } else {
            0
        }
    }

    /// Returns the value that the transaction must see at `place`.
    fn view<'v>(&'v self, client: &'v Client<'_>, place: &Place) -> Option<&'v Value> {
        match client.effects.get(place) {
            Some(own) => own.as_ref(),
            None => self.history.last().get(place),
        }
    }

    fn check_there(&self, client: &Client<'_>, place: &Place, is_there: bool) -> Result<Option<Value>, Problem> {
        let wanted = self.view(client, place).cloned();
        if wanted.is_some() != is_there && !self.is_open_question(client, place, |value| value.is_some() == is_there) {
            let found = if is_there { "there" } else { "not there" };
            let what = format!("WRONG: {} is {found}, wanted {}", name(place), brief(wanted.as_ref()));
            return Err(Problem::Wrong(what));
        }
        Ok(if is_there == wanted.is_some() { wanted } else { None })
    }

    fn check_value(&self, client: &Client<'_>, place: &Place, found: Option<&Value>) -> Result<(), Problem> {
        let wanted = self.view(client, place);
        if wanted != found && !self.is_open_question(client, place, |value| value.as_ref() == found) {
            let what = format!("WRONG: {} has {}, wanted {}", name(place), brief(found), brief(wanted));
            return Err(Problem::Wrong(what));
        }
        Ok(())
    }

    /// Returns whether a doubtful commit explains the answer.
    fn is_open_question(&self, client: &Client<'_>, place: &Place, fits: impl Fn(&Option<Value>) -> bool) -> bool {
        self.plan.has_faults
            && !client.effects.contains_key(place)
            && self.history.values_at(place, self.history.allowed_at_end()).iter().any(fits)
    }
}

/// Lets the transactions die with their processes, which are about to be killed.
fn kill_all(clients: Vec<Client<'_>>) {
    clients.into_iter().filter_map(|mut client| client.take_txn()).for_each(Running::die);
}

/// Returns the records that a range read must find: the committed state, with the transaction's own changes.
fn merged(committed: &State, own: &Effects, from: &Place, way: Way, limit: usize) -> Vec<(Vec<u8>, Value)> {
    let in_table = |place: &Place| place.0 == from.0;
    let (low, high) = match way {
        Way::Up => (Bound::Included(from), Bound::Unbounded),
        Way::Down => (Bound::Unbounded, Bound::Included(from)),
    };
    let mut records: BTreeMap<&[u8], &Value> = committed
        .records()
        .range::<Place, _>((low, high))
        .filter(|(place, _)| in_table(place))
        .map(|(place, value)| (&place.1[..], value))
        .collect();
    for (place, value) in own.range::<Place, _>((low, high)).filter(|(place, _)| in_table(place)) {
        match value {
            Some(value) => records.insert(&place.1, value),
            None => records.remove(&place.1[..]),
        };
    }
    let copy = |(key, value): (&&[u8], &&Value)| (key.to_vec(), Value::clone(value));
    match way {
        Way::Up => records.iter().take(limit).map(copy).collect(),
        Way::Down => records.iter().rev().take(limit).map(copy).collect(),
    }
}

/// The reason that an operation failed.
enum Problem {
    Trouble(Trouble),
    Wrong(String),
}

impl From<Trouble> for Problem {
    fn from(trouble: Trouble) -> Problem {
        Problem::Trouble(trouble)
    }
}

impl<'p> Client<'p> {
    fn new(process: &'p Process) -> Client<'p> {
        Client {
            process,
            txn: None,
            number: 0,
            effects: Effects::new(),
            seen: 0,
            reads: Vec::new(),
            ending: Ending::Abort,
            reads_only: false,
            left: 0,
        }
    }

    fn has_read(&mut self, place: &Place) {
        self.reads.push((place.clone(), Bound::Included(place.clone())));
    }

    /// Records the keys that a scan has passed: from `from` to the last key found, or to the table's end.
    fn has_scanned(&mut self, from: &Place, way: Way, last: Option<&(Vec<u8>, Value)>) {
        let last = last.map(|(key, _)| (from.0, key.clone()));
        let range = match (way, last) {
            (Way::Up, Some(last)) => (from.clone(), Bound::Included(last)),
            (Way::Up, None) => (from.clone(), Bound::Unbounded),
            (Way::Down, Some(last)) => (last, Bound::Included(from.clone())),
            (Way::Down, None) => ((from.0, Vec::new()), Bound::Included(from.clone())),
        };
        self.reads.push(range);
    }

    fn take_txn(&mut self) -> Option<Running<'p>> {
        self.txn.take().and_then(Rc::into_inner)
    }

    fn txn(&self) -> &Running<'p> {
        self.txn.as_ref().expect("operations are made between begin and end")
    }
}
