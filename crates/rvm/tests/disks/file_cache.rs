//! If the file cache outlives the system, nothing is synced, and the next opening finds every change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp_io::Operation;
use libtp_sim::{Calls, SimDisk};

use crate::workload::{options, state, transact, Draw};

#[test]
fn with_a_safe_file_cache_nothing_is_synced_and_nothing_is_lost() {
    for is_safe in [true, false] {
        let (disk, mut draw) = (SimDisk::new(7), Draw(7));
        let syncs = || disk.calls(&Calls::Of(Operation::Sync));
        let options = options(1).file_cache_is_safe(is_safe);
        let mut memory = options.open_in(Arc::new(disk.clone())).unwrap();
        let mut truncations = 0;
        for number in 1..=200 {
            truncations += u64::from(memory.wants_truncation());
            transact(&mut memory, &mut draw, number).unwrap();
        }
        assert!(truncations > 0, "the log was never truncated");
        assert_eq!(syncs() == 0, is_safe, "{} syncs", syncs());
        let expected = state(memory.segment());
        drop(memory);
        assert_eq!(state(options.open_in(Arc::new(disk.clone())).unwrap().segment()), expected);
    }
}

/// A child has its parent's files open until the child becomes another program.
#[test]
fn children_do_not_keep_the_log_locked() {
    let dir = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        let failed = (0..200).find_map(|_| options(1).file_cache_is_safe(true).open(dir.path()).err());
        is_over.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{}", failed.unwrap());
    });
}
