//! Parts of transactions that are rolled back. The machine loses its cache between any two stores.
//!
//! The before-images of a part are in the undo log. The transaction continues, and its next record overwrites the
//! before-images. So the restored bytes must be in memory before the log is truncated. The next record must not make a
//! truncated record valid again, whatever the order in which lines reach memory (`rio/undo/mark.rs`). Each record is as
//! long as a cache line, so that it may reach memory without the other records.

use std::path::Path;
use std::process::Command;

use libtp_tests::planted::{self, NoticedBy};
use libtp_tests::sizes;
use vista::{Decision, Error, Guard, Holder, Judge, Mark, Member, Membership, Options, Survives};

use crate::lines::{Lines, LINE};
use crate::members::rights;
use crate::trace::{answer, be_traced, trace, Event};

const PATH: &str = "VISTA_TEST_PARTS";
const BUG: &str = "VISTA_TEST_BUG";
const TXNS: u64 = 3;
/// Bytes of a range: with its header and checksum, its record fills a cache line.
const RANGE_BYTES: usize = LINE - 16;
/// Address of the store before the part.
const BEFORE: u64 = 0;
/// Addresses of the stores in the part.
const WITHIN: [u64; 2] = [1000, 1500];
/// Address of the store after the part.
const AFTER: u64 = 2000;

fn open(path: &Path) -> Member {
    let options = Options::new(4096).reserve(16 << 20).anywhere().survives(Survives::System).write_back(true);
    options.open_member(path, Membership { environment: [7; 16], number: 1 }).unwrap()
}

fn fill(member: &mut Member, at: u64, value: u64) {
    member.set_range(at, RANGE_BYTES).unwrap().fill(u8::try_from(value).unwrap());
}

/// Runs a transaction with two rollbacks: the first undoes the stores after its first store, the second undoes all its
/// stores. Then it stores again.
fn transact(member: &mut Member, nth: u64, decided: impl FnOnce()) {
    member.begin(nth, Holder { handle: 1, process: 1 }).unwrap();
    for is_all in [false, true] {
        fill(member, BEFORE, nth);
        let mark = if is_all { Mark::default() } else { member.mark() };
        // The before-image of each store after the first has bytes that the part itself has stored.
        for value in 100..103 {
            WITHIN.iter().for_each(|at| fill(member, *at, value));
        }
        let block = member.malloc(100).unwrap();
        fill(member, block, 99);
        member.go_back(&mark).unwrap();
    }
    for at in [BEFORE, AFTER] {
        fill(member, at, nth);
    }
    member.prepare().unwrap();
    decided();
    member.end(Decision { incarnation: 1, lsn: nth });
}

/// The child's part.
fn work(path: &Path) {
    let mut member = open(path);
    transact(&mut member, 1, || {});
    if let Some(bug) = sizes::chosen::<String>(BUG) {
        let bug: &'static str = bug.leak();
        rio::planted::plant(Some(bug));
    }
    be_traced(path);
    for nth in 2..=TXNS {
        transact(&mut member, nth, answer);
        answer();
    }
    std::process::exit(0);
}

/// The log record of the unfinished transaction's decision, if it was decided.
struct Log(Option<u64>);

impl Judge for Log {
    type Error = Error;

    fn committed(&self, _: u64) -> Result<Option<Decision>, Error> {
        Ok(self.0.map(|lsn| Decision { incarnation: 1, lsn }))
    }
}

/// Checks that memory has the result of the last decided transaction.
fn judge(path: &Path, last: u64, log: &Log) -> Result<(), String> {
    let mut member = open(path);
    member.settle(log).map_err(|error| error.to_string())?;
    let expected = [(BEFORE, last), (WITHIN[0], 0), (WITHIN[1], 0), (AFTER, last)];
    for (at, value) in expected {
        let found = member.segment().get(at, RANGE_BYTES).unwrap();
        if found.iter().any(|&byte| u64::from(byte) != value) {
            return Err(format!("at {at} is {found:?} instead of {value}"));
        }
    }
    match member.segment().verify() {
        Ok(usage) if usage.blocks == 0 => Ok(()),
        usage => Err(format!("the heap: {usage:?}")),
    }
}

