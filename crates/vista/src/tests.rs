//! Transactions on segments in files, and the contents of segments that are mapped again.

use std::path::PathBuf;

use crate::{Error, Options, Segment};

/// A file for one test, removed at its end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("vista-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Place(path)
    }

    pub(crate) fn open(&self, bytes: u64) -> Segment {
        Segment::open(&self.0, bytes).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn ended_transactions_survive_a_reopening_and_others_do_not() {
    let place = Place::new("ended");
    let address = {
        let mut segment = place.open(1 << 20);
        let mut txn = segment.begin();
        txn.set_range(3, 5).unwrap().copy_from_slice(b"hello");
        txn.end().unwrap();
        let mut txn = segment.begin();
        txn.set_range(0, 100).unwrap().fill(7);
        txn.set_range(4, 1000).unwrap().fill(8);
        assert_eq!(txn.bytes()[4], 8);
        txn.abort();
        assert_eq!(segment.bytes()[..10], *b"\0\0\0hello\0\0");
        let mut txn = segment.begin();
        txn.set_range(3, 900_000).unwrap().fill(9);
        // No abort runs here, as if the process had been killed.
        std::mem::forget(txn);
        segment.address()
    };
    let segment = place.open(1 << 20);
    assert_eq!(segment.address(), address);
    assert_eq!(segment.bytes()[..10], *b"\0\0\0hello\0\0");
    assert!(segment.bytes()[10..].iter().all(|&byte| byte == 0));
}

#[test]
fn an_abort_restores_ranges_of_any_length_at_any_place() {
    let place = Place::new("odd");
    let mut segment = place.open(100);
    for bytes in 0..20 {
        for at in 0..20 {
            let mut txn = segment.begin();
            txn.set_range(at, bytes).unwrap().fill(7);
            txn.abort();
            assert_eq!(segment.bytes(), [0; 100], "{bytes} bytes at {at}");
        }
    }
}

#[test]
fn malloc_and_free_are_undone() {
    let place = Place::new("heap");
    let mut segment = place.open(4096);
    let mut txn = segment.begin();
    let kept = txn.malloc(100).unwrap();
    txn.set_range(kept, 100).unwrap().fill(1);
    txn.end().unwrap();

    let mut txn = segment.begin();
    let other = txn.malloc(100).unwrap();
    assert_ne!(kept, other);
    txn.free(kept).unwrap();
    assert!(matches!(txn.free(kept), Err(Error::NotAllocated { .. })), "freed twice");
    assert!(matches!(txn.free(kept + 16), Err(Error::NotAllocated { .. })), "no block begins there");
    assert!(matches!(txn.free(0), Err(Error::NotAllocated { .. })), "the address is not in the heap");
    txn.abort();

    let mut txn = segment.begin();
    assert_eq!(txn.malloc(100).unwrap(), other, "an abort frees the allocated block");
    assert_eq!(txn.get(kept, 100).unwrap(), [1; 100]);
    txn.free(kept).unwrap();
    assert_ne!(txn.malloc(100).unwrap(), kept, "an abort may need the freed block, so no new block is allocated there");
    txn.end().unwrap();

    let mut txn = segment.begin();
    assert_eq!(txn.malloc(100).unwrap(), kept);
    txn.end().unwrap();
}

#[test]
fn blocks_of_all_sizes_keep_their_bytes_and_do_not_overlap() {
    let place = Place::new("sizes");
    let mut segment = place.open(100);
    let mut have: Vec<(u64, usize, u8)> = Vec::new();
    let mut seed = 1_u64;
    for round in 0..2000_u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = |from: u32, below: u64| (seed >> from) % below;
        let is_kept = draw(40, 4) != 0;
        let before = have.clone();
        let mut txn = segment.begin();
        for nth in 0..draw(20, 4) {
            let bytes = usize::try_from(1 + (seed >> 8 >> nth) % (1 << (3 + (seed >> 33 >> nth) % 15))).unwrap();
            let at = txn.malloc(bytes as u64).unwrap();
            let fill = u8::try_from(round % 251).unwrap();
            txn.set_range(at, bytes).unwrap().fill(fill);
            have.push((at, bytes, fill));
        }
        while have.len() > 60 {
            let (at, ..) = have.swap_remove(usize::try_from(draw(12, have.len() as u64)).unwrap());
            txn.free(at).unwrap();
        }
        if is_kept {
            txn.end().unwrap();
        } else {
            txn.abort();
            have = before;
        }
        if round % 100 == 0 {
            drop(segment);
            segment = place.open(0);
        }
        for (at, bytes, fill) in &have {
            assert!(segment.get(*at, *bytes).unwrap().iter().all(|byte| byte == fill), "round {round}: {at} {bytes}");
        }
    }
    let mut ranges: Vec<(u64, u64)> = have.iter().map(|&(at, bytes, _)| (at, at + bytes as u64)).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|two| two[0].1 <= two[1].0), "blocks overlap");
    let size = segment.region().size();
    assert!(size < 64 << 20, "the file has {size} bytes: freed blocks are not used again");
}

