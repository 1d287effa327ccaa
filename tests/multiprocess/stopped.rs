//! A process is stopped in the middle of its work, while it holds latches and locks. The other processes may have to
//! wait, but none takes the stopped process for dead. When it continues, all processes can work.

use std::collections::BTreeSet;
#[cfg(feature = "failpoints")]
use std::path::Path;
use std::time::{Duration, Instant};

#[cfg(feature = "failpoints")]
use libtp::{Durability, OpeningProcess, SessionState};
use libtp::{Env, HeldLatch, ProcessState, WaitsFor};
use libtp_tests::audit::verify_all;
use libtp_tests::sizes;

#[cfg(feature = "failpoints")]
use crate::crew::in_time;
use crate::crew::Member;
use libtp_tests::transfers::Bank;

/// How long the process is stopped.
const STILL: Duration = Duration::from_secs(2);

#[test]
fn a_stopped_process_is_waited_for_and_never_counts_as_dead() {
    let rounds = sizes::number("LIBTP_TEST_STOPS", 2);
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (1..=4).map(|number| Member::start(directory.path(), number)).collect();
    for (at, member) in crew.iter_mut().enumerate() {
        assert_eq!(member.ask(if at % 2 == 0 { "work sync" } else { "work relaxed" }), "working");
    }
    let mut meanwhile = 0;
    let mut told = BTreeSet::new();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(150 + 13 * round));
        let victim = usize::try_from(round % 4).unwrap();
        crew[victim].stop();
        told.extend(crew.iter().flat_map(Member::acknowledged_so_far));
        std::thread::sleep(STILL);
        // If no session waits for the victim's locks, no session searches for dead processes. An opening always
        // searches for them.
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!(env.managers().processes.dead_sessions(), [], "a stopped process was taken for dead");
        drop(env);
        let more: Vec<_> = crew.iter().flat_map(Member::acknowledged_so_far).collect();
        meanwhile += more.len();
        told.extend(more);
        crew[victim].resume();
    }
    for member in &mut crew {
        told.extend(member.acknowledged_until_it_stops());
    }
    // If a process had been taken for dead, one of its calls would have returned an error, or a transfer would be
    // missing.
    crew.into_iter().for_each(Member::leave);
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(
        Bank::open(&env).unwrap().audit().unwrap(),
        told,
        "the journal must have exactly the acknowledged transfers"
    );
    verify_all(&env).unwrap();
    println!(
        "figures: {rounds} times one of four processes stopped for 2 s: the others made {meanwhile} transfers, 0 lost"
    );
}

