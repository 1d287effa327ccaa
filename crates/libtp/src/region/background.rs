//! Background work: the library's threads flush the log for relaxed commits, clean pages, take checkpoints and search
//! for deadlocks.
//!
//! Each process that opened the environment has three threads. The first thread flushes the log and does nothing else,
//! because the other work can take long (a checkpoint writes pages and waits for the disk). If one thread did both, the
//! log's ring would fill meanwhile, and appenders would wait. The second thread repairs the sessions of dead processes
//! as soon as they die. The third thread does all other work. Each job has a role that at most one session of all
//! processes has at a time.
//!
//! One of the log threads of all processes is their leader; the threads for other work have a leader, too (`Rounds`). A
//! leader looks for work every few milliseconds while there is work. The other threads only check that the leader still
//! looks. So an idle process costs next to nothing.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libtp_log::CONTROL_NAME;
use libtp_process::{DeathWatch, Rounds, Work};
use libtp_txn::{Managers, TxnSession};
use rio::planted;

use crate::region::huge_pages::HugePages;
use crate::region::inner::Inner;
use crate::region::panics::PanicEffect;
use crate::region::threads::{Stop, Threads};
use crate::region::unclaimed::Unclaimed;
use crate::region::visit::Visit;
use crate::Result;

/// The pause between two looks of a thread that has work.
const TICK: Duration = Duration::from_millis(5);
/// The pause between two looks of an idle log thread. If the thread dies, a thread of another process takes over half a
/// pause later. So a relaxed commit waits at most one and a half pauses, less than the default limit. With a lower
/// limit, the pause is shorter (`log_nap`).
const LOG_NAP: Duration = Duration::from_millis(50);
/// The shortest pause of a log thread: even with a limit of zero, the thread must not occupy a processor.
const LOG_NAP_LEAST: Duration = Duration::from_micros(100);
/// The pause between two looks of an idle thread for general work.
const HOUSE_NAP: Duration = Duration::from_millis(100);
/// The pause between two looks of the repair thread for deaths that the kernel has not reported to it.
const WATCH: Duration = Duration::from_millis(100);

/// Starts the threads. If a thread cannot be started, the threads started before it run.
pub(crate) fn start(threads: &mut Threads, inner: &Arc<Inner>, managers: &Arc<Managers>) -> Result<()> {
    let period = inner.settings.deadlock_period_millis.map(Duration::from_millis);
    let limit = inner.settings.detached_timeout_millis.map(Duration::from_millis);
    let env = &Arc::downgrade(inner);
    spawn(threads, env, managers, "libtp-log", flush_log)?;
    let (reaped, stop, watched) = (Arc::clone(managers), threads.stop_request(), Weak::clone(env));
    // This thread joins no session: it uses one of the sessions kept for repairs.
    threads.start("libtp-reaper", move || repair_dead(&reaped, &stop, &watched))?;
    #[cfg(test)]
    inner.refuse_thread()?;
    let visited = Weak::clone(env);
    spawn(threads, env, managers, "libtp-pages", move |managers, txn, stop| {
        // Called here, not by the opening: the call takes milliseconds in a process of several threads.
        managers.processes.join_barriers();
        general_work(managers, txn, stop, period, limit, &mut FileRecovery::new(&visited));
    })
}

fn spawn(
    threads: &mut Threads,
    env: &Weak<Inner>,
    managers: &Arc<Managers>,
    name: &str,
    work: impl Fn(&Managers, &TxnSession, &Stop) + Send + 'static,
) -> Result<()> {
    let (managers, stop, env) = (Arc::clone(managers), threads.stop_request(), Weak::clone(env));
    let txn = managers.join()?;
    let run = move || {
        let mut txn = Some(txn);
        while let Some(now) = txn.take() {
            let done = catch_unwind(AssertUnwindSafe(|| {
                work(&managers, &now, &stop);
                managers.leave(now);
            }));
            // The session is dead after a panic; another session continues the work.
            txn = done.err().and_then(|payload| after_panic(&managers, &env, &stop, payload.as_ref()));
        }
    };
    threads.start(name, run)
}

