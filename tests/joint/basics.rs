//! One process: committed changes are kept, aborted changes are undone, and invalid calls are refused.

use std::time::Duration;

use libtp::{Env, Error};

fn read(env: &Env, segment: &libtp::Segment, bytes: usize) -> Vec<u8> {
    env.run(|txn| Ok(txn.join(segment)?.bytes()[..bytes].to_vec())).unwrap()
}

#[test]
fn a_commit_keeps_record_and_memory_and_an_abort_undoes_both() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let (segment, records) = (env.segment("memory", 4096).unwrap(), env.btree("records").unwrap());
    let store = |txn: &libtp::Txn<'_>, text: &[u8; 4]| {
        txn.join(&segment)?.set_range(100, 4)?.copy_from_slice(text);
        records.put(txn, b"key", text)
    };
    env.run(|txn| store(txn, b"kept")).unwrap();
    let txn = env.begin().unwrap();
    store(&txn, b"lost").unwrap();
    txn.abort().unwrap();
    let txn = env.begin().unwrap();
    store(&txn, b"gone").unwrap();
    drop(txn);
    let seen = env.run(|txn| Ok((txn.join(&segment)?.bytes()[100..104].to_vec(), records.get(txn, b"key")?)));
    assert_eq!(seen.unwrap(), (b"kept".to_vec(), Some(b"kept".to_vec())));
    drop((segment, records, env));
    let env = Env::open_or_create(dir.path()).unwrap();
    let segment = env.segment("memory", 0).unwrap();
    assert_eq!(read(&env, &segment, 104)[100..], *b"kept");
}

#[test]
fn the_segment_of_a_forgotten_guard_shares_the_outcome_and_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::from_secs(1)).open(dir.path()).unwrap();
    let segments = ["one", "two", "three"].map(|name| env.segment(name, 4096).unwrap());
    for (round, is_committed) in [(1, true), (2, false), (3, true), (4, false)] {
        let txn = env.begin().unwrap();
        for (nth, segment) in segments.iter().enumerate() {
            let mut memory = txn.join(segment).unwrap();
            memory.set_range(0, 1).unwrap().fill(round);
            if nth == 1 {
                std::mem::forget(memory);
                // The transaction cannot know that the forgotten guard no longer stores.
                let refused = txn.join(segment).map(drop).unwrap_err();
                assert!(refused.to_string().contains("uses the segment already"), "{refused}");
            }
        }
        match is_committed {
            true => txn.commit().unwrap(),
            false => txn.abort().unwrap(),
        }
        let expected = if is_committed { round } else { round - 1 };
        assert_eq!(segments.each_ref().map(|segment| read(&env, segment, 1)[0]), [expected; 3]);
    }
    // A dropped transaction releases the segment, too.
    let txn = env.begin().unwrap();
    std::mem::forget(txn.join(&segments[0]).unwrap());
    drop(txn);
    read(&env, &segments[0], 1);
    drop((segments, env));
    let env = Env::open_or_create(dir.path()).unwrap();
    let segment = env.segment("two", 0).unwrap();
    assert_eq!(read(&env, &segment, 1), [3]);
}

#[test]
fn transactions_that_change_only_memory_write_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let segment = env.segment("memory", 4096).unwrap();
    read(&env, &segment, 1);
    let before = env.managers().log.tail();
    for round in 0..100_u8 {
        env.run(|txn| txn.join(&segment)?.set_range(0, 1).map(|range| range.fill(round))).unwrap();
    }
    assert_eq!(env.managers().log.tail(), before);
    assert_eq!(read(&env, &segment, 1), [99]);
}

#[test]
fn concurrent_threads_lose_no_increment() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().durability(libtp::Durability::Relaxed).open(dir.path()).unwrap();
    let segment = env.segment("memory", 4096).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let raised = env.run(|txn| {
                        let mut memory = txn.join(&segment)?;
                        let place = memory.set_range(0, 8)?;
                        let next = u64::from_le_bytes(place[..8].try_into().unwrap()) + 1;
                        place.copy_from_slice(&next.to_le_bytes());
                        Ok(())
                    });
                    raised.unwrap();
                }
            });
        }
    });
    assert_eq!(read(&env, &segment, 8), 800_u64.to_le_bytes());
}

#[test]
fn a_segment_cannot_be_opened_by_another_environment() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("memory.vista");
    let env = Env::open_or_create(dir.path()).unwrap();
    let segment = env.segment("memory", 4096).unwrap();
    // The process dies in the middle of a transaction: only the environment knows the outcome.
    let txn = env.begin().unwrap();
    txn.join(&segment).unwrap().set_range(0, 4).unwrap().copy_from_slice(b"torn");
    txn.die();
    env.die();
    drop((segment, env));
    let refused = vista::Segment::open(&path, 0).unwrap_err();
    assert!(matches!(refused, vista::Error::Belongs { .. } | vista::Error::Memory(_)), "{refused}");
    let elsewhere = Env::open_or_create(other.path()).unwrap();
    let moved = other.path().join("memory.vista");
    std::fs::copy(&path, &moved).unwrap();
    let refused = elsewhere.segment("memory", 0).unwrap_err().to_string();
    assert!(refused.contains("belongs to the environment with the id"), "{refused}");
    let refused = vista::Segment::open(&moved, 0).unwrap_err().to_string();
    assert!(refused.contains("belongs to the environment with the id"), "{refused}");
    // The refused segment is unchanged.
    assert_eq!(std::fs::read(&moved).unwrap(), std::fs::read(&path).unwrap());
}

#[test]
fn a_segment_made_without_an_environment_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    drop(vista::Segment::open(dir.path().join("alone.vista"), 4096).unwrap());
    let refused = env.segment("alone", 4096).unwrap_err().to_string();
    assert!(refused.contains("was made without an environment"), "{refused}");
    assert!(matches!(env.segment("a/b", 8), Err(Error::Segment { .. })));
}

#[test]
fn a_log_older_than_the_segment_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (home, backup) = (dir.path().join("home"), dir.path().join("backup"));
    let memory = dir.path().join("memory");
    let options = vista::Options::new(4096);
    let change = |env: &Env, round: u8| {
        let (segment, records) = (env.segment_at(&memory, &options)?, env.btree("records")?);
        env.run(|txn| {
            txn.join(&segment)?.set_range(0, 1)?.fill(round);
            records.put(txn, b"key", &[round])
        })
    };
    change(&Env::open_or_create(&home).unwrap(), 1).unwrap();
    copy(&home, &backup);
    change(&Env::open_or_create(&home).unwrap(), 2).unwrap();
    std::fs::remove_dir_all(&home).unwrap();
    copy(&backup, &home);
    let refused = change(&Env::open_or_create(&home).unwrap(), 3).unwrap_err().to_string();
    assert!(refused.contains("the segment is newer than the environment"), "{refused}");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_joined_segment_cannot_be_joined_again() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::from_millis(50)).open(dir.path()).unwrap();
    let segment = env.segment("memory", 4096).unwrap();
    let txn = env.begin().unwrap();
    let memory = txn.join(&segment).unwrap();
    assert!(matches!(txn.join(&segment), Err(Error::Segment { .. })));
    let other = env.begin().unwrap();
    assert!(matches!(other.join(&segment), Err(Error::LockTimeout(_))));
    drop(memory);
    txn.commit().unwrap();
    other.join(&segment).unwrap();
    other.commit().unwrap();
}
