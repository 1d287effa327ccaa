//! Short runs of each benchmark on each memory: the audit accepts the result, and an audit notices faults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::change::{Bare, Memory};
use super::debit_credit::DebitCredit;
use super::judge::judge;
use super::order_entry::OrderEntry;
use super::place::filesystem_of;
use super::rounds::measure;
use super::synthetic::{Swap, Synthetic, SyntheticOf};
use super::{run_memory, size, MemoryEngine, MemorySettings, Work, Workload, LOG_BYTES};
use crate::error::Result;

fn settings(workload: Workload, engine: MemoryEngine, directory: PathBuf) -> MemorySettings {
    let memory = PathBuf::from("/dev/shm");
    let time = Duration::ZERO;
    let (log_bytes, times_responses) = (LOG_BYTES, false);
    MemorySettings {
        workload,
        engine,
        memory,
        directory,
        log_bytes,
        write_back: false,
        threads: 1,
        is_striped: false,
        times_responses,
        time,
    }
}

const ALL: [Workload; 8] = [
    Workload::Synthetic { bytes: 8, is_hot: false },
    Workload::Synthetic { bytes: 8, is_hot: true },
    Workload::Synthetic { bytes: 64, is_hot: false },
    Workload::Synthetic { bytes: 65_536, is_hot: true },
    Workload::Synthetic { bytes: 100, is_hot: false },
    Workload::Swap { is_hot: false },
    Workload::DebitCredit,
    Workload::OrderEntry,
];

/// Returns a directory in memory (`is_memory`) or on a disk, or `None` if the machine has no such directory.
fn directory(is_memory: bool) -> Option<tempfile::TempDir> {
    let places = if is_memory { ["/dev/shm", "/run"] } else { ["/var/tmp", "/tmp"] };
    let is_wanted = |place: &&str| filesystem_of(Path::new(place)).is_some_and(|kind| (kind == "tmpfs") == is_memory);
    places.into_iter().find(is_wanted).map(|place| tempfile::tempdir_in(place).unwrap())
}

