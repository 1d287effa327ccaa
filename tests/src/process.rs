//! A child process of a test. It runs the test program again, and obeys orders that it reads line by line.
//!
//! Each line of the child begins with `> `, because the test harness in the child writes to the same pipe. The child
//! writes each line in one call, so that a kill never leaves a part of a line, which the test could mistake for a
//! whole line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::sizes;

/// The prefix of the child's lines.
const MARK: &str = "> ";

/// Returns the monotonic clock in nanoseconds. All processes share this clock, and it never goes back.
///
/// # Panics
/// Never: the clock began at zero when the machine started.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let whole = |part| u64::try_from(part).expect("this clock begins at zero");
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}

/// Writes a line to the test that started this process, directly to the pipe. The test harness would capture text
/// that is printed.
pub fn say(text: &str) {
    let line = format!("\n{MARK}{text}\n");
    let mut out = std::io::stdout().lock();
    // If the test no longer listens, the test has ended.
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Returns the next order; `None` when the test has ended.
pub fn next_order() -> Option<String> {
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line).ok()?;
    (bytes > 0).then(|| line.trim_end().to_owned())
}

/// Returns a command that runs the test `entry` of this program, and no other test.
///
/// # Panics
/// Never: a running program knows its path.
pub fn this_program(entry: &str) -> Command {
    this_program_under(&[], entry)
}

/// Returns the command of [`this_program`], started by another program: `under` is that program and its arguments.
fn this_program_under(under: &[&str], entry: &str) -> Command {
    let program = std::env::current_exe().expect("a program knows its path");
    let mut command = match under {
        [] => Command::new(program),
        [starter, arguments @ ..] => {
            let mut command = Command::new(starter);
            command.args(arguments).arg(program);
            command
        }
    };
    command.args(["--exact", entry, "--nocapture", "--test-threads", "1"]);
    command
}

/// Runs a command to its end; returns its standard output.
///
/// # Panics
/// If the command fails.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let ended = command.stdin(Stdio::null()).output().expect("the program can be started");
    let message = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}: {message}{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    message
}

/// Returns whether this process runs only the calling test, `entry`. If not, starts a process that runs only this test,
/// and waits until that process has ended.
///
/// # Panics
/// If the test fails in its own process.
pub fn is_alone(entry: &str) -> bool {
    const VARIABLE: &str = "LIBTP_TEST_ALONE";
    let is_alone = std::env::var(VARIABLE).is_ok_and(|name| name == entry);
    if !is_alone {
        succeeds(this_program(entry).env(VARIABLE, entry));
    }
    is_alone
}

/// Does the `work` of the calling test, `entry`, in a process that runs only this test.
///
/// # Panics
/// If the test fails in its own process.
pub fn alone(entry: &str, work: impl FnOnce()) {
    if is_alone(entry) {
        work();
    }
}

/// Runs the test `entry` in its own process with these environment variables. The process dies if it reaches the
/// failpoint. Returns whether the process died.
///
/// # Panics
/// If this program cannot be started again.
pub fn dies_at(failpoint: &str, entry: &str, variables: &[(&str, String)]) -> bool {
    let armed = [(FAILPOINT, failpoint.to_owned())];
    Process::start(entry, &[variables, &armed].concat()).wait().signal().is_some()
}

/// The environment variable with the name of the failpoint at which a process dies.
pub const FAILPOINT: &str = "LIBTP_FAILPOINT";

/// Returns the time after which a process that gives no answer counts as stuck. Tests that expect stuck processes set
/// a shorter time.
pub fn hang() -> Duration {
    Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 20) * 3)
}

/// Waits until the condition holds.
///
/// # Panics
/// If the condition does not hold in time.
#[track_caller]
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(libtp_sim::until(hang(), is_so), "this has not happened in time: {what}");
}

/// Lets a type that has a field `process` be used as that process.
#[macro_export]
macro_rules! is_a_process {
    ($type:ident) => {
        impl std::ops::Deref for $type {
            type Target = $crate::process::Process;
            fn deref(&self) -> &Self::Target {
                &self.process
            }
        }

        impl std::ops::DerefMut for $type {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.process
            }
        }
    };
}

/// The result of waiting for a line of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The next line.
    Line(String),
    /// No line came in time.
    Nothing,
    /// The process has ended, and all its lines were returned before.
    End,
}

/// A process and the pipes to it. A drop of the value kills the process.
pub struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
    lines: Receiver<String>,
    errors: Arc<Mutex<String>>,
}

impl Process {
    /// Starts this program again, in its test `entry`, with these variables.
    ///
    /// # Panics
    /// If this program cannot be started again.
    pub fn start(entry: &str, variables: &[(&str, String)]) -> Process {
        Process::start_under(&[], entry, variables)
    }

