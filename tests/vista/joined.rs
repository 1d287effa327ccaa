//! One transaction over records and memory. The machine loses its cache between any two stores to the memory. A
//! transaction whose commit record is on the disk is kept in records and memory. Any other transaction is kept in
//! neither.
//!
//! After the crash, the segment's memory has only the lines that had left the cache. So all lines of a transaction must
//! leave the cache before its commit record can be on the disk. A child is stepped through its transactions (`trace`).
//! After each store, each fence and each sync, a restart of the machine is simulated. The simulated machine has the
//! environment's files, in their present or their last synced state, and a possible state of the segment's memory
//! (`lines`). The environment's shared memory is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtp::{Bytes, Db, Durability, Env, Settings};
use libtp_tests::planted::{self, NoticedBy};
use libtp_tests::sizes;
use vista::{Options, Survives};

use crate::business::{word, Draw};
use crate::lines::Lines;
use crate::trace::{answer, be_traced, trace, Event};

const BYTES: u64 = 8 << 10;
const PATH: &str = "VISTA_TEST_JOINED";
const TXNS: &str = "VISTA_TEST_TXNS";
const BUG: &str = "VISTA_TEST_BUG";
/// Number of transactions before the tracing begins. After these transactions the segment's file does not grow.
const BEFORE: u64 = 20;
/// Number of ranges of a transaction. Each is longer than a cache line.
const RANGES: u64 = 6;
const RANGE_BYTES: usize = 100;

/// The directory of a machine's environment, its shared memory and its segment.
struct Place(PathBuf);

impl Place {
    fn new(directory: &Path) -> Place {
        for name in ["files", "shared", "memory"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        Place(directory.to_path_buf())
    }

    fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    fn segment(&self) -> PathBuf {
        self.0.join("memory/segment")
    }

    /// Replaces the files by the files of another machine, and removes the shared memory.
    fn take(&self, other: &Place) {
        for name in ["files", "shared"] {
            for entry in std::fs::read_dir(self.0.join(name)).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        for entry in std::fs::read_dir(other.files()).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), self.files().join(entry.file_name())).unwrap();
        }
    }

    fn open(&self) -> libtp::Result<Business> {
        let settings = Settings {
            region_directory: Some(self.0.join("shared")),
            // A commit that changes a segment is synced in spite of this setting, because the segment's memory outlives
            // the system.
            durability: Some(Durability::Relaxed),
            memory: Some(Bytes::mib(1)),
            log_segment_first: Some(Bytes::kib(64)),
            log_segment_max: Some(Bytes::kib(64)),
            // Only the stepped thread works.
            no_background: true,
            ..Settings::default()
        };
        let env = Env::builder().settings(settings).open(self.files())?;
        let options = Options::new(BYTES).reserve(16 << 20).anywhere().survives(Survives::System).write_back(true);
        let segment = env.segment_at(self.segment(), &options)?;
        let records = env.btree("records")?;
        Ok(Business { env, segment, records })
    }
}

/// The environment whose record and segment both have the number of the last transaction. In the segment, the number is
/// at the beginning, in ranges all over the flat part, and in a block.
struct Business {
    env: Env,
    segment: libtp::Segment,
    records: Db,
}

impl Business {
    fn transact(&self) -> libtp::Result<u64> {
        self.env.run(|txn| {
            let mut memory = txn.join(&self.segment)?;
            let next = word(memory.bytes()) + 1;
            memory.set_range(0, 8)?.copy_from_slice(&next.to_ne_bytes());
            for nth in 1..=RANGES {
                memory.set_range(nth * 1000, RANGE_BYTES)?.fill(stamp(next));
            }
            let old = word(&memory.bytes()[8..]);
            if old != 0 {
                memory.free(old)?;
            }
            let block = memory.malloc(RANGE_BYTES as u64)?;
            memory.set_range(block, RANGE_BYTES)?.fill(stamp(next));
            memory.set_range(8, 8)?.copy_from_slice(&block.to_ne_bytes());
            drop(memory);
            self.records.put(txn, b"last", &next.to_ne_bytes())?;
            Ok(next)
        })
    }

