//! A transaction has ended, but its program does not know this and can still store.
//!
//! Its session died of a panic inside the library, or its shared memory was rebuilt. The next transaction that joins
//! the segment waits until the program drops its guard, and finds no store of the ended transaction.

use std::time::Duration;

use libtp::{Env, Error, Segment, Txn};

fn open(directory: &std::path::Path) -> (Env, Segment) {
    let env = Env::builder().lock_timeout(Duration::from_millis(100)).open(directory).unwrap();
    // Two handles of one process cannot map the segment at the same address.
    let segment = env.segment_at(directory.join("memory.vista"), &vista::Options::new(64).anywhere()).unwrap();
    (env, segment)
}

fn read(txn: &Txn<'_>, segment: &Segment) -> libtp::Result<u8> {
    Ok(txn.join(segment)?.bytes()[0])
}

/// Holds the guard of a segment while `end` ends the guard's transaction without the program's knowledge.
fn keeps_memory_until_it_lets_go(end: impl FnOnce(&Env, &Txn<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let ((one, ours), (other, theirs)) = (open(dir.path()), open(dir.path()));
    one.run(|txn| txn.join(&ours)?.set_range(0, 1).map(|range| range.fill(1))).unwrap();
    let txn = one.begin().unwrap();
    let mut memory = txn.join(&ours).unwrap();
    let range = memory.set_range(0, 1).unwrap();
    end(&one, &txn);
    // The program still has the guard, so every other transaction is refused.
    for _ in 0..3 {
        let next = other.begin().unwrap();
        let refused = read(&next, &theirs);
        assert!(matches!(refused, Err(Error::LockTimeout(_))), "{refused:?}");
    }
    range.fill(2);
    drop(memory);
    drop(txn);
    assert_eq!(other.run(|txn| read(txn, &theirs)).unwrap(), 1);
    assert_eq!(one.run(|txn| read(txn, &ours)).unwrap(), 1);
}

#[test]
fn a_session_that_died_of_a_panic_keeps_the_segment_until_its_guard_ends() {
    keeps_memory_until_it_lets_go(|env, txn| {
        let records = env.btree("records").unwrap();
        let panicked =
            rio::failpoint::armed_here("change: all pages marked dirty!panic", || records.put(txn, b"key", b"value"));
        assert!(matches!(panicked, Err(Error::Panicked { .. })), "{panicked:?}");
    });
}

#[test]
fn a_session_of_rebuilt_memory_keeps_the_segment_until_its_guard_ends() {
    keeps_memory_until_it_lets_go(|env, _| env.managers().processes.declare_broken());
}

/// The shared memory is abandoned while the commit record is written. The rebuilt memory has the commit.
#[test]
fn a_commit_published_during_a_rebuild_is_reported_as_kept() {
    let dir = tempfile::tempdir().unwrap();
    let settings = libtp::Settings { no_background: true, ..libtp::Settings::default() };
    let env = Env::builder().settings(settings).open(dir.path()).unwrap();
    let segment = env.segment("memory", 64).unwrap();
    let records = env.btree("records").unwrap();
    // The first relaxed commit of a life writes the control file before it logs its record. In broken memory this write
    // would be refused, so this first commit is made before the memory is broken.
    env.run_with(libtp::Durability::Relaxed, |txn| records.put(txn, b"before", b"value")).unwrap();
    let txn = env.begin_with(libtp::Durability::Relaxed).unwrap();
    records.put(&txn, b"key", b"value").unwrap();
    txn.join(&segment).unwrap().set_range(0, 1).unwrap().fill(2);
    env.managers().processes.declare_broken();
    rio::failpoint::armed_here("log: tail published!panic", || txn.commit()).unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    assert_eq!(env.run(|txn| records.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(env.run(|txn| read(txn, &segment)).unwrap(), 2);
}

/// A `Relaxed` commit does not need the disk, so it completes although its shared memory was abandoned. No rebuilt
/// memory has the commit.
#[test]
fn a_commit_in_abandoned_memory_reaches_no_segment() {
    for has_records in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let ((one, ours), (other, theirs)) = (open(dir.path()), open(dir.path()));
        one.run(|txn| txn.join(&ours)?.set_range(0, 1).map(|range| range.fill(1))).unwrap();
        let records = one.btree("records").unwrap();
        let txn = one.begin_with(libtp::Durability::Relaxed).unwrap();
        // Because of this read, the transaction depends on a log position after the end of the rebuilt memory's log.
        assert_eq!(records.get(&txn, b"key").unwrap(), None);
        txn.join(&ours).unwrap().set_range(0, 1).unwrap().fill(2);
        if has_records {
            records.put(&txn, b"key", b"value").unwrap();
        }
        one.managers().processes.declare_broken();
        let next = other.begin().unwrap();
        let refused = read(&next, &theirs);
        assert!(matches!(refused, Err(Error::LockTimeout(_))), "{refused:?}");
        drop(next);
        let answer = txn.commit();
        assert!(matches!(answer, Err(Error::Rebuilt)), "{answer:?}");
        let theirs_too = other.btree("records").unwrap();
        for (env, records, segment) in [(&one, &records, &ours), (&other, &theirs_too, &theirs)] {
            assert_eq!(env.run(|txn| read(txn, segment)).unwrap(), 1);
            assert_eq!(env.run(|txn| records.get(txn, b"key")).unwrap(), None);
        }
    }
}