#[test]
fn latches_of_a_stopped_process_are_reported_with_their_waiters_and_times() {
    let directory = tempfile::tempdir().unwrap();
    let [mut holder, mut waiter] = [1, 2].map(|number| Member::start(directory.path(), number));
    waiter.ask("put key 1");
    assert_eq!(holder.ask("hold-pages table"), "holding");
    holder.stop();
    waiter.waits("get key");
    let env = Env::open_or_create(directory.path()).unwrap();
    let start = Instant::now();
    let (held, waits) = loop {
        let sessions = env.sessions();
        let waits = sessions.iter().find(|one| matches!(one.waits_for, Some(WaitsFor::Latch(_))));
        if let Some(waits) = waits {
            let stopped =
                |one: &&libtp::SessionState| one.process_state == ProcessState::Stopped && !one.held.is_empty();
            let holds = sessions.iter().find(stopped).expect("a waiter for a latch names the holder");
            break (holds.held.clone(), waits.clone());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no session reports its wait: {sessions:#?}");
        std::thread::sleep(Duration::from_millis(1));
    };
    let Some(WaitsFor::Latch(wanted)) = &waits.waits_for else {
        panic!("the waiter was found by its wait for a latch")
    };
    let name = |held: &HeldLatch| held.name.clone();
    assert_eq!(held.iter().map(name).collect::<Vec<_>>(), ["page 1 of table", "page 2 of table"]);
    assert!(held.iter().all(|held| held.alone));
    let since = |held: &HeldLatch| held.wanted_since;
    assert_eq!(held.iter().find(|held| held.name == *wanted).and_then(since), waits.waits_since);
    assert!(waits.waits_since.is_some_and(|since| since.elapsed().is_ok()));
    holder.resume();
    holder.order("go on");
    assert_eq!(holder.answer(), "let go");
    assert_eq!(waiter.answer(), "1");
    assert!(
        env.sessions().iter().all(|one| one.waits_for.is_none() && one.held.is_empty()),
        "a session still waits or holds a latch"
    );
    drop(env);
    [holder, waiter].into_iter().for_each(Member::leave);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_wait_for_a_process_stopped_at_the_control_file_ends_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Member::start(directory.path(), 1);
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    holder.ask("arm control: file held!stop");
    holder.order("checkpoint");
    let begun = Instant::now();
    let at_it = loop {
        let sessions = env.sessions();
        // The fields of a session's state are read one after the other: the session may stop after its roles were read.
        let at_it = |one: &SessionState| one.roles == ["takes a checkpoint", "changes the control file"];
        let stopped = sessions.into_iter().find(|one| one.process_state == ProcessState::Stopped && at_it(one));
        if let Some(one) = stopped {
            break one;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the process does not reach the failpoint: {:?}",
            env.sessions()
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    // A new database gets its number from the control file.
    let refused = env.btree("another").err().map(|error| error.to_string()).unwrap();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    assert!(refused.contains("kill"), "{refused}");
    env.run(|txn| table.put(txn, b"key", b"meanwhile")).unwrap();
    holder.resume();
    assert_eq!(holder.answer(), "taken");
    env.btree("another").unwrap();
    holder.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_process_stopped_just_after_it_left_needs_no_repair() {
    let directory = tempfile::tempdir().unwrap();
    let mut leaver = Member::start(directory.path(), 1);
    let env = Env::open_or_create(directory.path()).unwrap();
    let pid = env.sessions().iter().map(|one| one.pid).find(|&pid| pid != std::process::id()).unwrap();
    leaver.ask("arm leave: attachment lock given up, door held!stop");
    leaver.order("leave");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().contains(") T ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The leaving process has released its attachment lock. If it still had a session now, the other processes would
    // take the session for dead and repair it.
    let sessions: Vec<_> = env.sessions().into_iter().filter(|one| one.pid == pid).collect();
    leaver.resume();
    assert_eq!(leaver.answer(), "left");
    assert!(sessions.is_empty(), "{sessions:?}");
}

/// Returns a builder for an environment without background threads.
#[cfg(feature = "failpoints")]
pub fn idle() -> libtp::Builder {
    Env::builder().settings(libtp::Settings { no_background: true, ..libtp::Settings::default() })
}

/// Waits until `is_so` holds for a stopped session, and returns that session.
#[cfg(feature = "failpoints")]
pub fn stopped(directory: &Path, is_so: impl Fn(&libtp::SessionState) -> bool) -> libtp::SessionState {
    let begun = Instant::now();
    loop {
        let sessions = Env::builder().look(directory).unwrap().expect("a process uses it").sessions();
        if let Some(found) = sessions.iter().find(|one| one.process_state == ProcessState::Stopped && is_so(one)) {
            return found.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the process does not reach the failpoint: {sessions:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_leaving_process_that_waits_for_a_stopped_latch_holder_does_not_block_the_door() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Member::start(directory.path(), 1);
    // The leaver has no background threads, which would wait for the latch before the process comes to the door.
    let leaver = idle().open(directory.path()).unwrap();
    leaver.run(|txn| leaver.btree("table").and_then(|table| table.put(txn, b"other", b"1"))).unwrap();
    // The transaction uses the holder's session, so the next order takes another session.
    holder.ask("begin");
    holder.ask("put key 1");
    holder.ask("arm txn: slot off the list, without owner!stop");
    holder.order("checkpoint");
    let at_it = stopped(directory.path(), |one| one.held.iter().any(|held| held.name == "the table of transactions"));
    let leaves = std::thread::spawn(move || drop(leaver));
    let look = Env::builder().look(directory.path()).unwrap().unwrap();
    let wanted = Some(WaitsFor::Latch("the table of transactions".into()));
    let waits = || look.sessions().iter().any(|one| one.pid == std::process::id() && one.waits_for == wanted);
    while !leaves.is_finished() {
        // While it waits for the latch, the leaving process must not hold the door.
        if waits() {
            let opening_process = look.opening_process();
            assert!(
                !waits() || opening_process.is_none(),
                "the leaving process holds the door while it waits: {opening_process:?}"
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    leaves.join().unwrap();
    let path = directory.path().to_path_buf();
    let newcomer = in_time("an opening", move || idle().open(path)).unwrap();
    assert!(look.sessions().iter().any(|one| one.id == at_it.id && one.process_state == ProcessState::Stopped));
    assert_eq!(look.opening_process(), None);
    drop((look, newcomer));
    holder.resume();
    assert_eq!(holder.answer(), "taken");
    assert_eq!(holder.ask("commit"), "committed");
    holder.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_process_stopped_at_the_door_is_named_and_the_others_leave() {
    let directory = tempfile::tempdir().unwrap();
    let [mut holder, mut leaver] = [1, 2].map(|number| Member::start(directory.path(), number));
    leaver.ask("put key 1");
    holder.ask("arm leave: at the door!stop");
    holder.order("leave");
    let pid = stopped(directory.path(), |_| true).pid;
    let look = Env::builder().look(directory.path()).unwrap().unwrap();
    assert_eq!(look.opening_process(), Some(OpeningProcess { pid, process_state: ProcessState::Stopped }));
    let path = directory.path().to_path_buf();
    let refused = in_time("an opening", move || Env::open_or_create(path)).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {pid}, which is stopped")), "{refused}");
    leaver.leave();
    assert_eq!(look.opening_process(), Some(OpeningProcess { pid, process_state: ProcessState::Stopped }));
    assert!(look.begin().is_err(), "a handle without an attachment lock can begin no transaction");
    holder.resume();
    assert_eq!(holder.answer(), "left");
    assert_eq!(look.opening_process(), None);
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
}

#[cfg(feature = "failpoints")]
#[test]
fn a_rebuild_waits_for_a_process_stopped_in_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut writer = Member::start(directory.path(), 1);
    writer.ask("arm log: flush begun!stop");
    writer.order("put key kept");
    let at_it = stopped(directory.path(), |one| one.roles == ["writes the log"]);
    let incarnation = env.managers().log.incarnation();
    env.managers().processes.declare_broken();
    let (other, same) = (env.clone(), table.clone());
    let put = move || other.run(|txn| same.put(txn, b"other", b"meanwhile"));
    let refused = in_time("a put", put).expect_err("the process is still writing").to_string();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    assert_eq!(env.managers().log.incarnation(), incarnation);
    assert_eq!(stopped(directory.path(), |one| one.id == at_it.id).roles, ["writes the log"]);
    let path = directory.path().to_path_buf();
    let refused =
        in_time("an opening", move || Env::open_or_create(path)).expect_err("the process is still writing").to_string();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    writer.resume();
    assert_eq!(writer.answer(), "put");
    env.run(|txn| table.put(txn, b"other", b"afterwards")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"kept"[..]));
    writer.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_rebuild_waits_for_a_process_stopped_at_the_control_file() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut maker = Member::start(directory.path(), 1);
    maker.ask("begin");
    maker.ask("arm control: slot chosen!stop");
    maker.order("put-in another key 1");
    let at_it = stopped(directory.path(), |one| one.roles == ["changes the control file"]);
    env.managers().processes.declare_broken();
    let (other, same) = (env.clone(), table.clone());
    let put = move || other.run(|txn| same.put(txn, b"other", b"meanwhile"));
    let refused = in_time("a put", put).expect_err("the process is still writing").to_string();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    maker.resume();
    // The transaction was lost with the memory: the put either ran again in the new memory, or its error says that the
    // transaction must run again.
    let told = maker.answer();
    assert!(told == "put" || told.contains("again"), "{told}");
    env.run(|txn| table.put(txn, b"other", b"afterwards")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    let (one, other) = (env.btree("another").unwrap(), env.btree("yet another").unwrap());
    env.run(|txn| one.put(txn, b"key", b"1").and_then(|()| other.put(txn, b"key", b"2"))).unwrap();
    assert_eq!(env.run(|txn| one.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
}

#[cfg(feature = "failpoints")]
#[test]
fn a_wait_for_a_process_stopped_while_it_makes_a_database_ends_with_an_error_that_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let mut maker = Member::start(directory.path(), 1);
    maker.ask("begin");
    maker.ask("arm create: has a number!stop");
    maker.order("put-in another key 1");
    let pid = stopped(directory.path(), |one| one.txn.is_some()).pid;
    let other = env.clone();
    let refused =
        in_time("the opening of a database", move || other.btree("another").map(|_| ())).unwrap_err().to_string();
    assert!(
        refused.contains("`another`") && refused.contains(&format!("process {pid}, which is stopped")),
        "{refused}"
    );
    let table = env.btree("table").unwrap();
    // The commit is relaxed. The background thread of the stopped process may have been in a flush, and a synced commit
    // would wait for the end of that flush.
    env.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", b"meanwhile")).unwrap();
    maker.resume();
    assert_eq!(maker.answer(), "put");
    assert_eq!(maker.ask("commit"), "committed");
    let another = env.btree("another").unwrap();
    assert_eq!(env.run(|txn| another.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
    maker.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_repairer_that_is_stopped_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let [mut victim, mut reaper] = [1, 2].map(|number| Member::start(directory.path(), number));
    victim.ask("begin");
    victim.ask("put key 1");
    reaper.ask("arm repair: rolled back, not redone!stop");
    victim.kill();
    let at_it = stopped(directory.path(), |one| one.roles == ["repairs a dead session"]);
    assert!(env.sessions().iter().any(|one| one.process_state == ProcessState::Dead));
    reaper.resume();
    assert_eq!(reaper.ask("get key"), "none");
    let begun = Instant::now();
    while env
        .sessions()
        .iter()
        .any(|one| one.process_state == ProcessState::Dead || one.id == at_it.id && !one.roles.is_empty())
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "the repair does not end: {:#?}", env.sessions());
        std::thread::sleep(Duration::from_millis(1));
    }
    reaper.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_process_stopped_before_a_flush_does_not_write_the_log_of_abandoned_memory() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut writer = Member::start(directory.path(), 1);
    writer.ask("put key 1");
    for round in 2.. {
        writer.ask("arm log: about to lead!stop");
        // Each put has another value: a put of the same value is not logged.
        writer.order(&format!("put key {round}"));
        stopped(directory.path(), |_| true);
        // Another thread of the writer may have a role at that moment, and a rebuild would wait for it.
        let has_task = |one: &SessionState| one.process_state == ProcessState::Stopped && !one.roles.is_empty();
        if !env.sessions().iter().any(has_task) {
            break;
        }
        writer.resume();
        assert_eq!(writer.answer(), "put");
    }
    let given_up = env.managers();
    given_up.processes.declare_broken();
    env.run(|txn| table.put(txn, b"other", b"meanwhile")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1, "a rebuild must not wait for a process that is not yet writing");
    let before = given_up.log.durable();
    writer.resume();
    writer.answer();
    assert_eq!(writer.ask("get other"), "meanwhile");
    assert_eq!(given_up.log.durable(), before, "the stopped process has written the log of abandoned memory");
    writer.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_process_stopped_in_a_write_is_seen_though_the_process_table_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut writer = Member::start(directory.path(), 1);
    // With `env` and the writer, these handles take all process slots of the first table. Below, the memory for more
    // slots is used up.
    let crowd: Vec<Env> = (0..14).map(|_| idle().open(directory.path()).unwrap()).collect();
    writer.ask("arm log: flush begun!stop");
    writer.order("put key kept");
    let at_it = stopped(directory.path(), |one| one.roles == ["writes the log"]);
    let given_up = env.managers();
    let left = given_up.region.size() - given_up.region.used();
    given_up.region.allocate::<rio::Word<u64>>(left.saturating_sub(512) / 8).unwrap();
    given_up.processes.declare_broken();
    let put = move || env.run(|txn| table.put(txn, b"other", b"meanwhile"));
    let refused = in_time("a put", put).expect_err("the process is still writing").to_string();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    writer.resume();
    assert_eq!(writer.answer(), "put");
    drop(crowd);
    writer.leave();
}