#[test]
fn a_transaction_may_be_larger_than_its_log_was() {
    let place = Place::new("large");
    let mut segment = place.open(40 << 20);
    let mut txn = segment.begin();
    txn.set_range(0, 8).unwrap().fill(1);
    txn.set_range(1 << 20, 30 << 20).unwrap().fill(2);
    txn.set_range(0, 40 << 20).unwrap().fill(3);
    txn.abort();
    assert!(segment.bytes().iter().all(|&byte| byte == 0));
    let at = {
        let mut txn = segment.begin();
        let at = txn.malloc(1 << 20).unwrap();
        txn.end().unwrap();
        at
    };
    // The log is before the block, and is hidden.
    assert!(matches!(segment.get(at - 4096, 10), Err(Error::OutOfRange { .. })));
}

#[test]
fn each_bad_input_has_its_own_error() {
    let place = Place::new("bad");
    let mut segment = place.open(1000);
    let twice = Segment::open(&place.0, 1000).unwrap_err();
    assert!(matches!(twice, Error::Memory(rio::Error::InUse { .. })), "{twice}");
    let mut txn = segment.begin();
    for (at, bytes) in [(1000, 1), (0, 1001), (u64::MAX, 1), (u64::MAX - 4, 8), (1 << 40, 8), (1 << 20, 8)] {
        let refused = txn.set_range(at, bytes).unwrap_err();
        assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
    }
    txn.end().unwrap();
    drop(segment);
    let other = Segment::open(&place.0, 2000).unwrap_err();
    assert!(matches!(other, Error::OtherSize { found: 1000, wanted: 2000, .. }), "{other}");
    let first = place.open(0);
    let copy = Place::new("bad-copy");
    std::fs::copy(&place.0, &copy.0).unwrap();
    let taken = Segment::open(&copy.0, 0).unwrap_err();
    assert!(matches!(taken, Error::AddressTaken { .. }), "{taken}");
    let beside = Options::new(0).anywhere().open(&copy.0).unwrap();
    assert_ne!(beside.address(), first.address());
    std::fs::write(&copy.0, b"short").unwrap();
    drop(beside);
    let short = Segment::open(&copy.0, 0).unwrap_err();
    assert!(matches!(short, Error::Memory(rio::Error::Unusable { .. })), "{short}");
}

