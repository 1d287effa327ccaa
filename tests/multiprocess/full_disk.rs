//! On a full disk, operations that free space go through, and then all other operations do (PROTOCOLS D11).

use libtp::{Bytes, Db, Env, Error, Settings};
use libtp_tests::small_disk::{alone, SmallDisk};

const VALUE: [u8; 1500] = [7; 1500];

/// An environment on a small disk, with its shared memory on another disk.
struct House {
    disk: SmallDisk,
    _memory: tempfile::TempDir,
    env: Env,
    table: Db,
}

impl House {
    fn new(bytes: u64) -> House {
        let disk = SmallDisk::mount(bytes);
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let settings = Settings {
            memory: Some(Bytes::mib(2)),
            region_directory: Some(memory.path().to_path_buf()),
            lock_timeout_millis: Some(10_000),
            ..Settings::default()
        };
        let env = Env::builder().settings(settings).open(disk.path().join("env")).unwrap();
        let table = env.btree("table").unwrap();
        House { disk, _memory: memory, env, table }
    }

    fn put(&self, number: u64) -> libtp::Result<()> {
        let txn = self.env.begin()?;
        match self.table.put(&txn, &number.to_be_bytes(), &VALUE) {
            Ok(()) => txn.commit(),
            Err(refusal) => txn.abort().and(Err(refusal)),
        }
    }

    fn delete(&self, number: u64) -> libtp::Result<bool> {
        self.env.run(|txn| self.table.delete(txn, &number.to_be_bytes()))
    }

    /// Lists the files with their bytes on the disk.
    fn files(&self) -> String {
        use std::os::unix::fs::MetadataExt;
        let of =
            |file: std::fs::DirEntry| format!("{:?} {} KiB", file.file_name(), file.metadata().unwrap().blocks() / 2);
        let files = std::fs::read_dir(self.env.path()).unwrap().map(|file| of(file.unwrap()));
        files.collect::<Vec<_>>().join(", ")
    }

    /// Puts records until there is no room; returns their number.
    fn fill(&self) -> u64 {
        for number in 0.. {
            match self.put(number) {
                Ok(()) => {}
                Err(error) => {
                    assert!(matches!(error, Error::Full { .. }), "{error}");
                    return number;
                }
            }
        }
        unreachable!("a disk is never full")
    }
}

#[test]
fn puts_use_the_disk_up_and_deletes_go_through_on_the_full_disk() {
    alone("full_disk::puts_use_the_disk_up_and_deletes_go_through_on_the_full_disk", || {
        // The segment after those of 1, 2 and 4 MiB does not fit as a whole.
        for bytes in [15 << 20, 18 << 20] {
            let house = House::new(bytes);
            let count = house.fill();
            let free = house.disk.ballast("filler", u64::MAX);
            assert!(free < 2 << 20, "{free} bytes of {bytes} are free, and a put is refused");
            for number in 0..count {
                let deleted = house.delete(number);
                let deleted = deleted.unwrap_or_else(|error| panic!("{bytes}: delete {number} of {count}: {error}"));
                assert!(deleted, "{number}");
            }
            // The pages are free, and the log reuses its space.
            for number in 0..count / 2 {
                let put = house.put(number);
                put.unwrap_or_else(|error| {
                    panic!("{bytes}: put {number} of {count} again: {error}; {}", house.files())
                });
            }
            assert!(house.env.verify("table").unwrap().findings.is_empty());
            let House { disk, _memory, env, table } = house;
            drop((table, env));
            let env = Env::open_or_create(disk.path().join("env")).unwrap();
            let table = env.btree("table").unwrap();
            let has = |number: u64| env.run(|txn| table.get(txn, &number.to_be_bytes())).unwrap().is_some();
            assert!((0..count).all(|number| has(number) == (number < count / 2)));
        }
    });
}

/// After a checkpoint, a second checkpoint would free too little to be worthwhile. A put that needs room must succeed
/// in spite of that, with the blocks that the first checkpoint has kept.
#[test]
fn puts_go_through_right_after_a_checkpoint_that_gave_nothing_back() {
    alone("full_disk::puts_go_through_right_after_a_checkpoint_that_gave_nothing_back", || {
        let house = House::new(15 << 20);
        let count = house.fill();
        house.disk.ballast("filler", u64::MAX);
        (0..count).for_each(|number| assert!(house.delete(number).unwrap(), "{number}"));
        for number in 0..count / 2 {
            house.env.checkpoint().unwrap();
            let put = house.put(number);
            put.unwrap_or_else(|error| panic!("put {number} of {count} again: {error}; {}", house.files()));
        }
    });
}

#[test]
fn deletes_go_through_where_no_checkpoint_can_make_room() {
    alone("full_disk::deletes_go_through_where_no_checkpoint_can_make_room", || {
        let house = House::new(18 << 20);
        // The log is kept from here on.
        let old = house.env.begin().unwrap();
        house.table.put(&old, b"old", b"old").unwrap();
        let count = house.fill();
        house.disk.ballast("filler", u64::MAX);
        assert!(matches!(house.put(count), Err(Error::Full { .. })));
        for number in 0..20 {
            assert!(house.delete(number).unwrap_or_else(|error| panic!("delete {number}: {error}")));
        }
        old.abort().unwrap();
        assert!(house.env.verify("table").unwrap().findings.is_empty());
    });
}
