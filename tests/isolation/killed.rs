//! Random transactions of eight processes, of which one is killed every 50 to 200 ms. Their history must have no cycle.
//!
//! `LIBTP_TEST_TXNS` sets the number of transactions, `LIBTP_TEST_SEED` the first seed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libtp::{Env, Granularity, OpenedBy};
use libtp_sim::Random;
use libtp_tests::process::Process;
use libtp_tests::sizes;

use crate::checker::{check, lost_at_the_end};
use crate::history::{Record, Step};
use crate::killed_commits::settle;
use crate::process::{orders, ENTRY};
use crate::step_lines::understand;
use crate::workload::{settings, Discipline, Plan, Stage, EPOCH};

const PROCESSES: u64 = 8;
/// The number of transactions in one environment.
const ROUND: u64 = 10_000;
/// If no transaction ends for this time, the processes are stuck.
const STUCK: Duration = Duration::from_secs(10);

/// The reports of all processes of a round.
#[derive(Default)]
struct Told {
    history: Vec<Record>,
    /// The number of aborted transactions, most of which were victims of deadlocks.
    gone: u64,
    /// For each process, the transaction that it was committing at its last report.
    trying: Vec<Option<Record>>,
    wrong: Option<String>,
}

impl Told {
    fn ended(&self) -> u64 {
        self.history.len() as u64 + self.gone
    }

    /// Reads a line of process `process`.
    fn hear(&mut self, process: u64, line: &str) {
        let at = usize::try_from(process).expect("there are few processes");
        if self.trying.len() <= at {
            self.trying.resize(at + 1, None);
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "try" => {
                let (begin, steps) = rest.split_once(' ').unwrap_or((rest, ""));
                let (Ok(begin), Some(steps)) = (begin.parse(), understand(steps)) else {
                    self.wrong = Some(format!("process {process} reported: {line}"));
                    return;
                };
                self.trying[at] = Some(Record { thread: at, begin, end: u64::MAX, is_committed: false, steps });
            }
            "done" => match (self.trying[at].take(), rest.parse()) {
                (Some(record), Ok(end)) => self.history.push(Record { end, is_committed: true, ..record }),
                _ => self.wrong = Some(format!("process {process} reported: {line}")),
            },
            "gone" => self.gone += 1,
            "left" => {}
            _ => self.wrong = Some(format!("process {process}: {line}")),
        }
    }
}

/// One environment, its eight processes, and their reports.
struct Round<'d> {
    plan: Plan,
    directory: &'d Path,
    told: Arc<Mutex<Told>>,
    living: Vec<(u64, Process)>,
    dead: Vec<Process>,
    next: u64,
    epoch: u32,
}

