//! Clients as processes: a run whose clients are processes instead of threads.
//!
//! The caller provides the command of a client process: usually this program with a hidden verb, which opens the engine
//! and calls [`serve_client`]. Parent and child exchange lines of JSON over the child's standard input and output:
//!
//! ```text
//! parent   {"settings":{..},"client":7}
//! child    {"ready":true}              its session is open
//! parent   {"window":{..}}             all are ready: the interval in which transactions count
//! child    {"committed":12345}         every 200 ms
//! child    {"report":{..}}  or  {"error":".."}
//! ```
//!
//! When the parent has the report, or gives up the run, it closes the child's standard input. Then the child ends
//! cleanly, even in the middle of the run. If the parent dies, the system closes the pipe.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::report::{ClientReport, ClientsAs, Report, RunSettings};
use crate::run::{check, run_client, Before, Counter, Meter, Progress, PROGRESS_EVERY};
use crate::window::Window;

/// Time that a client has to close its engine. Then the parent kills it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message of the parent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", untagged)]
enum Order {
    Begin { settings: RunSettings, client: u32 },
    Go { window: Window },
}

/// A message of a child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready(bool),
    Committed(u64),
    Report(ClientReport),
    Error(String),
}

/// Runs every client in a process that `command` makes, audits the bank, and reports.
///
/// # Errors
/// `Client` if a process cannot be started, dies, or reports an error. The function then ends all other processes.
pub fn run_processes(
    engine: &dyn Engine,
    settings: &RunSettings,
    command: &mut dyn FnMut(u32) -> Command,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report> {
    check(settings)?;
    let before = Before::look(engine)?;
    let clients = all_processes(settings, before.history.first_client, command, progress)?;
    before.report(engine, settings, ClientsAs::Processes, &clients)
}

/// Runs one process for each client, numbered from `first_client`. Returns when all processes have ended, so that no
/// client changes the bank during an audit.
pub(crate) fn all_processes(
    settings: &RunSettings,
    first_client: u32,
    command: &mut dyn FnMut(u32) -> Command,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<ClientReport>> {
    check(settings)?;
    let mut family = Family { children: Vec::new() };
    for client in (first_client..).take(settings.clients as usize) {
        family.start(client, command(client))?;
    }
    family.run(settings, progress)
}

/// Pause of a process before it is killed: longer than the time for which an acknowledged commit may be only in memory.
const STILL: Duration = Duration::from_millis(500);

/// Runs one process until it has committed `transactions` transactions and pauses. Kills the process after a pause of
/// [`STILL`]. The bank stays as the kill leaves it.
pub(crate) fn killed_process(settings: &RunSettings, mut command: Command, transactions: u64) -> Result<()> {
    let settings = &RunSettings { most: Some(transactions), ..settings.clone() };
    check(settings)?;
    let client = 0;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().map_err(|e| broken(client, &format!("could not be started: {e}")))?;
    let mut killed = Killed(child);
    let (input, output) =
        killed.0.stdin.as_mut().zip(killed.0.stdout.take()).ok_or_else(|| broken(client, "has no pipes"))?;
    let mut output = BufReader::new(output);
    say(input, client, &Order::Begin { settings: settings.clone(), client })?;
    loop {
        match hear(&mut output).map_err(|error| broken(client, &format!("died: {error}")))? {
            Answer::Ready(_) => {
                say(input, client, &Order::Go { window: Window::after(settings.warmup, settings.measured) })?;
            }
            Answer::Committed(so_far) if so_far >= transactions => {
                std::thread::sleep(STILL);
                return Ok(());
            }
            Answer::Committed(_) => {}
            Answer::Report(_) => {
                return Err(broken(client, "ended before it had committed enough transactions to be killed"))
            }
            Answer::Error(why) => return Err(broken(client, &why)),
        }
    }
}

/// A process. Dropping the value kills the process.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // For a process that has ended already, both calls do nothing.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Runs one client in a child process: reads the parent's messages from `orders`, writes the child's messages to
/// `answers`, and returns when the parent closes `orders`. The caller should then close the engine cleanly.
///
/// # Errors
/// The client's error. The parent gets the error, too, if it still reads messages.
pub fn serve_client(
    engine: &dyn Engine,
    orders: &mut (dyn BufRead + Send),
    answers: &mut (dyn Write + Send),
) -> Result<()> {
    let Order::Begin { settings, client } = hear(orders)? else {
        return Err(broken(0, "got its window before its settings"));
    };
    let answers = Mutex::new(answers);
    let tell = |what: &Answer| say(&mut **answers.lock().unwrap_or_else(PoisonError::into_inner), client, what);
    let (committed, stop) = (Counter::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let mut once = Some((orders, ended));
        let (tell, committed, stop) = (&tell, &committed, &stop);
        let mut start = || {
            let (orders, ended) = once.take().expect("a client starts once");
            tell(&Answer::Ready(true))?;
            let Order::Go { window } = hear(orders)? else {
                return Err(broken(client, "got its settings twice"));
            };
            scope.spawn(move || tell_progress(&ended, tell, committed, stop));
            scope.spawn(move || stop_when_closed(orders, stop));
            Ok(window)
        };
        let outcome = run_client(engine, &settings, client, &mut start, committed, stop);
        drop(running);
        match outcome {
            Ok(report) => tell(&Answer::Report(report)),
            Err(error) => {
                // The client's error is returned, also if the message to the parent fails.
                tell(&Answer::Error(error.to_string())).ok();
                Err(error)
            }
        }
    })
}

/// Waits until the parent closes the pipe, and then stops the client. The parent closes the pipe when it has the report
/// or gives up the run.
fn stop_when_closed(orders: &mut (dyn BufRead + Send), stop: &AtomicBool) {
    while hear::<Order>(orders).is_ok() {}
    // Relaxed is enough: the flag publishes no other data.
    stop.store(true, Ordering::Relaxed);
}

/// Reports the client's progress until the client ends. Stops the client if the parent has closed its end of the pipe.
fn tell_progress(
    ended: &mpsc::Receiver<()>,
    tell: &(impl Fn(&Answer) -> Result<()> + ?Sized),
    committed: &Counter,
    stop: &AtomicBool,
) {
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(PROGRESS_EVERY) {
        if tell(&Answer::Committed(committed.get())).is_err() {
            // Relaxed is enough: the flag publishes no other data.
            stop.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// The client processes of a run. Dropping the value closes their standard input, so that they end. A process that does
/// not end in time is killed.
struct Family {
    children: Vec<(u32, Child)>,
}

impl Drop for Family {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(|(_, child)| drop(child.stdin.take()));
        let patience = Instant::now() + PATIENCE;
        for (_, child) in &mut self.children {
            // A client that is killed in a transaction may leave a lock in the engine's shared memory for ever.
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < patience {
                thread::sleep(Duration::from_millis(5));
            }
            // For a process that has ended already, both calls do nothing.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Family {
    fn start(&mut self, client: u32, mut command: Command) -> Result<()> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let child = child.map_err(|e| broken(client, &format!("could not be started: {e}")))?;
        self.children.push((client, child));
        Ok(())
    }

    fn run(mut self, settings: &RunSettings, progress: &mut dyn FnMut(&Progress)) -> Result<Vec<ClientReport>> {
        let (tell, answers) = mpsc::channel();
        for at in 0..self.children.len() {
            let client = self.children[at].0;
            self.order(at, &Order::Begin { settings: settings.clone(), client })?;
            let output = self.children[at].1.stdout.take();
            let output = output.ok_or_else(|| broken(client, "has no standard output"))?;
            let tell = tell.clone();
            thread::spawn(move || listen(at, client, &mut BufReader::new(output), &tell));
        }
        drop(tell);
        self.collect(settings, &answers, progress)
    }

    fn collect(
        &mut self,
        settings: &RunSettings,
        answers: &mpsc::Receiver<(usize, Result<Answer>)>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<ClientReport>> {
        let count = self.children.len();
        let (mut ready, mut reports) = (0, Vec::new());
        let mut committed = vec![0; count];
        let mut meter = Meter::start();
        while reports.len() < count {
            let (at, answer) = answers.recv().map_err(|_| broken(0, "closed its output without a report"))?;
            match answer? {
                Answer::Ready(_) => {
                    ready += 1;
                    if ready == count {
                        let window = Window::after(settings.warmup, settings.measured);
                        (0..count).try_for_each(|at| self.order(at, &Order::Go { window }))?;
                        meter = Meter::start();
                    }
                }
                Answer::Committed(so_far) => {
                    committed[at] = so_far;
                    if at == 0 {
                        progress(&meter.read(committed.iter().sum()));
                    }
                }
                Answer::Report(report) => reports.push(report),
                Answer::Error(why) => return Err(broken(self.children[at].0, &why)),
            }
        }
        Ok(reports)
    }

    fn order(&mut self, at: usize, order: &Order) -> Result<()> {
        let (client, child) = &mut self.children[at];
        let input = child.stdin.as_mut().ok_or_else(|| broken(*client, "has no standard input"))?;
        say(input, *client, order)
    }
}

/// Sends a child's messages to `tell`, until its report, its error, or its end.
fn listen(at: usize, client: u32, output: &mut dyn BufRead, tell: &mpsc::Sender<(usize, Result<Answer>)>) {
    loop {
        let answer = hear(output).map_err(|error| broken(client, &format!("died: {error}")));
        let last = !matches!(answer, Ok(Answer::Ready(_) | Answer::Committed(_)));
        if tell.send((at, answer)).is_err() || last {
            return;
        }
    }
}

fn say<T: Serialize>(to: &mut (impl Write + ?Sized), client: u32, what: &T) -> Result<()> {
    let line = serde_json::to_string(what).map_err(|e| broken(client, &e.to_string()))?;
    let sent = writeln!(to, "{line}").and_then(|()| to.flush());
    sent.map_err(|e| broken(client, &format!("could not be sent a message: {e}")))
}

fn hear<T: for<'a> Deserialize<'a>>(from: &mut (impl BufRead + ?Sized)) -> Result<T> {
    let mut line = String::new();
    let got = from.read_line(&mut line);
    got.map_err(|e| Error::Settings(format!("the pipe between two processes of the benchmark failed: {e}")))?;
    if line.is_empty() {
        return Err(Error::Settings("the pipe between two processes of the benchmark was closed".to_string()));
    }
    serde_json::from_str(&line)
        .map_err(|e| Error::Settings(format!("the message {:?} cannot be parsed: {e}", line.trim_end())))
}

fn broken(client: u32, what: &str) -> Error {
    Error::Client { client, what: what.to_string() }
}

#[cfg(test)]
mod tests;
