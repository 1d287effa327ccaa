//! Children made by fork, and by clone without the C library. An inherited handle returns an error that names the
//! fork, its use does not affect the parent's handle, and a dead parent counts as dead although its child lives
//! (PROTOCOLS D9).

use std::path::Path;

use libtp::{Builder, Env, Error, OpenedBy, Settings};
use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::process::{next_order, say, Process};
use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};

/// The environment variable with the task of a started process. A process without this variable is no child of these
/// tests.
const PART: &str = "LIBTP_TEST_FORK_PART";
const DIRECTORY: &str = "LIBTP_TEST_FORK_DIRECTORY";

/// A process that forks: this program, started again.
struct Forker {
    process: Process,
    /// The child of the process, which may outlive it.
    grandchild: Option<Pid>,
}

impl Forker {
    fn start(part: &str, directory: &Path) -> Forker {
        let variables = [(PART, part.to_owned()), (DIRECTORY, directory.display().to_string())];
        Forker { process: Process::start("forks::entry", &variables), grandchild: None }
    }

    #[track_caller]
    fn answer(&self) -> String {
        self.process.line().expect("the process writes a line before it ends")
    }

    /// Waits until the process has made a child that does nothing.
    fn meet_grandchild(&mut self) {
        self.grandchild = Pid::from_raw(self.answer().parse().unwrap());
    }

    fn go_on(&mut self) {
        self.process.order("");
    }

    /// Kills the process and waits until it is gone.
    fn kill(&mut self) {
        self.process.kill();
        // Waits for the end of the process, not for the end of its output: the grandchild has the pipes open.
        while self.process.ended().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Forker {
    fn drop(&mut self) {
        // The grandchild sleeps until it is killed. It is not our child, so nothing but its pid identifies it.
        if let Some(pid) = self.grandchild {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn wait_for(pid: i32) -> i32 {
    let (_, status) = waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status().unwrap_or(-1)
}

/// Opens the environment without background threads. A child made by clone has only a copy of the thread that made it,
/// so mutexes that other threads held would stay locked in the child.
fn open(directory: &Path) -> Env {
    let settings = Settings { no_background: true, ..Settings::default() };
    Builder::default().settings(settings).open(directory).unwrap()
}

/// The entry of a started process. In an ordinary test run, without the variable [`PART`], it does nothing.
#[test]
fn entry() {
    let (Ok(part), Some(directory)) = (std::env::var(PART), std::env::var_os(DIRECTORY)) else { return };
    let (part, how) = part.split_once(' ').expect("a part and a way");
    let how = if how == "clone" { ForkKind::RawClone } else { ForkKind::Fork };
    let directory = Path::new(&directory);
    match part {
        "told" => reports_the_fork(directory, how),
        "outlived" => is_outlived(directory, how),
        "again" => opens_again(directory, how),
        other => panic!("unknown part {other}"),
    }
}

fn is_forked<T>(result: libtp::Result<T>) -> bool {
    match result {
        Err(error @ Error::Forked { .. }) => {
            error.to_string().contains(&format!("process {}", std::os::unix::process::parent_id()))
        }
        _ => false,
    }
}

/// Lets the child try calls on its inherited handles, drop the handles, and end. Then the parent continues as if there
/// were no child.
fn reports_the_fork(directory: &Path, how: ForkKind) {
    // Background threads harm only a child made by clone (see `open`).
    let env = if how == ForkKind::Fork { Env::open_or_create(directory).unwrap() } else { open(directory) };
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"before", b"1")).unwrap();
    let txn = env.begin().unwrap();
    table.put(&txn, b"during", b"1").unwrap();
    let mut cursor = table.cursor(&txn);
    cursor.first().unwrap();
    // The commit of this transaction does not wait for the disk.
    let reader = env.begin_with(libtp::Durability::Relaxed).unwrap();
    table.get(&reader, b"before").unwrap();
    // The session of this transaction is kept for the next transaction.
    env.begin().unwrap().abort().unwrap();
    match make_child(how) {
        Side::Child => {
            let refused = [
                is_forked(env.begin()),
                is_forked(env.run(|_| Ok(()))),
                is_forked(env.btree("table")),
                is_forked(env.checkpoint()),
                is_forked(env.stats()),
                is_forked(table.get(&txn, b"before")),
                is_forked(table.put(&txn, b"child", b"1")),
                is_forked(table.put(&txn, b"child", &[1; 20_000])),
                is_forked(cursor.next()),
                is_forked(table.cursor(&txn).first()),
            ];
            drop(cursor);
            let refused_too = is_forked(reader.commit()) & is_forked(txn.commit());
            drop((table, env));
            let all = refused.iter().all(|refused| *refused) && refused_too;
            if !all {
                say(&format!("the child was not refused: {refused:?}, {refused_too}"));
            }
            exit_now(if all { 0 } else { 1 });
        }
        Side::Parent(child) => {
            assert_eq!(wait_for(child), 0, "the child of {how:?}");
            assert!(cursor.next().unwrap().is_some());
            drop(cursor);
            table.put(&txn, b"after", b"1").unwrap();
            // The log records are longer than the session may append without a new reservation (PROTOCOLS D11).
            table.put(&txn, b"long", &[1; 20_000]).unwrap();
            txn.commit().unwrap();
            reader.commit().unwrap();
            say("committed");
            next_order();
            env.run(|txn| table.put(txn, b"last", b"1")).unwrap();
            drop((table, env));
            say("left");
        }
    }
}

/// Begins a transaction, makes a child that only sleeps and never calls the library, and waits to be killed.
fn is_outlived(directory: &Path, how: ForkKind) {
    let env = open(directory);
    let table = env.btree("table").unwrap();
    let txn = env.begin().unwrap();
    table.put(&txn, b"unfinished", b"1").unwrap();
    match make_child(how) {
        Side::Child => {
            // The sleep is bounded: the test that would kill this process may have been killed itself.
            std::thread::sleep(std::time::Duration::from_secs(120));
            exit_now(0);
        }
        Side::Parent(child) => {
            say(&child.to_string());
            next_order();
        }
    }
}

/// Lets the child open the environment for itself, work, and outlive its parent.
fn opens_again(directory: &Path, how: ForkKind) {
    let env = open(directory);
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"parent", b"1")).unwrap();
    match make_child(how) {
        Side::Child => {
            let own = open(directory);
            assert_eq!(own.opened().how, OpenedBy::Joined);
            let its = own.btree("table").unwrap();
            own.run(|txn| its.put(txn, b"child", b"1")).unwrap();
            // The child drops the inherited handles. Its own handles still work.
            drop((table, env));
            own.run(|txn| its.put(txn, b"child again", b"1")).unwrap();
            say(&std::process::id().to_string());
            next_order();
            drop((its, own));
            say("the child has left");
            exit_now(0);
        }
        Side::Parent(child) => {
            assert_eq!(wait_for(child), 0, "the child of {how:?}");
        }
    }
}

const WAYS: [&str; 2] = ["fork", "clone"];

#[test]
fn a_handle_in_a_forked_child_reports_the_fork_and_the_parents_handle_is_unchanged() {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let mut parent = Forker::start(&format!("told {way}"), dir.path());
        assert_eq!(parent.answer(), "committed", "{way}");
        // The parent is still attached, and other processes see its commits.
        let env = Env::open_or_create(dir.path()).unwrap();
        assert_eq!(env.opened().how, OpenedBy::Joined, "{way}");
        let table = env.btree("table").unwrap();
        let found = |key: &[u8]| env.run(|txn| table.get(txn, key)).unwrap().is_some();
        assert!(found(b"before") && found(b"during") && found(b"after") && !found(b"child"), "{way}");
        parent.go_on();
        assert_eq!(parent.answer(), "left", "{way}");
        assert!(found(b"last"));
    }
}

