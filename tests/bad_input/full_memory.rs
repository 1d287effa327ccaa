//! A directory of shared memory that is full, or becomes full, on a small tmpfs. A call for which the memory would have
//! to grow must return an error and never die of a signal. Other calls must still work.

use std::time::{Duration, Instant};

use libtp::{Bytes, Durability, Env, Error, Settings};

use crate::error_texts::{check_value, key_of, says, value_of};
use libtp_tests::small_disk::{alone, SmallDisk};

/// The longest time in which calls may still be refused after space was freed.
const LONG: Duration = Duration::from_secs(60);
/// Free bytes that the directory of shared memory must have.
const ROOM: u64 = 96 << 20;

fn settings(memory: &SmallDisk) -> Settings {
    Settings {
        region_directory: Some(memory.path().to_path_buf()),
        memory: Some(Bytes::mib(512)),
        durability: Some(Durability::Relaxed),
        ..Settings::default()
    }
}

#[test]
fn if_there_is_little_room_for_shared_memory_it_is_put_beside_the_data() {
    alone("full_memory::if_there_is_little_room_for_shared_memory_it_is_put_beside_the_data", || {
        for bytes in [64 << 10, 1 << 20, 64 << 20] {
            let (memory, directory) = (SmallDisk::mount(bytes), tempfile::tempdir().unwrap());
            let env = Env::builder().settings(settings(&memory)).open(directory.path()).unwrap();
            let region = env.stats().unwrap().region;
            assert!(region.starts_with(&directory.path().display().to_string()), "{region}");
            let table = env.btree("table").unwrap();
            env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
            // Another handle finds the region in the environment's directory.
            let other = Env::builder().settings(settings(&memory)).open(directory.path()).unwrap();
            assert_eq!(other.opened().how, libtp::OpenedBy::Joined);
        }
    });
}

#[test]
fn when_the_memory_is_full_pages_are_replaced_and_locks_are_refused_until_there_is_room() {
    alone("full_memory::when_the_memory_is_full_pages_are_replaced_and_locks_are_refused_until_there_is_room", || {
        let (memory, directory) = (SmallDisk::mount(ROOM + (16 << 20)), tempfile::tempdir().unwrap());
        let env = Env::builder().settings(settings(&memory)).open(directory.path()).unwrap();
        let region = env.stats().unwrap().region;
        assert!(region.starts_with(&memory.path().display().to_string()), "{region}");
        let table = env.btree("table").unwrap();
        env.run(|txn| (0..1000).try_for_each(|one| table.put(txn, &key_of(one), &value_of(one, 900)))).unwrap();
        memory.ballast("ballast", u64::MAX);

        // Short transactions still work, with the frames that exist.
        let mut refused = 0;
        for one in 1000..30_000 {
            match env.run(|txn| table.put(txn, &key_of(one), &value_of(one, 900))) {
                Ok(()) => {}
                Err(error) => panic!("key {one}: {error}"),
            }
        }
        // A transaction that needs more locks than the memory has room for is refused, and can be aborted.
        let many = env.begin().unwrap();
        let error = (100_000..1_000_000u64).find_map(|one| table.put(&many, &key_of(one), b"locked").err());
        let error = error.expect("a full memory cannot have room for a million locks");
        assert!(matches!(error, Error::Full { .. }), "{error}");
        says(&error, &["full"]);
        many.abort().unwrap();
        // If there are many sessions, further sessions may be refused. The existing sessions still work.
        let sessions: Vec<_> =
            (0..3000).map_while(|_| env.begin().map_err(|error| says(&error, &["full"])).ok()).collect();
        refused += 3000 - sessions.len();
        drop(sessions);
        let read_all = || (0..30_000).try_for_each(|one| env.run(|txn| check_value(&table, txn, one, 900)));
        read_all().unwrap();

        memory.free("ballast");
        let start = Instant::now();
        let locks = 60_000;
        loop {
            let put =
                |txn: &libtp::Txn<'_>| (0..locks).try_for_each(|one| table.put(txn, &key_of(100_000 + one), b"locked"));
            match env.run(put) {
                Ok(()) => break,
                Err(error) => {
                    assert!(matches!(error, Error::Full { .. }), "{error}");
                    assert!(start.elapsed() < LONG, "a put is still refused although there is room: {error}");
                }
            }
        }
        read_all().unwrap();
        assert!(env.verify("table").unwrap().findings.is_empty());
        println!("figures: shared memory full: 30000 records, {refused} sessions refused, 0 lost, 0 SIGBUS");
    });
}

#[test]
fn when_memory_and_disk_are_full_opening_reports_it() {
    alone("full_memory::when_memory_and_disk_are_full_opening_reports_it", || {
        let (memory, disk) = (SmallDisk::mount(1 << 20), SmallDisk::mount(8 << 20));
        let directory = disk.path().join("env");
        drop(Env::builder().settings(settings(&memory)).open(&directory).unwrap());
        disk.ballast("ballast", u64::MAX);
        memory.ballast("ballast", u64::MAX);
        let files = || {
            let paths = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
            paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect::<std::collections::BTreeMap<_, _>>()
        };
        let before = files();
        let error = Env::builder().settings(settings(&memory)).open(&directory).unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        says(&error, &["full", "nothing was changed", &disk.path().display().to_string()]);
        assert!(files() == before, "a file has changed, and: {error}");
        disk.free("ballast");
        Env::builder().settings(settings(&memory)).open(&directory).unwrap();
    });
}
