//! The machine crashes, and the segment's memory does not survive the crash. The segment is refused, or restored from
//! its checkpoint.
//!
//! Another boot is simulated by another boot number in the file's header (docs/formats/region.md).
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::Path;

use vista::{Error, Options, Segment, Survives};

const BOOT: u64 = 32;

fn set(segment: &mut Segment, value: u8) {
    let mut txn = segment.begin();
    txn.set_range(7, 5000).unwrap().fill(value);
    txn.end().unwrap();
}

/// Copies the segment's file in the state in which a crash of the machine would leave it now.
fn crashed(file: &Path, to: &Path) {
    std::fs::copy(file, to).unwrap();
    let copy = std::fs::OpenOptions::new().write(true).open(to).unwrap();
    copy.write_all_at(&[0x5a; 16], BOOT).unwrap();
}

#[test]
fn a_segment_that_may_be_torn_is_refused_or_restored_from_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (file, checkpoint, left) = (at("segment"), at("checkpoint"), at("left"));
    let options = Options::new(1 << 20).anywhere();
    {
        let mut segment = options.open(&file).unwrap();
        set(&mut segment, 1);
        segment.checkpoint(&checkpoint).unwrap();
        set(&mut segment, 2);
        // The stores of an open transaction are in no checkpoint.
        segment.begin().set_range(0, 100).unwrap().fill(9);
        segment.checkpoint(&checkpoint).unwrap();
        set(&mut segment, 3);
        assert_eq!(segment.bytes()[7], 3);
        let itself = segment.checkpoint(&file).unwrap_err();
        assert!(itself.to_string().contains("give the checkpoint another path"), "{itself}");
        crashed(&file, &left);
    }
    let refused = options.open(&left).unwrap_err();
    assert!(matches!(refused, Error::Memory(rio::Error::Torn { .. })), "{refused}");
    assert!(refused.to_string().contains("restore it from a checkpoint"), "{refused}");
    let missing = options.open_or_restore(&left, &at("nothing")).unwrap_err();
    assert!(missing.to_string().contains("nothing"), "{missing}");
    let other = options.open_or_restore(&left, &left).unwrap_err();
    assert!(other.to_string().contains("it is not a checkpoint"), "{other}");

    let mut segment = options.open_or_restore(&left, &checkpoint).unwrap();
    assert!(segment.is_restored());
    assert_eq!((segment.bytes()[0], segment.bytes()[7], segment.bytes()[5006]), (0, 2, 2));
    set(&mut segment, 4);
    drop(segment);
    assert!(at("left.torn").exists(), "the torn segment is kept under another name");
    let segment = options.open_or_restore(&left, &checkpoint).unwrap();
    assert_eq!((segment.is_restored(), segment.bytes()[7]), (false, 4), "an undamaged segment is not replaced");
}

#[test]
fn a_missing_segment_is_restored_from_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (file, checkpoint) = (at("segment"), at("checkpoint"));
    let options = Options::new(1 << 20).grows_to(4 << 20).anywhere();
    // Without a segment and without a checkpoint, a new segment is made.
    let mut segment = options.open_or_restore(&file, &checkpoint).unwrap();
    assert!(!segment.is_restored());
    set(&mut segment, 2);
    segment.checkpoint(&checkpoint).unwrap();
    set(&mut segment, 3);
    drop(segment);
    // A crash of the system removes the files in its memory.
    std::fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        let other = Options::new(1 << 20).anywhere().open_or_restore(&file, directory.path());
        assert!(other.is_err() && !file.exists(), "a file that is no checkpoint must not lead to a new segment");
    }
    let mut segment = options.open_or_restore(&file, &checkpoint).unwrap();
    assert_eq!((segment.is_restored(), segment.bytes()[7]), (true, 2));
    // The next checkpoint replaces the segment's first checkpoint.
    segment.grow(2 << 20).unwrap();
    segment.checkpoint(&checkpoint).unwrap();
    drop(segment);
    let segment = Options::new(0).anywhere().open_or_restore(&file, &checkpoint).unwrap();
    assert_eq!((segment.is_restored(), segment.bytes()[7], segment.bytes().len()), (false, 2, 2 << 20));
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 2, "no temporary name is left");
}

#[test]
fn a_segment_that_was_closed_or_is_in_surviving_memory_opens_after_a_restart_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::new(1 << 20).anywhere();
    let mut segment = options.open(&at("segment")).unwrap();
    set(&mut segment, 1);
    crashed(&at("segment"), &at("crashed"));
    segment.close().unwrap();
    crashed(&at("segment"), &at("left"));
    assert_eq!(options.open(&at("left")).unwrap().bytes()[7], 1);
    let surviving = options.survives(Survives::Power).open(&at("crashed")).unwrap();
    assert_eq!((surviving.bytes()[7], surviving.survives()), (1, Survives::Power));
}

#[test]
fn a_refused_segment_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::new(1 << 20).anywhere();
    let mut segment = options.open(&at("segment")).unwrap();
    set(&mut segment, 1);
    segment.close().unwrap();
    let before = std::fs::read(at("segment")).unwrap();
    let refused = Options::new(1 << 19).anywhere().open(&at("segment")).unwrap_err();
    assert!(matches!(refused, Error::OtherSize { .. }), "{refused}");
    assert!(before == std::fs::read(at("segment")).unwrap(), "not a byte has changed");
    crashed(&at("segment"), &at("left"));
    assert_eq!(options.open(&at("left")).unwrap().bytes()[7], 1, "the segment is still in good order");
}

