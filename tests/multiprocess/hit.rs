//! A wild store hits a chosen word of the shared memory, which checks itself: what it says is known for nonsense, and nobody
//! goes by it. (`wild` hits words at random.)

use std::os::unix::fs::FileExt;

use libtp::{Db, Durability, Env};

use crate::crew::Member;
use crate::stopped::stopped;

/// Nobody has stored this anywhere.
const NONSENSE: u64 = 0x1357_9BDF_0246_8ACE;
const WORD: u64 = 8;

/// The words of a structure: where each lies and what it says.
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
fn relaxed_commits_are_kept_when_all_words_of_the_log_are_hit() {
    for names in [&["log header"][..], &["log directory"], &["log header", "log directory"]] {
        let directory = tempfile::tempdir().unwrap();
        let env = no_background().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let key = |number: u32| number.to_be_bytes();
        for number in 0..500 {
            env.run_with(Durability::Relaxed, |txn| table.put(txn, &key(number), &[7; 300])).unwrap();
        }
        assert!(!env.managers().log.is_all_durable(), "all of it is in memory alone");
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
        assert!(Env::open(directory.path()).unwrap().verify("table").unwrap().findings.is_empty(), "{names:?}");
    }
}

/// An environment with a table, and another process that is in it, too.
fn beside_a_member() -> (tempfile::TempDir, Env, Db, Member) {
    let directory = tempfile::tempdir().unwrap();
    let env = no_background().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let member = Member::start(directory.path(), 1);
    (directory, env, table, member)
}

#[test]
fn who_is_said_to_be_another_process_is_not_taken_for_dead() {
    let (_directory, env, table, mut member) = beside_a_member();
    member.ask("begin");
    member.ask("put key 1");
    let pid = env.sessions().iter().map(|one| one.pid).find(|&pid| pid != std::process::id()).unwrap();
    // A pid that nobody can have.
    let slots = words(&env, "process slots");
    let (place, _) = slots.iter().find(|(_, says)| *says == u64::from(pid)).expect("its slot says so");
    store(&env, *place, 1 << 23);
    let sessions = env.managers().processes.sessions();
    assert!(sessions.iter().all(|one| one.alive), "one of them is taken for dead: {sessions:?}");
    let what = env.managers().processes.check().unwrap_err();
    assert!(what.contains("process"), "{what}");
    // Whoever waits for its lock looks for the dead.
    env.run(|txn| table.put(txn, b"key", b"2")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    member.order("commit");
    let answer = member.answer();
    assert!(answer.starts_with("failed"), "its lock was gone with the memory: {answer}");
    member.leave();
}

#[test]
fn a_lock_that_says_it_is_another_is_not_granted_to_a_second() {
    let (_directory, env, table, mut member) = beside_a_member();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    member.ask("begin");
    member.ask("put key held");
    let requests = words(&env, "lock requests");
    let slots: Vec<&[(u64, u64)]> = requests.chunks_exact((64 / WORD) as usize).collect();
    // The second word of each that is in use is half of its name.
    slots.iter().filter(|slot| slot[0].1 != 0).for_each(|slot| store(&env, slot[1].0, slot[1].1 ^ 1 << 17));
    env.run(|txn| table.put(txn, b"key", b"new")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1, "two held one lock");
    member.order("commit");
    let answer = member.answer();
    assert!(answer.starts_with("failed"), "its lock was gone with the memory: {answer}");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"new"[..]));
    member.leave();
}

#[test]
fn who_is_caught_as_it_publishes_its_commit_is_told_that_it_is_kept() {
    let (directory, env, table, mut member) = beside_a_member();
    member.ask("begin");
    member.ask("put key 1");
    member.ask("arm log: tail published, latch held!stop");
    member.order("commit");
    stopped(directory.path(), |one| one.held.iter().any(|held| held.name == "the log's tail"));
    // The latch that it is about to give back: what it meets there is the end of its call, not of its transaction.
    let (latch, _) = words(&env, "log header")[0];
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
