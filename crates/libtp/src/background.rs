//! The background thread: relaxed commits reach the disk, pages are cleaned, checkpoints taken, deadlocks searched.
//!
//! One thread in each process that opened the environment; for each job, one session of all processes has the role at a
//! time, so any process may be the one that does it (DESIGN 7).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use libtp_txn::{Managers, TxnSession};

use crate::environment::{lock, Inner};
use crate::{Error, Result};

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(5);

/// The running thread.
pub(crate) struct Background {
    stop: Arc<Stop>,
    thread: std::thread::JoinHandle<()>,
}

struct Stop {
    asked: AtomicBool,
    mutex: Mutex<()>,
    changed: Condvar,
}

impl Background {
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Background> {
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), mutex: Mutex::new(()), changed: Condvar::new() });
        let managers = Arc::clone(&inner.managers);
        let who = managers.join()?;
        let period = inner.settings.deadlock_period_millis.map(Duration::from_millis);
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("libtp-background".into())
            .spawn(move || run(&managers, who, &theirs, period))
            .map_err(|error| Error::Io(Box::new(error)))?;
        Ok(Background { stop, thread })
    }

    pub(crate) fn stop(self) {
        // Release: pairs with the acquire in `run`; nothing else is handed over.
        self.stop.asked.store(true, Ordering::Release);
        self.stop.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the background thread panicked; its session is repaired by the next to open");
        }
    }
}

fn run(managers: &Managers, who: TxnSession, stop: &Stop, deadlock_period: Option<Duration>) {
    let mut quiet = Quiet::default();
    let mut searched = Instant::now();
    let mut huge = Some(0);
    // Acquire: pairs with the release in `stop`.
    while !stop.asked.load(Ordering::Acquire) {
        let guard = lock(&stop.mutex);
        // A spurious wake only makes the round come early.
        drop(stop.changed.wait_timeout(guard, TICK));
        if let Some(period) = deadlock_period.filter(|period| searched.elapsed() >= *period) {
            searched = Instant::now();
            quiet.report(
                "the search for deadlocks",
                period,
                managers.locks.detect(who.session()).map(|_| ()).map_err(Into::into),
            );
        }
        quiet.report("background work", TICK, step(managers, &who));
        huge = huge.and_then(|from| managers.region.use_huge_pages(from));
    }
    managers.leave(who);
}

/// One round of background work.
pub(crate) fn step(managers: &Managers, who: &TxnSession) -> Result<()> {
    managers.log.background_flush(who.session())?;
    managers.buffers.background_step(who.session())?;
    if managers.checkpoint_due() {
        managers.checkpoint(who)?;
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
    fn report(&mut self, what: &str, _every: Duration, done: Result<()>) {
        let now = done.err().map(|error| error.to_string());
        if now != self.last {
            if let Some(error) = &now {
                tracing::warn!(%error, "{what} failed; it is tried again");
            }
            self.last = now;
        }
    }
}