/// Returns the number of judged states, or a description of the torn part.
fn run(seed: u64, bug: Option<&str>) -> Result<u64, String> {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, started) = (directory.path().join("segment"), directory.path().join("started"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "parts::undone_stores_stay_undone_when_the_cache_is_lost";
    command.args(["--exact", test, "--test-threads=1"]).env(PATH, &path);
    command.envs(bug.map(|bug| (BUG, bug)));
    let (mut answers, mut lines, mut states, mut torn) = (2, None, 0, Ok(()));
    let steps = trace(&mut command, &path, |event, stored| {
        let lines = lines.get_or_insert_with(|| Lines::new(stored, seed));
        answers += u64::from(event == Event::Answered);
        lines.told(event, stored);
        if torn.is_ok() && (event == Event::Store || event == Event::Fence) {
            // Each transaction has two answers: after its decision, and after the segment has applied the outcome.
            let (last, is_told) = (answers / 2 + answers % 2, answers % 2 == 0);
            std::fs::write(&started, lines.state()).unwrap();
            torn = judge(&started, last, &Log((!is_told).then_some(last)));
            states += 1;
        }
    });
    torn?;
    steps?;
    assert_eq!(answers, 2 * TXNS);
    Ok(states)
}

#[test]
fn undone_stores_stay_undone_when_the_cache_is_lost() {
    if let Some(path) = sizes::chosen::<String>(PATH) {
        work(Path::new(&path));
    }
    let first = sizes::first_seed();
    let states: u64 = (first..first + 2).map(|seed| run(seed, None).unwrap()).sum();
    println!("figures: parts rolled back in {TXNS} transactions, the cache lost {states} times, 0 torn");
    assert!(states > 1000, "{states}");
}

#[test]
fn a_truncation_of_a_part_that_is_too_early_or_incomplete_is_noticed() {
    for bug in planted::of_stores(NoticedBy::Parts) {
        let noticed = (1..=10).find_map(|seed| run(seed, Some(bug)).err().map(|what| (seed, what)));
        println!("  {bug}: {noticed:?}");
        assert!(noticed.is_some(), "no test noticed {bug:?}");
    }
}

#[test]
fn pages_that_a_part_has_opened_are_closed_when_the_part_is_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let options = Options::new(64 << 10).anywhere().guard(Guard::Pages);
    let mut member = options.open_member(&path, Membership { environment: [7; 16], number: 1 }).unwrap();
    let address = member.segment().address();
    let page = rustix::param::page_size();
    let open = || -> Vec<usize> { (0..6).filter(|nth| rights(address + nth * page) == "rw-s").collect() };
    let at = |nth: usize| (nth * page) as u64;
    member.begin(1, Holder { handle: 1, process: 1 }).unwrap();
    member.set_range(at(1), page).unwrap();
    member.set_range(at(3), 8).unwrap();
    let mark = member.mark();
    // One range encloses the open pages, and the other is apart from them.
    member.set_range(at(0), 4 * page).unwrap();
    member.set_range(at(5), 8).unwrap();
    assert_eq!(open(), [0, 1, 2, 3, 5]);
    member.go_back(&mark).unwrap();
    assert_eq!(open(), [1, 3]);
    member.set_range(at(2), 8).unwrap().fill(1);
    assert_eq!(open(), [1, 2, 3]);
    member.go_back(&Mark::default()).unwrap();
    assert_eq!(open(), [0; 0]);
    member.set_range(at(3), 8).unwrap().fill(1);
    member.prepare().unwrap();
    member.end(Decision { incarnation: 1, lsn: 1 });
    assert_eq!(open(), [0; 0]);
}