#[test]
fn automatic_ranges_are_saved_and_undone() {
    let place = Place::new("auto");
    let bytes = 3 << 20;
    let mut segment = place.open(bytes);
    let stored = |bytes: &mut [u8]| -> crate::Result<()> {
        bytes[5] = 1;
        bytes[2 << 20] = 2;
        Ok(())
    };
    segment.automatically(stored).unwrap();
    let taken_back = segment.automatically(|bytes| {
        bytes.fill(9);
        Err::<(), _>(Error::Damaged { path: "any".into(), what: "as planned".into() })
    });
    assert!(matches!(taken_back, Err(Error::Damaged { .. })));
    let expected = |at: usize| match at {
        5 => 1,
        0x20_0000 => 2,
        _ => 0,
    };
    assert!(segment.bytes().iter().enumerate().all(|(at, &byte)| byte == expected(at)));
    // Two such transactions are open at once; afterwards ranges are declared as before.
    let other = Place::new("auto-other");
    let mut beside = other.open(1000);
    let both = segment.automatically(|bytes| {
        bytes[70_000] = 4;
        beside.automatically(|others| {
            others[999] = bytes[70_000];
            bytes[5] = 0;
            Ok::<(), Error>(())
        })
    });
    both.unwrap();
    assert_eq!((segment.bytes()[5], segment.bytes()[70_000], beside.bytes()[999]), (0, 4, 4));
    // The flat part is still closed: the next declared range opens it, and the next automatic transaction closes it
    // again.
    assert_eq!(segment.guard(), crate::Guard::Off);
    let mut txn = segment.begin();
    txn.set_range(5, 1).unwrap()[0] = 6;
    txn.set_range(1 << 20, 1).unwrap()[0] = 6;
    txn.abort();
    let mut txn = segment.begin();
    txn.set_range(2 << 20, 1).unwrap()[0] = 6;
    txn.end().unwrap();
    for round in 0..3 {
        let taken_back = segment.automatically(|bytes| {
            (bytes[6], bytes[1 << 20], bytes[(2 << 20) + 8]) = (round, round, round);
            Err::<(), _>(Error::Damaged { path: "any".into(), what: "as planned".into() })
        });
        assert!(taken_back.is_err());
        assert_eq!((segment.bytes()[6], segment.bytes()[1 << 20], segment.bytes()[(2 << 20) + 8]), (0, 0, 0));
        assert_eq!((segment.bytes()[5], segment.bytes()[2 << 20]), (0, 6));
    }
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        segment.automatically(|bytes| -> crate::Result<()> {
            bytes[0] = 3;
            panic!("as planned")
        })
    }));
    assert!(panics.is_err());
    let mut txn = segment.begin();
    txn.set_range(10, 10).unwrap().fill(1);
    txn.end().unwrap();
    assert_eq!(segment.bytes()[..11], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_forgotten_transaction_is_undone_by_the_next_transaction() {
    let place = Place::new("forgotten");
    let mut segment = place.open(1000);
    let mut txn = segment.begin();
    txn.set_range(0, 10).unwrap().fill(1);
    std::mem::forget(txn);
    segment.begin().end().unwrap();
    assert_eq!(segment.bytes()[..10], [0; 10]);
    let mut txn = segment.begin();
    let block = txn.malloc(100).unwrap();
    txn.end().unwrap();
    let mut txn = segment.begin();
    txn.free(block).unwrap();
    std::mem::forget(txn);
    segment.begin().end().unwrap();
    assert_eq!(segment.verify().unwrap().blocks, 1, "a block that a forgotten transaction freed is still allocated");
}

#[test]
fn all_changes_of_a_suspended_or_forgotten_transaction_are_undone() {
    let place = Place::new("resumed");
    let mut segment = place.open(10_000);
    for is_forgotten in [false, true, true, false, true] {
        let mut txn = segment.begin();
        // Zeros, and lengths that are no multiple of a word, may look like the log's end.
        for at in (0..4000).step_by(1000) {
            txn.set_range(at, 5).unwrap().fill(1);
            txn.set_range(at + 100, 64).unwrap().fill(2);
            txn.malloc(50).unwrap();
            if is_forgotten {
                std::mem::forget(txn);
            } else {
                txn.suspend();
            }
            txn = segment.resume();
        }
        txn.abort();
        assert!(segment.bytes().iter().all(|&byte| byte == 0), "everything was saved");
        assert_eq!(segment.verify().unwrap().blocks, 0);
    }
}

#[test]
fn the_flat_part_grows_and_keeps_its_size() {
    let place = Place::new("grows");
    let options = Options::new(1000).grows_to(3 << 20);
    let mut segment = options.open(&place.0).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, 1000).unwrap().fill(1);
    let block = txn.malloc(1 << 20).unwrap();
    txn.set_range(block, 1 << 20).unwrap().fill(2);
    txn.end().unwrap();
    assert!(matches!(segment.begin().set_range(1000, 1), Err(Error::OutOfRange { .. })));
    let refused = segment.grow((3 << 20) + 1).unwrap_err();
    assert!(matches!(refused, Error::NoRoom { most: 3_145_728, .. }), "{refused}");
    segment.grow(2 << 20).unwrap();
    assert!(segment.bytes()[1000..].iter().all(|&byte| byte == 0));
    let mut txn = segment.begin();
    txn.set_range(0, 2 << 20).unwrap().fill(3);
    assert!(matches!(txn.set_range((2 << 20) - 5, 6), Err(Error::OutOfRange { .. })));
    std::mem::forget(txn);
    segment.grow(3 << 20).unwrap();
    drop(segment);
    let segment = place.open(0);
    assert_eq!((segment.bytes().len(), segment.bytes_max()), (3 << 20, 3 << 20));
    assert!(segment.bytes().iter().enumerate().all(|(at, &byte)| byte == u8::from(at < 1000)));
    assert!(segment.get(block, 1 << 20).unwrap().iter().all(|&byte| byte == 2));
    segment.verify().unwrap();
}

