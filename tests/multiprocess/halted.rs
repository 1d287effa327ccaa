//! A process stops while it has a role that only one session has at a time, or holds a latch or a slot that others may
//! need. No session can take these away from a stopped process, so the other processes must work without them.

use std::collections::BTreeSet;
use std::time::Duration;

use libtp::{Env, ProcessState, Settings};
use libtp_tests::process::until;

use crate::crew::Member;

/// Opens the environment without background threads, so this process does no work of its own.
fn observer(directory: &std::path::Path) -> Env {
    let own = Settings { no_background: true, ..Settings::default() };
    Env::builder().settings(own).open(directory).unwrap()
}

fn stands_still(env: &Env) -> bool {
    env.sessions().iter().any(|one| one.process_state == ProcessState::Stopped)
}

/// Lets two processes each lock a record of their own, and then request the record of the other process.
fn wait_for_each_other(crew: &mut [Member], one: usize, two: usize) {
    for at in [one, two] {
        crew[at].ask("begin");
        crew[at].ask(&format!("put-in table key{at} 1"));
    }
    crew[one].order(&format!("put-in table key{two} 2"));
    crew[two].order(&format!("put-in table key{one} 2"));
}

fn one_gives_way(crew: &mut [Member], pair: [usize; 2]) {
    until("one of two processes in a deadlock gets an error", || {
        let answers = pair.map(|at| crew[at].answer_within(Duration::from_millis(1)));
        answers.iter().flatten().any(|answer| answer == "deadlock")
    });
}

#[test]
fn a_stopped_deadlock_search_hides_no_deadlock() {
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (0..4).map(|number| Member::start(directory.path(), number)).collect();
    for number in 0..4 {
        crew[0].ask(&format!("put key{number} 0"));
    }
    let env = observer(directory.path());
    for member in &mut crew[..2] {
        member.ask("arm lock: victim chosen, not notified!stop");
    }
    wait_for_each_other(&mut crew, 0, 1);
    until("one of them is stopped", || stands_still(&env));
    wait_for_each_other(&mut crew, 2, 3);
    one_gives_way(&mut crew, [2, 3]);
    crew[..2].iter().for_each(|member| member.resume());
    one_gives_way(&mut crew, [0, 1]);
}

/// The number of keys. Their records are several times as large as the first page cache.
const KEYS: u32 = 4000;
const SETTINGS: &str = "memory = \"2MiB\"\n";

fn key(number: u32) -> String {
    format!("key{number:05}")
}

#[test]
fn a_process_stopped_while_adding_frames_blocks_no_use_of_existing_frames() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libtp.toml"), SETTINGS).unwrap();
    {
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        env.run(|txn| (0..KEYS).try_for_each(|number| table.put(txn, key(number).as_bytes(), &[b'v'; 500]))).unwrap();
    }
    let env = observer(directory.path());
    let table = env.btree("table").unwrap();
    env.run(|txn| table.get(txn, key(0).as_bytes())).unwrap().expect("a stored key");
    let mut grower = Member::start(directory.path(), 1);
    grower.ask("arm buffer: makes its pool grow!stop");
    (0..KEYS).step_by(20).for_each(|number| grower.order(&format!("get {}", key(number))));
    until("the process stops", || stands_still(&env));
    assert!(env
        .sessions()
        .iter()
        .any(|one| one.process_state == ProcessState::Stopped && one.roles.contains(&"adds frames")));
    let own = env.clone();
    let reader = std::thread::spawn(move || {
        let table = own.btree("table").unwrap();
        let get = |number: u32| own.run(|txn| table.get(txn, key(number).as_bytes())).unwrap().expect("a stored key");
        (0..KEYS).for_each(|number| assert_eq!(get(number), [b'v'; 500]));
    });
    until("all pages can be read", || reader.is_finished());
    reader.join().unwrap();
    grower.resume();
    (0..KEYS).step_by(20).for_each(|_| assert_eq!(grower.answer().len(), 500));
    grower.leave();
}

#[test]
fn a_process_stopped_with_a_latched_changed_page_blocks_no_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    // Without background threads, no thread of the process can be writing pages when the process is stopped. Other
    // processes would wait for such a thread.
    std::fs::write(directory.path().join("libtp.toml"), "no_background = true\n").unwrap();
    let env = observer(directory.path());
    let [table, other] = ["table", "other"].map(|name| env.btree(name).unwrap());
    let put = |db: &libtp::Db| env.run(|txn| db.put(txn, b"key", b"value")).unwrap();
    let mut holder = Member::start(directory.path(), 1);
    [&table, &other].into_iter().for_each(put);
    holder.ask("arm change: pages changed, record not in the slot!stop");
    holder.order("put key other");
    until("the process stops", || stands_still(&env));
    put(&other);
    let own = env.clone();
    let checkpoint = std::thread::spawn(move || own.checkpoint().unwrap());
    until("the checkpoint ends", || checkpoint.is_finished());
    assert!(checkpoint.join().unwrap(), "another session takes a checkpoint");
    assert_eq!(env.managers().buffers.dirty_count(), 1, "all pages but the latched page must be written");
    holder.resume();
    assert_eq!(holder.answer(), "put");
    assert!(env.checkpoint().unwrap());
    assert_eq!(env.managers().buffers.dirty_count(), 0);
    holder.leave();
}