impl<'d> Round<'d> {
    fn new(plan: Plan, directory: &'d Path) -> Round<'d> {
        let mut round =
            Round { plan, directory, told: Arc::default(), living: Vec::new(), dead: Vec::new(), next: 1, epoch: 0 };
        round.living = (0..PROCESSES).map(|_| round.start()).collect();
        round
    }

    fn start(&mut self) -> (u64, Process) {
        let number = self.next;
        self.next += 1;
        let told = Arc::clone(&self.told);
        let orders = orders(self.directory, self.plan, number, self.epoch);
        (number, Process::start_heard_by(ENTRY, &orders, move |line| lock(&told).hear(number, line)))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        lock(&self.told)
    }

    /// Lets the processes work, and kills one after the other. Returns the number of kills.
    fn work(&mut self, random: &mut Random) -> Result<u64, String> {
        let mut kills = 0;
        let (mut last, mut heard) = (Instant::now(), 0);
        let mut next_kill = Instant::now() + pause(random);
        loop {
            std::thread::sleep(Duration::from_millis(2));
            let ended = self.told().ended();
            if ended >= self.plan.transactions {
                return Ok(kills);
            }
            if ended != heard {
                (last, heard) = (Instant::now(), ended);
            }
            if last.elapsed() > STUCK {
                return Err(format!("STUCK: no transaction has ended for {STUCK:?}, after {ended} transactions"));
            }
            self.look()?;
            self.tell_epoch(ended);
            if Instant::now() >= next_kill {
                let at = random.index(self.living.len());
                let another = self.start();
                let (_, mut victim) = std::mem::replace(&mut self.living[at], another);
                victim.kill();
                self.dead.push(victim);
                kills += 1;
                next_kill = Instant::now() + pause(random);
            }
        }
    }

    fn look(&mut self) -> Result<(), String> {
        let ended = self.living.iter_mut().find_map(|(number, one)| one.ended().map(|status| (*number, status)));
        if let Some((number, status)) = ended {
            let (_, process) = self.living.iter_mut().find(|(other, _)| *other == number).expect("it was just found");
            process.wait();
            let errors = process.errors();
            return Err(format!("process {number} ended by itself: {status}: {:?}\n{errors}", self.told().wrong));
        }
        self.told().wrong.clone().map_or(Ok(()), Err)
    }

    fn tell_epoch(&mut self, ended: u64) {
        let epoch = u32::try_from(ended / EPOCH).expect("few epochs");
        if epoch != self.epoch {
            self.epoch = epoch;
            self.living.iter_mut().for_each(|(_, process)| process.order(&epoch.to_string()));
        }
    }

    /// Kills all processes, or lets them leave. Returns the reports, and the transactions whose outcome was never
    /// reported.
    fn end(mut self, kill: bool) -> Result<(Told, Vec<Record>), String> {
        self.living.iter_mut().for_each(|(_, process)| if kill { process.kill() } else { process.order("leave") });
        let start = Instant::now();
        while self.living.iter_mut().any(|(_, process)| process.ended().is_none()) {
            if start.elapsed() > 6 * STUCK {
                return Err("STUCK: a process does not leave".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let living = self.living.iter_mut().map(|(_, process)| process);
        for process in living.chain(&mut self.dead) {
            process.wait();
        }
        let mut told = std::mem::take(&mut *self.told());
        let unheard = told.trying.iter_mut().filter_map(Option::take).collect();
        told.wrong.take().map_or(Ok((told, unheard)), Err)
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pause(random: &mut Random) -> Duration {
    Duration::from_millis(50 + random.below(150))
}

/// Sums over rounds.
#[derive(Default)]
struct Sums {
    committed: usize,
    kills: u64,
    gone: u64,
    unheard: usize,
    settled: usize,
    dependencies: usize,
    ambiguous: usize,
}

impl Sums {
    /// Runs a round and judges it.
    fn round(&mut self, plan: Plan) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let text = |error: libtp::Error| error.to_string();
        {
            let env = Env::builder().settings(settings(plan)).open(directory.path()).map_err(text)?;
            Stage::new(&env, plan, 0).and_then(|stage| stage.fill()).map_err(text)?;
        }
        let mut random = Random::new(plan.seed);
        let mut round = Round::new(plan, directory.path());
        self.kills += round.work(&mut random)?;
        let (told, unheard) = round.end(plan.seed % 2 == 1)?;
        let env = Env::builder().settings(settings(plan)).open(directory.path()).map_err(text)?;
        if env.opened().how == OpenedBy::Restarted {
            return Err(format!("the shared memory was lost: {:?}", env.opened()));
        }
        let mut history = told.history;
        history.push(Stage::new(&env, plan, 0).and_then(|stage| stage.everything()).map_err(text)?);
        self.unheard += unheard.iter().filter(|record| writes(record)).count();
        self.settled += settle(&mut history, unheard);
        let verdict = check(&history);
        if !verdict.is_clean() {
            return Err(verdict.worst());
        }
        let lost = lost_at_the_end(&history, history.len() - 1);
        if !lost.is_empty() {
            return Err(format!("{} writes lost, the first {:?}", lost.len(), lost[0]));
        }
        self.committed += verdict.committed;
        self.dependencies += verdict.dependencies;
        self.ambiguous += verdict.ambiguous;
        self.gone += told.gone;
        Ok(())
    }
}

fn writes(record: &Record) -> bool {
    let reads = |step: &Step| matches!(step, Step::ReadList { .. } | Step::ReadCell { .. } | Step::Scan { .. });
    !record.steps.iter().all(reads)
}

#[test]
fn random_transactions_of_eight_processes_that_are_killed_are_strictly_serializable() {
    let (wanted, first) = (sizes::number("LIBTP_TEST_TXNS", 20_000), sizes::first_seed());
    let start = Instant::now();
    let mut sums = Sums::default();
    for (seed, done) in (first..).zip((0..wanted.div_ceil(ROUND)).map(|round| round * ROUND)) {
        let granularity = if seed % 3 == 2 { Granularity::Page } else { Granularity::Record };
        let transactions = ROUND.min(wanted - done);
        let plan = Plan { seed, transactions, granularity, discipline: Discipline::Transactions };
        sums.round(plan).unwrap_or_else(|what| panic!("LIBTP_TEST_SEED={seed} {granularity:?}: {what}"));
    }
    let Sums { committed, kills, gone, unheard, settled, dependencies, ambiguous } = sums;
    println!(
        "figures: {committed} transactions of {PROCESSES} processes with {kills} kills committed, {gone} aborted, {unheard} \
         writers killed in their commit, of which {settled} committed, {dependencies} dependencies, {ambiguous} not \
         judged; 0 cycles, 0 lost; {:.0} s",
        start.elapsed().as_secs_f64()
    );
    assert!(committed as u64 > wanted / 3, "too few transactions committed, so the test shows nothing");
    assert!(kills > 0 || wanted < 2_000, "no process was killed, so the test shows nothing");
}
