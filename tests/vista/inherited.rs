//! A child of a fork, or of a clone that bypasses the C library, cannot use its parent's transactions: every call of
//! the child is refused, and the parent's changes are kept as a whole.
//!
//! The child's exit status is the number of calls that were not refused with the expected error.

use std::io::Read as _;
use std::path::Path;

use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::process::is_alone;
use rustix::process::{waitpid, Pid, WaitOptions};
use vista::{Error, Memory as _, Options, Result, Segment, Txn};

const WAYS: [ForkKind; 2] = [ForkKind::Fork, ForkKind::RawClone];
const BYTES: u64 = 1 << 20;

fn open(path: &Path, is_written_back: bool) -> Segment {
    let options = Options::new(BYTES).grows_to(2 * BYTES).reserve(64 << 20).anywhere();
    options.write_back(is_written_back).open(path).unwrap()
}

/// Counts calls whose error does not name the fork, the parent and the file.
struct Refusals {
    wrong: i32,
    parent: u32,
}

impl Refusals {
    fn new() -> Refusals {
        Refusals { wrong: 0, parent: std::os::unix::process::parent_id() }
    }

    fn of<T>(&mut self, call: &str, tried: Result<T>) {
        let message = match tried {
            Err(Error::Memory(forked @ rio::Error::Forked { .. })) => forked.to_string(),
            Err(other) => format!("refused with another error: {other}"),
            Ok(_) => "done".into(),
        };
        if !message.contains(&format!("process {} opened", self.parent)) {
            eprintln!("{call}: {message}");
            self.wrong += 1;
        }
    }
}

/// Runs `work` in a child, which then ends.
fn in_a_child(how: ForkKind, work: impl FnOnce(&mut Refusals)) {
    match make_child(how) {
        Side::Child => {
            let mut refusals = Refusals::new();
            // A panic must not unwind into the test program.
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut refusals)));
            exit_now(if worked.is_ok() { refusals.wrong } else { 101 });
        }
        Side::Parent(child) => {
            let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0), "{how:?}: calls that were not refused");
        }
    }
}

/// Makes all calls of a transaction, and stores to each range that is granted.
fn use_all(txn: &mut Txn<'_>, block: u64, refusals: &mut Refusals) {
    refusals.of("set_range", txn.set_range(0, 8).map(|range| range.fill(99)));
    refusals.of("a range that was declared", txn.set_range(64, 8).map(|range| range.fill(99)));
    refusals.of("a long range", txn.set_range(0, 900_000).map(|range| range.fill(99)));
    refusals.of("malloc", txn.malloc(100));
    refusals.of("a large malloc", txn.malloc(1 << 20));
    refusals.of("free", txn.free(block));
    refusals.of("ensure_ranges", vista::Stores::ensure_ranges(txn, &[(0, 8)]));
    if txn.segment().is_written_back() {
        refusals.of("announce", txn.announce(&[(0, 8)]));
    }
}

/// Begins a transaction, and stores at 64 and in the block.
fn begin(segment: &mut Segment, block: u64) -> Txn<'_> {
    let mut txn = segment.begin();
    txn.set_range(64, 8).unwrap().fill(1);
    txn.set_range(block, 100).unwrap().fill(1);
    txn
}

#[test]
fn a_child_cannot_use_its_parents_transaction() {
    if !is_alone("inherited::a_child_cannot_use_its_parents_transaction") {
        return;
    }
    for (how, is_written_back) in WAYS.into_iter().flat_map(|how| [(how, false), (how, true)]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut segment = open(&path, is_written_back);
        let mut txn = segment.begin();
        let block = txn.malloc(100).unwrap();
        txn.end().unwrap();
        // The child tries to end the parent's transaction, or to abort it, or only exits.
        for nth in 0..4 {
            let mut txn = begin(&mut segment, block);
            if nth == 3 {
                // The child must be refused although the declaration of an announced range makes no record.
                txn.announce(&[(64, 8)]).unwrap();
            }
            let mut txn = Some(txn);
            in_a_child(how, |refusals| {
                let mut txn = txn.take().unwrap();
                use_all(&mut txn, block, refusals);
                match nth {
                    0 | 3 => refusals.of("end", txn.end()),
                    1 => txn.abort(),
                    _ => std::mem::forget(txn),
                }
            });
            let mut txn = txn.unwrap();
            // The parent continues the transaction and then aborts it. Every before-image is still in the undo log.
            txn.set_range(128, 8).unwrap().fill(1);
            assert_eq!((txn.bytes()[0], txn.bytes()[64], txn.get(block, 100).unwrap()), (0, 1, &[1; 100][..]));
            txn.abort();
            assert!(segment.bytes().iter().all(|byte| *byte == 0), "{how:?}, {nth}: something was lost");
        }
        // Here the parent ends the transaction.
        let mut txn = Some(begin(&mut segment, block));
        in_a_child(how, |refusals| refusals.of("end", txn.take().unwrap().end()));
        txn.unwrap().end().unwrap();
        drop(segment);
        let segment = open(&path, is_written_back);
        assert_eq!((segment.bytes()[64], segment.rolled_back(), segment.verify().unwrap().blocks), (1, 0, 1));
    }
}

