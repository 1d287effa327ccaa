//! The end of a transaction: one store into the segment, and no system call. A commit that is acknowledged from memory
//! makes no system call either.

use std::path::Path;
use std::process::Command;

use libtp::{Durability, Env};
use libtp_tests::sizes;
use vista::{Options, Segment};

use crate::calls::{calls, mark};
use crate::trace::{be_traced, trace, Event};

const PATH: &str = "VISTA_TEST_COMMIT";
const WORK: &str = "VISTA_TEST_COMMIT_WORK";
const TXNS: u64 = 1000;

fn open(path: &Path, is_written_back: bool) -> Segment {
    Options::new(32 << 10).reserve(16 << 20).write_back(is_written_back).anywhere().open(path).unwrap()
}

/// Changes ranges of the segment. The caller ends the transaction.
fn change(segment: &mut Segment, nth: u64) -> vista::Txn<'_> {
    let mut txn = segment.begin();
    for (at, bytes) in [(nth * 8 % 4096, 8), (8192, 100), (16_384, 1024)] {
        txn.set_range(at, bytes).unwrap().fill(u8::try_from(nth % 251 + 1).unwrap());
    }
    txn
}

/// The child's part: a transaction, of which only the end is traced.
fn end_one(path: &Path, is_written_back: bool) {
    let mut segment = open(path, is_written_back);
    // These transactions give the undo log all the room that it needs.
    (0..10).for_each(|nth| change(&mut segment, nth).end().unwrap());
    let mut txn = change(&mut segment, 10);
    txn.malloc(100).unwrap();
    be_traced(path);
    txn.end().unwrap();
    std::process::exit(0);
}

/// The child's part: a thousand transactions between two marks. No transaction aborts, because an abort makes a system
/// call, to get the process's number.
fn end_many(path: &Path) {
    let mut segment = open(path, true);
    (0..10).for_each(|nth| change(&mut segment, nth).end().unwrap());
    be_traced(path);
    mark();
    for nth in 0..TXNS {
        change(&mut segment, nth).end().unwrap();
    }
    mark();
    std::process::exit(0);
}

/// The child's part: a thousand commits, each between two marks.
fn commit_many(path: &Path, durability: Durability) {
    let directory = path.with_extension("env");
    std::fs::create_dir_all(directory.join("memory")).unwrap();
    // No background thread syncs or has to be woken.
    let text = "region_survives = \"power\"\nrelaxed_millis = 3600000\nno_background = true\n";
    let memory = format!("region_directory = {:?}\n", directory.join("memory"));
    std::fs::write(directory.join("libtp.toml"), memory + text).unwrap();
    let env = Env::open_or_create(&directory).unwrap();
    let stock = env.btree("stock").unwrap();
    let put = |nth: u64| {
        let txn = env.begin_with(durability).unwrap();
        stock.put(&txn, b"apples", &nth.to_ne_bytes()).unwrap();
        txn
    };
    (0..10).for_each(|nth| put(nth).commit().unwrap());
    be_traced(path);
    for nth in 0..TXNS {
        let txn = put(nth);
        mark();
        let committed = txn.commit();
        mark();
        committed.unwrap();
    }
    std::process::exit(0);
}

fn child(path: &Path, work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "commit::entry", "--test-threads=1"]).env(PATH, path).env(WORK, work);
    command
}

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(path) = sizes::chosen::<String>(PATH) else { return };
    let path = Path::new(&path);
    match sizes::chosen::<String>(WORK).unwrap().as_str() {
        "one" => end_one(path, false),
        "one, written back" => end_one(path, true),
        "many" => end_many(path),
        "rio" => commit_many(path, Durability::Rio),
        "sync" => commit_many(path, Durability::Sync),
        other => panic!("{other}"),
    }
}

#[test]
fn the_end_of_a_transaction_is_one_store() {
    for work in ["one", "one, written back"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut events = Vec::new();
        let steps = trace(&mut child(&path, work), &path, |event, _| events.push(event)).unwrap();
        let count = |what: fn(&Event) -> bool| events.iter().filter(|event| what(event)).count();
        let stores = count(|event| *event == Event::Store);
        println!("figures: {work}: the end is {stores} stores, {} events in {steps} steps", events.len());
        // If the memory outlives the cache there are four stores. The first is a checksum of the stored bytes. The
        // second is the log's number, which together with the checksum is the commit. The third is the number without
        // the checksum; no fence waits for this store. The fourth is the zero that empties the log.
        assert_eq!(stores, if work == "one" { 1 } else { 4 }, "{events:?}");
        assert_eq!(count(|event| *event == Event::Sync), 0);
        // All stores are in memory before the answer, which waits for one fence.
        let store = events.iter().position(|event| *event == Event::Store).unwrap();
        let fences = |events: &[Event]| events.iter().filter(|event| **event == Event::Fence).count();
        let expected = usize::from(work != "one");
        assert_eq!(fences(&events[store..]), expected, "{events:?}");
        if work == "one" {
            assert_eq!(events, [Event::Store], "nothing is written back");
        }
    }
}

/// Returns the system calls of a child between its marks.
fn asked(work: &str) -> Vec<i64> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut asked = Vec::new();
    calls(&mut child(&path, work), &path, |call| asked.push(call.number)).unwrap();
    asked
}

#[test]
fn a_thousand_transactions_make_no_system_call() {
    assert_eq!(asked("many"), []);
}

#[test]
fn a_thousand_commits_that_are_answered_from_memory_make_no_system_call() {
    assert_eq!(asked("rio"), []);
    // The control: each commit that waits for the disk makes a sync.
    let synced = asked("sync");
    let syncs = synced.iter().filter(|call| [libc::SYS_fsync, libc::SYS_fdatasync].contains(call)).count();
    assert!(syncs as u64 >= TXNS, "{syncs} syncs of {} calls", synced.len());
}