    /// Starts this program in its test `entry` by way of another program: `under` is that program and its arguments.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start_under(under: &[&str], entry: &str, variables: &[(&str, String)]) -> Process {
        let (send, lines) = channel();
        // A failed send is ignored: the test no longer listens.
        let mut process = Process::launch(under, entry, variables, move |line| drop(send.send(line.to_owned())));
        process.lines = lines;
        process
    }

    /// Starts this program again, in its test `entry`. A thread calls `listen` with each line of the child.
    ///
    /// # Panics
    /// If this program cannot be started again.
    pub fn start_heard_by(
        entry: &str,
        variables: &[(&str, String)],
        listen: impl FnMut(&str) + Send + 'static,
    ) -> Process {
        Process::launch(&[], entry, variables, listen)
    }

    fn launch(
        under: &[&str],
        entry: &str,
        variables: &[(&str, String)],
        mut listen: impl FnMut(&str) + Send + 'static,
    ) -> Process {
        let mut command = this_program_under(under, entry);
        command
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("this program can be started again");
        let message = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let listener = std::thread::spawn(move || {
            for line in message.lines().map_while(Result::ok) {
                if let Some(text) = line.strip_prefix(MARK) {
                    listen(text);
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        keep_errors(child.stderr.take().expect("its errors are a pipe"), Arc::clone(&errors));
        let orders = child.stdin.take();
        Process { orders, child, listener: Some(listener), lines: channel().1, errors }
    }

    /// Returns the next line if one comes within `time`.
    pub fn hear_within(&self, time: Duration) -> Heard {
        match self.lines.recv_timeout(time) {
            Ok(line) => Heard::Line(line),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Returns the next line; `None` if the process has ended.
    ///
    /// # Panics
    /// If the process neither writes a line nor ends.
    #[track_caller]
    pub fn line(&self) -> Option<String> {
        match self.hear_within(hang()) {
            Heard::Line(line) => Some(line),
            Heard::End => None,
            Heard::Nothing => panic!("process {} gives no answer: {}", self.pid(), self.errors()),
        }
    }

    /// Waits for the next line, which must be `word`.
    ///
    /// # Panics
    /// If another line or no line comes.
    #[track_caller]
    pub fn says(&self, word: &str) {
        let line = self.line();
        assert_eq!(line.as_deref(), Some(word), "process {}: {}", self.pid(), self.errors());
    }

    /// Returns the lines that have come and that no call has returned yet.
    pub fn lines_so_far(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.try_iter()
    }

    /// Returns the process's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process's pid in the type that system calls take.
    pub fn kernel_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Gives the process an order. A process that has ended ignores it.
    pub fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(format!("{order}\n").as_bytes()).and_then(|()| orders.flush());
        }
    }

    /// Kills the process, as `kill -9` does, and does not wait for its end.
    pub fn kill(&mut self) {
        // An error means that the process has ended already; its status shows whether it ended by itself.
        let _ = self.child.kill();
    }

    /// Stops the process where it is, until [`Process::resume`].
    ///
    /// # Panics
    /// If the process is gone.
    pub fn stop(&self) {
        kill_process(self.kernel_pid(), Signal::STOP).expect("our child was not waited for");
    }

    /// Lets a stopped process continue.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn resume(&self) {
        kill_process(self.kernel_pid(), Signal::CONT).expect("our child was not waited for");
    }

    /// Waits until the process has stopped itself.
    ///
    /// # Panics
    /// If the process does not stop in time.
    #[track_caller]
    pub fn stops(&self) {
        let begun = Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < hang(), "process {} does not stop: {}", self.pid(), self.errors());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_stopped(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The state is after the program's name, which is in parentheses.
        status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Returns the status if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child is ours")
    }

    /// Waits until the process has ended and the listener has received all its lines.
    ///
    /// # Panics
    /// If the listener panicked.
    pub fn wait(&mut self) -> ExitStatus {
        drop(self.orders.take());
        let status = self.child.wait().expect("the child is ours");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("the listener does not panic");
        }
        status
    }

    /// Returns the text that the process has written to its standard error so far.
    pub fn errors(&self) -> String {
        text_of(&self.errors).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that fails must leave no processes. For a process that has ended, the calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text_of(errors: &Mutex<String>) -> MutexGuard<'_, String> {
    errors.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep_errors(mut from: impl Read + Send + 'static, to: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut block = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut block) {
            text_of(&to).push_str(&String::from_utf8_lossy(&block[..bytes]));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let before = now();
        assert!(now() >= before && before > 0);
    }
}
