//! A segment's file grows. The next transaction uses the room that an aborted transaction added to the file. If the
//! segment survives a crash of the system, new blocks are on the disk before they are used.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;

use vista::{Decision, Error, Holder, Membership, Options, Segment, Survives};

const MIB: u64 = 1 << 20;

#[test]
fn memory_taken_by_an_unfinished_transaction_is_used_first_by_the_next_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let options = Options::new(4096).reserve(1 << 30).anywhere();
    let mut segment = options.open(&file).unwrap();
    let mut used = None;
    for round in 0..60 {
        let mut txn = segment.begin();
        // This block makes vista put its own data between the units taken before and the units taken now.
        txn.malloc(MIB).unwrap();
        if round % 3 == 0 {
            txn.malloc(100).unwrap();
        }
        if round % 2 == 0 {
            txn.abort();
        } else {
            // No abort runs here, as if the process had been killed.
            std::mem::forget(txn);
            drop(segment);
            segment = options.open(&file).unwrap();
        }
        segment.verify().unwrap();
        let now = segment.file_used();
        assert!(
            now <= *used.get_or_insert(now) + MIB / 4,
            "round {round}: {now} bytes are used, {used:?} after the first"
        );
    }
    // A block longer than the taken units extends these units, unless used memory follows them.
    let before = segment.file_used();
    let mut txn = segment.begin();
    let block = txn.malloc(2 * MIB).unwrap();
    txn.set_range(block, 2 << 20).unwrap().fill(7);
    txn.end().unwrap();
    assert!(segment.file_used() <= before + 6 * MIB, "{before}, then {}", segment.file_used());
    segment.verify().unwrap();
}

#[test]
fn aborted_transactions_leave_the_heap_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = Options::new(4096).anywhere().open(&directory.path().join("segment")).unwrap();
    let mut have = Vec::new();
    let mut seed = 3_u64;
    for round in 0..400_u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut txn = segment.begin();
        let taken: Vec<(u64, u64)> = (0..1 + (seed >> 40) % 3)
            .map(|nth| {
                let bytes = 1 + (seed >> 20 >> nth) % (1 << ((seed >> 50 >> nth) % 20));
                (txn.malloc(bytes).unwrap(), bytes)
            })
            .collect();
        for &(at, bytes) in &taken {
            txn.set_range(at, usize::try_from(bytes).unwrap()).unwrap().fill(u8::try_from(round % 251).unwrap());
        }
        if seed >> 60 & 3 == 0 {
            txn.end().unwrap();
            have.extend(taken.into_iter().map(|(at, bytes)| (at, bytes, u8::try_from(round % 251).unwrap())));
        } else {
            txn.abort();
        }
        segment.verify().unwrap();
    }
    for (at, bytes, fill) in have {
        assert!(segment.get(at, usize::try_from(bytes).unwrap()).unwrap().iter().all(|byte| *byte == fill));
    }
}

/// Returns how many bytes of the file are holes, as the filesystem reports.
fn holes(file: &std::path::Path) -> u64 {
    let file = std::fs::File::open(file).unwrap();
    let (mut at, mut holes, end) = (0, 0, file.metadata().unwrap().len());
    while at < end {
        let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)).unwrap_or(end);
        holes += data - at;
        at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(end);
    }
    holes
}

#[test]
fn a_segment_that_survives_the_system_has_no_holes_in_its_used_part() {
    let directory = tempfile::tempdir().unwrap();
    for (survives, is_filled) in [(None, false), (Some(Survives::System), true)] {
        let file = directory.path().join(format!("{survives:?}"));
        let mut options = Options::new(100_000).reserve(1 << 30).grows_to(200_000).anywhere();
        if let Some(survives) = survives {
            options = options.survives(survives);
        }
        let mut segment = options.open(&file).unwrap();
        // Only the room into which the segment can grow is a hole.
        assert_eq!(holes(&file) <= 150_000, is_filled, "{} bytes of the file are holes", holes(&file));
        segment.grow(200_000).unwrap();
        let mut txn = segment.begin();
        let _ = txn.malloc(3 * MIB).unwrap();
        txn.end().unwrap();
        assert_eq!(holes(&file) == 0, is_filled, "{} bytes of the file are holes", holes(&file));
        assert_eq!(segment.bytes()[..], [0; 200_000]);
    }
}

#[test]
fn units_that_the_file_does_not_have_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (file, left) = (directory.path().join("segment"), directory.path().join("left"));
    let options = Options::new(100).anywhere();
    let mut segment = options.open(&file).unwrap();
    let mut txn = segment.begin();
    let _ = txn.malloc(100_000).unwrap();
    txn.end().unwrap();
    // The segment is in use, so its file has no seal.
    std::fs::copy(&file, &left).unwrap();
    let bytes = std::fs::read(&left).unwrap();
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let root = usize::try_from(word(128 + 6 * 8)).unwrap();
    let heap = word(root + 32);
    let copy = std::fs::OpenOptions::new().write(true).open(&left).unwrap();
    for at in [8, 16] {
        let was = word(usize::try_from(heap).unwrap() + at);
        copy.write_all_at(&(was + 1000).to_ne_bytes(), heap + at as u64).unwrap();
        let refused = options.open(&left).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
        copy.write_all_at(&was.to_ne_bytes(), heap + at as u64).unwrap();
    }
    assert!(options.open(&left).is_ok());
}

#[test]
fn of_several_threads_that_make_the_same_segment_exactly_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let file = directory.path().join(round.to_string());
        let opened: Vec<Result<Segment, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| Options::new(100).anywhere().open(&file))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let refused: Vec<String> = opened.iter().filter_map(|it| it.as_ref().err()).map(|it| it.to_string()).collect();
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert!(refused.iter().all(|what| what.contains("only one handle at a time may have it open")), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 50, "nothing is left over");
}

#[test]
fn a_segment_is_in_good_order_after_another_handle_has_made_its_undo_log_longer() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let open =
        || Options::new(1 << 20).anywhere().open_member(&file, Membership { environment: [7; 16], number: 1 }).unwrap();
    // The first handle keeps the segment open, and does nothing.
    let idle = open();
    let mut other = open();
    other.begin(1, Holder { handle: 1, process: 1 }).unwrap();
    other.set_range(0, 200 << 10).unwrap().fill(7);
    other.prepare().unwrap();
    other.end(Decision { incarnation: 1, lsn: 100 });
    drop(other);
    // The last handle that closes the segment seals vista's own data.
    drop(idle);
    let again = open();
    assert!(again.segment().bytes()[..200 << 10].iter().all(|byte| *byte == 7));
}
