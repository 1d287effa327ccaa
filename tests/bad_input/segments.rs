//! Segments of recoverable memory on a full disk. Calls that need room must return an error that names the file. The
//! contents must stay, the current transaction can be ended or aborted, and all calls work again when there is room.

use std::path::Path;

use libtp_tests::small_disk::{alone, SmallDisk};
use vista::{Error, Options, Segment, Survives};

const BYTES: usize = 1 << 20;
const DISK: u64 = 64 << 20;
/// The room that is left on the disk, in KiB. The values are near the size of a page, and near the sizes that a segment
/// allocates in one step.
const LEFT: [u64; 9] = [0, 4, 60, 64, 68, 132, 200, 520, 1040];

fn options() -> Options {
    Options::new(0).anywhere()
}

/// Checks that the error says that the disk is full, and names the file.
#[track_caller]
fn is_full(error: &Error, file: &Path) {
    let message = error.to_string();
    let name = file.file_name().unwrap().to_str().unwrap();
    let is_said = message.contains("full") || message.contains("No space left");
    assert!(matches!(error, Error::Memory(_)) && is_said && message.contains(name), "{message}");
}

/// Checks that all bytes of the flat part have this value, and that `verify` finds nothing.
#[track_caller]
fn holds(segment: &Segment, value: u8) {
    assert!(segment.bytes()[..BYTES].iter().all(|byte| *byte == value), "bytes of the segment were lost");
    segment.verify().unwrap();
}

/// Fills a range of the flat part in a transaction; an error rolls it back.
fn fill(segment: &mut Segment, bytes: usize, value: u8) -> Result<(), Error> {
    let mut txn = segment.begin();
    txn.set_range(0, bytes)?.fill(value);
    txn.end()
}

/// Fills all of the flat part with automatic ranges, and checks that the closure sees its own stores.
fn store_all(segment: &mut Segment, value: u8) -> Result<(), Error> {
    segment.automatically(|bytes| {
        bytes.fill(value);
        assert!(bytes.iter().all(|byte| *byte == value));
        Ok(())
    })
}

fn allocate(segment: &mut Segment, bytes: u64) -> Result<(), Error> {
    let mut txn = segment.begin();
    let block = txn.malloc(bytes)?;
    txn.set_range(block, 100)?.fill(3);
    txn.end()
}

/// Makes each kind of call that needs room. Returns the number of refused calls.
fn use_up(segment: &mut Segment, value: u8) -> u64 {
    let (file, mut refused) = (segment.path().to_path_buf(), 0);
    // A refused call must not change the rest of its transaction.
    let mut txn = segment.begin();
    txn.set_range(0, 100).unwrap().fill(value + 1);
    let error = loop {
        if let Err(error) = txn.malloc(200_000) {
            break error;
        }
    };
    is_full(&error, &file);
    assert_eq!(txn.get(0, 100).unwrap(), [value + 1; 100]);
    txn.set_range(0, 100).unwrap().fill(value);
    txn.end().unwrap();
    holds(segment, value);
    let error = allocate(segment, 12 << 20).unwrap_err();
    is_full(&error, &file);
    refused += 2;
    if let Err(error) = segment.grow(8 << 20) {
        is_full(&error, &file);
        assert_eq!(segment.bytes().len(), BYTES);
        refused += 1;
    }
    // The undo log must grow for this range.
    if let Err(error) = fill(segment, BYTES, value + 1) {
        is_full(&error, &file);
        refused += 1;
    } else {
        fill(segment, BYTES, value).unwrap();
    }
    holds(segment, value);
    // With automatic ranges, the library can report the full disk only at the end.
    if let Err(error) = store_all(segment, value + 2) {
        is_full(&error, &file);
        refused += 1;
    } else {
        store_all(segment, value).unwrap();
    }
    holds(segment, value);
    // A change for which there is room succeeds. If the closure of a later transaction returns an error of its own,
    // only this transaction's stores are rolled back.
    let fits: Result<(), Error> = segment.automatically(|bytes| {
        bytes[5] = value + 1;
        Ok(())
    });
    fits.unwrap();
    let told = segment.automatically(|bytes| {
        bytes.fill(value + 2);
        Err::<(), Error>(Error::NoRoom { path: "told to".into(), wanted: 0, most: 0 })
    });
    assert!(matches!(told, Err(Error::NoRoom { .. })), "the closure's own error must be returned");
    assert_eq!(segment.bytes()[5], value + 1);
    fill(segment, 100, value).unwrap();
    holds(segment, value);
    refused
}