    /// Returns the number of the last transaction, or the first disagreement.
    fn judge(&self) -> Result<u64, String> {
        let judged = self.env.run(|txn| {
            let memory = txn.join(&self.segment)?;
            let recorded = self.records.get(txn, b"last")?.map_or(0, |last| word(&last));
            let (found, block) = (word(memory.bytes()), word(&memory.bytes()[8..]));
            let mut ranges = (1..=RANGES).map(|nth| nth * 1000).chain([block]);
            let torn = ranges.find_map(|at| match memory.get(at, RANGE_BYTES) {
                Ok(range) if range.iter().all(|&byte| byte == stamp(recorded)) => None,
                Ok(range) => Some(format!("at {at} is {:?}", &range[..8])),
                Err(error) => Some(error.to_string()),
            });
            let whole = memory.segment().verify().map_err(|error| error.to_string());
            Ok(match (torn, whole) {
                (None, Ok(_)) if found == recorded => Ok(recorded),
                (torn, whole) => Err(format!("records have {recorded}, memory has {found}: {torn:?}, {whole:?}")),
            })
        });
        judged.unwrap_or_else(|error| Err(error.to_string()))
    }
}

fn stamp(number: u64) -> u8 {
    u8::try_from(number % 251).unwrap()
}

/// The child's part.
fn work(directory: &Path) {
    let place = Place::new(directory);
    let business = place.open().unwrap();
    (0..BEFORE).for_each(|_| _ = business.transact().unwrap());
    if let Some(bug) = sizes::chosen::<String>(BUG) {
        let bug: &'static str = bug.leak();
        rio::planted::plant(Some(bug));
    }
    be_traced(&place.segment());
    for _ in 0..sizes::number(TXNS, 0) {
        business.transact().unwrap();
        answer();
    }
    std::process::exit(0);
}

/// The result of a run.
#[derive(Default)]
struct Findings {
    steps: u64,
    states: u64,
    /// Number of states in which the log had decided a commit that the child had not acknowledged yet.
    decided: u64,
    torn: Option<String>,
}

fn run(txns: u64, seed: u64, bug: Option<&str>) -> Findings {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [child, synced, started] = ["child", "synced", "started"].map(|name| Place::new(&directory.path().join(name)));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "joined::record_and_memory_are_both_committed_or_neither_when_the_cache_is_lost",
            "--test-threads=1",
        ])
        .env(PATH, &child.0)
        .env(TXNS, txns.to_string());
    command.envs(bug.map(|bug| (BUG, bug)));
    let (mut found, mut answered, mut draw) = (Findings::default(), BEFORE, Draw(seed));
    let mut lines: Option<Lines> = None;
    let steps = trace(&mut command, &child.segment(), |event, stored| {
        let lines = lines.get_or_insert_with(|| {
            synced.take(&child);
            Lines::new(stored, seed)
        });
        match event {
            Event::Answered => return answered += 1,
            Event::Sync => synced.take(&child),
            Event::Store | Event::WriteBack(_) | Event::Fence => {}
        }
        lines.told(event, stored);
        // A write-back adds no new state of the memory. After a torn state, no further state is judged.
        if matches!(event, Event::WriteBack(_)) || found.torn.is_some() {
            return;
        }
        found.states += 1;
        started.take(if draw.below(2) == 0 { &synced } else { &child });
        std::fs::write(started.segment(), lines.state()).unwrap();
        let judged = started.open().map_err(|error| error.to_string()).and_then(|business| business.judge());
        match judged {
            Ok(number) if number == answered => {}
            Ok(number) if number == answered + 1 => found.decided += 1,
            Ok(number) => found.torn = Some(format!("{number} transactions, and {answered} were acknowledged")),
            Err(what) => found.torn = Some(what),
        }
    });
    match steps {
        Ok(steps) => found.steps = steps,
        Err(what) => found.torn = Some(what),
    }
    found
}

#[test]
fn record_and_memory_are_both_committed_or_neither_when_the_cache_is_lost() {
    if let Some(directory) = sizes::chosen::<String>(PATH) {
        work(Path::new(&directory));
    }
    let txns = sizes::number("LIBTP_TEST_TRACED_JOINED", 2);
    let found = run(txns, sizes::first_seed(), None);
    assert!(found.torn.is_none(), "{}", found.torn.unwrap_or_default());
    println!(
        "figures: {txns} transactions over records and memory, {} steps, the cache lost {} times, {} times after the log had \
         decided, 0 torn",
        found.steps, found.states, found.decided
    );
    assert!(found.decided >= txns, "too few losses after the log had decided");
}

#[test]
fn a_commit_record_that_is_written_before_the_stores_are_in_memory_is_noticed() {
    let bugs = planted::of_stores(NoticedBy::Joined);
    assert_eq!(bugs.len(), 1);
    for bug in bugs {
        let noticed = (1..=5).find_map(|seed| run(2, seed, Some(bug)).torn.map(|what| (seed, what)));
        println!("  {bug}: {noticed:?}");
        assert!(noticed.is_some(), "no test noticed {bug:?}");
    }
}
