//! The driver: clients that send transfers for a fixed time, and the measurement of their rate and latencies.
//!
//! Paper: LIBTP §5.1. Departures: each transaction's latency is measured, too, and the warm-up has a fixed time (in
//! §5.1.2 it had 2,000 transactions).
//!
//! Invariants
//! 1. A transfer counts as committed only after the engine has acknowledged it. A client sends an aborted transfer
//!    again until it is committed or the time is up.
//! 2. A client reads the clock once for each committed transaction: the end of a transaction is the beginning of the
//!    next.
//! 3. No client sends its first transfer before all clients have a session.
//! 4. The counted transactions ended in one window that all clients share (`window`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::report::{sent, ClientReport, ClientsAs, Report, RunSettings};
use crate::tpcb::{Table, Transfer, Transfers};
use crate::window::Window;
use crate::Histogram;
use libtp_bank::clock::now_nanos;
use libtp_bank::history::History;
use libtp_console::numbers::{nanos, per_second};

/// Time between two reports of progress.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Pause of a client that has sent all its transfers, before it checks again whether the run is over.
const REST: Duration = Duration::from_millis(1);
/// After this number of retries of a transfer, the client yields the processor before each further retry.
const RETRIES_BEFORE_YIELD: u32 = 2;

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the first transfer, including the warm-up.
    pub elapsed: Duration,
    /// Number of acknowledged transactions, including those of the warm-up.
    pub committed: u64,
    /// Transactions per second since the last report of progress.
    pub tps_now: u64,
}

/// A client's number of acknowledged transactions. No other data is on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counter(AtomicU64);

impl Counter {
    /// Returns the number.
    pub fn get(&self) -> u64 {
        // Relaxed is enough: the number is only shown, and publishes no other data.
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number. Only the client does this.
    #[inline]
    fn set(&self, count: u64) {
        // Relaxed is enough, as in `get`.
        self.0.store(count, Ordering::Relaxed);
    }
}

/// The state of a bank before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// The history that earlier runs left.
    pub history: History,
    /// Bytes that the engine has written to its log.
    pub log_bytes: u64,
}

impl Before {
    /// Reads the bank's state.
    pub fn look(engine: &dyn Engine) -> Result<Before> {
        Ok(Before { history: History::read(engine)?, log_bytes: engine.log_bytes()? })
    }

    /// Audits the bank after a run and makes the report.
    pub fn report(
        &self,
        engine: &dyn Engine,
        settings: &RunSettings,
        clients_as: ClientsAs,
        clients: &[ClientReport],
    ) -> Result<Report> {
        let log_bytes = engine.log_bytes()?.saturating_sub(self.log_bytes);
        let audit = engine.audit(&settings.scale)?;
        let written = if settings.read_only { 0 } else { sent(clients) };
        let verdict = audit.verdict(self.history.count + written);
        Ok(Report::merge(engine, settings, clients_as, clients, verdict, log_bytes))
    }
}

/// Runs the clients as threads, audits the bank, and reports.
///
/// # Errors
/// The first client's error, or the engine's error during the audit. Wrong sums in the bank are no error: the report
/// has the audit's verdict.
pub fn run_threads(engine: &dyn Engine, settings: &RunSettings, progress: &mut dyn FnMut(&Progress)) -> Result<Report> {
    check(settings)?;
    let before = Before::look(engine)?;
    let clients = all_threads(engine, settings, before.history.first_client, progress)?;
    before.report(engine, settings, ClientsAs::Threads, &clients)
}

/// Runs one client on this thread. Calls `start` when the client's session is open. `start` returns the shared window
/// when all clients may begin. Sets `committed` after each transfer. If another thread sets `stop`, the run ends early.
pub fn run_client(
    engine: &dyn Engine,
    settings: &RunSettings,
    client: u32,
    start: &mut dyn FnMut() -> Result<Window>,
    committed: &Counter,
    stop: &AtomicBool,
) -> Result<ClientReport> {
    let mut session = engine.session()?;
    let window = start()?;
    let transfers = Transfers::new(settings.scale, settings.seed, client);
    Client { client, transfers, settings, committed, stop }.send_until_the_end(session.as_mut(), &window)
}

/// Refuses settings without a client or without records.
pub(crate) fn check(settings: &RunSettings) -> Result<()> {
    let refuse = |why: &str| Err(Error::Settings(why.to_string()));
    if settings.clients == 0 {
        return refuse("a benchmark needs at least one client");
    }
    if Table::BALANCES.iter().any(|&table| settings.scale.count(table) == 0) {
        return refuse("a bank needs at least one account, one teller and one branch");
    }
    Ok(())
}

/// A client during its run.
struct Client<'a> {
    client: u32,
    transfers: Transfers,
    settings: &'a RunSettings,
    committed: &'a Counter,
    stop: &'a AtomicBool,
}

