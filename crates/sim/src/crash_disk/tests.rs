//! The live disk: faults, crashes, processes, capacity.

use super::*;
use crate::fault::is_crash;
use crate::loss::LossMode;
use libtp_io::LockMode;

fn file(disk: &SimDisk, name: &str) -> Arc<dyn File> {
    disk.open(name, OpenMode::Create).unwrap()
}

#[test]
fn every_change_gets_an_io_index_and_a_read_does_not() {
    let disk = SimDisk::new(1);
    let log = file(&disk, "log");
    log.write_at(b"abc", 0).unwrap();
    log.write_two_at(b"de", b"f", 3).unwrap();
    log.write_at(b"", 3).unwrap();
    log.set_len(100).unwrap();
    log.allocate(0..200).unwrap();
    log.sync().unwrap();
    disk.rename("log", "old").unwrap();
    disk.remove("old").unwrap();
    Directory::sync(&disk).unwrap();
    let changes = disk.io_index();
    log.read_at(&mut [0; 9], 0).unwrap();
    log.len().unwrap();
    disk.list().unwrap();
    disk.open("none", OpenMode::Existing).unwrap_err();
    log.lock(1, LockMode::Shared, true).unwrap();
    assert_eq!((changes, disk.io_index()), (9, 9));
    let trace = disk.trace();
    assert!(matches!(&trace[2].change, Change::Write { offset: 3, bytes, .. } if **bytes == *b"def"));
    assert_eq!(disk.calls(&Calls::Of(Operation::Write)), 3);
    assert_eq!(disk.calls(&Calls::Of(Operation::Open)), 2);
    assert_eq!(disk.calls(&Calls::Any), 13);
}

#[test]
fn a_planted_fault_fails_each_kind_of_call() {
    type Attempt = fn(&SimDisk, &dyn File) -> Result<()>;
    let kinds: [(Operation, Attempt); 10] = [
        (Operation::Open, |disk, _| disk.open("f", OpenMode::Existing).map(drop)),
        (Operation::Read, |_, file| file.read_at(&mut [0; 3], 0).map(drop)),
        (Operation::Write, |_, file| file.write_at(b"xyz", 0)),
        (Operation::Sync, |_, file| file.sync()),
        (Operation::SetLen, |_, file| file.set_len(9)),
        (Operation::Allocate, |_, file| file.allocate(0..9)),
        (Operation::Rename, |disk, _| disk.rename("f", "g").and_then(|()| disk.rename("g", "f"))),
        (Operation::Remove, |disk, _| disk.open("h", OpenMode::Create).and_then(|_| disk.remove("h"))),
        (Operation::List, |disk, _| disk.list().map(drop)),
        (Operation::SyncDirectory, |disk, _| Directory::sync(disk)),
    ];
    for (operation, call) in kinds {
        for (fault, repeat) in [(Fault::Eio, Repeat::Once), (Fault::Enospc, Repeat::Forever)] {
            let disk = SimDisk::new(2);
            let handle = file(&disk, "f");
            disk.fail_call(Calls::Of(operation), 0, fault, repeat);
            let error = call(&disk, &*handle).unwrap_err();
            assert_eq!(error.operation(), operation);
            assert_eq!(matches!(error, Error::Full { .. }), fault == Fault::Enospc, "{error}");
            assert_eq!(call(&disk, &*handle).is_err(), repeat == Repeat::Forever);
            let expected = if fault == Fault::Eio { (1, 0) } else { (0, 2) };
            assert_eq!((disk.activity().eio, disk.activity().enospc), expected);
            disk.clear_faults();
            call(&disk, &*handle).unwrap();
        }
    }
}

#[test]
fn a_short_write_leaves_some_of_its_bytes_and_not_all() {
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let log = file(&disk, "log");
        disk.fail_call(Calls::Any, 0, Fault::ShortWrite, Repeat::Once);
        let error = log.write_at(&[7; 1000], 100).unwrap_err();
        assert!(matches!(error, Error::Full { offset: Some(100), .. }));
        assert!((101..1100).contains(&log.len().unwrap()));
        lengths.insert(log.len().unwrap());
        assert_eq!(disk.activity().short_write, 1);
    }
    assert!(lengths.len() > 40);
}

