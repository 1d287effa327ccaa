//! One contract, two disks: the real disk and the simulated disk answer every call in the same way.
//!
//! The doubt: tests on a simulated disk prove something about the real disk only if the two disks look the same to a
//! caller that keeps the contract.

use std::sync::Arc;

use libtp_io::{Directory, Error, File, LockMode, OpenMode, PosixDirectory};
use libtp_sim::SimDisk;

/// A directory of the real disk, removed when the test ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("libtp-sim-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a test on both disks.  Each gets an empty directory.
fn on_both(name: &str, test: fn(Arc<dyn Directory>)) {
    let scratch = Scratch::new(name);
    test(Arc::new(PosixDirectory::create(&scratch.0).expect("the temporary directory can be written")));
    test(Arc::new(SimDisk::new(1)));
    let process = SimDisk::new(2).process_view();
    test(process.directory());
}

fn read(file: &dyn File, from: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; count];
    let there = file.read_at(&mut bytes, from).expect("no fault is planted");
    bytes.truncate(there);
    bytes
}

#[test]
fn bytes_are_where_they_were_written() {
    on_both("bytes", |directory| {
        let file = directory.open("file", OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        assert_eq!(read(&*file, 0, 10), b"");
        file.write_at(b"hello", 10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_005);
        assert_eq!(read(&*file, 9_998, 100), b"\0\0hello");
        assert_eq!(read(&*file, 10_002, 2), b"ll");
        assert_eq!(read(&*file, 10_005, 2), b"");
        assert_eq!(read(&*file, 1 << 40, 2), b"");
        file.write_two_at(b"wor", b"ld!", 10_005).unwrap();
        file.write_two_at(b"", b"J", 10_000).unwrap();
        file.write_two_at(b"E", b"", 10_001).unwrap();
        file.write_at(b"", 90_000).unwrap();
        assert_eq!(read(&*file, 10_000, 100), b"JElloworld!");
        let other = directory.open("file", OpenMode::Existing).unwrap();
        assert_eq!(read(&*other, 10_000, 100), b"JElloworld!");
        file.sync().unwrap();
        directory.sync().unwrap();
    });
}

#[test]
fn lengths_shrink_grow_and_are_filled_with_zeros() {
    on_both("lengths", |directory| {
        let file = directory.open("file", OpenMode::Create).unwrap();
        file.write_at(&[7; 9000], 0).unwrap();
        file.set_len(5).unwrap();
        file.set_len(10).unwrap();
        assert_eq!(read(&*file, 0, 20), [7, 7, 7, 7, 7, 0, 0, 0, 0, 0]);
        file.allocate(0..8192).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
        assert_eq!(read(&*file, 0, 6), [7, 7, 7, 7, 7, 0]);
        assert!(read(&*file, 5, 9000).iter().all(|byte| *byte == 0));
        file.allocate(0..100).unwrap();
        file.allocate(0..0).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
    });
}

#[test]
fn names_are_made_found_and_refused() {
    on_both("names", |directory| {
        let missing = directory.open("file", OpenMode::Existing).unwrap_err();
        assert!(matches!(&missing, Error::NotFound { .. }), "{missing}");
        assert_eq!(missing.file(), directory.describe("file"));
        assert!(matches!(directory.open("file", OpenMode::ReadOnly), Err(Error::NotFound { .. })));
        assert!(!directory.exists("file").unwrap());
        directory.open("file", OpenMode::CreateNew).unwrap().write_at(b"x", 0).unwrap();
        assert!(directory.exists("file").unwrap());
        assert!(matches!(directory.open("file", OpenMode::CreateNew), Err(Error::Exists { .. })));
        assert_eq!(directory.open("file", OpenMode::Create).unwrap().len().unwrap(), 1);
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(matches!(directory.open(name, OpenMode::Create), Err(Error::Unsuitable { .. })));
            assert!(matches!(directory.rename("file", name), Err(Error::Unsuitable { .. })));
            assert!(matches!(directory.remove(name), Err(Error::Unsuitable { .. })));
            assert!(matches!(directory.exists(name), Err(Error::Unsuitable { .. })));
            assert!(matches!(directory.subdirectory(name), Err(Error::Unsuitable { .. })));
        }
        assert_eq!(directory.list().unwrap(), ["file"]);
        assert!(!directory.is_network().unwrap());
        assert!(directory.describe("file").ends_with("/file"));
        assert!(!directory.describe("").ends_with('/'));
    });
}