/// Returns the first workload and half of the others, which the day's seed chooses. Returns all workloads if no seed is
/// set, or if `LIBTP_TEST_DEEP` is set.
fn todays() -> impl Iterator<Item = Workload> {
    let seed: Option<usize> = std::env::var("LIBTP_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.filter(|_| std::env::var_os("LIBTP_TEST_DEEP").is_none());
    let is_todays = move |place: usize| place == 0 || seed.is_none_or(|seed| (place + seed) % 2 == 0);
    (0..).zip(ALL).filter(move |(place, _)| is_todays(*place)).map(|(_, workload)| workload)
}

#[test]
fn the_audit_accepts_every_benchmark_on_every_memory() {
    for workload in todays() {
        for engine in [
            MemoryEngine::Vista,
            MemoryEngine::Rvm { group: 8 },
            MemoryEngine::RvmRio { group: 1 },
            MemoryEngine::RvmRio { group: 100 },
            MemoryEngine::None,
        ] {
            // The first workload, the quickest, runs on every engine. The others run on Vista, and on RVM with a log on
            // a disk.
            let is_chosen = matches!(engine, MemoryEngine::Vista | MemoryEngine::Rvm { .. });
            if !is_chosen && workload != ALL[0] {
                continue;
            }
            let Some(directory) = directory(matches!(engine, MemoryEngine::RvmRio { .. })) else { continue };
            let report = run_memory(&settings(workload, engine, directory.path().to_path_buf()));
            let report = report.unwrap_or_else(|why| panic!("{workload:?} on {engine:?}: {why}"));
            assert_eq!(report.audit, "ok", "{workload:?} on {engine:?}");
            assert!(report.transactions > 0 && report.tps > 0.0);
            let is_journaled = matches!(engine, MemoryEngine::Rvm { .. } | MemoryEngine::RvmRio { .. });
            assert_eq!(report.truncations > 0 && report.truncation_ns > 0.0, is_journaled, "{report:?}");
            assert!(
                report.truncation_ns <= report.with.min_ns,
                "a round's time does not include its share of truncations"
            );
            // Rounds with a redo log are compared with bare writes and syncs of the same number of bytes.
            assert_eq!(
                (report.bare_sync.is_some(), report.times_bare_sync.is_some_and(|times| times > 0.0)),
                (is_journaled, is_journaled),
                "{report:?}"
            );
        }
    }
}

#[test]
fn both_rvm_engines_are_described_and_refuse_the_wrong_kind_of_filesystem() {
    let (Some(disk), Some(memory)) = (directory(false), directory(true)) else { return };
    let run = |engine: MemoryEngine, directory: &tempfile::TempDir| {
        run_memory(&settings(Workload::Synthetic { bytes: 8, is_hot: true }, engine, directory.path().to_path_buf()))
    };
    let (rvm, rio) = (MemoryEngine::Rvm { group: 1 }, MemoryEngine::RvmRio { group: 1 });
    let (of_rvm, of_rio) = (run(rvm, &disk).unwrap(), run(rio, &memory).unwrap());
    assert_eq!((of_rvm.engine, of_rio.engine), ("rvm", "rvm-rio"));
    assert!(of_rvm.about.contains("disk") && of_rio.about.contains("memory"));
    assert!(of_rio.log_on.unwrap() == "tmpfs" && of_rvm.log_on.unwrap() != "tmpfs");
    for (engine, directory, other) in [(rvm, &memory, "rvm-rio"), (rio, &disk, "ask for rvm")] {
        let refused = run(engine, directory).unwrap_err().to_string();
        assert!(refused.contains(other), "{refused}");
    }
}

/// libpmemobj reads its environment variables when it is loaded, so the test starts its own program again with the
/// variables set.
#[cfg(feature = "peers-all")]
#[test]
fn the_audit_accepts_libpmemobj_on_every_benchmark() {
    let [forced, unflushed] = super::PMEMOBJ_VARIABLES;
    if std::env::var_os(forced.0).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "memory::tests::the_audit_accepts_libpmemobj_on_every_benchmark"]);
        let ended = again.env(forced.0, forced.1).env(unflushed.0, unflushed.1).status().unwrap();
        return assert!(ended.success(), "{ended}");
    }
    for workload in ALL {
        let report = run_memory(&settings(workload, MemoryEngine::Pmemobj, PathBuf::new())).unwrap();
        assert_eq!((report.engine, report.audit.as_str()), ("pmemobj", "ok"), "{workload:?}");
        assert!(report.transactions > 0 && report.times_vista.is_some_and(|times| times > 0.0), "{report:?}");
    }
}

/// Memory that pretends to postpone a microsecond of work for each transaction: it reports the work's time, and does no
/// work.
struct PutsOff<'m> {
    memory: Bare<'m>,
    since: u64,
    count: u64,
    took: Duration,
}

impl Memory for PutsOff<'_> {
    type Txn<'m>
        = Bare<'m>
    where
        Self: 'm;

    fn begin(&mut self) -> Result<Bare<'_>> {
        self.since += 1;
        if self.since == 100_000 {
            self.settle()?;
        }
        self.memory.begin()
    }

    fn settle(&mut self) -> Result<()> {
        let work = Duration::from_micros(self.since);
        (self.since, self.count, self.took) = (0, self.count + 1, self.took + work);
        Ok(())
    }

    fn truncations(&self) -> (u64, Duration) {
        (self.count, self.took)
    }
}

#[test]
fn the_cost_of_rare_work_is_shared_by_all_transactions() {
    let work = Synthetic::<8>(true);
    let mut images = [vec![0; size(Synthetic::<8>::BYTES)], vec![0; size(Synthetic::<8>::BYTES)]];
    images.iter_mut().for_each(|image| work.load(image));
    let [one, other] = &mut images;
    let mut memory = PutsOff { memory: Bare(one), since: 0, count: 0, took: Duration::ZERO };
    let settings = settings(Workload::Synthetic { bytes: 8, is_hot: true }, MemoryEngine::None, PathBuf::new());
    let spent = measure(&settings, &work, &mut memory, &mut Bare(other)).unwrap();
    let report = spent.report(&settings);
    // Each transaction's share is a microsecond, although only few rounds had the work.
    assert!((999.0..=1001.0).contains(&report.truncation_ns), "{} ns", report.truncation_ns);
    assert!(report.with.min_ns >= report.truncation_ns, "{report:?}");
    assert!(report.truncations > 0);
}

