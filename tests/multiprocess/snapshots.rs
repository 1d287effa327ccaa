//! Snapshots while other processes write, are killed, and take checkpoints. A snapshot shows one state as long as it is
//! held. The snapshot of a dead process keeps no log and no ghosts (PROTOCOLS S1 to S4).

use std::time::{Duration, Instant};

use libtp::{Db, Durability, Env};
use libtp_tests::process::until;

use crate::crew::Member;
use libtp_tests::transfers::Bank;

/// The number of keys. Their records take several pages.
const KEYS: u32 = 600;
const VALUE: [u8; 90] = [b'v'; 90];

fn key(number: u32) -> String {
    format!("key{number:04}")
}

#[test]
fn one_state_is_shown_while_others_write_and_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let bank = Bank::open(&env).unwrap();
    let start = |number: u64| {
        let mut member = Member::start(directory.path(), number);
        member.order(if number % 2 == 0 { "work sync" } else { "work relaxed" });
        member
    };
    let mut members: Vec<Member> = (1..=3).map(start).collect();
    for round in 0..12_u64 {
        let snapshot = env.snapshot().unwrap();
        let seen = bank.audit_in(&snapshot).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        let mut victim = members.remove(0);
        // The victim is most probably killed in the middle of a transaction.
        std::thread::sleep(Duration::from_millis(20 + round * 3));
        victim.kill();
        assert_eq!(bank.audit_in(&snapshot).as_ref(), Ok(&seen), "round {round}: while the victim dies");
        let told = victim.acknowledged();
        members.push(start(round + 4));
        env.checkpoint().unwrap();
        assert_eq!(bank.audit_in(&snapshot).as_ref(), Ok(&seen), "round {round}: after the victim's death");
        drop(snapshot);
        let later = bank.audit_in(&env.snapshot().unwrap()).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        assert!(later.is_superset(&seen), "round {round}: a later snapshot lacks a transfer that the earlier showed");
        assert!(later.is_superset(&told), "round {round}: a snapshot lacks an acknowledged transfer");
    }
    assert!(env.snapshots().is_empty(), "{:?}", env.snapshots());
    assert_eq!(env.repairs().rebuilds, 0);
}

#[test]
fn the_pin_of_a_dead_session_is_released() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    let [mut victim, mut other] = [1, 2].map(|number| Member::start(directory.path(), number));
    assert_eq!(victim.ask("hold-snapshot"), "holding");
    assert_eq!(other.ask("hold-snapshot"), "holding");
    env.run(|txn| table.put(txn, b"key", b"new")).unwrap();
    assert_eq!(env.snapshots().len(), 2);
    assert_eq!(victim.ask("key"), "old");
    victim.kill();
    victim.wait();
    until("the dead session's pin is released", || env.snapshots().len() == 1);
    assert_eq!(other.ask("key"), "old");
    // All processes end, the last holder by a kill. The next opening releases its pin.
    other.kill();
    other.wait();
    drop((table, env));
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(env.snapshots().is_empty(), "{:?}", env.snapshots());
    let table = env.btree("table").unwrap();
    assert_eq!(table.get(&env.snapshot().unwrap(), b"key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_held_snapshot_outlives_checkpoints_or_is_reported_as_too_old() {
    for (bound, is_kept) in [("1GiB", true), ("1MiB", false)] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("libtp.toml"), format!("snapshot_log = \"{bound}\"\n")).unwrap();
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        // The library keeps fewer shortcuts for long values than there are keys, so the snapshot needs the log.
        let fill = |text: &str| {
            env.run_with(Durability::Relaxed, |txn| {
                let value = text.repeat(300);
                (0..KEYS).try_for_each(|one| table.put(txn, key(one).as_bytes(), value.as_bytes()))
            })
        };
        fill("old").unwrap();
        let [mut reader, mut other] = [1, 2].map(|number| Member::start(directory.path(), number));
        assert_eq!(reader.ask("hold-snapshot"), "holding");
        let begun = Instant::now();
        for round in 0..KEYS {
            fill(&format!("{round:03}")).unwrap();
            other.ask("checkpoint");
            // Each round reads another key, because a snapshot caches the versions that it has found.
            let answer = reader.ask(&key(round));
            if answer == "too old" {
                assert!(!is_kept);
                break;
            }
            assert_eq!(answer, "old".repeat(300));
            // If the bound is too small, the rounds continue until the log that the reader needs is recycled.
            match is_kept {
                true if round > 30 => break,
                true => {}
                false => assert!(begun.elapsed() < Duration::from_secs(200), "the snapshot never gets too old"),
            }
        }
        assert_eq!(env.snapshots()[0].is_kept, is_kept);
        assert_eq!(reader.ask("end"), "let go");
        assert!(env.snapshots().is_empty());
        reader.leave();
        other.leave();
    }
}

/// Deletes most keys, and puts other keys on the same pages. The puts need the room of the deleted records.
fn sweep(env: &Env, table: &Db) {
    let deleted = env.run(|txn| {
        (100..500).try_for_each(|number| table.delete(txn, key(number).as_bytes()).map(|was_there| assert!(was_there)))
    });
    deleted.unwrap();
    for number in 0..KEYS {
        let between = format!("{}+", key(number));
        env.run_with(Durability::Relaxed, |txn| table.put(txn, between.as_bytes(), &VALUE)).unwrap();
    }
}

#[test]
fn nothing_that_a_new_snapshot_needs_is_removed_while_the_snapshot_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..KEYS).try_for_each(|number| table.put(txn, key(number).as_bytes(), &VALUE))).unwrap();
    let mut reader = Member::start(directory.path(), 1);
    reader.ask("arm snapshot: taken, pin lower than needed!stop");
    reader.order("hold-snapshot");
    until("the reader stops", || env.sessions().iter().any(|one| one.process_state == libtp::ProcessState::Stopped));
    sweep(&env, &table);
    env.checkpoint().unwrap();
    reader.resume();
    assert_eq!(reader.answer(), "holding");
    for number in 0..KEYS {
        assert_eq!(reader.ask(&key(number)).as_bytes(), VALUE, "{}", key(number));
    }
    assert_eq!(reader.ask("end"), "let go");
    sweep_is_possible(&env, &table);
    reader.leave();
}

/// Checks that puts remove the ghosts. There must be no snapshot that needs the ghosts.
fn sweep_is_possible(env: &Env, table: &Db) {
    for number in 0..KEYS {
        let between = format!("{}++", key(number));
        env.run_with(Durability::Relaxed, |txn| table.put(txn, between.as_bytes(), &VALUE)).unwrap();
    }
    let verified = env.verify("table").unwrap();
    assert!(verified.findings.is_empty());
    assert!(verified.ghosts < 400, "{} ghosts", verified.ghosts);
}