/// The turns of one thread in a kind of work that one process at a time does for all processes.
struct Turns {
    rounds: Rounds,
    /// The pause when there is no work.
    nap: Duration,
    is_busy: bool,
    /// Until this time, the thread leaves the rounds to other processes.
    aside: Option<Instant>,
}

impl Turns {
    fn new(work: Work, nap: Duration) -> Turns {
        Turns { rounds: Rounds::new(work), nap, is_busy: true, aside: None }
    }

    /// Sleeps until this thread must look again. Returns false if the thread must stop.
    fn sleep(&self, stop: &Stop) -> bool {
        stop.sleep(if self.is_busy { TICK.min(self.nap) } else { self.nap })
    }

    /// Returns whether this thread does the round: it does if it did the last round, or if another thread did the last
    /// round more than half a nap ago.
    fn begin(&mut self, managers: &Managers) -> bool {
        if self.aside.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        self.aside = None;
        self.rounds.begin(&managers.processes, self.nap / 2)
    }

    /// Leaves the rounds to other processes for a while if this process could not do the work: a limit of one process
    /// must not block the work for all.
    fn resign_rounds(&mut self, managers: &Managers, is_done: bool) {
        if !is_done {
            self.rounds.resign(&managers.processes);
            self.aside = Some(Instant::now() + 2 * self.nap);
        }
    }
}

/// Returns the pause between two looks of an idle log thread.
fn log_nap(managers: &Managers) -> Duration {
    LOG_NAP.min(managers.log.relaxed_bound() / 2).max(LOG_NAP_LEAST)
}

/// Makes commits durable. Does nothing else that could delay a flush.
fn flush_log(managers: &Managers, txn: &TxnSession, stop: &Stop) {
    let mut quiet = Quiet::default();
    let mut turns = Turns::new(Work::Log, log_nap(managers));
    while turns.sleep(stop) {
        // A process with a lower limit of relaxed commits may have attached meanwhile.
        turns.nap = log_nap(managers);
        // The program cancels the waits of its own transactions, not of this thread.
        txn.session().heed_cancels();
        let led = turns.rounds.leads();
        turns.is_busy = turns.begin(managers) && !managers.log.is_all_durable();
        if !turns.rounds.leads() {
            continue;
        }
        // If another thread led before, the oldest commit may already have waited as long as allowed.
        let flushed = match led {
            true => managers.log.background_flush(txn.session()).map(|_| ()),
            false => managers.log.force_all(txn.session()).map(|_| ()),
        };
        turns.resign_rounds(managers, flushed.is_ok());
        quiet.report("writing the log", flushed.map_err(Into::into));
    }
    turns.rounds.resign(&managers.processes);
}

/// Repairs the sessions of dead processes.
fn repair_dead(managers: &Managers, stop: &Stop, env: &Weak<Inner>) {
    let mut watch = DeathWatch::new(&managers.processes);
    stop.wake_by(watch.waker());
    let mut quiet = Quiet::default();
    // Set while dead sessions are not fully repaired: the time of the death.
    let mut dead_since = None;
    while !stop.is_asked() {
        if managers.region.is_broken() {
            // Begin the next generation now: relaxed commits in a broken region must not wait for the program's next
            // call.
            let begun = Visit::begin(env).map_or(Ok(()), |env| env.generation().map(|_| ()));
            quiet.report("the rebuild of the shared memory", begun);
            stop.sleep(TICK);
            continue;
        }
        // This thread survives panics in the region, because it makes the next region.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            // If the repair left work, because a frame was busy or another session was repairing, look again soon.
            let died = watch.wait(if dead_since.is_none() { WATCH } else { TICK });
            // A thread of a living process may have panicked: it has marked its own session dead.
            let any = died || dead_since.is_some() || managers.processes.has_marked_dead();
            if any && !managers.region.is_broken() && !managers.log.is_poisoned() {
                let learned = *dead_since.get_or_insert_with(Instant::now);
                let repaired = managers.reap_since(learned);
                quiet.report("the repair of a dead session", repaired.map(|_| ()).map_err(Into::into));
                if managers.processes.dead_sessions().is_empty() {
                    dead_since = None;
                }
            }
        }));
        if let Err(payload) = looked {
            ended_by_panic(managers, env, payload.as_ref());
        }
    }
}