#[test]
fn a_segment_with_another_greatest_size_is_opened_with_its_own_size() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for reserve in [16 << 20, 512 << 30] {
        let (file, checkpoint) = (at(&format!("of-{reserve}")), at(&format!("checkpoint-of-{reserve}")));
        let options = Options::new(1 << 20).anywhere();
        let mut segment = options.clone().reserve(reserve).open(&file).unwrap();
        set(&mut segment, 1);
        segment.checkpoint(&checkpoint).unwrap();
        crashed(&file, &at("left"));
        segment.close().unwrap();
        assert_eq!(options.open(&file).unwrap().bytes()[7], 1);
        assert!(options.open_or_restore(&at("left"), &checkpoint).unwrap().is_restored());
        std::fs::remove_file(at("left")).unwrap();
    }
}

#[test]
fn the_room_that_a_segment_has_to_grow_is_no_part_of_its_checkpoint() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::new(1 << 20).grows_to(512 << 20).anywhere();
    let mut segment = options.open(&at("segment")).unwrap();
    set(&mut segment, 3);
    let mut txn = segment.begin();
    let block = txn.malloc(100_000).unwrap();
    txn.set_range(block, 100_000).unwrap().fill(4);
    txn.end().unwrap();
    segment.checkpoint(at("checkpoint")).unwrap();
    drop(segment);
    let blocks = std::fs::metadata(at("checkpoint")).unwrap().blocks();
    assert!(blocks * 512 < 32 << 20, "{blocks} blocks");
    let segment = options.open(&at("checkpoint")).unwrap();
    assert_eq!((segment.bytes()[7], segment.get(block, 100_000).unwrap()), (3, &[4; 100_000][..]));
}

/// Returns how many bytes of the file have blocks.
fn blocks(file: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(file).unwrap().blocks() * 512
}

#[test]
fn bytes_that_are_only_allocated_stay_only_allocated_in_a_checkpoint_and_after_a_restore() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let directory = tempfile::tempdir_in(place).unwrap();
        let at = |name: &str| directory.path().join(name);
        // Most of the segment was never stored to.
        let options = Options::new(20 << 20).grows_to(100 << 20).anywhere();
        let mut segment = options.open(&at("segment")).unwrap();
        set(&mut segment, 1);
        for bytes in [20 << 20, 30 << 20] {
            segment.grow(bytes).unwrap();
            let mut txn = segment.begin();
            let _ = txn.malloc(3 << 20).unwrap();
            txn.end().unwrap();
            segment.checkpoint(at("checkpoint")).unwrap();
            let (had, has) = (blocks(&at("segment")), blocks(&at("checkpoint")));
            // The filesystem's records of the file's blocks take a few blocks too.
            assert!(
                had >= bytes && has + (64 << 10) >= had,
                "{has} bytes of the checkpoint have blocks, {had} of the segment"
            );
            assert!(has < 64 << 20, "the room for its growth has no blocks");
        }
        crashed(&at("segment"), &at("left"));
        assert!(Options::new(0).anywhere().open_or_restore(&at("left"), &at("checkpoint")).unwrap().is_restored());
        assert!(blocks(&at("left")) + (64 << 10) >= blocks(&at("segment")), "the restored segment has fewer blocks");
    }
}

#[test]
fn a_checkpoint_of_memory_that_survives_the_system_has_no_block_that_would_be_zeros_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::new(1 << 20).grows_to(2 << 20).anywhere().survives(Survives::System);
    let mut segment = options.open(&at("segment")).unwrap();
    set(&mut segment, 1);
    segment.checkpoint(at("checkpoint")).unwrap();
    // A hole has no blocks, or only blocks that were allocated in advance.
    let file = std::fs::File::open(at("checkpoint")).unwrap();
    let data = |from: u64| rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(from)).ok();
    let hole = |from: u64| rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(from)).unwrap();
    let (first, end) = (hole(0), file.metadata().unwrap().len());
    let after = data(first).unwrap_or(end);
    assert_eq!(after - first, 1 << 20, "the room to grow is a hole");
    assert!(after == end || hole(after) == end, "there is only one hole");
}

#[test]
fn a_segment_that_a_crash_has_left_with_another_length_is_restored_from_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::new(1 << 20).anywhere();
    let mut segment = options.open(&at("segment")).unwrap();
    set(&mut segment, 1);
    segment.checkpoint(at("checkpoint")).unwrap();
    let mut txn = segment.begin();
    let _ = txn.malloc(8 << 20).unwrap();
    txn.end().unwrap();
    // The length in the file's directory entry may be newer or older than the file's contents.
    for length in [4096, 1 << 20, 5 << 20] {
        crashed(&at("segment"), &at("left"));
        std::fs::OpenOptions::new().write(true).open(at("left")).unwrap().set_len(length).unwrap();
        let refused = options.open(&at("left")).unwrap_err();
        assert!(matches!(refused, Error::Memory(rio::Error::Torn { .. })), "of {length} bytes: {refused}");
        let restored = options.open_or_restore(&at("left"), &at("checkpoint")).unwrap();
        assert!(restored.is_restored() && restored.bytes()[7] == 1, "of {length} bytes");
        drop(restored);
        std::fs::remove_file(at("left")).unwrap();
        std::fs::remove_file(at("left.torn")).unwrap();
    }
}
