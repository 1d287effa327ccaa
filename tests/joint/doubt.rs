//! A transaction is over and its program does not know it yet: it still has the permission to store.
//!
//! Its session died of a panic inside the library, or the shared memory was made anew under it. Whoever joins the segment next
//! waits until it lets go, and finds nothing of it.

use std::time::Duration;

use libtp::{Env, Error, Segment, Txn};

fn open(directory: &std::path::Path) -> (Env, Segment) {
    let env = Env::builder().lock_timeout(Duration::from_millis(100)).open(directory).unwrap();
    // Two handles of one process: they do not lie at the same address.
    let segment = env.segment_at(directory.join("memory.vista"), &vista::Options::new(64).anywhere()).unwrap();
    (env, segment)
}

fn read(txn: &Txn<'_>, segment: &Segment) -> libtp::Result<u8> {
    Ok(txn.join(segment)?.bytes()[0])
}

/// Somebody keeps the segment whose transaction ends by `end`.
fn keeps_memory_until_it_lets_go(end: impl FnOnce(&Env, &Txn<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let ((one, ours), (other, theirs)) = (open(dir.path()), open(dir.path()));
    one.run(|txn| txn.join(&ours)?.set_range(0, 1).map(|range| range.fill(1))).unwrap();
    let txn = one.begin().unwrap();
    let mut memory = txn.join(&ours).unwrap();
    let range = memory.set_range(0, 1).unwrap();
    end(&one, &txn);
    // In another process this would be the next transaction's memory.
    for _ in 0..3 {
        let next = other.begin().unwrap();
        let refused = read(&next, &theirs);
        assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    }
    range.fill(2);
    drop(memory);
    drop(txn);
    assert_eq!(other.run(|txn| read(txn, &theirs)).unwrap(), 1);
    assert_eq!(one.run(|txn| read(txn, &ours)).unwrap(), 1);
}

#[test]
fn who_died_of_a_panic_keeps_memory_until_it_lets_go() {
    keeps_memory_until_it_lets_go(|env, txn| {
        let records = env.btree("records").unwrap();
        rio::failpoint::arm("change: all pages marked dirty!panic");
        let panicked = records.put(txn, b"key", b"value");
        rio::failpoint::arm("");
        assert!(matches!(panicked, Err(Error::Panicked { .. })), "{panicked:?}");
    });
}

#[test]
fn whose_shared_memory_was_made_anew_keeps_memory_until_it_lets_go() {
    keeps_memory_until_it_lets_go(|env, _| env.managers().processes.declare_broken());
}
