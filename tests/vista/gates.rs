//! The gate of the quick path (`rio/src/gate.rs`) is shut while a transaction needs work that the quick path does not
//! do.

use vista::{Options, Segment};

const BYTES: u64 = 1 << 20;

fn open(directory: &tempfile::TempDir) -> Segment {
    let mut segment = Options::new(BYTES).anywhere().open(&directory.path().join("segment")).unwrap();
    // The first range opens the gate.
    let mut txn = segment.begin();
    txn.set_range(4096, 8).unwrap().fill(1);
    txn.end().unwrap();
    segment
}

#[test]
fn a_range_after_a_refused_range_is_undone() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = open(&directory);
    for refused in [(BYTES, 8), (0, 2 << 20), (8, usize::MAX), (u64::MAX, 16)] {
        for is_first in [true, false] {
            let mut txn = segment.begin();
            if is_first {
                txn.set_range(0, 8).unwrap().fill(2);
            }
            for _ in 0..9 {
                txn.set_range(refused.0, refused.1).unwrap_err();
            }
            txn.set_range(64, 8).unwrap().fill(2);
            txn.set_range(128, 50).unwrap().fill(2);
            txn.abort();
            assert!(segment.bytes()[..4096].iter().all(|byte| *byte == 0), "{refused:?} left a store");
            // The next transaction is complete, although the transaction before it was forgotten.
            let mut txn = segment.begin();
            txn.set_range(refused.0, refused.1).unwrap_err();
            std::mem::forget(txn);
            let mut txn = segment.begin();
            txn.set_range(8192, 8).unwrap().fill(3);
            txn.end().unwrap();
            drop(segment);
            segment = open(&directory);
            assert_eq!(segment.bytes()[8192..8200], [3; 8]);
            assert_eq!(segment.rolled_back(), 0);
        }
    }
}

#[test]
fn blocks_that_a_transaction_frees_are_free_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = open(&directory);
    for _ in 0..3 {
        let mut txn = segment.begin();
        let block = txn.malloc(100).unwrap();
        txn.set_range(0, 8).unwrap().copy_from_slice(&block.to_ne_bytes());
        txn.end().unwrap();
        assert_eq!(segment.verify().unwrap().blocks, 1);
        let mut txn = segment.begin();
        txn.set_range(0, 8).unwrap().fill(0);
        txn.free(block).unwrap();
        txn.set_range(64, 8).unwrap().fill(1);
        txn.end().unwrap();
        assert_eq!(segment.verify().unwrap().blocks, 0, "the end of the transaction freed nothing");
    }
}