#[test]
fn a_child_cannot_change_the_segment_in_its_own_transactions_or_by_other_calls() {
    if !is_alone("inherited::a_child_cannot_change_the_segment_in_its_own_transactions_or_by_other_calls") {
        return;
    }
    for (how, is_written_back) in WAYS.into_iter().flat_map(|how| [(how, false), (how, true)]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut segment = open(&path, is_written_back);
        let mut txn = segment.begin();
        let block = txn.malloc(100).unwrap();
        txn.end().unwrap();
        for is_suspended in [false, true] {
            if is_suspended {
                begin(&mut segment, block).suspend();
            }
            let mut inherited = Some(segment);
            in_a_child(how, |refusals| {
                let mut segment = inherited.take().unwrap();
                refusals.of("check_process", segment.check_process());
                let mut txn = segment.begin();
                use_all(&mut txn, block, refusals);
                refusals.of("end", txn.end());
                let mut txn = segment.resume();
                use_all(&mut txn, block, refusals);
                refusals.of("end of a suspended transaction", txn.end());
                refusals.of("grow", segment.grow(BYTES + 4096));
                refusals.of("checkpoint", segment.checkpoint(path.with_extension("copy")));
                refusals.of(
                    "automatically",
                    segment.automatically(|bytes| -> Result<()> {
                        bytes[0] = 99;
                        Ok(())
                    }),
                );
                if is_suspended {
                    refusals.of("share", segment.share().map(drop));
                } else {
                    segment.close().unwrap();
                }
            });
            segment = inherited.unwrap();
            assert!(!path.with_extension("copy").exists());
            if is_suspended {
                let txn = segment.resume();
                assert_eq!((txn.bytes()[0], txn.bytes()[64]), (0, 1));
                txn.abort();
            }
            assert!(segment.bytes().iter().all(|byte| *byte == 0) && segment.bytes().len() as u64 == BYTES);
        }
    }
}

#[test]
fn a_child_ends_no_transaction_with_automatic_ranges() {
    if !is_alone("inherited::a_child_ends_no_transaction_with_automatic_ranges") {
        return;
    }
    for how in WAYS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut segment = open(&path, false);
        let (mut is_child, mut wrong) = (false, 0);
        let done = segment.automatically(|bytes| -> Result<()> {
            bytes[0] = 1;
            match make_child(how) {
                Side::Child => {
                    is_child = true;
                    // The parent has not declared this page, so the child's store must not reach the segment.
                    bytes[8192] = 99;
                }
                Side::Parent(child) => {
                    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
                    wrong = status.exit_status().unwrap_or(-1);
                    bytes[4096] = 1;
                }
            }
            Ok(())
        });
        if is_child {
            let is_refused = matches!(done, Err(Error::Memory(rio::Error::Forked { .. })));
            exit_now(if is_refused { 0 } else { 1 });
        }
        done.unwrap();
        assert_eq!(wrong, 0, "{how:?}: the child has ended the transaction");
        assert_eq!([0, 4096, 8192].map(|at| segment.bytes()[at]), [1, 1, 0]);
        let again: Result<()> = segment.automatically(|bytes| {
            bytes.fill(2);
            Err(Error::NoRoom { path: path.clone(), wanted: 0, most: 0 })
        });
        assert!(again.is_err());
        assert_eq!([0, 4096, 8192].map(|at| segment.bytes()[at]), [1, 1, 0]);
    }
}

/// Returns vista's error inside an error of rvm.
fn of_segment<T>(tried: rvm::Result<T>) -> Result<T> {
    tried.map_err(|error| match error {
        rvm::Error::Segment(error) => error,
        other => panic!("{other}"),
    })
}

