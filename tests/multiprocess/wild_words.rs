//! A wild store hits a chosen word of the shared memory. The library's checks of the memory must notice the wrong
//! value, and no session may use it. (The tests in `wild.rs` hit words at random.)

use std::os::unix::fs::FileExt;

use libtp::{Db, Durability, Env};

use crate::crew::Member;
use crate::stopped::stopped;

/// A value that no code stores.
const NONSENSE: u64 = 0x1357_9BDF_0246_8ACE;
const WORD: u64 = 8;

/// Returns the words of a structure of the region, each with its offset and value.
fn words(env: &Env, name: &str) -> Vec<(u64, u64)> {
    let managers = env.managers();
    let file = std::fs::File::open(managers.region.path()).unwrap();
    let ranges = managers.extents().into_iter().filter(|extent| extent.name == name).map(|extent| extent.range);
    let look = |place: u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, place).unwrap();
        (place, u64::from_ne_bytes(word))
    };
    ranges.flat_map(|range| range.step_by(8)).map(look).collect()
}

fn store(env: &Env, place: u64, value: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(env.managers().region.path()).unwrap();
    file.write_all_at(&value.to_ne_bytes(), place).unwrap();
}

fn no_background() -> libtp::Builder {
    Env::builder().settings(libtp::Settings { no_background: true, ..libtp::Settings::default() })
}

#[test]
fn relaxed_commits_are_kept_if_stray_stores_hit_all_words_of_the_log() {
    for names in [&["log header"][..], &["log directory"], &["log header", "log directory"]] {
        let directory = tempfile::tempdir().unwrap();
        let env = no_background().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let key = |number: u32| number.to_be_bytes();
        for number in 0..500 {
            env.run_with(Durability::Relaxed, |txn| table.put(txn, &key(number), &[7; 300])).unwrap();
        }
        assert!(!env.managers().log.is_all_durable(), "all of the log is on disk, so the test shows nothing");
        for (place, _) in names.iter().flat_map(|name| words(&env, name)) {
            store(&env, place, NONSENSE);
        }
        env.run(|txn| table.put(txn, b"key", b"afterwards")).unwrap();
        assert_eq!(env.repairs().rebuilds, 1, "{names:?}");
        for number in 0..500 {
            let found = env.run(|txn| table.get(txn, &key(number))).unwrap();
            assert_eq!(found.as_deref(), Some(&[7; 300][..]), "{names:?}: {number}");
        }
        drop((table, env));
        assert!(
            Env::open_or_create(directory.path()).unwrap().verify("table").unwrap().findings.is_empty(),
            "{names:?}"
        );
    }
}

/// Makes an environment with a table, and starts a process that has the environment open, too.
fn beside_a_member() -> (tempfile::TempDir, Env, Db, Member) {
    let directory = tempfile::tempdir().unwrap();
    let env = no_background().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let member = Member::start(directory.path(), 1);
    (directory, env, table, member)
}

#[test]
fn a_process_with_a_damaged_identity_is_not_taken_for_dead() {
    let (_directory, env, table, mut member) = beside_a_member();
    member.ask("begin");
    member.ask("put key 1");
    let pid = env.sessions().iter().map(|one| one.pid).find(|&pid| pid != std::process::id()).unwrap();
    // The member's slot gets a pid that no process can have.
    let slots = words(&env, "process slots");
    let (place, _) = slots.iter().find(|(_, says)| *says == u64::from(pid)).expect("the member's slot has its pid");
    store(&env, *place, 1 << 23);
    let sessions = env.managers().processes.sessions();
    assert!(sessions.iter().all(|one| one.alive), "a session is taken for dead: {sessions:?}");
    let what = env.managers().processes.check().unwrap_err();
    assert!(what.contains("process"), "{what}");
    // A session that waits for the member's lock looks for dead processes.
    env.run(|txn| table.put(txn, b"key", b"2")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    member.order("commit");
    let answer = member.answer();
    assert!(answer.starts_with("failed"), "the member's lock was lost with the memory: {answer}");
    member.leave();
}

#[test]
fn a_lock_with_a_damaged_name_is_not_granted_to_a_second_session() {
    let (_directory, env, table, mut member) = beside_a_member();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    member.ask("begin");
    member.ask("put key held");
    let requests = words(&env, "lock requests");
    let slots: Vec<&[(u64, u64)]> = requests.chunks_exact((64 / WORD) as usize).collect();
    // The second word of each request in use is half of the lock's name.
    slots.iter().filter(|slot| slot[0].1 != 0).for_each(|slot| store(&env, slot[1].0, slot[1].1 ^ 1 << 17));
    env.run(|txn| table.put(txn, b"key", b"new")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1, "the damaged request was not noticed");
    member.order("commit");
    let answer = member.answer();
    assert!(answer.starts_with("failed"), "the member's lock was lost with the memory: {answer}");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"new"[..]));
    member.leave();
}

/// The index of the latch's word in the log's header (`LogHeader`).
const LATCH: usize = 0;
/// The index of the tail's word in the log's header.
const TAIL: usize = 1;
/// The index of the word that marks the log as failed, in the log's header.
const POISON: usize = 10;
/// The index of the word with the leader's session, in the log's header.
const LEADER: usize = 17;
/// The value of the word `POISON` in a log that has failed.
const POISONED: u64 = u64::from_le_bytes(*b"poisoned");

