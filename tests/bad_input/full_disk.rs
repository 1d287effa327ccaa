//! A disk that is really full: a small tmpfs of several sizes.
//!
//! A process puts records until there is no room for more, and dies. Opening and reading must work on the full disk,
//! with the shared memory and without it. When space is freed, the open environment must accept puts again.

use std::time::{Duration, Instant};

use libtp::{Env, Error, OpenedBy};
use libtp_tests::sizes;

use crate::child::{fill_and_die, put, settings, VALUE_BYTES};
use crate::error_texts::{check_value, key_of, says, value_of};
use libtp_tests::small_disk::{alone, SmallDisk};

/// The longest time in which puts may still be refused after space was freed.
const LONG: Duration = Duration::from_secs(60);

/// The counts of one disk.
struct Seen {
    records: u64,
    refusals: u64,
}

fn one_disk(bytes: u64, is_memory_lost: bool) -> Seen {
    let disk = SmallDisk::mount(bytes);
    disk.ballast("ballast", bytes / 4);
    let directory = disk.path().join("env");
    // Other processes do not see this disk. If the region were in the common directory of regions, they would take its
    // environment for deleted, and remove the region.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::create_dir(&directory).unwrap();
    let place = format!("region_directory = {:?}\n", memory.path().display().to_string());
    std::fs::write(directory.join(libtp::SETTINGS_NAME), place).unwrap();
    let dead = fill_and_die(&directory, None);
    assert!(dead.refusals > 0, "{bytes}: the disk was never full");
    assert!(dead.acknowledged > 0, "{bytes}: no put was acknowledged");
    // Fills the disk up to the last byte.
    disk.ballast("filler", u64::MAX);
    if is_memory_lost {
        std::fs::remove_file(&dead.region).unwrap();
    }

    let env = Env::builder().settings(settings()).open(&directory);
    let env = env
        .unwrap_or_else(|error| panic!("{bytes} bytes, {} records: opening a full disk: {error}", dead.acknowledged));
    assert_eq!(env.opened().how, if is_memory_lost { OpenedBy::Restarted } else { OpenedBy::Repaired });
    let table = env.btree("table").unwrap();
    let read_all = |env: &Env, count: u64| {
        env.run(|txn| (0..count).try_for_each(|one| check_value(&table, txn, one, VALUE_BYTES))).unwrap();
    };
    read_all(&env, dead.acknowledged);
    // Puts for which there is no room are refused, and the present records stay.
    let (mut next, mut refusals) = (dead.acknowledged, 0);
    while refusals < 20 {
        match put(&env, &table, next) {
            Ok(()) => next += 1,
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }), "{error}");
                says(&error, &["full"]);
                refusals += 1;
            }
        }
    }
    read_all(&env, next);

    // Space is freed. The environment must notice this without a call.
    disk.free("ballast");
    disk.free("filler");
    let (start, until) = (Instant::now(), next + 50);
    while next < until {
        match put(&env, &table, next) {
            Ok(()) => next += 1,
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }), "{error}");
                assert!(start.elapsed() < LONG, "{bytes}: a put is still refused although there is room: {error}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    read_all(&env, next);
    assert!(env.verify("table").unwrap().findings.is_empty());
    drop((table, env));
    let env = Env::open_or_create(&directory).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..next).try_for_each(|one| check_value(&table, txn, one, VALUE_BYTES))).unwrap();
    Seen { records: next, refusals: dead.refusals + refusals }
}

#[test]
fn an_environment_opens_and_reads_on_a_full_disk_and_writes_when_there_is_room() {
    alone("full_disk::an_environment_opens_and_reads_on_a_full_disk_and_writes_when_there_is_room", || {
        let disks = sizes::number("LIBTP_TEST_DISKS", 5);
        let (mut records, mut refusals) = (0, 0);
        for one in 0..disks {
            // The sizes of the disks are between 6 MiB and 38 MiB, and are not round numbers.
            let bytes = (6 << 20) + one * (32 << 20) / disks + 4096 * one;
            let seen = one_disk(bytes, one % 2 == 1);
            records += seen.records;
            refusals += seen.refusals;
        }
        println!("figures: {disks} full disks, {refusals} refusals, {records} records, 0 lost, 0 SIGBUS");
    });
}