#[test]
fn a_repairer_stopped_after_a_repair_blocks_no_repair_of_the_slots_next_tenant() {
    let directory = tempfile::tempdir().unwrap();
    let env = observer(directory.path());
    let processes = &env.managers().processes;
    let places = || processes.sessions().into_iter().map(|one| one.id.index()).collect::<BTreeSet<u32>>();
    let mut repairer = Member::start(directory.path(), 1);
    let mut first = Member::start(directory.path(), 2);
    first.ask("put key old");
    repairer.ask("arm repair: slot free, claim not released!stop");
    let before = places();
    first.kill();
    first.wait();
    until("the repairer is stopped", || stands_still(&env));
    let buried: BTreeSet<u32> = before.difference(&places()).copied().collect();
    assert_eq!(buried.len(), 1, "the repairer must be stopped after its first repair");
    let tenant = |number: u64, key: &str| {
        let mut tenant = Member::start(directory.path(), number);
        tenant.ask("begin");
        tenant.ask(&format!("put {key} unfinished"));
        tenant
    };
    let (mut next, mut others) = (tenant(3, "key"), Vec::new());
    // If another slot is free, too, a new process may take it first. So further processes are started.
    for number in 4..10 {
        if !places().is_superset(&buried) {
            others.push(std::mem::replace(&mut next, tenant(number, &format!("key{number}"))));
        }
    }
    assert!(places().is_superset(&buried), "no new session has the dead session's slot, so the test shows nothing");
    next.kill();
    next.wait();
    until("all dead sessions are repaired", || {
        env.managers().reap().unwrap();
        processes.sessions().iter().all(|one| one.alive)
    });
    others.into_iter().for_each(Member::leave);
    repairer.resume();
    assert_eq!(repairer.ask("get key"), "old");
    repairer.leave();
    assert_eq!(env.repairs().rebuilds, 0);
}

#[test]
fn a_process_stopped_at_a_new_snapshot_names_no_recycled_log_as_oldest() {
    let directory = tempfile::tempdir().unwrap();
    let env = observer(directory.path());
    let table = env.btree("table").unwrap();
    let put = |value: &str| env.run(|txn| table.put(txn, b"key", value.as_bytes())).unwrap();
    let mut reader = Member::start(directory.path(), 1);
    put("old");
    assert_eq!(reader.ask("hold-snapshot"), "holding");
    let needed = env.snapshots()[0].needs_from;
    assert_eq!(reader.ask("end"), "let go");
    let txn = env.managers().join().unwrap();
    let checkpoint = || {
        put("new");
        env.managers().checkpoint(&txn).unwrap().expect("no other session takes a checkpoint").keep_from
    };
    for _ in 0..3 {
        checkpoint();
    }
    let oldest = env.managers().log.oldest();
    assert!(oldest.raw() > needed, "the log that the ended snapshot needed must be recycled");
    reader.ask("arm snapshot: pinned, not taken!stop");
    reader.order("hold-snapshot");
    until("the process stops", || stands_still(&env));
    // The reader's pin still records the position that its last snapshot needed.
    assert_eq!(env.snapshots()[0].needs_from, needed);
    assert!(checkpoint() >= oldest, "the control file would name a recycled place as the log's oldest");
    reader.resume();
    assert_eq!(reader.answer(), "holding");
    assert_eq!(reader.ask("key"), "new");
    assert_eq!(reader.ask("end"), "let go");
    reader.leave();
}

/// The number of slots in the first chunk of the table of transactions.
const FIRST_SLOTS: usize = 32;
const SLOT_BYTES: usize = 448;

#[test]
fn a_death_while_adding_transaction_slots_leaves_the_slots_to_the_next_session() {
    let directory = tempfile::tempdir().unwrap();
    let env = observer(directory.path());
    let slots = || {
        let all = env.managers().extents();
        let bytes: u64 =
            all.iter().filter(|one| one.name == "transactions").map(|one| one.range.end - one.range.start).sum();
        usize::try_from(bytes).unwrap() / SLOT_BYTES
    };
    env.run(|txn| env.btree("table")?.put(txn, b"key", b"value")).unwrap();
    let running: Vec<_> = (0..FIRST_SLOTS).map(|_| env.begin().unwrap()).collect();
    assert_eq!(slots(), FIRST_SLOTS, "each transaction must have one slot, and no slot may be free");
    for number in 1..=4 {
        let mut victim = Member::launch_armed(directory.path(), number, "txn: slots added, none used");
        // The victim dies only if there is no free slot.
        let is_there = victim.answer_within(Duration::from_secs(5)).is_some();
        assert_eq!(is_there, number > 1, "{} slots", slots());
        victim.kill();
        victim.wait();
        env.managers().reap().unwrap();
    }
    assert_eq!(slots(), 3 * FIRST_SLOTS);
    drop(running);
}