fn with_so_much_left(left: u64, survives: Option<Survives>) -> u64 {
    let disk = SmallDisk::mount(DISK);
    let at = |name: &str| disk.path().join(name);
    let (file, checkpoint) = (at("segment"), at("checkpoint"));
    let new = Options::new(BYTES as u64).grows_to(8 << 20).anywhere();
    let new = survives.map_or(new.clone(), |what| new.survives(what));
    let mut segment = new.open(&file).unwrap();
    store_all(&mut segment, 1).unwrap();
    segment.checkpoint(&checkpoint).unwrap();
    segment.close().unwrap();
    // Makes a segment whose undo log has the initial size, so that it must grow later.
    let mut small = new.open(&at("small")).unwrap();
    for part in 0..BYTES as u64 / 4096 {
        let mut txn = small.begin();
        txn.set_range(part * 4096, 4096).unwrap().fill(1);
        txn.end().unwrap();
    }
    drop(small);
    disk.ballast("room", left << 10);
    disk.ballast("ballast", u64::MAX);
    disk.free("room");

    let mut refused = 0;
    for name in ["segment", "small"] {
        let mut segment = options().open(&at(name)).unwrap();
        holds(&segment, 1);
        refused += use_up(&mut segment, 1);
        if let Err(error) = segment.checkpoint(&checkpoint) {
            is_full(&error, &checkpoint);
            refused += 1;
        }
        // The segment is first dropped without a close, as a killed process leaves it. The second time it is closed.
        drop(segment);
        let segment = options().open(&at(name)).unwrap();
        holds(&segment, 1);
        segment.close().unwrap();
    }
    holds(&options().open(&checkpoint).unwrap(), 1);
    let names: Vec<_> = std::fs::read_dir(disk.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "the refused calls must leave no files: {names:?}");
    // Now there is room again.
    disk.free("ballast");
    let mut segment = options().open(&at("small")).unwrap();
    fill(&mut segment, BYTES, 4).unwrap();
    allocate(&mut segment, 3 << 20).unwrap();
    segment.grow(2 << 20).unwrap();
    store_all(&mut segment, 5).unwrap();
    holds(&segment, 5);
    segment.checkpoint(&checkpoint).unwrap();
    holds(&options().open(&checkpoint).unwrap(), 5);
    refused
}

#[test]
fn a_segment_on_a_full_disk_loses_nothing() {
    alone("segments::a_segment_on_a_full_disk_loses_nothing", || {
        let mut refused = 0;
        for left in LEFT {
            for survives in [None, Some(Survives::System)] {
                refused += with_so_much_left(left, survives);
            }
        }
        println!("figures: {} full disks under segments, {refused} refusals, 0 lost, 0 SIGBUS", LEFT.len() * 2);
        assert!(refused > 40);
    });
}

#[test]
fn a_new_segment_is_refused_on_a_full_disk_and_made_after_room_is_freed() {
    alone("segments::a_new_segment_is_refused_on_a_full_disk_and_made_after_room_is_freed", || {
        for left in LEFT {
            let disk = SmallDisk::mount(8 << 20);
            let file = disk.path().join("segment");
            disk.ballast("ballast", (8 << 20) - (left << 10));
            let refused = Options::new(BYTES as u64).anywhere().open(&file).unwrap_err();
            is_full(&refused, &file);
            assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 1, "the refused call must leave no file");
            disk.free("ballast");
            let mut segment = Options::new(BYTES as u64).anywhere().open(&file).unwrap();
            fill(&mut segment, BYTES, 1).unwrap();
            holds(&segment, 1);
        }
    });
}
