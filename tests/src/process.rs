//! A process that a test starts: the test program itself, which obeys orders line by line.
//!
//! Each line of the child begins with `> `, because the test harness in the child writes to the same pipe. Each line
//! goes out in one write, so that a kill leaves no part of a line that the test could take for a whole line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{kill_process, Pid, Signal};

/// The prefix of the child's lines.
const MARK: &str = "> ";

/// Returns nanoseconds of the monotonic clock, which all processes share and which never goes back.
///
/// # Panics
/// Never: the clock began at zero when the machine started.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let whole = |part| u64::try_from(part).expect("this clock begins at zero");
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}

/// Writes a line to the test that started this process, directly to the pipe: the harness would capture printed text.
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

/// Runs the test `entry`, which calls this function, in its own process.
///
/// # Panics
/// If the test fails there.
pub fn alone(entry: &str, work: impl FnOnce()) {
    const VARIABLE: &str = "LIBTP_TEST_ALONE";
    if std::env::var(VARIABLE).is_ok_and(|name| name == entry) {
        return work();
    }
    let program = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new(program);
    command.args(["--exact", entry, "--nocapture", "--test-threads", "1"]).env(VARIABLE, entry).stdin(Stdio::null());
    let ended = command.output().expect("this program can be started again");
    let message = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&message));
}

/// A process and the pipes to it. Dropping it kills it.
pub struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
    errors: Arc<Mutex<String>>,
}

impl Process {
    /// Starts this program again, in its test `entry`, with these variables. `listen` receives each line of the child.
    ///
    /// # Panics
    /// If this program cannot be started again.
    pub fn start(entry: &str, variables: &[(&str, String)], listen: impl FnMut(&str) + Send + 'static) -> Process {
        Process::start_under(&[], entry, variables, listen)
    }

    /// As [`Process::start`], but started by another program: `under` is that program and its arguments.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start_under(
        under: &[&str],
        entry: &str,
        variables: &[(&str, String)],
        mut listen: impl FnMut(&str) + Send + 'static,
    ) -> Process {
        let program = std::env::current_exe().expect("a program knows its path");
        let mut command = match under {
            [] => Command::new(program),
            [starter, arguments @ ..] => {
                let mut command = Command::new(starter);
                command.args(arguments).arg(program);
                command
            }
        };
        command
            .args(["--exact", entry, "--nocapture", "--test-threads", "1"])
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
        Process { orders: child.stdin.take(), child, listener: Some(listener), errors }
    }

    /// Returns the process's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives the process an order. A process that has ended ignores it.
    pub fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(format!("{order}\n").as_bytes()).and_then(|()| orders.flush());
        }
    }

    /// Kills the process, as `kill -9` does, and does not wait.
    pub fn kill(&mut self) {
        // The caller that looks at its status finds out whether it had ended by itself.
        let _ = self.child.kill();
    }

    /// Stops the process where it is, until [`Process::resume`].
    ///
    /// # Panics
    /// If the process is gone.
    pub fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("it is ours and not waited for");
    }

    /// Lets the process go on.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it is ours and not waited for");
    }

    /// Returns the status if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is ours")
    }

    /// Waits until the process has ended and the listener has received all its lines.
    ///
    /// # Panics
    /// If the listener panicked.
    pub fn wait(&mut self) -> ExitStatus {
        drop(self.orders.take());
        let status = self.child.wait().expect("it is ours");
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
        // A test that fails must leave no processes behind. A process that left has ended already.
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
