//! Session order: if a session has seen a commit, or has got a report of the commit from another session that has seen
//! it, the session never sees an older state, in any way of reading.
//!
//! A process counts a number up. Each of its transactions changes the number in a record with an index, in a value of
//! a key and in a segment of memory. Depending on the test, its commits are answered at once or when they are on disk.
//! Now and then this writer is killed, and a new process continues. Two readers take turns, each time in another way
//! of reading: this process, and a process that gets orders and answers over pipes. The number only grows, so the
//! check is one comparison: a read must find at least the number of every read that ended before it began.
//!
//! Some ways of reading wait for the disk before they answer, and others do not. So a read by a snapshot can begin
//! while the number that an earlier read found is not yet on disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp::{Db, Duplicates, Durability, Env, Index, Multi, Reader, Segment, Settings, Survives};
use libtp_tests::process::{next_order, say, Process};
use libtp_tests::sizes;

const ENTRY: &str = "session_order::entry";
const ORDERS: &str = "LIBTP_TEST_SESSION_ORDER";
const KEY: &[u8] = b"number";

/// A way of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In a transaction that commits with this durability.
    Locked(Durability),
    /// In a transaction that commits with `commit_async`.
    Async,
    /// In a transaction that aborts.
    Aborted,
    /// In a transaction, and from a snapshot while this transaction is open.
    Open,
    /// By the index, in a transaction.
    Index,
    /// By the values of a key, in a transaction.
    Values,
    /// In memory that the transaction joins.
    Memory(Durability),
    Snapshot,
    SnapshotOfIndex,
    SnapshotOfValues,
}

const WAYS: [Way; 14] = [
    Way::Locked(Durability::Sync),
    Way::Locked(Durability::Relaxed),
    Way::Locked(Durability::Rio),
    Way::Async,
    Way::Aborted,
    Way::Open,
    Way::Index,
    Way::Values,
    Way::Memory(Durability::Sync),
    Way::Memory(Durability::Relaxed),
    Way::Memory(Durability::Rio),
    Way::Snapshot,
    Way::SnapshotOfIndex,
    Way::SnapshotOfValues,
];

/// A read, and the largest number that was known when it began.
#[derive(Clone, Copy)]
struct Look {
    way: Way,
    before: Way,
    known: u64,
    found: u64,
}

impl Look {
    fn goes_backwards(&self) -> bool {
        self.found < self.known
    }

    fn told(&self) -> String {
        let Look { way, before, known, found } = self;
        format!("a read by {way:?} finds {found}, after a read by {before:?} when {known} was known")
    }
}

/// An environment with the number.
struct Counted {
    env: Env,
    records: Db,
    index: Index,
    values: Multi,
    memory: Segment,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Returns settings with this durability for transactions that do not choose another.
fn settings(durability: Durability) -> Settings {
    // `Rio` is refused without the declaration that the memory survives. No machine fails in this test.
    let (durability, region_survives) = (Some(durability), Some(Survives::System));
    Settings { durability, region_survives, relaxed_millis: Some(1000), ..Settings::default() }
}

impl Counted {
    fn open(directory: &Path, durability: Durability) -> libtp::Result<Counted> {
        let env = Env::builder().settings(settings(durability)).open(directory)?;
        let records = env.btree("records")?;
        let index = records.index("by number", |_, value, keys| keys.add(value))?;
        let (values, memory) = (env.multi("values", Duplicates::AsTheyCame)?, env.segment("memory", 4096)?);
        Ok(Counted { env, records, index, values, memory })
    }

    fn count_up(&self) -> libtp::Result<()> {
        self.env.run(|txn| {
            let next = self.records.get_for_update(txn, KEY)?.map_or(0, |bytes| number(&bytes)) + 1;
            self.records.put(txn, KEY, &next.to_be_bytes())?;
            self.values.delete(txn, KEY)?;
            self.values.put(txn, KEY, &next.to_be_bytes())?;
            txn.join(&self.memory)?.set_range(0, 8)?.copy_from_slice(&next.to_be_bytes());
            Ok(())
        })
    }

    fn by_record(&self, reader: &impl Reader) -> libtp::Result<u64> {
        Ok(self.records.get(reader, KEY)?.map_or(0, |bytes| number(&bytes)))
    }

    fn by_index(&self, reader: &impl Reader) -> libtp::Result<u64> {
        Ok(self.index.cursor(reader).last()?.map_or(0, |entry| number(&entry.index_key)))
    }

    fn by_values(&self, reader: &impl Reader) -> libtp::Result<u64> {
        Ok(self.values.get(reader, KEY)?.map_or(0, |bytes| number(&bytes)))
    }

