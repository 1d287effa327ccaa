//! A segment of an environment whose transactions all have the same number. The machine loses its cache between any two
//! stores.
//!
//! Numbers of transactions that have logged nothing may recur after the environment's memory was lost. A segment's note
//! about a transaction spans two lines, which reach memory in any order. So memory may name the new transaction while
//! the rest of the note is about an earlier transaction with the same number (`Member::begin`). Nevertheless recovery
//! keeps exactly the decided changes, and the segment names the last transaction whose outcome it has applied.

use std::path::Path;
use std::process::Command;

use libtp_tests::sizes;
use vista::{Decision, Error, Guard, Holder, Judge, Member, Membership, Options, Survives};

use crate::business::word;
use crate::lines::Lines;
use crate::trace::{answer, be_traced, trace, Event};

const PATH: &str = "VISTA_TEST_MEMBERS";
const TXNS: u64 = 3;
/// The number that each of these transactions has.
const NUMBER: u64 = 5;
/// The addresses that each transaction stores to. No two share a cache line.
const PLACES: [u64; 3] = [0, 1000, 2000];

fn open(path: &Path) -> Member {
    let options = Options::new(4096).reserve(16 << 20).anywhere().survives(Survives::System).write_back(true);
    options.open_member(path, Membership { environment: [7; 16], number: 1 }).unwrap()
}

/// Does the steps of an environment: begin, store, prepare, decide, end.
fn transact(member: &mut Member, nth: u64, decided: impl FnOnce()) {
    member.begin(NUMBER, Holder { handle: nth, process: nth }).unwrap();
    for at in PLACES {
        member.set_range(at, 8).unwrap().copy_from_slice(&nth.to_ne_bytes());
    }
    member.prepare().unwrap();
    decided();
    member.end(Decision { incarnation: 1, lsn: nth });
}

/// The child's part.
fn work(path: &Path) {
    let mut member = open(path);
    transact(&mut member, 1, || {});
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

    fn committed(&self, txn: u64) -> Result<Option<Decision>, Error> {
        assert_eq!(txn, NUMBER);
        Ok(self.0.map(|lsn| Decision { incarnation: 1, lsn }))
    }
}

fn judge(path: &Path, last: u64, log: &Log) {
    let mut member = open(path);
    member.settle(log).unwrap();
    let found = PLACES.map(|at| word(member.segment().get(at, 8).unwrap()));
    assert_eq!((found, member.followed().lsn, member.unfinished().0), ([last; 3], last, 0));
}

#[test]
fn a_reused_number_is_not_confused_with_an_earlier_transaction_when_the_cache_is_lost() {
    if let Some(path) = sizes::chosen::<String>(PATH) {
        work(Path::new(&path));
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, started) = (directory.path().join("segment"), directory.path().join("started"));
    let test = "members::a_reused_number_is_not_confused_with_an_earlier_transaction_when_the_cache_is_lost";
    let mut states = 0;
    for seed in sizes::first_seed()..sizes::first_seed() + 4 {
        let _ = std::fs::remove_file(&path);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1"]).env(PATH, &path);
        let (mut answers, mut lines) = (2, None);
        let steps = trace(&mut command, &path, |event, stored| {
            let lines = lines.get_or_insert_with(|| Lines::new(stored, seed));
            answers += u64::from(event == Event::Answered);
            lines.told(event, stored);
            if event == Event::Store || event == Event::Fence {
                // Each transaction has two answers: after its decision, and after the segment has applied the outcome.
                let (last, is_told) = (answers / 2 + answers % 2, answers % 2 == 0);
                std::fs::write(&started, lines.state()).unwrap();
                judge(&started, last, &Log((!is_told).then_some(last)));
                states += 1;
            }
        });
        steps.unwrap();
        assert_eq!(answers, 2 * TXNS);
        let _ = std::fs::remove_file(path.with_extension("thread"));
    }
    println!("figures: one number {TXNS} times, the cache lost {states} times, always as decided");
    assert!(states > 100, "{states}");
}

/// A log without commits.
struct Nothing;

impl Judge for Nothing {
    type Error = Error;

    fn committed(&self, _: u64) -> Result<Option<Decision>, Error> {
        Ok(None)
    }
}

/// Returns the program's access rights to the page at an address, from `/proc`.
pub fn rights(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).unwrap();
        let [from, to] = [range.0, range.1].map(|end| usize::from_str_radix(end, 16).unwrap());
        (from..to).contains(&address)
    };
    maps.lines().find(holds).unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_segment_whose_outcome_is_left_to_the_log_is_closed_to_wild_stores() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let options = Options::new(8192).anywhere().guard(Guard::Pages);
    let mut member = options.open_member(&path, Membership { environment: [7; 16], number: 1 }).unwrap();
    let address = member.segment().address();
    assert_eq!(rights(address), "r--s");
    member.begin(1, Holder { handle: 1, process: 1 }).unwrap();
    member.set_range(0, 8).unwrap().fill(1);
    assert_eq!(rights(address), "rw-s");
    member.leave_to_log();
    assert_eq!(rights(address), "r--s", "the segment is closed to stores");
    // The segment can be used again once the outcome is settled.
    member.settle(&Nothing).unwrap();
    member.begin(2, Holder { handle: 1, process: 1 }).unwrap();
    assert_eq!(member.set_range(0, 8).unwrap(), [0; 8]);
    member.abort();
    assert_eq!(rights(address), "r--s");
}
