//! Starts workers, kills them and replaces them, checks that the other workers continue, and judges the final state.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant as Time};

use libtp::{Durability, Env, OpenedBy};
use libtp_sim::Random;
use libtp_tests::audit::verify_all;
use libtp_tests::bank::{settings, Bank};
use libtp_tests::process::now;
use libtp_tests::sizes;

use crate::crew::{Told, Worker};
use crate::stall::{Instant, Stalls, WorkerHistory};

/// The workers are stuck if there is no acknowledgement for this time.
const ALL_STUCK: u64 = 10 * SECOND;
/// The workers are stuck if there is no acknowledgement for this time and a worker waits for the disk. The disk may be
/// busy with other work.
const ALL_STUCK_WITH_DISK: u64 = 120 * SECOND;
/// A worker is stuck if it has no acknowledgement for this time, although others have.
const ONE_STUCK: u64 = 30 * SECOND;
/// A worker must end within this time after the order to leave.
const LEAVING: Duration = Duration::from_secs(60);
/// The time after which a waiting session counts as a waiter for the stopped worker. The other workers release their
/// locks within microseconds.
const WAITING: Duration = Duration::from_millis(1);
/// If no repair of a killed worker begins within this time, there may be nothing to repair.
const REPAIR_WAIT: Duration = Duration::from_millis(5);
const SECOND: u64 = 1_000_000_000;

/// The choice of victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kills {
    /// No victim: measures the gaps between acknowledgements without kills, for comparison.
    None,
    /// One random worker per kill.
    One,
    /// Two victims: a random worker, and then the worker that repairs the first victim's session. If no worker begins a
    /// repair within 5 ms, the second victim is another random worker.
    Two,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub processes: usize,
    pub time: Duration,
    pub kills: Kills,
    pub pace: Pace,
    /// The durability of every transfer; random if `None`.
    pub durability: Option<Durability>,
}

/// The time between kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// After 50 to 200 ms.
    Usual,
    /// After 20 to 50 ms.
    Hurried,
}

impl Pace {
    fn pause(self, random: &mut Random) -> Duration {
        let (least, more) = match self {
            Pace::Usual => (50_000, 150_000),
            Pace::Hurried => (20_000, 30_000),
        };
        Duration::from_micros(least + random.below(more))
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub acknowledged: u64,
    pub kills: usize,
    /// Number of killed workers that had no acknowledgement yet. Most of them were opening the environment.
    pub newcomers: usize,
    /// Number of killed workers that were repairing another worker's session.
    pub repairers: usize,
    /// Number of repairs of the shared memory by a worker that found no other living worker.
    pub repaired: usize,
    pub stalls: Stalls,
}

/// Runs a plan in a new environment.
///
/// # Panics
/// Panics if a check fails. The message has the seed and the fault. If `LIBTP_TEST_KEEP` is set, the environment is
/// kept.
pub fn run(plan: Plan) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let incarnation = prepare(directory.path());
    let mut run = Run::new(plan, directory.path());
    let worked = run.work().and_then(|()| run.end());
    let judged = worked.and_then(|()| run.judge(incarnation));
    judged.unwrap_or_else(|what| {
        if sizes::chosen::<String>("LIBTP_TEST_KEEP").is_some() {
            println!("kept: {}", directory.keep().display());
        }
        panic!("LIBTP_TEST_SEED={} {plan:?}, {} kills: {what}", plan.seed, run.instants.len())
    })
}

/// Fills the bank. Returns the incarnation of the log that the workers see if the region is never rebuilt.
fn prepare(directory: &Path) -> u64 {
    let env = Env::builder().settings(settings()).open(directory).unwrap();
    Bank::open(&env).unwrap().fill().unwrap();
    // The environment was closed cleanly, so the first worker begins the next incarnation.
    env.stats().unwrap().log_incarnation + 1
}

struct Run<'d> {
    plan: Plan,
    directory: &'d Path,
    random: Random,
    workers: Vec<Worker>,
    /// The killed workers, each with the time of its kill.
    killed: Vec<(u64, Worker)>,
    instants: Vec<Instant>,
    newcomers: usize,
    repairers: usize,
    /// A handle that only reads the shared memory of the environment.
    onlooker: Option<Env>,
    next: u64,
}