    /// Returns the numbers found, in the order of reading.
    fn look(&self, way: Way) -> libtp::Result<Vec<u64>> {
        let in_memory =
            |durability| self.env.run_with(durability, |txn| Ok(number(&txn.join(&self.memory)?.bytes()[..8])));
        let found = match way {
            Way::Locked(durability) => self.env.run_with(durability, |txn| self.by_record(txn)),
            Way::Async => {
                let txn = self.env.begin()?;
                let found = self.by_record(&txn)?;
                txn.commit_async().map(|_| found)
            }
            Way::Aborted => {
                let txn = self.env.begin()?;
                let found = self.by_record(&txn)?;
                txn.abort().map(|()| found)
            }
            Way::Open => {
                let txn = self.env.begin()?;
                let found = self.by_record(&txn)?;
                let shown = self.by_record(&self.env.snapshot()?)?;
                txn.commit_async()?;
                return Ok(vec![found, shown]);
            }
            Way::Index => self.env.run_with(Durability::Relaxed, |txn| self.by_index(txn)),
            Way::Values => self.env.run_with(Durability::Relaxed, |txn| self.by_values(txn)),
            Way::Memory(durability) => in_memory(durability),
            Way::Snapshot => self.by_record(&self.env.snapshot()?),
            Way::SnapshotOfIndex => self.by_index(&self.env.snapshot()?),
            Way::SnapshotOfValues => self.by_values(&self.env.snapshot()?),
        };
        Ok(vec![found?])
    }
}

/// The entry of a process that counts up (`count2`) or reads as ordered (`look2`); the digit is the index of its
/// durability.
#[test]
fn entry() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (task, directory) = orders.split_once(' ').unwrap();
    let (task, durability) = task.split_at(task.len() - 1);
    let durability = DURABILITIES[durability.parse::<usize>().unwrap()];
    let counted = Counted::open(&PathBuf::from(directory), durability).unwrap();
    say("ready");
    match task {
        "count" => loop {
            counted.count_up().unwrap();
            if durability != Durability::Sync {
                // Leaves processor time for tests that run concurrently.
                std::thread::sleep(Duration::from_micros(500));
            }
        },
        _ => {
            while let Some(way) = next_order() {
                let found = counted.look(WAYS[way.parse::<usize>().unwrap()]).unwrap();
                say(&found.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
            }
        }
    }
}

const DURABILITIES: [Durability; 3] = [Durability::Sync, Durability::Relaxed, Durability::Rio];

fn start(task: &str, directory: &Path) -> Process {
    let process = Process::start(ENTRY, &[(ORDERS, format!("{task} {}", directory.display()))]);
    process.says("ready");
    process
}

/// Lets two processes take turns in reading, while a third process counts up. `looking` and `counting` are the indices
/// of their durabilities.
fn looks(looking: usize, counting: usize, rounds: u64) -> Vec<Look> {
    let directory = tempfile::tempdir().unwrap();
    let counted = Counted::open(directory.path(), DURABILITIES[looking]).unwrap();
    let mut other = start(&format!("look{looking}"), directory.path());
    let count = format!("count{counting}");
    let mut counter = start(&count, directory.path());
    let mut random = sizes::first_seed().wrapping_mul(2).wrapping_add(1);
    let mut draw = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % WAYS.len()
    };
    let (mut all, mut known, mut before) = (Vec::new(), 0, Way::Snapshot);
    let mut round = 0;
    // On a busy machine the number grows slowly, so more reads are made.
    while round < rounds || known <= rounds / 20 && round < 100 * rounds {
        let way = draw();
        let found = match round % 4 {
            // The other process reads.
            1 | 2 => {
                other.order(&way.to_string());
                other.line().unwrap().split(' ').map(|found| found.parse().unwrap()).collect()
            }
            _ => counted.look(WAYS[way]).unwrap(),
        };
        for found in found {
            all.push(Look { way: WAYS[way], before, known, found });
            (known, before) = (known.max(found), WAYS[way]);
        }
        if round % (rounds / 4).max(1) == rounds / 8 {
            counter.kill();
            counter = start(&count, directory.path());
        }
        round += 1;
    }
    assert!(known > rounds / 20, "the number has hardly grown, so the test shows nothing: {known}");
    all
}

fn rounds() -> u64 {
    sizes::number("LIBTP_TEST_SESSION_ORDER_ROUNDS", 400)
}

fn check(looking: usize, counting: usize) {
    check_for(looking, counting, rounds());
}

fn check_for(looking: usize, counting: usize, rounds: u64) {
    let all = looks(looking, counting, rounds);
    let backwards: Vec<&Look> = all.iter().filter(|look| look.goes_backwards()).collect();
    let first = backwards.first().map(|look| look.told()).unwrap_or_default();
    let (looking, counting) = (DURABILITIES[looking], DURABILITIES[counting]);
    assert!(
        backwards.is_empty(),
        "{looking:?} readers, {counting:?} writer: {} of {} reads go backwards: {first}",
        backwards.len(),
        all.len()
    );
}

#[test]
fn reads_never_go_backwards_where_commits_are_synced() {
    check(0, 0);
}

#[test]
fn reads_that_are_answered_at_once_never_go_backwards_where_commits_are_synced() {
    check(1, 0);
}

#[test]
fn reads_never_go_backwards_where_commits_are_answered_at_once() {
    check(1, 1);
}

#[test]
fn reads_never_go_backwards_where_commits_are_answered_from_memory() {
    check(2, 2);
}

#[test]
fn reads_never_go_backwards_whatever_the_durabilities_of_readers_and_writer() {
    // The other pairs have tests of their own.
    for (looking, counting) in [(0, 1), (0, 2), (1, 2), (2, 0), (2, 1)] {
        check_for(looking, counting, rounds() / 4);
    }
}

#[test]
fn the_checker_finds_a_read_that_goes_backwards() {
    let look = |known, found| Look { way: Way::Snapshot, before: Way::Locked(Durability::Relaxed), known, found };
    assert!(look(163, 161).goes_backwards());
    assert!(!look(163, 163).goes_backwards() && !look(163, 164).goes_backwards());
}