/// Returns a session to continue with, unless the thread must end.
fn after_panic(managers: &Managers, env: &Weak<Inner>, stop: &Stop, payload: &(dyn Any + Send)) -> Option<TxnSession> {
    if ended_by_panic(managers, env, payload) != PanicEffect::Session || stop.is_asked() {
        return None;
    }
    let joined = catch_unwind(AssertUnwindSafe(|| managers.join()));
    match joined {
        Ok(Ok(txn)) => Some(txn),
        Ok(Err(error)) => {
            managers.give_up(&format!("a background thread cannot join it again: {error}"));
            None
        }
        Err(payload) => {
            // One panic is enough to give the region up: otherwise no thread of this process would do this work.
            if ended_by_panic(managers, env, payload.as_ref()) == PanicEffect::Session {
                managers.give_up("a background thread cannot join it again");
            }
            None
        }
    }
}

/// Handles a panic of a library thread. The first panic kills the thread's session, and the second panic breaks the
/// region. If the same panic recurs in the next region, poisons the log: nothing more is made durable, and every call
/// reports the poison.
fn ended_by_panic(managers: &Managers, env: &Weak<Inner>, payload: &(dyn Any + Send)) -> PanicEffect {
    let rung = Visit::begin(env).map_or(PanicEffect::Region, |env| env.newest().effect_of_panic(managers, payload));
    if rung == PanicEffect::Caller {
        managers.log.poison();
    }
    rung
}

/// Finishes the plain files of committed transactions whose processes died before they had finished the files. The
/// repair thread cannot do this work: it might wait for a lock of a dead session that only the repair thread can
/// repair.
struct FileRecovery<'e> {
    env: &'e Weak<Inner>,
    /// The number of repaired sessions at the last look. `None` at first, so that each thread looks at least once: the
    /// thread that did the rounds before may have ended before its look.
    repaired: Option<u64>,
    /// When this process last tried to delete its own leftover rows.
    tried: Instant,
}

