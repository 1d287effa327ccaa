//! Background work: relaxed commits reach the disk, pages are cleaned, checkpoints taken, deadlocks searched.
//!
//! Three threads in each process that opened the environment. One flushes the log and does nothing else, because the others'
//! work can take long (a checkpoint writes pages and waits for the disk) and the log cannot wait so long: its ring would
//! fill, and then appenders would wait too. One repairs what a dead process leaves, at once. For each job one session of all
//! processes has the role at a time, so any process may be the one that does it (DESIGN 7). Of the first two kinds one thread
//! of all processes looks often, as long as there is something to do; the others look whether it still does (`Rounds`). So a
//! process that does nothing costs next to nothing.

use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use libtp_log::CONTROL_NAME;
use libtp_process::{DeathWatch, Rounds, Waker, Work};
use libtp_txn::{Managers, TxnSession};
use rio::planted;

use crate::environment::{lock, Inner};
use crate::huge_pages::HugePages;
use crate::panics::Rung;
use crate::unclaimed::Unclaimed;
use crate::visit::Visit;
use crate::{Error, Result};

thread_local! {
    /// The id of a thread that was started here; of another thread nothing. A thread of the program is not asked for its id: the answer
    /// takes memory that the program's main thread never gives back, and valgrind says so.
    static OWN: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// How often a thread looks that has something to do.
const TICK: Duration = Duration::from_millis(5);
/// How often the one that writes the log looks that has nothing to do. With half of it again, after which another may do it,
/// it is less than a relaxed commit may wait for the disk by default; where less is set, it is less.
const LOG_NAP: Duration = Duration::from_millis(50);
/// How often the one that keeps house looks that has nothing to do.
const HOUSE_NAP: Duration = Duration::from_millis(100);
/// How often the one that is told of deaths looks for those of which it is not.
const WATCH: Duration = Duration::from_millis(100);

/// The running threads.
pub(crate) struct Background {
    stop: Arc<Stop>,
    env: Weak<Inner>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

struct Stop {
    asked: AtomicBool,
    mutex: Mutex<()>,
    changed: Condvar,
    /// Of the thread that sleeps in the kernel's arms.
    waker: OnceLock<Waker>,
}

impl Stop {
    fn new() -> Stop {
        Stop { asked: AtomicBool::new(false), mutex: Mutex::new(()), changed: Condvar::new(), waker: OnceLock::new() }
    }

    fn ask(&self) {
        // Release: pairs with the acquire in `is_asked`.
        self.asked.store(true, Ordering::Release);
        self.changed.notify_all();
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    fn is_asked(&self) -> bool {
        // Acquire: pairs with the release in `ask`; nothing else is handed over.
        self.asked.load(Ordering::Acquire)
    }

    /// Whoever asks wakes this one too. One that was asked before finds out by itself.
    fn wake_by(&self, waker: Waker) {
        let _ = self.waker.set(waker.clone());
        if self.is_asked() {
            waker.wake();
        }
    }

    /// Sleeps until the next round; whether there is one.
    fn sleep(&self, nap: Duration) -> bool {
        if self.is_asked() {
            return false;
        }
        let guard = lock(&self.mutex);
        // A spurious wake only makes the round come early.
        drop(self.changed.wait_timeout(guard, nap));
        !self.is_asked()
    }
}

impl Background {
    /// None yet.
    pub(crate) fn new(inner: &Arc<Inner>) -> Background {
        Background { stop: Arc::new(Stop::new()), env: Arc::downgrade(inner), threads: Vec::new() }
    }

    /// Starts them. After an error some run.
    pub(crate) fn start(&mut self, inner: &Inner, managers: &Arc<Managers>) -> Result<()> {
        let period = inner.settings.deadlock_period_millis.map(Duration::from_millis);
        let limit = inner.settings.detached_timeout_millis.map(Duration::from_millis);
        self.spawn(managers, "libtp-log", flush_log)?;
        let env = Weak::clone(&self.env);
        let (reaped, stop) = (Arc::clone(managers), Arc::clone(&self.stop));
        // Without a session of its own: it takes one of those that are kept for repairs.
        self.start_thread("libtp-reaper", move || bury_the_dead(&reaped, &stop, &env))?;
        #[cfg(test)]
        inner.refuse_thread()?;
        let env = Weak::clone(&self.env);
        self.spawn(managers, "libtp-pages", move |managers, who, stop| {
            keep_house(managers, who, stop, period, limit, &mut Bereaved::new(&env));
        })
    }

    fn spawn(
        &mut self,
        managers: &Arc<Managers>,
        name: &str,
        work: impl Fn(&Managers, &TxnSession, &Stop) + Send + 'static,
    ) -> Result<()> {
        let (managers, stop, env) = (Arc::clone(managers), Arc::clone(&self.stop), Weak::clone(&self.env));
        let who = managers.join()?;
        let run = move || {
            let mut who = Some(who);
            while let Some(now) = who.take() {
                let done = catch_unwind(AssertUnwindSafe(|| {
                    work(&managers, &now, &stop);
                    managers.leave(now);
                }));
                // A session that a panic has ended is dead; another goes on with the work.
                who = done.err().and_then(|payload| after_panic(&managers, &env, &stop, payload.as_ref()));
            }
        };
        self.start_thread(name, run)
    }

    fn start_thread(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let noted = move || {
            OWN.set(Some(std::thread::current().id()));
            run();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(noted);
        self.threads.push(thread.map_err(|error| Error::Io(Box::new(error)))?);
        Ok(())
    }

    /// As [`Background::stop`], without waiting: one of them may be the caller, or wait for it.
    pub(crate) fn abandon(self) {
        self.stop.ask();
    }

    pub(crate) fn stop(self) {
        self.stop.ask();
        let own = OWN.get();
        for thread in self.threads.into_iter().filter(|thread| Some(thread.thread().id()) != own) {
            if thread.join().is_err() {
                tracing::error!("a background thread panicked; its session is repaired by the next to open");
            }
        }
    }
}

/// One thread's turns at a kind of work that one process at a time does for all.
struct Turns {
    rounds: Rounds,
    /// How long it sleeps when it has nothing to do.
    nap: Duration,
    is_busy: bool,
    /// Until then the rounds are left to others.
    aside: Option<Instant>,
}

impl Turns {
    fn new(work: Work, nap: Duration) -> Turns {
        Turns { rounds: Rounds::new(work), nap, is_busy: true, aside: None }
    }

    /// Sleeps until the next round, whoever's it is; whether there is one.
    fn sleep(&self, stop: &Stop) -> bool {
        stop.sleep(if self.is_busy { TICK.min(self.nap) } else { self.nap })
    }

    /// Whether the round is ours: it is anybody's if the last was half a nap ago, and ours if that was, too.
    fn begin(&mut self, managers: &Managers) -> bool {
        if self.aside.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        self.aside = None;
        self.rounds.begin(&managers.processes, self.nap / 2)
    }

    /// Leaves the rounds to other processes for a while if this one could not do the work: a limit of one process must not
    /// keep the work from being done.
    fn give_way(&mut self, managers: &Managers, is_done: bool) {
        if !is_done {
            self.rounds.resign(&managers.processes);
            self.aside = Some(Instant::now() + 2 * self.nap);
        }
    }
}

/// Makes what is committed durable, and nothing that could keep it from that.
fn flush_log(managers: &Managers, who: &TxnSession, stop: &Stop) {
    let mut quiet = Quiet::default();
    let mut turns = Turns::new(Work::Log, LOG_NAP.min(managers.log.relaxed_bound() / 2));
    while turns.sleep(stop) {
        let led = turns.rounds.leads();
        turns.is_busy = turns.begin(managers) && !managers.log.is_all_durable();
        if !turns.rounds.leads() {
            continue;
        }
        // Whoever led before has perhaps kept the oldest waiting as long as it may.
        let flushed = match led {
            true => managers.log.background_flush(who.session()).map(|_| ()),
            false => managers.log.force_all(who.session()).map(|_| ()),
        };
        turns.give_way(managers, flushed.is_ok());
        quiet.report("writing the log", flushed.map_err(Into::into));
    }
    turns.rounds.resign(&managers.processes);
}

/// Repairs what other processes leave when they die.
fn bury_the_dead(managers: &Managers, stop: &Stop, env: &Weak<Inner>) {
    let mut watch = DeathWatch::new(&managers.processes);
    stop.wake_by(watch.waker());
    let mut quiet = Quiet::default();
    // Since when there are dead of whom something is left.
    let mut mourning = None;
    while !stop.is_asked() {
        if managers.region.is_broken() {
            // Relaxed commits must not wait in it until somebody calls.
            let begun = Visit::begin(env).map_or(Ok(()), |env| env.life().map(|_| ()));
            quiet.report("making the shared memory anew", begun);
            stop.sleep(TICK);
            continue;
        }
        // This thread outlives what it meets in the region: it is the one that makes the next.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            // A frame that was busy all the time, or another who is at it, is no reason to wait long.
            let died = watch.wait(if mourning.is_none() { WATCH } else { TICK });
            // A thread of some process may have died alone: that one has said so.
            let any = died || mourning.is_some() || managers.processes.has_marked_dead();
            if any && !managers.region.is_broken() && !managers.log.is_poisoned() {
                let learned = *mourning.get_or_insert_with(Instant::now);
                let repaired = managers.reap_since(learned);
                quiet.report("the repair of a dead session", repaired.map(|_| ()).map_err(Into::into));
                if managers.processes.dead_sessions().is_empty() {
                    mourning = None;
                }
            }
        }));
        if let Err(payload) = looked {
            ended_by_panic(managers, env, payload.as_ref());
        }
    }
}

/// A session to go on with, unless that is over.
fn after_panic(managers: &Managers, env: &Weak<Inner>, stop: &Stop, payload: &(dyn Any + Send)) -> Option<TxnSession> {
    if ended_by_panic(managers, env, payload) != Rung::Session || stop.is_asked() {
        return None;
    }
    let joined = catch_unwind(AssertUnwindSafe(|| managers.join()));
    match joined {
        Ok(Ok(who)) => Some(who),
        Ok(Err(error)) => {
            managers.give_up(&format!("a background thread cannot join it anew: {error}"));
            None
        }
        Err(payload) => {
            // Once is enough: nobody in this process would do its work any more.
            if ended_by_panic(managers, env, payload.as_ref()) == Rung::Session {
                managers.give_up("a background thread cannot join it anew");
            }
            None
        }
    }
}

/// A thread of the library's own has panicked. The first time it is its session's death, the second time the region's. If the
/// same happens in the next one, nothing more is made durable, and everyone is told.
fn ended_by_panic(managers: &Managers, env: &Weak<Inner>, payload: &(dyn Any + Send)) -> Rung {
    let rung = Visit::begin(env).map_or(Rung::Region, |env| env.newest().rung_of(managers, payload));
    if rung == Rung::Caller {
        managers.log.poison();
    }
    rung
}

/// Looks after the plain files of transactions whose processes died between their commit and its end. Not the reaper does it: it
/// would wait for a lock of one whom only it can bury.
struct Bereaved<'e> {
    env: &'e Weak<Inner>,
    /// So many sessions had been repaired when it was last looked. Whoever kept house before may have left without a look, so
    /// everybody looks once.
    repaired: Option<u64>,
    /// When it was last tried to end what this process has left.
    tried: Instant,
}