#[test]
fn a_write_that_fails_may_have_written_nothing_or_a_part() {
    let landed: Vec<u64> = (0..100)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let log = file(&disk, "log");
            disk.fail_call(Calls::Any, 0, Fault::Eio, Repeat::Once);
            log.write_at(&[7; 1000], 0).unwrap_err();
            log.len().unwrap()
        })
        .collect();
    assert!(landed.contains(&0) && landed.iter().any(|bytes| (1..1000).contains(bytes)));
}

#[test]
fn a_fault_on_some_files_spares_the_others() {
    let disk = SimDisk::new(3);
    let (log, bank) = (file(&disk, "log.00000001"), file(&disk, "bank.tp"));
    disk.fail_call(Calls::On(Operation::Sync, "log.".into()), 1, Fault::Eio, Repeat::Once);
    bank.sync().unwrap();
    log.sync().unwrap();
    bank.sync().unwrap();
    log.sync().unwrap_err();
    bank.sync().unwrap();
}

#[test]
fn the_crash_comes_before_the_chosen_change_and_ends_everything() {
    let disk = SimDisk::new(4);
    let log = file(&disk, "log");
    log.write_at(b"one", 0).unwrap();
    disk.crash_at(3);
    log.write_at(b"two", 3).unwrap();
    assert_eq!(log.read_at(&mut [0; 6], 0).unwrap(), 6);
    assert!(!disk.has_crashed());
    let error = log.write_at(b"three", 6).unwrap_err();
    assert!(is_crash(&error) && disk.has_crashed(), "{error}");
    assert_eq!(disk.io_index(), 3);
    assert!(is_crash(&log.read_at(&mut [0; 6], 0).unwrap_err()));
    assert!(is_crash(&log.len().unwrap_err()));
    assert!(is_crash(&log.sync().unwrap_err()));
    assert!(is_crash(&log.lock(0, LockMode::Shared, true).unwrap_err()));
    assert!(is_crash(&disk.list().unwrap_err()));
    assert!(is_crash(&disk.exists("log").unwrap_err()));
    assert!(is_crash(&disk.process_view().directory().sync().unwrap_err()));
    let after = disk.crash_image(LossMode::KeepAll, 0);
    assert_eq!(after.file_bytes("log").unwrap(), b"onetwo");
    assert_eq!(after.activity().crash, 1);
}

#[test]
fn halting_wakes_waiters_for_a_lock() {
    let disk = SimDisk::new(5);
    let (one, two) = (file(&disk, "control"), file(&disk, "control"));
    one.lock(7, LockMode::Exclusive, true).unwrap();
    let waiter = std::thread::spawn(move || two.lock(7, LockMode::Shared, true));
    std::thread::sleep(std::time::Duration::from_millis(5));
    disk.halt();
    assert!(is_crash(&waiter.join().unwrap().unwrap_err()));
}

#[test]
fn the_locks_of_a_process_are_released_when_it_dies() {
    let disk = SimDisk::new(6);
    let (one, two) = (disk.process_view(), disk.process_view());
    let ours = one.directory().open("control", OpenMode::Create).unwrap();
    let theirs = two.directory().open("control", OpenMode::Existing).unwrap();
    assert!(ours.lock(5, LockMode::Exclusive, false).unwrap());
    assert!(ours.lock(3, LockMode::Shared, false).unwrap());
    assert_eq!(theirs.locked_by_other(0, 100).unwrap(), Some(3));
    assert_eq!(theirs.locked_by_other(4, 100).unwrap(), Some(5));
    assert_eq!(ours.locked_by_other(0, 100).unwrap(), None);
    assert!(!theirs.lock(5, LockMode::Shared, false).unwrap());
    ours.write_at(b"kept", 0).unwrap();
    drop(one);
    assert!(is_crash(&ours.write_at(b"never", 0).unwrap_err()));
    assert_eq!(theirs.locked_by_other(0, 100).unwrap(), None);
    assert!(theirs.lock(5, LockMode::Exclusive, false).unwrap());
    assert_eq!(disk.file_bytes("control").unwrap(), b"kept");
    assert_eq!(disk.activity().process_killed, 1);
    assert_eq!(disk.trace()[1].process, 1);
}