impl<'e> FileRecovery<'e> {
    fn new(env: &'e Weak<Inner>) -> FileRecovery<'e> {
        FileRecovery { env, repaired: None, tried: Instant::now() }
    }

    fn look(&mut self, managers: &Managers) {
        let repaired = Some(managers.processes.repaired_count());
        if self.repaired == repaired || planted("libtp: survivors do not finish plain files of dead sessions") {
            return;
        }
        if let Some(env) = Visit::begin(self.env) {
            env.file_upkeep.recover(&env);
        }
        self.repaired = repaired;
    }

    /// Deletes rows that this process could not delete because another transaction was reading them. Every process
    /// deletes its own rows, also if another process does the rounds.
    fn end_own(&mut self) {
        if self.tried.elapsed() < LEFT_NAP {
            return;
        }
        self.tried = Instant::now();
        if let Some(env) = Visit::begin(self.env) {
            env.file_upkeep.end_left(&env);
        }
    }
}

/// The pause between two attempts of a process to delete its own leftover rows.
const LEFT_NAP: Duration = Duration::from_secs(1);

/// Does all background work except flushing the log and repairing dead sessions.
fn general_work(
    managers: &Managers,
    txn: &TxnSession,
    stop: &Stop,
    deadlock_period: Option<Duration>,
    detached_limit: Option<Duration>,
    recovery: &mut FileRecovery<'_>,
) {
    let mut quiet = Quiet::default();
    let mut searched = Instant::now();
    let mut huge_pages = HugePages::new();
    let mut tail = managers.log.tail();
    let mut turns = Turns::new(Work::House, HOUSE_NAP.min(deadlock_period.unwrap_or(HOUSE_NAP)));
    let mut unclaimed = detached_limit.map(Unclaimed::new);
    let mut looked = Instant::now();
    while turns.sleep(stop) {
        // Every process aborts detached transactions, also if another process does the rounds: the other process may
        // have no limit for detached transactions.
        if let Some(unclaimed) = unclaimed.as_mut().filter(|unclaimed| looked.elapsed() >= unclaimed.nap()) {
            looked = Instant::now();
            quiet.report("aborting a detached transaction", unclaimed.look(managers));
        }
        recovery.end_own();
        turns.is_busy = huge_pages.step(managers);
        // As in `flush_log`.
        txn.session().heed_cancels();
        if turns.begin(managers) {
            recovery.look(managers);
            if deadlock_period.is_some_and(|period| searched.elapsed() >= period) {
                searched = Instant::now();
                quiet.report(
                    "the search for deadlocks",
                    managers.locks.detect(txn.session()).map(|_| ()).map_err(Into::into),
                );
            }
            let cleaned = clean(managers, txn, recovery.env);
            turns.resign_rounds(managers, cleaned.is_ok());
            quiet.report("background work", cleaned);
            let tail_then = std::mem::replace(&mut tail, managers.log.tail());
            turns.is_busy |= tail_then != tail;
        }
    }
    turns.rounds.resign(&managers.processes);
}

/// Does one round of all background work, for a program without background threads.
pub(crate) fn step(env: &Weak<Inner>, managers: &Managers, txn: &TxnSession) -> Result<()> {
    managers.log.background_flush(txn.session())?;
    clean(managers, txn, env)
}

/// Gives up a region whose file was removed. Returns whether the region was given up. No new process can find a region
/// without a file, so the death of all its processes would lose everything that only the region has. Therefore this
/// function first writes all commits to disk. Afterwards the region is rebuilt in a new file for all processes.
///
/// Does nothing if the environment itself was removed, because then there is nothing to rebuild.
fn leave_if_nameless(managers: &Managers, txn: &TxnSession, env: &Weak<Inner>) -> Result<bool> {
    if !managers.region.has_lost_name() || planted("libtp: sessions continue in memory whose file was removed") {
        return Ok(false);
    }
    let Some(env) = Visit::begin(env) else { return Ok(false) };
    if !env.platform.directory.exists(CONTROL_NAME)? {
        return Ok(false);
    }
    let flushed = managers.log.force_all(txn.session());
    if let Err(stopped @ libtp_log::Error::LeaderStopped { .. }) = flushed {
        // Commits that are only in this memory could be lost. The next round tries again.
        return Err(stopped.into());
    }
    managers.give_up("its file was removed while it was in use");
    flushed?;
    Ok(true)
}

fn clean(managers: &Managers, txn: &TxnSession, env: &Weak<Inner>) -> Result<()> {
    if leave_if_nameless(managers, txn, env)? {
        return Ok(());
    }
    // Continue on a full disk: a checkpoint may free log space.
    let prepared = managers.log.prepare_next_segment(txn.session());
    let is_full = matches!(prepared, Err(libtp_log::Error::Full { .. }));
    if !is_full {
        prepared?;
    }
    managers.buffers.background_step(txn.session())?;
    if managers.checkpoint_due() {
        managers.checkpoint(txn)?;
    } else if is_full {
        managers.free_log(txn)?;
    }
    managers.log.prepare_next_segment(txn.session())?;
    Ok(())
}

/// Reports an error once, not two hundred times a second.
#[derive(Default)]
struct Quiet {
    last: Option<String>,
}

impl Quiet {
    fn report(&mut self, what: &str, done: Result<()>) {
        let now = done.err().map(|error| error.to_string());
        if now != self.last {
            if let Some(error) = &now {
                tracing::warn!(%error, "{what} failed; it is tried again");
            }
            self.last = now;
        }
    }
}