impl<'e> Bereaved<'e> {
    fn new(env: &'e Weak<Inner>) -> Bereaved<'e> {
        Bereaved { env, repaired: None, tried: Instant::now() }
    }

    fn look(&mut self, managers: &Managers) {
        let repaired = Some(managers.processes.repaired_count());
        if self.repaired == repaired || planted("libtp: plain files of the dead stay where they are") {
            return;
        }
        if let Some(env) = Visit::begin(self.env) {
            crate::files::recover(&env);
        }
        self.repaired = repaired;
    }

    /// What this process could not end, because somebody read a row: it ends it later, whoever's turn it is.
    fn end_own(&mut self) {
        if self.tried.elapsed() < LEFT_NAP {
            return;
        }
        self.tried = Instant::now();
        if let Some(env) = Visit::begin(self.env) {
            crate::files::end_left(&env);
        }
    }
}

/// So long it takes until rows of plain files that somebody read are deleted after all.
const LEFT_NAP: Duration = Duration::from_secs(1);

/// Everything else.
fn keep_house(
    managers: &Managers,
    who: &TxnSession,
    stop: &Stop,
    deadlock_period: Option<Duration>,
    detached_limit: Option<Duration>,
    bereaved: &mut Bereaved<'_>,
) {
    let mut quiet = Quiet::default();
    let mut searched = Instant::now();
    let mut huge_pages = HugePages::new();
    let mut tail = managers.log.tail();
    let mut turns = Turns::new(Work::House, HOUSE_NAP.min(deadlock_period.unwrap_or(HOUSE_NAP)));
    let mut unclaimed = detached_limit.map(Unclaimed::new);
    let mut looked = Instant::now();
    while turns.sleep(stop) {
        // Whoever's turn it is: another may have no such limit.
        if let Some(unclaimed) = unclaimed.as_mut().filter(|unclaimed| looked.elapsed() >= unclaimed.nap()) {
            looked = Instant::now();
            quiet.report("ending what was passed on", unclaimed.look(managers));
        }
        bereaved.end_own();
        turns.is_busy = huge_pages.step(managers);
        if turns.begin(managers) {
            bereaved.look(managers);
            if deadlock_period.is_some_and(|period| searched.elapsed() >= period) {
                searched = Instant::now();
                quiet.report(
                    "the search for deadlocks",
                    managers.locks.detect(who.session()).map(|_| ()).map_err(Into::into),
                );
            }
            let cleaned = clean(managers, who, bereaved.env);
            turns.give_way(managers, cleaned.is_ok());
            quiet.report("background work", cleaned);
            let tail_then = std::mem::replace(&mut tail, managers.log.tail());
            turns.is_busy |= tail_then != tail;
        }
    }
    turns.rounds.resign(&managers.processes);
}

/// One round of all background work, for who has no such threads.
pub(crate) fn step(env: &Weak<Inner>, managers: &Managers, who: &TxnSession) -> Result<()> {
    managers.log.background_flush(who.session())?;
    clean(managers, who, env)
}

/// Who works in memory whose file was removed is alone with it, and if all such die, what only that memory has is lost. So all that is
/// committed goes to the disk, and then the memory is made anew for all, under its name. Whether that is so.
///
/// Not where the environment itself is removed: there is nothing to make it anew for.
fn leave_if_nameless(managers: &Managers, who: &TxnSession, env: &Weak<Inner>) -> Result<bool> {
    if !managers.region.has_lost_name() || planted("libtp: memory without a name is worked in") {
        return Ok(false);
    }
    let Some(env) = Visit::begin(env) else { return Ok(false) };
    if !env.platform.directory.exists(CONTROL_NAME)? {
        return Ok(false);
    }
    let flushed = managers.log.force_all(who.session());
    managers.give_up("its file was removed while it was in use");
    flushed?;
    Ok(true)
}

fn clean(managers: &Managers, who: &TxnSession, env: &Weak<Inner>) -> Result<()> {
    if leave_if_nameless(managers, who, env)? {
        return Ok(());
    }
    // On a full disk the work goes on: a checkpoint may give the log room.
    let prepared = managers.log.prepare_next_segment(who.session());
    let is_full = matches!(prepared, Err(libtp_log::Error::Full { .. }));
    if !is_full {
        prepared?;
    }
    managers.buffers.background_step(who.session())?;
    if managers.checkpoint_due() {
        managers.checkpoint(who)?;
    } else if is_full {
        managers.free_log(who)?;
    }
    managers.log.prepare_next_segment(who.session())?;
    Ok(())
}

/// Says an error once, not two hundred times a second.
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