#[test]
fn a_renamed_file_replaces_the_other_and_a_removed_file_stays_open() {
    on_both("rename", |directory| {
        let old = directory.open("old", OpenMode::Create).unwrap();
        old.write_at(b"old", 0).unwrap();
        let new = directory.open("new", OpenMode::Create).unwrap();
        new.write_at(b"new!", 0).unwrap();
        directory.rename("new", "old").unwrap();
        assert_eq!(directory.list().unwrap(), ["old"]);
        assert_eq!(directory.open("old", OpenMode::Existing).unwrap().len().unwrap(), 4);
        directory.rename("old", "old").unwrap();
        assert_eq!(read(&*old, 0, 9), b"old");
        assert!(matches!(directory.rename("new", "other"), Err(Error::NotFound { .. })));
        directory.remove("old").unwrap();
        new.write_at(b"N", 0).unwrap();
        assert_eq!(read(&*new, 0, 9), b"New!");
        new.sync().unwrap();
        assert!(matches!(directory.remove("old"), Err(Error::NotFound { .. })));
        assert!(directory.list().unwrap().is_empty());
    });
}

#[test]
fn directories_are_not_files_and_files_are_not_directories() {
    on_both("directories", |directory| {
        let below = directory.subdirectory("below").unwrap();
        below.open("inside", OpenMode::Create).unwrap().write_at(b"in", 0).unwrap();
        below.sync().unwrap();
        directory.sync().unwrap();
        directory.open("file", OpenMode::Create).unwrap();
        assert_eq!(directory.list().unwrap(), ["file"]);
        assert!(directory.exists("below").unwrap());
        assert_eq!(directory.subdirectory("below").unwrap().list().unwrap(), ["inside"]);
        assert_eq!(below.describe("x"), format!("{}/x", directory.describe("below")));
        for mode in [OpenMode::Existing, OpenMode::Create, OpenMode::ReadOnly] {
            assert!(matches!(directory.open("below", mode), Err(Error::Unsuitable { .. })));
        }
        assert!(matches!(directory.open("below", OpenMode::CreateNew), Err(Error::Exists { .. })));
        assert!(matches!(directory.subdirectory("file"), Err(Error::Unsuitable { .. })));
        assert!(matches!(directory.remove("below"), Err(Error::Unsuitable { .. })));
        assert!(matches!(directory.rename("file", "below"), Err(Error::Unsuitable { .. })));
    });
}

#[test]
fn a_read_only_handle_changes_nothing() {
    on_both("readonly", |directory| {
        directory.open("file", OpenMode::Create).unwrap().write_at(b"abc", 0).unwrap();
        let file = directory.open("file", OpenMode::ReadOnly).unwrap();
        let refusals = [
            file.write_at(b"x", 0),
            file.write_two_at(b"x", b"y", 0),
            file.set_len(1),
            file.allocate(0..100),
            file.lock(0, LockMode::Exclusive, false).map(drop),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, Err(Error::ReadOnly { .. })));
        }
        assert!(file.lock(0, LockMode::Shared, false).unwrap());
        assert_eq!(read(&*file, 0, 9), b"abc");
    });
}

