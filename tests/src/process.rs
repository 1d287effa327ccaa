//! A process that a test starts: the test program itself, told what to do line by line.
//!
//! What the child says begins with `> `, because the test harness in it writes to the same pipe. Each line goes out in one
//! write, so that a kill cuts none in two that the test could take for a whole one.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{kill_process, Pid, Signal};

/// What precedes a line of the child.
const MARK: &str = "> ";

/// Nanoseconds of the clock that all processes share and nobody sets back.
///
/// # Panics
/// Never: the clock began at zero when the machine started.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let whole = |part| u64::try_from(part).expect("this clock begins at zero");
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}

/// Says a line to the test that started this process, past the harness, which would keep what is printed.
pub fn say(text: &str) {
    let line = format!("\n{MARK}{text}\n");
    let mut out = std::io::stdout().lock();
    // A test that does not listen any more has ended.
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// The next line of orders; none when the test has ended.
pub fn next_order() -> Option<String> {
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line).ok()?;
    (bytes > 0).then(|| line.trim_end().to_owned())
}

/// Runs the test `entry`, which calls this, in a process of its own.
///
/// # Panics
/// When it fails there.
pub fn alone(entry: &str, work: impl FnOnce()) {
    const VARIABLE: &str = "LIBTP_TEST_ALONE";
    if std::env::var(VARIABLE).is_ok_and(|name| name == entry) {
        return work();
    }
    let program = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new(program);
    command.args(["--exact", entry, "--nocapture", "--test-threads", "1"]).env(VARIABLE, entry).stdin(Stdio::null());
    let ended = command.output().expect("this program can be started again");
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&said));
}

/// A process and the pipes to it. Dropping it kills it.
pub struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
    errors: Arc<Mutex<String>>,
}

impl Process {
    /// Starts this program again, in its test `entry`, with these variables. Each line it says is handed to `listen`.
    ///
    /// # Panics
    /// When this program cannot be started again.
    pub fn start(entry: &str, variables: &[(&str, String)], listen: impl FnMut(&str) + Send + 'static) -> Process {
        Process::start_under(&[], entry, variables, listen)
    }

    /// As [`Process::start`], started by another program: `under` is that program and its arguments.
    ///
    /// # Panics
    /// When it cannot be started.
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
        let said = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let listener = std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some(text) = line.strip_prefix(MARK) {
                    listen(text);
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        keep_errors(child.stderr.take().expect("its errors are a pipe"), Arc::clone(&errors));
        Process { orders: child.stdin.take(), child, listener: Some(listener), errors }
    }

    /// Its number among all processes.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it an order. One that has ended does not hear it.
    pub fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(format!("{order}\n").as_bytes()).and_then(|()| orders.flush());
        }
    }

    /// Kills it, as `kill -9` does, and does not wait.
    pub fn kill(&mut self) {
        // One that has ended by itself is found out by who looks at its status.
        let _ = self.child.kill();
    }

    /// Stops it where it is, until [`Process::resume`].
    ///
    /// # Panics
    /// When it is gone.
    pub fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("it is ours and not waited for");
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it is gone.
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it is ours and not waited for");
    }

    /// Its status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is ours")
    }

    /// Waits until it has ended and all it said was listened to.
    ///
    /// # Panics
    /// When the listener panicked.
    pub fn wait(&mut self) -> ExitStatus {
        drop(self.orders.take());
        let status = self.child.wait().expect("it is ours");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("the listener does not panic");
        }
        status
    }

    /// What it wrote to its standard error so far.
    pub fn errors(&self) -> String {
        text_of(&self.errors).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that fails must not leave processes behind; one that left has ended already.
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