impl Client<'_> {
    /// Sends transfers until the window is over. Counts the transfers that ended in the window.
    fn send_until_the_end(mut self, session: &mut dyn Session, window: &Window) -> Result<ClientReport> {
        let (mut committed, mut outside, mut aborts) = (0, 0, 0);
        let mut latency = Histogram::new();
        let mut now = now_nanos();
        // Relaxed is enough: the flag publishes no other data.
        while now < window.to_ns && !self.stop.load(Ordering::Relaxed) {
            if self.settings.most == Some(committed + outside) {
                std::thread::sleep(REST);
                now = now_nanos();
                continue;
            }
            let transfer = self.transfers.next_transfer();
            let mut aborted = 0;
            let done = self.send(session, &transfer, window.to_ns, &mut aborted)?;
            let after = now_nanos();
            let counts = window.contains(after);
            if counts {
                aborts += aborted;
            }
            if done {
                if counts {
                    committed += 1;
                    latency.record(after - now);
                } else {
                    outside += 1;
                }
                self.committed.set(committed + outside);
            }
            now = after;
        }
        Ok(ClientReport {
            client: self.client,
            committed_outside: outside,
            committed,
            aborts,
            elapsed_ns: window.elapsed_ns(now),
            latency,
        })
    }

    /// Sends one transfer until it commits. Returns false if the transfer was aborted and the time is up.
    #[inline]
    fn send(&self, session: &mut dyn Session, transfer: &Transfer, end_ns: u64, aborts: &mut u64) -> Result<bool> {
        let mut attempts = 0;
        loop {
            let outcome =
                if self.settings.read_only { session.read_only(transfer)? } else { session.transact(transfer)? };
            if let Outcome::Committed { .. } = outcome {
                return Ok(true);
            }
            *aborts += 1;
            attempts += 1;
            if now_nanos() >= end_ns {
                return Ok(false);
            }
            if attempts > RETRIES_BEFORE_YIELD {
                thread::yield_now();
            }
        }
    }
}

/// The gate at which each thread waits until all threads have their session.
#[derive(Default)]
struct Gate {
    /// `None` until the gate opens. Then the value has the window, or is `Some(None)` if the run was called off.
    open: Mutex<Option<Option<Window>>>,
    changed: Condvar,
}

impl Gate {
    fn decide(&self, window: Option<Window>) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(window);
        self.changed.notify_all();
    }

    fn wait(&self) -> Option<Window> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(window) = *open {
                return window;
            }
            open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A message of a client's thread.
enum News {
    Ready,
    Done(Result<ClientReport>),
}

/// Runs one thread for each client, numbered from `first_client`. Returns the clients' reports in the order of their
/// numbers.
pub(crate) fn all_threads(
    engine: &dyn Engine,
    settings: &RunSettings,
    first_client: u32,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<ClientReport>> {
    let counters: Vec<Counter> = (0..settings.clients).map(|_| Counter::default()).collect();
    let (gate, stop) = (Gate::default(), AtomicBool::new(false));
    let (tell, news) = mpsc::channel();
    thread::scope(|scope| {
        for (client, counter) in (first_client..).zip(&counters) {
            let (tell, gate, stop) = (tell.clone(), &gate, &stop);
            scope.spawn(move || {
                let mut start = || {
                    // The receiver outlives the scope, so the call cannot fail.
                    tell.send(News::Ready).ok();
                    gate.wait().ok_or_else(|| Error::Client { client, what: "was called off".to_string() })
                };
                let done = run_client(engine, settings, client, &mut start, counter, stop);
                tell.send(News::Done(done)).ok();
            });
        }
        drop(tell);
        let outcome = wait_for_threads(&news, &gate, &counters, settings, progress);
        // After a failure, threads must neither wait at the gate nor continue.
        // Relaxed is enough: the flag publishes no other data.
        stop.store(true, Ordering::Relaxed);
        gate.decide(None);
        outcome
    })
}

/// Opens the gate, reports progress, and collects the clients' reports. Returns the first error, if there is one.
fn wait_for_threads(
    news: &mpsc::Receiver<News>,
    gate: &Gate,
    counters: &[Counter],
    settings: &RunSettings,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<ClientReport>> {
    let mut meter = Meter::start();
    let (mut ready, mut reports) = (0, Vec::new());
    while reports.len() < counters.len() {
        match news.recv_timeout(PROGRESS_EVERY) {
            Ok(News::Ready) => {
                ready += 1;
                if ready == counters.len() {
                    gate.decide(Some(Window::after(settings.warmup, settings.measured)));
                    meter = Meter::start();
                }
            }
            Ok(News::Done(report)) => reports.push(report?),
            Err(mpsc::RecvTimeoutError::Timeout) if ready == counters.len() => {
                progress(&meter.read(counters.iter().map(Counter::get).sum()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::Settings("a client thread panicked; its message is on standard error".to_string()));
            }
        }
    }
    reports.sort_by_key(|report: &ClientReport| report.client);
    Ok(reports)
}

/// Converts counts to rates.
pub(crate) struct Meter {
    begin: Instant,
    last: Instant,
    last_count: u64,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        let begin = Instant::now();
        Meter { begin, last: begin, last_count: 0 }
    }

    pub(crate) fn read(&mut self, committed: u64) -> Progress {
        let now = Instant::now();
        let new = committed.saturating_sub(self.last_count);
        let tps_now = per_second(new, nanos(now - self.last));
        (self.last, self.last_count) = (now, committed);
        Progress { elapsed: now - self.begin, committed, tps_now }
    }
}

#[cfg(test)]
mod tests;
