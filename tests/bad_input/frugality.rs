//! The memory and disk that a new environment takes, and the number of locks and records that default settings allow.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libtp::{Durability, Env};
use libtp_tests::sizes;

use crate::error_texts::{check_value, key_of, value_of};

/// Returns the bytes of the blocks that the files of a directory take.
fn allocated(directory: &Path) -> u64 {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn a_new_environment_takes_little_memory_and_disk() {
    let mut best = Duration::MAX;
    let (mut region, mut disk) = (0, 0);
    for _ in 0..7 {
        let directory = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let env = Env::open_or_create(directory.path()).unwrap();
        best = best.min(start.elapsed());
        let table = env.btree("table").unwrap();
        env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
        region = region.max(env.stats().unwrap().region_allocated);
        disk = disk.max(allocated(directory.path()));
    }
    println!(
        "figures: a new environment: {} KiB of memory, {} KiB of disk, open in {:.1} ms",
        region >> 10,
        disk >> 10,
        best.as_secs_f64() * 1e3
    );
    // Both figures are the bytes of allocated blocks, not the lengths of the files.
    assert!(region < 3 << 20, "{region} bytes of shared memory");
    assert!(disk < 4 << 20, "{disk} bytes of files");
}

#[test]
fn many_locks_need_no_setting() {
    let locks = sizes::number("LIBTP_TEST_LOCKS", 200_000);
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().durability(Durability::Relaxed).open(directory.path()).unwrap();
    let cells = env.recno("cells", 8).unwrap();
    for _ in 0..locks / 10_000 {
        env.run(|txn| (0..10_000).try_for_each(|_| cells.append(txn, &[0; 8]).map(|_| ()))).unwrap();
    }
    let start = Instant::now();
    let txn = env.begin().unwrap();
    for number in 1..=locks {
        cells.put(&txn, number, &number.to_le_bytes()).unwrap();
    }
    let stats = env.stats().unwrap();
    let took = start.elapsed();
    txn.commit().unwrap();
    println!(
        "figures: {locks} locks of one transaction in {} ms, region {} MiB",
        took.as_millis(),
        stats.region_allocated >> 20
    );
    let last = env.run(|txn| cells.get(txn, locks)).unwrap();
    assert_eq!(last.as_deref(), Some(&locks.to_le_bytes()[..]));
    assert!(env.locks().unwrap().len() < 10, "locks are left");
}

#[test]
fn many_records_need_no_setting() {
    let records = sizes::number("LIBTP_TEST_RECORDS", 300_000);
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    // This is a permutation of the keys, so no key is put twice.
    let number = |one: u64| one.wrapping_mul(1_000_003) % records;
    let is_prime_to = |mut one: u64, mut other: u64| {
        while other != 0 {
            (one, other) = (other, one % other);
        }
        one == 1
    };
    assert!(is_prime_to(1_000_003, records), "choose another LIBTP_TEST_RECORDS");
    let start = Instant::now();
    for first in (0..records).step_by(1000) {
        env.run_with(Durability::Relaxed, |txn| {
            (first..records.min(first + 1000))
                .try_for_each(|one| table.put(txn, &key_of(number(one)), &value_of(number(one), 60)))
        })
        .unwrap();
    }
    let took = start.elapsed();
    let rate = u128::from(records) * 1000 / took.as_millis().max(1);
    let stats = env.stats().unwrap();
    println!("figures: {records} records loaded at {rate} a second, region {} MiB", stats.region_allocated >> 20);
    for first in (0..records).step_by(7919) {
        env.run(|txn| check_value(&table, txn, first, 60)).unwrap();
    }
    assert_eq!(env.verify("table").unwrap().records, records);
}
