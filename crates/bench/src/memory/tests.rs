//! Each benchmark on each memory, briefly: it runs, it adds up, and an audit notices what does not.

use std::path::PathBuf;
use std::time::Duration;

use super::debit_credit::DebitCredit;
use super::order_entry::OrderEntry;
use super::synthetic::{Swap, Synthetic};
use super::{run_memory, size, MemoryEngine, MemorySettings, Work, Workload};

fn settings(workload: Workload, engine: MemoryEngine, directory: PathBuf) -> MemorySettings {
    let memory = PathBuf::from("/dev/shm");
    let time = Duration::ZERO;
    MemorySettings { workload, engine, memory, directory, write_back: false, threads: 1, is_striped: false, time }
}

const ALL: [Workload; 4] = [
    Workload::Synthetic { bytes: 64, is_hot: false },
    Workload::Swap { is_hot: false },
    Workload::DebitCredit,
    Workload::OrderEntry,
];

#[test]
fn every_benchmark_adds_up_on_every_memory() {
    for workload in ALL {
        for engine in [MemoryEngine::Vista, MemoryEngine::Rvm { group: 8 }, MemoryEngine::None] {
            let directory = std::env::temp_dir().join(format!("libtp-bench-memory-{}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            let report = run_memory(&settings(workload, engine, directory.clone()));
            std::fs::remove_dir_all(&directory).unwrap();
            let report = report.unwrap_or_else(|why| panic!("{workload:?} on {engine:?}: {why}"));
            assert_eq!(report.audit, "ok", "{workload:?} on {engine:?}");
            assert!(report.transactions > 0 && report.tps > 0.0);
        }
    }
}

#[test]
fn several_threads_add_up_each_in_its_part() {
    for is_striped in [false, true] {
        for workload in ALL {
            let one = settings(workload, MemoryEngine::Vista, PathBuf::new());
            let report = run_memory(&MemorySettings { threads: 2, is_striped, ..one }).unwrap();
            assert_eq!((report.audit.as_str(), report.threads), ("ok", 2), "{workload:?}");
            assert!(report.times_one.is_some());
        }
    }
}

#[test]
fn an_audit_notices_one_byte() {
    fn of(work: &impl Work, bytes: u64, at: usize) {
        let mut memory = vec![0; size(bytes)];
        work.load(&mut memory);
        work.audit(&memory).unwrap();
        memory[at] ^= 0x41;
        work.audit(&memory).unwrap_err();
    }
    of(&Synthetic::<64>(false), Synthetic::<64>::BYTES, 100);
    of(&Swap(false), Swap::BYTES, 8000);
    of(&DebitCredit, DebitCredit::BYTES, 64);
    of(&OrderEntry, OrderEntry::BYTES, 64);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let odd = Workload::Synthetic { bytes: 9, is_hot: false };
    assert!(run_memory(&settings(odd, MemoryEngine::Vista, PathBuf::new())).is_err());
    let bare = settings(Workload::DebitCredit, MemoryEngine::None, PathBuf::new());
    assert!(run_memory(&MemorySettings { threads: 2, ..bare }).is_err());
}