#[test]
fn the_audit_accepts_each_part_of_several_threads() {
    for is_striped in [false, true] {
        for workload in [ALL[0], Workload::Swap { is_hot: false }, Workload::DebitCredit, Workload::OrderEntry] {
            let one = settings(workload, MemoryEngine::Vista, PathBuf::new());
            let report = run_memory(&MemorySettings { threads: 2, is_striped, ..one }).unwrap();
            assert_eq!((report.audit.as_str(), report.threads), ("ok", 2), "{workload:?}");
            assert!(report.times_one.is_some());
        }
    }
}

/// Memory that loses transaction `until`, counted from one: it stores that transaction's changes in a copy.
struct Forgetful<'m> {
    memory: Bare<'m>,
    spare: Vec<u8>,
    until: u64,
}

impl Memory for Forgetful<'_> {
    type Txn<'m>
        = Bare<'m>
    where
        Self: 'm;

    fn begin(&mut self) -> Result<Bare<'_>> {
        self.until = self.until.wrapping_sub(1);
        if self.until == 0 {
            self.spare.copy_from_slice(self.memory.0);
            return Ok(Bare(&mut self.spare));
        }
        self.memory.begin()
    }
}

#[test]
fn an_audit_notices_one_wrong_byte_and_one_lost_transaction() {
    fn of(work: &impl Work, bytes: u64, places: &[usize]) {
        const ENDED: u64 = 300;
        let mut memory = vec![0; size(bytes)];
        let run = |memory: &mut Vec<u8>, until: u64| {
            work.load(memory);
            let spare = memory.clone();
            let mut forgetful = Forgetful { memory: Bare(memory), spare, until };
            work.run(&mut forgetful, 0..ENDED).unwrap();
        };
        run(&mut memory, 0);
        judge(work, &memory, ENDED).unwrap();
        judge(work, &memory, ENDED - 1).unwrap_err();
        for at in places {
            memory[*at] ^= 0x41;
            judge(work, &memory, ENDED).unwrap_err();
            memory[*at] ^= 0x41;
        }
        // The last transaction, and an earlier one.
        for until in [ENDED, 100] {
            run(&mut memory, until);
            let lost = judge(work, &memory, ENDED);
            assert!(lost.is_err(), "the audit did not notice that transaction {until} is lost");
        }
    }
    of(&Synthetic::<8>(false), Synthetic::<8>::BYTES, &[0, 100, 4 << 20]);
    of(&Synthetic::<64>(false), Synthetic::<64>::BYTES, &[100]);
    of(&SyntheticOf { bytes: 1000, is_hot: false }, SyntheticOf::BYTES, &[100]);
    of(&Swap(false), Swap::BYTES, &[8000]);
    of(&DebitCredit::<5>, DebitCredit::<5>::BYTES, &[64]);
    of(&DebitCredit::<1>, DebitCredit::<1>::BYTES, &[64]);
    of(&OrderEntry::<10>, OrderEntry::<10>::BYTES, &[64]);
    of(&OrderEntry::<11>, OrderEntry::<11>::BYTES, &[64]);
}

#[test]
fn impossible_settings_are_refused() {
    for bytes in [0, 1_048_577] {
        let odd = Workload::Synthetic { bytes, is_hot: false };
        assert!(run_memory(&settings(odd, MemoryEngine::Vista, PathBuf::new())).is_err());
    }
    let bare = settings(Workload::DebitCredit, MemoryEngine::None, PathBuf::new());
    assert!(run_memory(&MemorySettings { threads: 2, ..bare }).is_err());
}