#[test]
fn a_full_disk_refuses_blocks_until_some_are_freed() {
    let disk = SimDisk::new(7);
    let (log, bank) = (file(&disk, "log"), file(&disk, "bank"));
    disk.set_capacity(Some(10 * 4096));
    log.allocate(0..6 * 4096).unwrap();
    assert!(matches!(bank.allocate(0..5 * 4096), Err(Error::Full { .. })));
    bank.set_len(100 * 4096).unwrap();
    assert!(matches!(bank.write_at(&[1; 5 * 4096], 100), Err(Error::Full { .. })));
    assert_eq!(disk.bytes_used(), 10 * 4096);
    log.write_at(&[2; 6 * 4096], 0).unwrap();
    bank.write_at(&[3; 4 * 4096], 0).unwrap();
    let image = disk.crash_image(LossMode::KeepAll, 1);
    let more = file(&image, "more");
    assert!(matches!(more.write_at(b"x", 0), Err(Error::Full { .. })));
    image.remove("log").unwrap();
    more.write_at(b"x", 0).unwrap();
    assert_eq!(disk.activity().disk_full, 3);
}

#[test]
fn a_very_large_offset_is_an_error_and_does_not_use_up_memory() {
    let disk = SimDisk::new(8);
    let log = file(&disk, "log");
    for answer in [log.write_at(b"x", u64::MAX), log.set_len(1 << 50), log.allocate(0..1 << 50)] {
        assert!(matches!(answer, Err(Error::Io { .. })));
    }
}

#[test]
fn a_read_only_disk_is_read_and_not_changed() {
    let disk = SimDisk::new(9);
    file(&disk, "log").write_at(b"abc", 0).unwrap();
    disk.set_read_only(true);
    let changes = disk.io_index();
    assert!(matches!(disk.open("log", OpenMode::Existing), Err(Error::ReadOnly { .. })));
    assert!(matches!(disk.open("new", OpenMode::Create), Err(Error::ReadOnly { .. })));
    assert!(matches!(disk.rename("log", "new"), Err(Error::ReadOnly { .. })));
    assert!(matches!(disk.remove("log"), Err(Error::ReadOnly { .. })));
    assert!(matches!(disk.subdirectory("new"), Err(Error::ReadOnly { .. })));
    let log = disk.open("log", OpenMode::ReadOnly).unwrap();
    assert_eq!(log.read_at(&mut [0; 3], 0).unwrap(), 3);
    assert_eq!(disk.io_index(), changes);
}

#[test]
fn a_copy_on_another_disk_has_the_same_bytes_and_another_identity() {
    let disk = SimDisk::new(10);
    file(&disk, "control").write_at(b"abc", 0).unwrap();
    disk.subdirectory("log").unwrap().open("log.1", OpenMode::Create).unwrap().write_at(&[5; 9000], 0).unwrap();
    let copy = SimDisk::new(11);
    disk.copy_to(&copy).unwrap();
    assert_eq!(copy.paths(), ["control", "log/log.1"]);
    assert_eq!(copy.file_bytes("log/log.1"), disk.file_bytes("log/log.1"));
    let identity = |disk: &SimDisk| file(disk, "control").identity().unwrap();
    assert_ne!(identity(&copy), identity(&disk));
    Directory::sync(&disk).unwrap();
    assert_eq!(identity(&disk.crash_image(LossMode::DropAll, 0)), identity(&disk));
}

#[test]
fn damage_is_on_the_medium_at_once() {
    let disk = SimDisk::new(12);
    let log = file(&disk, "log");
    log.write_at(&[1; 100], 0).unwrap();
    log.sync().unwrap();
    Directory::sync(&disk).unwrap();
    disk.damage("log", 50, &[9]);
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("log").unwrap()[50], 9);
    assert_eq!(disk.file_bytes("log").unwrap()[50], 9);
}