#[test]
fn a_disk_without_room_refuses_a_new_environment_and_accepts_it_when_there_is_room() {
    alone("full_disk::a_disk_without_room_refuses_a_new_environment_and_accepts_it_when_there_is_room", || {
        for room in [0, 4, 8, 16, 64, 512, 1024] {
            let disk = SmallDisk::mount(8 << 20);
            disk.ballast("ballast", (8 << 20) - (room << 10));
            let directory = disk.path().join("env");
            match Env::open_or_create(&directory).map(|env| env.btree("table").map(|_| ())) {
                Ok(Ok(())) => {}
                Ok(Err(error)) | Err(error) => says(&error, &["full"]),
            }
            disk.free("ballast");
            let env =
                Env::open_or_create(&directory).unwrap_or_else(|error| panic!("{room} KiB were left before: {error}"));
            let table = env.btree("table").unwrap();
            env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
            assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
        }
    });
}

#[test]
fn a_creation_that_a_full_disk_refused_succeeds_in_the_next_call() {
    alone("full_disk::a_creation_that_a_full_disk_refused_succeeds_in_the_next_call", || {
        let mut refused = 0;
        for room in [0, 4, 8, 16, 64, 512, 1024] {
            let disk = SmallDisk::mount(8 << 20);
            disk.ballast("ballast", (8 << 20) - (room << 10));
            let directory = disk.path().join("env");
            if let Err(error) = Env::create(&directory) {
                says(&error, &["full"]);
                refused += 1;
            } else {
                continue;
            }
            disk.free("ballast");
            let env = Env::create(&directory).unwrap_or_else(|error| panic!("{room} KiB were left before: {error}"));
            env.btree("table").unwrap();
            drop(env);
            let error = Env::create(&directory).map(|_| ()).unwrap_err();
            says(&error, &["it is an environment already"]);
        }
        assert!(refused > 2, "{refused} disks were full");
    });
}

/// Puts a long value in a transaction, and commits also if the put is refused because the disk is full. Returns whether
/// it was refused.
fn without_a_long_value(env: &Env, disk: &SmallDisk, bytes: usize) -> bool {
    let table = env.btree("table").unwrap();
    let value = vec![7; bytes];
    let txn = env.begin().unwrap();
    table.put(&txn, b"small", b"kept").unwrap();
    let refused = match table.put(&txn, b"long", &value) {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, Error::Full { .. }), "{error}");
            true
        }
    };
    txn.commit().unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"small")).unwrap().as_deref(), Some(&b"kept"[..]));
    let found = env.run(|txn| table.get(txn, b"long")).unwrap();
    assert_eq!(found.is_none(), refused, "{} bytes on {}", bytes, disk.path().display());
    assert_eq!(env.verify("table").unwrap().findings, [], "{bytes} bytes");
    refused
}

#[test]
fn a_long_value_that_a_full_disk_refused_leaves_no_page() {
    alone("full_disk::a_long_value_that_a_full_disk_refused_leaves_no_page", || {
        let (mut refused, mut taken) = (0, 0);
        for bytes in [100_000, 1 << 20, 4 << 20, 9 << 20, 14 << 20, 30 << 20] {
            let disk = SmallDisk::mount(24 << 20);
            let env = Env::builder().memory(libtp::Bytes::mib(4)).open(disk.path().join("env")).unwrap();
            match without_a_long_value(&env, &disk, bytes) {
                true => refused += 1,
                false => taken += 1,
            }
            env.run(|txn| env.btree("table")?.put(txn, b"more", b"value")).unwrap();
        }
        assert!(refused > 0 && taken > 0, "{refused} values refused, {taken} taken");
        println!("figures: {refused} long values refused on a full disk, {taken} taken, 0 pages lost");
    });
}

#[test]
fn a_disk_that_is_full_at_the_close_loses_nothing() {
    alone("full_disk::a_disk_that_is_full_at_the_close_loses_nothing", || {
        let disk = SmallDisk::mount(24 << 20);
        let directory = disk.path().join("env");
        let env = Env::open_or_create(&directory).unwrap();
        let table = env.btree("table").unwrap();
        for one in 0..500 {
            env.run(|txn| table.put(txn, &key_of(one), &value_of(one, VALUE_BYTES))).unwrap();
        }
        disk.ballast("ballast", u64::MAX);
        drop((table, env));
        for _ in 0..2 {
            let env = Env::open_or_create(&directory).unwrap();
            let table = env.btree("table").unwrap();
            env.run(|txn| (0..500).try_for_each(|one| check_value(&table, txn, one, VALUE_BYTES))).unwrap();
        }
    });
}
