//! On a full disk, operations that free space succeed; after them, all other operations succeed, too (PROTOCOLS D11).

use std::sync::Arc;

use libtp::{Bytes, Db, Env, Error, Settings};
use libtp_io::{Directory, OpenMode, Operation};
use libtp_log::{record_bytes, Control, ControlFile, LogManager, Lsn, Restarted, TxnId, CONTROL_NAME};
use libtp_process::{ProcessManager, Session};
use libtp_sim::{Calls, Fault, Repeat, SimDisk};
use libtp_tests::small_disk::{alone, SmallDisk};
use rio::Region;

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
        House::with(bytes, Settings::default())
    }

    fn with(bytes: u64, settings: Settings) -> House {
        let disk = SmallDisk::mount(bytes);
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let settings = Settings {
            memory: Some(Bytes::mib(2)),
            region_directory: Some(memory.path().to_path_buf()),
            lock_timeout_millis: Some(10_000),
            ..settings
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

    /// Lists the environment's files with their sizes on the disk.
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
        unreachable!("the disk never becomes full")
    }
}

#[test]
fn puts_fill_the_disk_and_deletes_succeed_on_the_full_disk() {
    alone("full_disk::puts_fill_the_disk_and_deletes_succeed_on_the_full_disk", || {
        // The disk has no room for a whole segment after the segments of 1, 2 and 4 MiB.
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
            // The deletes freed pages, and the log reuses its space.
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

/// Right after a checkpoint, a second checkpoint would free too little to be worthwhile. A put that needs room must
/// succeed without a second checkpoint, with the blocks that the first checkpoint has kept.
#[test]
fn puts_succeed_right_after_a_checkpoint_that_freed_nothing() {
    alone("full_disk::puts_succeed_right_after_a_checkpoint_that_freed_nothing", || {
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
fn deletes_succeed_where_no_checkpoint_can_free_space() {
    alone("full_disk::deletes_succeed_where_no_checkpoint_can_free_space", || {
        let house = House::new(18 << 20);
        // While this transaction runs, the log is kept from its first record on.
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

/// Fills the disk up to the last byte, and the log's room with ever smaller records.
fn fill_completely(house: &House) -> u64 {
    let count = house.fill();
    house.disk.ballast("filler", u64::MAX);
    let small = |number: u64| house.env.run(|txn| house.table.put(txn, &number.to_be_bytes(), b""));
    let refused = (count..count + 100_000).find_map(|number| small(number).err());
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    count
}

#[test]
fn a_drop_succeeds_on_the_full_disk_and_frees_room() {
    alone("full_disk::a_drop_succeeds_on_the_full_disk_and_frees_room", || {
        let bytes = 15 << 20;
        let house = House::new(bytes);
        let (kept, _) = (house.env.btree("kept").unwrap(), house.env.btree("other").unwrap());
        // While this transaction runs, no checkpoint frees log.
        let old = house.env.begin().unwrap();
        kept.put(&old, b"old", b"old").unwrap();
        let count = fill_completely(&house);
        let drop_now = |name: &str| {
            let dropped = house.env.run(|txn| txn.drop_database(name));
            dropped.unwrap_or_else(|error| panic!("{bytes}: drop {name}: {error}; {}", house.files()));
        };
        drop_now("other");
        old.abort().unwrap();
        drop_now("table");
        assert_eq!(house.env.databases().unwrap(), ["kept"]);
        drop(kept);
        // The blocks of the dropped database are free; the segments of the log have become larger.
        let House { disk, _memory, env, table } = house;
        drop(table);
        let table = env.btree("table").unwrap();
        let house = House { disk, _memory, env, table };
        for number in 0..count / 8 {
            let put = house.put(number);
            put.unwrap_or_else(|error| panic!("{bytes}: put {number} of {count}: {error}; {}", house.files()));
        }
        assert!(house.env.verify("table").unwrap().findings.is_empty());
    });
}

#[test]
fn checkpoints_and_the_archiving_of_the_log_succeed_on_the_full_disk() {
    alone("full_disk::checkpoints_and_the_archiving_of_the_log_succeed_on_the_full_disk", || {
        let keep = Settings { keep_log: Some(Bytes::mib(64)), ..Settings::default() };
        let house = House::with(18 << 20, keep);
        let kept = house.env.btree("kept").unwrap();
        let old = house.env.begin().unwrap();
        kept.put(&old, b"old", b"old").unwrap();
        let count = fill_completely(&house);
        let checkpoint = || {
            house.env.checkpoint().unwrap_or_else(|error| panic!("a checkpoint: {error}; {}", house.files()));
        };
        // The first checkpoint frees no log, because the old transaction needs it.
        checkpoint();
        old.abort().unwrap();
        checkpoint();
        // The archive is on another disk.
        let archive = tempfile::tempdir_in("/dev/shm").unwrap();
        let copied = house.env.archive_log(archive.path()).unwrap();
        let end = copied.iter().map(|file| file.end).max().expect("the log of the filled disk has files to archive");
        let removed = house.env.remove_log_below(end);
        removed.unwrap_or_else(|error| panic!("removing the archived log: {error}; {}", house.files()));
        house.put(count).unwrap_or_else(|error| panic!("a put after that: {error}; {}", house.files()));
        assert!(house.env.verify("table").unwrap().findings.is_empty());
    });
}

/// A simulated process with a log, and without the other managers.
struct Logger {
    log: LogManager,
    session: Session,
}

impl Logger {
    fn append(&self, body: &[u8]) -> libtp_log::Result<Lsn> {
        self.log.reserve(&self.session, record_bytes(body.len()))?;
        let lsn = self.log.log(&self.session, 1024, TxnId::new(1), Lsn::NONE, &[body]);
        self.session.clear_append();
        Ok(lsn)
    }

    fn commit(&self, body: &[u8]) -> Lsn {
        let lsn = self.append(body).unwrap();
        self.log.force(&self.session, lsn).unwrap();
        lsn
    }
}

#[test]
fn a_segment_that_another_process_has_open_is_not_replaced_by_a_recycled_segment() {
    const EBADF: i32 = 9;
    let disk = SimDisk::new(1);
    let directory: Arc<dyn Directory> = Arc::new(disk.clone());
    let bytes = 256 << 10;
    let settings =
        libtp_log::Settings { segment_bytes_first: bytes, segment_bytes_max: bytes, ..libtp_log::Settings::default() };
    let control_file = ControlFile::new(directory.open(CONTROL_NAME, OpenMode::Create).unwrap(), CONTROL_NAME);
    control_file.create(&Control::new([7; 16], &settings)).unwrap();
    directory.sync().unwrap();
    let Restarted { control, end } = libtp_log::restart(&directory, &control_file, &settings).unwrap();
    let region = Region::anonymous(1 << 28).unwrap();
    ProcessManager::init(&region).unwrap();
    LogManager::init(&region, &settings, &directory, &control, end.end).unwrap();
    let start = || {
        let region = region.map_again().unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let log = LogManager::attach(&region, &settings, &directory, &control, &processes).unwrap();
        Logger { log, session: processes.join().unwrap() }
    };
    let (one, two) = (start(), start());
    two.commit(&[6; 1000]);
    while one.commit(&[6; 3000]) < Lsn::new(5 * bytes) {}
    let segments = || disk.paths().iter().filter(|path| path.starts_with("log.0")).count();
    let before = segments();
    // On an almost full disk, a process makes the next segment with a part of its blocks. The sync of the directory
    // fails, so it cannot publish the segment.
    disk.set_capacity(Some(disk.bytes_used() + (128 << 10)));
    disk.fail_call(Calls::Of(Operation::SyncDirectory), 0, Fault::Limit(EBADF), Repeat::Forever);
    let refused = (0..1000).find_map(|_| two.append(&[1; 1000]).err()).unwrap();
    assert!(matches!(refused, libtp_log::Error::Io(_)), "{refused}");
    assert_eq!(segments(), before + 1);
    disk.clear_faults();
    disk.set_capacity(Some(disk.bytes_used()));
    // Another process opens the segment, and finds no room for the rest.
    let refused = one.log.reserve(&one.session, 600_000).unwrap_err();
    assert!(matches!(refused, libtp_log::Error::Full { .. }), "{refused}");
    let keep = two.log.durable();
    control_file.write(&Control { oldest: keep, durable_end: keep, ..control_file.read().unwrap() }).unwrap();
    two.log.recycle(&two.session, keep, Lsn::new(u64::MAX)).unwrap();
    disk.set_capacity(None);
    let last = (0..500).map(|_| one.commit(&[7; 3000])).last().unwrap();
    drop((one, two));
    let found = libtp_log::restart(&directory, &control_file, &settings).unwrap();
    assert!(found.end.end > last, "the log ends at {}, before the answered commit at {last}", found.end.end);
}