#[test]
fn a_writer_is_waited_for_though_the_word_for_another_writer_was_hit() {
    let (directory, env, table, mut member) = beside_a_member();
    member.ask("put key 1");
    member.ask("arm buffer: became the writer!stop");
    member.order("checkpoint");
    let at_it = stopped(directory.path(), |one| one.roles.contains(&"writes pages"));
    let (leader, says) = words(&env, "log header")[LEADER];
    store(&env, leader, NONSENSE);
    env.managers().processes.declare_broken();
    let put = || env.run(|txn| table.put(txn, b"key", b"meanwhile"));
    let refused = put().expect_err("the process is still writing").to_string();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    // Restores the word: the rest of the member's work is not tested here.
    store(&env, leader, says);
    member.resume();
    member.answer();
    put().unwrap();
    member.leave();
}

#[test]
fn a_reader_of_the_log_learns_that_its_words_were_hit() {
    let directory = tempfile::tempdir().unwrap();
    let env = no_background().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", b"1")).unwrap();
    let header = words(&env, "log header");
    // The search for dead sessions that follows reads the damaged word `POISON`.
    [TAIL, POISON].into_iter().for_each(|word| store(&env, header[word].0, NONSENSE));
    let told = env.log_records(0, |_| true);
    assert!(matches!(told, Err(libtp::Error::Panicked { .. } | libtp::Error::Rebuilt)), "{told:?}");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
    let mut count = 0;
    env.log_records(0, |_| {
        count += 1;
        true
    })
    .unwrap();
    assert!(count > 0);
}

/// The largest number of words that are hit in one structure.
const MANY: usize = 4096;

#[test]
fn an_onlooker_does_not_panic_at_any_hit_word() {
    let names = |env: &Env| -> Vec<&'static str> {
        let mut names: Vec<_> = env.managers().extents().into_iter().map(|extent| extent.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let all = names(&no_background().open(tempfile::tempdir().unwrap().path()).unwrap());
    assert!(all.len() > 20, "{all:?}");
    for name in all {
        let directory = tempfile::tempdir().unwrap();
        let env = no_background().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        env.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", b"1")).unwrap();
        let extents = env.managers().extents();
        let ranges = extents.into_iter().filter(|extent| extent.name == name).map(|extent| extent.range);
        ranges.flat_map(|range| range.step_by(8)).take(MANY).for_each(|place| store(&env, place, NONSENSE));
        // Each call may report damage, or nothing.
        _ = env.joined_segments();
        _ = env.repair_times();
        _ = env.repairs();
        _ = env.databases();
        _ = env.sessions();
        _ = env.stats();
        _ = env.log_records(0, |_| true);
    }
}

#[test]
fn an_opener_does_not_panic_at_any_hit_word() {
    for name in ["session slab", "session slots", "process slab", "process slots", "undo log headers", "log header"] {
        let directory = tempfile::tempdir().unwrap();
        let env = no_background().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        env.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", b"1")).unwrap();
        words(&env, name).into_iter().for_each(|(place, _)| store(&env, place, NONSENSE));
        // This opening starts background threads, which take sessions of their own for repairs.
        let second = Env::open_or_create(directory.path());
        let found = second.and_then(|second| {
            let table = second.btree("table")?;
            second.run(|txn| table.get(txn, b"key"))
        });
        // The opening may be refused. If it succeeds, the value must be right.
        if let Ok(found) = found {
            assert_eq!(found.as_deref(), Some(&b"1"[..]), "{name}");
        }
        let found = env.run(|txn| table.get(txn, b"key")).unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]), "{name}");
    }
}

/// Returns an environment, its table, and a process that is stopped just after it has published its commit record.
fn stopped_at_its_commit() -> (tempfile::TempDir, Env, Db, Member) {
    let directory = tempfile::tempdir().unwrap();
    // Neither process has background threads. Such a thread could notice the damage too early, or could be stopped in a
    // write, for which a rebuild would wait.
    std::fs::write(directory.path().join("libtp.toml"), "no_background = true\n").unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut member = Member::start(directory.path(), 1);
    member.ask("begin");
    member.ask("put key 1");
    member.ask("arm log: tail published, latch held!stop");
    member.order("commit");
    stopped(directory.path(), |one| one.held.iter().any(|held| held.name == "the log's tail"));
    (directory, env, table, member)
}

#[test]
fn a_session_that_cannot_find_its_commit_record_learns_of_it_after_the_rebuild() {
    let (_directory, env, table, member) = stopped_at_its_commit();
    // Hits the latch that the member is about to release, and the word by which it would find its record.
    let header = words(&env, "log header");
    [LATCH, TAIL].into_iter().for_each(|word| store(&env, header[word].0, NONSENSE));
    // Marks the log as failed. Then no session repairs the member's remains, so no session notices the damage.
    store(&env, header[POISON].0, POISONED);
    member.resume();
    let answer = member.answer();
    assert_eq!(answer, "committed");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
    member.leave();
}

#[test]
fn a_commit_published_during_a_rebuild_is_reported_as_kept() {
    let (_directory, env, table, member) = stopped_at_its_commit();
    // Hits the latch that the member is about to release. The wrong value ends the member's call, but not its
    // transaction.
    let (latch, _) = words(&env, "log header")[LATCH];
    store(&env, latch, NONSENSE);
    env.managers().processes.declare_broken();
    env.run(|txn| table.put(txn, b"other", b"meanwhile")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    let kept = env.run(|txn| table.get(txn, b"key")).unwrap();
    member.resume();
    let answer = member.answer();
    assert_eq!((kept.as_deref(), answer.as_str()), (Some(&b"1"[..]), "committed"));
    member.leave();
}
