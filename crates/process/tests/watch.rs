//! The death watch over real processes: this program, started again as a child, attaches and is killed.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtp_process::{DeathWatch, ProcessManager, SessionId, Settings};
use rio::{Access, Identity, Region};

const REGION: &str = "LIBTP_TEST_WATCH_REGION";
const RESERVE: u64 = 1 << 30;
/// This is longer than any test waits: a wait that ends sooner has not reached its timeout.
const LONG: Duration = Duration::from_secs(30);

/// The entry of a child: it joins, prints its session, and stays until its standard input ends. In the run of all
/// tests it does nothing.
#[test]
fn entry() {
    let Some(path) = std::env::var_os(REGION) else { return };
    let region = Region::attach(Path::new(&path), &Identity::default(), RESERVE, &Access::own()).unwrap();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    let session = processes.join().unwrap();
    println!("\n> {}", session.id().raw());
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

struct Guest {
    child: Child,
    session: SessionId,
}

impl Guest {
    fn start(region: &Region) -> Guest {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["entry", "--exact", "--nocapture", "--test-threads=1"]).env(REGION, region.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let answer = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("> ").map(str::to_owned));
        let session = answer.expect("the child prints its session").parse().unwrap();
        Guest { child, session: SessionId::from_raw(session) }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Ends the child in good order.
    fn leave(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Kill it in any state: the test is over. It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn new_region(directory: &tempfile::TempDir) -> (Region, ProcessManager) {
    let region =
        Region::create(&directory.path().join("region"), &Identity::default(), RESERVE, &Access::own()).unwrap();
    ProcessManager::init(&region).unwrap();
    region.set_ready();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    (region, processes)
}

#[test]
fn a_killed_process_is_reported_at_once_and_its_session_is_dead() {
    let directory = tempfile::tempdir().unwrap();
    let (region, processes) = new_region(&directory);
    let mut victim = Guest::start(&region);
    let bystander = Guest::start(&region);
    let mut watch = DeathWatch::new(&processes);
    assert!(!watch.wait(Duration::from_millis(20)), "no process has died");
    assert!(processes.is_alive(victim.session) && processes.is_alive(bystander.session));
    let started = Instant::now();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        victim.kill();
        victim
    });
    assert!(watch.wait(LONG));
    assert!(started.elapsed() < LONG, "the kernel reported the death before the timeout");
    let victim = killer.join().unwrap();
    assert!(!processes.is_alive(victim.session), "the session is dead although no process has waited for the zombie");
    assert!(processes.is_alive(bystander.session));
    assert!(watch.wait(Duration::from_millis(1)), "the death is reported again while the session is not repaired");
}

#[test]
fn a_process_that_attaches_later_is_watched_too() {
    let directory = tempfile::tempdir().unwrap();
    let (region, processes) = new_region(&directory);
    let mut watch = DeathWatch::new(&processes);
    let mut victim = Guest::start(&region);
    // The watch notices the new process at the latest when a wait begins.
    assert!(!watch.wait(Duration::from_millis(1)));
    victim.kill();
    assert!(watch.wait(LONG));
    assert!(!processes.is_alive(victim.session));
}

#[test]
fn a_stopped_process_and_a_process_that_leaves_are_not_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (region, processes) = new_region(&directory);
    let stopped = Guest::start(&region);
    let leaving = Guest::start(&region);
    let mut watch = DeathWatch::new(&processes);
    rustix::process::kill_process(rustix::process::Pid::from_child(&stopped.child), rustix::process::Signal::STOP)
        .unwrap();
    leaving.leave();
    for _ in 0..5 {
        assert!(!watch.wait(Duration::from_millis(10)));
    }
    assert!(processes.is_alive(stopped.session));
    assert_eq!(processes.sessions().len(), 1, "the process that left has freed its slot");
}

#[test]
fn a_wake_before_a_wait_ends_the_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (_region, processes) = new_region(&directory);
    let mut watch = DeathWatch::new(&processes);
    let waker = watch.waker();
    let started = Instant::now();
    waker.wake();
    assert!(!watch.wait(LONG));
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        waker.wake();
    });
    assert!(!watch.wait(LONG));
    later.join().unwrap();
    assert!(started.elapsed() < LONG);
    assert!(!watch.wait(Duration::from_millis(5)), "a wake ends one wait only");
}