#[test]
fn a_killed_parent_counts_as_dead_although_its_child_lives() {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let env = open(dir.path());
        let mut parent = Forker::start(&format!("outlived {way}"), dir.path());
        parent.meet_grandchild();
        let of_parent = || {
            let sessions = env.managers().processes.sessions();
            sessions.into_iter().filter(|session| session.pid == parent.pid()).collect::<Vec<_>>()
        };
        let before = of_parent();
        assert!(!before.is_empty() && before.iter().all(|session| session.alive), "{way}: {before:?}");
        parent.kill();
        let of_parent = env.managers().processes.sessions();
        let after: Vec<_> = of_parent.iter().filter(|session| session.pid == parent.pid()).collect();
        assert_eq!(after.len(), before.len(), "{way}: the test needs the dead sessions before their repair");
        assert!(after.iter().all(|session| !session.alive), "{way}: {after:?}");
        assert!(kill_process(parent.grandchild.unwrap(), Signal::CONT).is_ok(), "{way}: the child is still there");
        drop(env);
    }
}

#[test]
fn a_child_that_outlives_all_killed_processes_does_not_prevent_the_next_open() {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let mut parent = Forker::start(&format!("outlived {way}"), dir.path());
        parent.meet_grandchild();
        parent.kill();
        let env = Env::open_or_create(dir.path()).unwrap();
        assert_eq!(env.opened().how, OpenedBy::Repaired, "{way}");
        let table = env.btree("table").unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"unfinished")).unwrap(), None, "{way}");
        drop((table, env));
        // The clone still has its parent's lock. If the region were removed, the next opening could not distinguish the
        // clone from a living process that uses other memory. So the region is not removed.
        let next = if way == "fork" { OpenedBy::Clean } else { OpenedBy::Repaired };
        assert_eq!(Env::open_or_create(dir.path()).unwrap().opened().how, next, "{way}");
    }
}

#[test]
fn a_forked_child_may_open_the_environment_for_itself() {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let mut parent = Forker::start(&format!("again {way}"), dir.path());
        parent.meet_grandchild();
        parent.kill();
        let env = open(dir.path());
        assert_eq!(env.opened().how, OpenedBy::Joined, "{way}: the child itself is attached");
        let table = env.btree("table").unwrap();
        for key in [&b"parent"[..], b"child", b"child again"] {
            assert!(env.run(|txn| table.get(txn, key)).unwrap().is_some(), "{way}");
        }
        let its = |session: &libtp_process::SessionInfo| {
            session.pid == parent.grandchild.unwrap().as_raw_nonzero().get().unsigned_abs()
        };
        let sessions = env.managers().processes.sessions();
        assert!(sessions.iter().any(|session| its(session) && session.alive), "{way}: {sessions:?}");
        parent.go_on();
        assert_eq!(parent.answer(), "the child has left", "{way}");
    }
}

#[test]
fn a_process_that_opens_and_closes_the_environments_files_keeps_its_locks() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"1")).unwrap();
    let observer = open(dir.path());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        drop(std::fs::File::open(&path).unwrap());
        drop(std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap());
    }
    let sessions = observer.managers().processes.sessions();
    assert!(sessions.iter().all(|session| session.alive), "{sessions:?}");
    drop(observer);
    assert_eq!(
        open(dir.path()).opened().how,
        OpenedBy::Joined,
        "the first handle has lost its lock on the control file"
    );
}