#[test]
fn a_child_writes_nothing_to_its_parents_redo_log() {
    if !is_alone("inherited::a_child_writes_nothing_to_its_parents_redo_log") {
        return;
    }
    for (how, nth) in WAYS.into_iter().flat_map(|how| (0..5).map(move |nth| (how, nth))) {
        let directory = tempfile::tempdir().unwrap();
        // Two transactions wait for their group while the child exists, so the child has transactions that it could
        // write.
        let options = rvm::Options::of(vista::Options::new(BYTES).anywhere()).log_bytes(128 << 10).group(3);
        let mut memory = options.open(directory.path()).unwrap();
        let set = |memory: &mut rvm::Rvm, at: u64, value: u8| {
            let mut txn = memory.begin().unwrap();
            txn.set_range(at, 8).unwrap().fill(value);
            txn.end().unwrap();
        };
        for at in [0, 8] {
            set(&mut memory, at, 1);
        }
        let mut inherited = Some(memory);
        // The child waits until the parent has committed more transactions, which move the log's tail.
        let (mut told, tells) = std::os::unix::net::UnixStream::pair().unwrap();
        let child = match make_child(how) {
            Side::Child => {
                let mut refusals = Refusals::new();
                drop(tells);
                let _ = told.read(&mut [0]);
                let mut memory = inherited.take().unwrap();
                match nth {
                    0 => refusals.of("flush", of_segment(memory.flush())),
                    1 => refusals.of("truncate", of_segment(memory.truncate())),
                    2 => refusals.of("begin", of_segment(memory.begin().map(drop))),
                    3 => refusals.of("close", of_segment(memory.close())),
                    _ => drop(memory),
                }
                exit_now(refusals.wrong);
            }
            Side::Parent(child) => child,
        };
        let mut memory = inherited.unwrap();
        memory.truncate().unwrap();
        for nth in 0..9 {
            set(&mut memory, 64 + 8 * nth, 2);
        }
        drop((told, tells));
        let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "{how:?}, {nth}: the call was not refused");
        for nth in 0..3 {
            set(&mut memory, 256 + 8 * nth, 3);
        }
        // All transactions are durable, so the parent may end without closing the memory.
        std::mem::forget(memory);
        let copy = tempfile::tempdir().unwrap();
        for name in ["log", "database"] {
            std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        let memory = options.open(copy.path()).unwrap();
        let seen: Vec<u8> = [0, 8, 64, 128, 256, 272].iter().map(|at| memory.segment().bytes()[*at]).collect();
        assert_eq!(seen, [1, 1, 2, 2, 3, 3], "{how:?}, {nth}");
    }
}

#[test]
fn a_child_cannot_use_the_transactions_of_threads() {
    if !is_alone("inherited::a_child_cannot_use_the_transactions_of_threads") {
        return;
    }
    for (how, is_written_back) in WAYS.into_iter().flat_map(|how| [(how, false), (how, true)]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let threads = open(&path, is_written_back).share().unwrap();
        let (mut worker, mut other) = (threads.worker().unwrap(), threads.worker().unwrap());
        let block = worker.run(|txn| txn.malloc(100)).unwrap();
        for is_ended in [false, true] {
            let mut txn = worker.begin();
            txn.set_range(64, 8).unwrap().fill(1);
            let mut txn = Some(txn);
            in_a_child(how, |refusals| {
                let mut txn = txn.take().unwrap();
                for at in [0, 64, 1 << 19] {
                    refusals.of("set_range", txn.set_range(at, 8).map(|range| range.fill(99)));
                }
                refusals.of("malloc", txn.malloc(100));
                refusals.of("free", txn.free(block));
                refusals.of("end", txn.end());
                let mut txn = other.begin();
                refusals.of("set_range of another", txn.set_range(0, 8).map(|range| range.fill(99)));
                refusals.of("end of another", txn.end());
                refusals.of("worker", threads.worker().map(drop));
            });
            let mut txn = txn.unwrap();
            txn.set_range(128, 8).unwrap().fill(1);
            if is_ended {
                txn.end().unwrap();
            } else {
                txn.abort();
            }
            let seen = other.run(|txn| Ok([0, 64, 128].map(|at| txn.get(at, 1).unwrap()[0]))).unwrap();
            assert_eq!(seen, [0, u8::from(is_ended), u8::from(is_ended)]);
        }
        // The child drops the inherited segment of the threads, and changes nothing.
        let mut txn = worker.begin();
        txn.set_range(64, 8).unwrap().fill(2);
        std::mem::forget(txn);
        drop(other);
        std::mem::forget(worker);
        let mut threads = Some(threads);
        in_a_child(how, |_| drop(threads.take().unwrap().into_segment()));
        let segment = threads.unwrap().into_segment();
        assert_eq!(segment.bytes()[64], 1, "{how:?}: the parent undoes its forgotten store");
    }
}