impl<'d> Run<'d> {
    fn new(plan: Plan, directory: &'d Path) -> Run<'d> {
        let mut run = Run {
            plan,
            directory,
            random: Random::new(plan.seed),
            workers: Vec::new(),
            killed: Vec::new(),
            instants: Vec::new(),
            newcomers: 0,
            repairers: 0,
            onlooker: None,
            next: 1,
        };
        run.workers = (0..plan.processes).map(|_| run.recruit()).collect();
        run
    }

    fn recruit(&mut self) -> Worker {
        self.next += 1;
        Worker::start(self.directory, self.next - 1, self.plan.seed, self.plan.durability)
    }

    /// Lets the workers work, and kills some.
    fn work(&mut self) -> Result<(), String> {
        let end = Time::now() + self.plan.time;
        while Time::now() < end {
            let pause = self.plan.pace.pause(&mut self.random);
            std::thread::sleep(pause.min(end.saturating_duration_since(Time::now())));
            self.watch()?;
            let victim = self.random.index(self.workers.len());
            // Every second victim is stopped before it is killed, to find the sessions that wait for the victim.
            let is_looked_at = self.plan.kills == Kills::One && self.instants.len() % 2 == 1;
            let waited = if is_looked_at { self.waiting_for(victim) } else { Vec::new() };
            self.kill(victim, waited);
            if self.plan.kills == Kills::Two {
                let repairer = self.repairer(victim);
                self.repairers += usize::from(repairer.is_some());
                let other = repairer.unwrap_or_else(|| {
                    let other = self.random.index(self.workers.len() - 1);
                    other + usize::from(other >= victim)
                });
                self.kill(other, Vec::new());
                self.replace(other);
            }
            self.replace(victim);
        }
        Ok(())
    }

    /// Stops a worker. Returns the numbers of the workers that wait for its locks, directly or through other workers.
    fn waiting_for(&mut self, victim: usize) -> Vec<u64> {
        self.workers[victim].process.stop();
        let Some(managers) = self.onlooker().map(Env::managers) else { return Vec::new() };
        std::thread::sleep(WAITING);
        let before = managers.locks.waits();
        std::thread::sleep(WAITING);
        let waits = managers.locks.waits();
        let still = waits.iter().filter(|wait| before.contains(wait)).map(|wait| wait.session);
        let names: Vec<String> = still.map(|session| managers.processes.describe(session)).collect();
        let is_one = |worker: &&Worker| names.iter().any(|name| is_of(name, worker));
        self.workers.iter().filter(is_one).map(|worker| worker.number).collect()
    }

    /// Returns the handle that only reads. The handle is opened once the first worker has opened the environment.
    fn onlooker(&mut self) -> Option<&Env> {
        if self.onlooker.is_none() {
            self.onlooker = Env::builder().look(self.directory).ok().flatten();
        }
        self.onlooker.as_ref()
    }

    /// Returns the worker that begins a repair within [`REPAIR_WAIT`]. The victim itself does not count.
    fn repairer(&mut self, victim: usize) -> Option<usize> {
        let begun = Time::now();
        let processes = self.onlooker()?.managers().processes.clone();
        while begun.elapsed() < REPAIR_WAIT {
            let roles = processes.roles();
            let repairs = roles.iter().find(|(role, _)| role.starts_with("repairs"));
            let Some(&(_, repairer)) = repairs else { continue };
            // Describes only the session that has the role. To describe all sessions would take longer than many
            // repairs.
            let name = processes.describe(repairer);
            if let Some(at) = self.workers.iter().position(|worker| is_of(&name, worker)).filter(|&at| at != victim) {
                return Some(at);
            }
        }
        None
    }

    /// Kills a worker. In a run without kills, only notes the instant.
    fn kill(&mut self, victim: usize, waited: Vec<u64>) {
        let working = |(at, worker): (usize, &Worker)| (at != victim && worker.is_working()).then_some(worker.number);
        let survivors = self.workers.iter().enumerate().filter_map(working).collect();
        let at = now();
        if self.plan.kills != Kills::None {
            self.workers[victim].process.kill();
        }
        self.instants.push(Instant { at, survivors, waited });
        self.newcomers += usize::from(!self.workers[victim].is_working());
    }

    /// Replaces a killed worker by a new worker.
    fn replace(&mut self, victim: usize) {
        if self.plan.kills == Kills::None {
            return;
        }
        let at = self.instants.last().map_or(0, |instant| instant.at);
        let another = self.recruit();
        self.killed.push((at, std::mem::replace(&mut self.workers[victim], another)));
        // Reaps the dead processes.
        for (_, dead) in &mut self.killed {
            dead.process.ended();
        }
    }

    /// Fails if a worker has ended without a kill or is stuck.
    fn watch(&mut self) -> Result<(), String> {
        for worker in &mut self.workers {
            let status = worker.process.ended();
            let failed = worker.told().failed.clone();
            if status.is_some() || failed.is_some() {
                let status = worker.process.wait();
                let errors = worker.process.errors();
                return Err(format!("worker {} ended without a kill: {status}: {failed:?}\n{errors}", worker.number));
            }
        }
        let now = now();
        let silent = |worker: &Worker| now.saturating_sub(worker.told().heard.max(worker.started));
        let quietest = self.workers.iter().max_by_key(|worker| silent(worker)).expect("there are workers");
        let (all, one) = (self.workers.iter().map(silent).min().expect("there are workers"), silent(quietest));
        let are_all_stuck =
            all > if all > ALL_STUCK && self.waits_for_disk() { ALL_STUCK_WITH_DISK } else { ALL_STUCK };
        if are_all_stuck || one > ONE_STUCK && !self.waits_for_disk() {
            let (worker, time) = if are_all_stuck {
                ("no acknowledgement of any worker".into(), all)
            } else {
                (format!("no acknowledgement of worker {}", quietest.number), one)
            };
            let list: Vec<String> = self.workers.iter().map(|one| describe(one, now)).collect();
            let stacks: Vec<String> = self.workers.iter().map(stack).collect();
            return Err(format!("STUCK: {worker} for {} s\n{}\n{}", time / SECOND, list.join("\n"), stacks.join("\n")));
        }
        Ok(())
    }

    /// Returns whether a worker is in a system call that waits for the disk.
    fn waits_for_disk(&self) -> bool {
        let syncs = [libc::SYS_fsync, libc::SYS_fdatasync].map(|number| number.to_string());
        let is_syncing = |worker: &Worker| {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.process.pid()));
            tasks.into_iter().flatten().flatten().any(|task| {
                let call = std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
                call.split(' ').next().is_some_and(|number| syncs.iter().any(|sync| sync == number))
            })
        };
        self.workers.iter().any(is_syncing)
    }

    /// Waits until every worker has acknowledged a transfer after the last kill. Without this wait, a run whose workers
    /// are stuck at the end would pass.
    fn recover(&mut self) -> Result<(), String> {
        let last = now();
        while self.workers.iter().any(|worker| worker.told().acknowledged.last().is_none_or(|&stamp| stamp < last)) {
            self.watch()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the run. If workers were killed one at a time, kills all workers. Otherwise orders all workers to close the
    /// environment.
    fn end(&mut self) -> Result<(), String> {
        self.recover()?;
        if self.plan.kills == Kills::One {
            self.workers.iter_mut().for_each(|worker| worker.process.kill());
        } else {
            self.workers.iter_mut().for_each(|worker| worker.process.order("leave"));
            let start = Time::now();
            while self.workers.iter_mut().any(|worker| worker.process.ended().is_none()) {
                if start.elapsed() > LEAVING {
                    let stacks: Vec<String> = self.workers.iter().map(stack).collect();
                    return Err(format!(
                        "STUCK: a process does not end after the order to leave\n{}",
                        stacks.join("\n")
                    ));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        for worker in &mut self.workers {
            worker.process.wait();
            let told = worker.told().clone();
            if told.failed.is_some() || (self.plan.kills != Kills::One && !told.left) {
                return Err(format!(
                    "worker {} did not close the environment cleanly: {:?}\n{}",
                    worker.number,
                    told.failed,
                    worker.process.errors()
                ));
            }
        }
        for (_, dead) in &mut self.killed {
            dead.process.wait();
        }
        Ok(())
    }

    /// Reopens the environment, and compares its contents with the workers' acknowledgements.
    fn judge(&self, incarnation: u64) -> Result<Report, String> {
        let all: Vec<(u64, Told)> = self.all_workers().map(|worker| (worker.number, worker.told().clone())).collect();
        let env = Env::builder().settings(settings()).open(self.directory).map_err(|error| error.to_string())?;
        if env.opened().how == OpenedBy::Restarted {
            return Err(format!("the shared memory was lost: {:?}", env.opened()));
        }
        // A worker that is killed while it creates the region leaves no region, so the next worker begins a new
        // incarnation. All workers that report an incarnation must report the same incarnation.
        let told_of = || all.iter().filter_map(|(_, told)| told.opened.as_ref().map(|(_, found)| *found));
        let first = told_of().min().unwrap_or(incarnation);
        let is_made_again = first > incarnation && all.iter().all(|(_, told)| told.opened.is_some());
        if told_of().any(|found| found != first) || first < incarnation || is_made_again {
            let openers = all.iter().filter(|(_, told)| told.opened.as_ref().is_some_and(|(how, _)| how != "Joined"));
            let openers: Vec<String> =
                openers.map(|(worker, told)| format!("worker {worker}: {:?}", told.opened)).collect();
            return Err(format!(
                "REBUILT: the run began with incarnation {incarnation}; these workers did not join: {}",
                openers.join(", ")
            ));
        }
        verify_all(&env)?;
        let bank = Bank::open(&env).map_err(|error| error.to_string())?;
        compare(&bank.audit()?, &all)?;
        // The environment is still usable.
        let put = bank.transfer(self.next, 0, &mut Random::new(1), Durability::Sync);
        put.map_err(|error| format!("a transfer after the run fails: {error}"))?;
        let histories: Vec<WorkerHistory> = self.histories();
        Ok(Report {
            acknowledged: all.iter().map(|(_, told)| told.acknowledged.len() as u64).sum(),
            kills: if self.plan.kills == Kills::None { 0 } else { self.instants.len() },
            newcomers: self.newcomers,
            repairers: self.repairers,
            repaired: all.iter().filter(|(_, told)| is_repaired(told)).count(),
            stalls: Stalls::of(&self.instants, &histories),
        })
    }

    fn all_workers(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().chain(self.killed.iter().map(|(_, dead)| dead))
    }

    fn histories(&self) -> Vec<WorkerHistory> {
        let life = |worker: &Worker, killed| {
            let acknowledged = worker.told().acknowledged.clone();
            WorkerHistory { number: worker.number, acknowledged, killed }
        };
        let living = self.workers.iter().map(|worker| life(worker, None));
        living.chain(self.killed.iter().map(|(at, dead)| life(dead, Some(*at)))).collect()
    }
}

/// Returns whether a session's description names this worker's process.
fn is_of(name: &str, worker: &Worker) -> bool {
    name.ends_with(&format!(" of process {}", worker.process.pid()))
}

fn is_repaired(told: &Told) -> bool {
    told.opened.as_ref().is_some_and(|(how, _)| how == "Repaired")
}

/// Compares the transfers in the environment with the acknowledged transfers. No acknowledged transfer may be lost. Of
/// each worker, at most one transfer may be in the environment without an acknowledgement: the last.
fn compare(found: &BTreeMap<u64, u64>, told: &[(u64, Told)]) -> Result<(), String> {
    for (worker, told) in told {
        let (found, acknowledged) = (found.get(worker).copied().unwrap_or(0), told.acknowledged.len() as u64);
        if found < acknowledged {
            return Err(format!(
                "LOST: worker {worker} has {found} transfers in the environment, and {acknowledged} were acknowledged"
            ));
        }
        if found > acknowledged + 1 {
            return Err(format!("worker {worker} reported {acknowledged} transfers, {found} were found"));
        }
    }
    match found.keys().find(|number| told.iter().all(|(worker, _)| worker != *number)) {
        Some(stranger) => Err(format!("the environment has transfers of worker {stranger}, which was never started")),
        None => Ok(()),
    }
}

fn describe(worker: &Worker, now: u64) -> String {
    let told = worker.told();
    format!(
        "worker {} (process {}, {} ms old): {} acknowledged, last line {} ms ago, opened {:?}",
        worker.number,
        worker.process.pid(),
        now.saturating_sub(worker.started) / 1_000_000,
        told.acknowledged.len(),
        now.saturating_sub(told.heard.max(worker.started)) / 1_000_000,
        told.opened
    )
}

/// Returns the stacks of the worker's threads, if this machine has a debugger.
fn stack(worker: &Worker) -> String {
    let arguments = ["-p", &worker.process.pid().to_string(), "--batch", "-ex", "thread apply all bt 14"];
    let output = std::process::Command::new("gdb").args(arguments).output();
    output.map_or(String::new(), |output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let frames =
            text.lines().filter(|line| line.contains("libtp") || line.contains("rio::") || line.starts_with("Thread"));
        format!("process {}:\n{}", worker.process.pid(), frames.collect::<Vec<_>>().join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(number: u64, count: usize) -> (u64, Told) {
        (number, Told { acknowledged: vec![1; count], ..Told::default() })
    }

    #[test]
    fn lost_transfers_and_unknown_transfers_are_noticed() {
        let found: BTreeMap<u64, u64> = [(1, 3), (2, 5)].into();
        assert_eq!(compare(&found, &[told(1, 3), told(2, 4)]), Ok(()));
        assert!(compare(&found, &[told(1, 4), told(2, 5)]).unwrap_err().starts_with("LOST: worker 1"));
        assert!(compare(&found, &[told(1, 1), told(2, 5)]).is_err(), "two transfers that were not acknowledged");
        assert!(compare(&found, &[told(1, 3)]).is_err(), "a worker that was never started");
    }
}