#[test]
fn automatic_ranges_work_under_a_guard_and_freed_blocks_stay_freed() {
    let place = Place::new("auto-guard");
    for guard in [crate::Guard::Pages, crate::Guard::Off] {
        let mut segment = Options::new(1 << 20).guard(guard).open(&place.0).unwrap();
        let mut txn = segment.begin();
        let block = txn.malloc(100).unwrap();
        txn.end().unwrap();
        let store = |bytes: &mut [u8]| {
            bytes[70_000] = 1;
            Ok::<(), Error>(())
        };
        segment.automatically(store).unwrap();
        let mut txn = segment.begin();
        txn.free(block).unwrap();
        txn.set_range(70_000, 1).unwrap()[0] = 2;
        txn.end().unwrap();
        assert_eq!((segment.bytes()[70_000], segment.verify().unwrap().blocks), (2, 0), "{guard:?}");
        let taken_back = segment.automatically(|bytes| {
            bytes.fill(9);
            Err::<(), _>(Error::Damaged { path: "any".into(), what: "as planned".into() })
        });
        assert!(taken_back.is_err() && segment.guard() == guard);
        assert_eq!((segment.bytes()[70_000], segment.bytes()[0]), (2, 0), "{guard:?}");
    }
}

#[test]
fn a_leaked_transaction_is_not_part_of_a_later_transaction() {
    let place = Place::new("forgotten-in-part");
    let mut segment = place.open(4096);
    let mut txn = segment.begin();
    let kept = txn.malloc(100).unwrap();
    txn.end().unwrap();

    let mut txn = segment.begin();
    txn.free(kept).unwrap();
    std::mem::forget(txn);
    segment.begin().end().unwrap();
    assert_eq!(segment.verify().unwrap().blocks, 1, "the forgotten transaction's free is undone");

    let mut txn = segment.begin();
    txn.set_range(0, 10).unwrap().fill(1);
    txn.free(kept).unwrap();
    std::mem::forget(txn);
    let stored = segment.automatically(|bytes| Ok::<_, Error>(std::mem::replace(&mut bytes[100], 2)));
    assert_eq!(stored.unwrap(), 0);
    assert_eq!((segment.bytes()[0], segment.bytes()[100]), (0, 2));
    segment.begin().end().unwrap();
    assert_eq!(segment.verify().unwrap().blocks, 1);
}

#[test]
fn several_threads_may_store_into_the_bytes_of_an_automatic_transaction() {
    let place = Place::new("threads");
    let mut segment = place.open(2 << 20);
    for round in 0..10 {
        let aborted = segment.automatically(|bytes| {
            std::thread::scope(|scope| {
                for part in bytes.chunks_mut(1 << 19) {
                    scope.spawn(move || part.iter_mut().step_by(100).for_each(|byte| *byte = 1));
                }
            });
            Err::<(), _>(Error::Memory(rio::Error::InUse { path: PathBuf::new() }))
        });
        aborted.unwrap_err();
        assert!(segment.bytes().iter().all(|&byte| byte == 0), "round {round}");
    }
}

#[test]
fn an_impossible_allocation_is_refused_before_the_file_grows() {
    let place = Place::new("too-much");
    let mut segment = Options::new(4096).reserve(1 << 30).open(&place.0).unwrap();
    let bytes = std::fs::metadata(&place.0).unwrap().len();
    for much in [2 << 30, 1 << 40, u64::MAX] {
        assert!(segment.begin().malloc(much).is_err(), "{much}");
    }
    assert_eq!(std::fs::metadata(&place.0).unwrap().len(), bytes);
    segment.begin().malloc(100).unwrap();
}
