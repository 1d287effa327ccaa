//! The count of commits rises by one for each commit, also if another session completes the commit of a dead session.

use std::path::PathBuf;

use libtp::Env;
use libtp_tests::process::dies_at;
use libtp_tests::sizes;

const PLACE: &str = "LIBTP_TEST_COUNTED";

/// The entry of the child, which dies at the failpoint in `LIBTP_FAILPOINT`.
#[test]
fn entry() {
    let Some(place) = sizes::chosen::<PathBuf>(PLACE) else { return };
    let env = Env::open(place).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"4")).unwrap();
}

#[test]
fn a_commit_counts_once_if_its_process_dies_after_the_commit_record() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let points = [
        "commit: logged, not the last commit",
        "commit: logged, record not in the slot",
        "commit: record in the slot, locks held",
    ];
    for point in points {
        env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
        let before = env.stats().unwrap().commits;
        assert!(dies_at(point, "counts::entry", &[(PLACE, dir.path().display().to_string())]), "{point}");
        // The dead process holds the lock until its commit is completed.
        let kept = env.run(|txn| stock.get_for_update(txn, b"apples")).unwrap();
        assert_eq!(kept.as_deref(), Some(&b"4"[..]), "{point}");
        assert_eq!(env.stats().unwrap().commits, before + 1, "{point}");
    }
}