#[test]
fn byte_locks_exclude_other_handles_and_not_the_own_handle() {
    const FAR: u64 = 1 << 32;
    on_both("locks", |directory| {
        let one = directory.open("control", OpenMode::Create).unwrap();
        let two = directory.open("control", OpenMode::Existing).unwrap();
        assert_eq!(one.locked_by_other(0, u64::MAX >> 2).unwrap(), None);
        assert!(one.lock(FAR + 9, LockMode::Exclusive, true).unwrap());
        assert!(one.lock(FAR + 4, LockMode::Shared, true).unwrap());
        assert!(one.lock(FAR + 4, LockMode::Shared, false).unwrap());
        assert!(two.lock(FAR + 4, LockMode::Shared, false).unwrap());
        assert!(!two.lock(FAR + 9, LockMode::Shared, false).unwrap());
        assert!(!one.lock(FAR + 4, LockMode::Exclusive, false).unwrap(), "the other handle shares the lock");
        assert_eq!(one.locked_by_other(FAR, 100).unwrap(), Some(FAR + 4));
        assert_eq!(two.locked_by_other(FAR, 100).unwrap(), Some(FAR + 4), "a shared lock is found, too");
        assert_eq!(two.locked_by_other(FAR + 5, 4).unwrap(), None);
        assert_eq!(two.locked_by_other(FAR + 5, 5).unwrap(), Some(FAR + 9));
        two.unlock(FAR + 4).unwrap();
        two.unlock(FAR + 4).unwrap();
        assert!(one.lock(FAR + 4, LockMode::Exclusive, false).unwrap(), "changed from shared to exclusive");
        assert!(!two.lock(FAR + 4, LockMode::Shared, false).unwrap());
        assert!(one.lock(FAR + 4, LockMode::Shared, false).unwrap(), "changed back to shared");
        assert!(two.lock(FAR + 4, LockMode::Shared, false).unwrap());
        drop(directory.open("control", OpenMode::Existing).unwrap());
        assert_eq!(two.locked_by_other(FAR + 5, 5).unwrap(), Some(FAR + 9), "closing another handle frees no lock");
        drop(one);
        assert_eq!(two.locked_by_other(0, u64::MAX >> 2).unwrap(), None, "closing the handle frees all its locks");
    });
}

#[test]
fn the_lowest_locked_byte_is_found_in_any_order_of_locking() {
    on_both("lowest", |directory| {
        let open = || directory.open("control", OpenMode::Create).unwrap();
        let (one, two, three, asker) = (open(), open(), open(), open());
        for (holder, byte) in [(&one, 90), (&two, 40), (&one, 20), (&three, 60), (&two, 95)] {
            assert!(holder.lock(byte, LockMode::Exclusive, false).unwrap());
        }
        for (from, lowest) in [(0, Some(20)), (21, Some(40)), (41, Some(60)), (61, Some(90)), (96, None)] {
            assert_eq!(asker.locked_by_other(from, 100).unwrap(), lowest, "from {from}");
        }
        assert_eq!(one.locked_by_other(0, 100).unwrap(), Some(40));
    });
}

#[test]
fn a_waiter_gets_the_lock_when_the_lock_is_released() {
    on_both("wait", |directory| {
        let one = directory.open("control", OpenMode::Create).unwrap();
        let two = directory.open("control", OpenMode::Existing).unwrap();
        assert!(one.lock(0, LockMode::Exclusive, true).unwrap());
        let waiter = std::thread::spawn(move || {
            let is_locked = two.lock(0, LockMode::Exclusive, true).unwrap();
            (is_locked, two)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished());
        one.unlock(0).unwrap();
        let (is_locked, two) = waiter.join().unwrap();
        assert!(is_locked);
        assert_eq!(one.locked_by_other(0, 1).unwrap(), Some(0));
        drop(two);
    });
}

#[test]
fn an_identity_stays_with_the_file_and_not_with_the_name() {
    on_both("identity", |directory| {
        let file = directory.open("file", OpenMode::Create).unwrap();
        let identity = file.identity().unwrap();
        file.write_at(b"x", 0).unwrap();
        directory.rename("file", "moved").unwrap();
        assert_eq!(directory.open("moved", OpenMode::ReadOnly).unwrap().identity().unwrap(), identity);
        let successor = directory.open("file", OpenMode::CreateNew).unwrap();
        assert_ne!(successor.identity().unwrap(), identity);
        assert_eq!(successor.identity().unwrap().device, identity.device);
    });
}

#[test]
fn four_threads_write_side_by_side() {
    on_both("threads", |directory| {
        let file = directory.open("file", OpenMode::Create).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let file = &file;
                scope.spawn(move || {
                    for block in 0..50 {
                        let at = (block * 4 + u64::from(thread)) * 1000;
                        file.write_at(&[thread + 1; 1000], at).unwrap();
                    }
                    file.sync().unwrap();
                });
            }
        });
        let all = read(&*file, 0, 300_000);
        assert_eq!(all.len(), 200_000);
        for (number, block) in all.chunks(1000).enumerate() {
            let thread = u8::try_from(number % 4).unwrap();
            assert!(block.iter().all(|byte| *byte == thread + 1));
        }
    });
}
