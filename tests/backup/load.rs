//! Backups while other processes write. The restored state must be the committed state at the LSN where the backup
//! ends.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use libtp::{Backup, Bytes, DatabaseSettings, Env, RestorePoint, Settings};
use libtp_sim::Random;
use libtp_tests::sizes;

use crate::shop::{judge, Commit, Shop, NAMES};

/// Returns settings with little memory and short segments, so that little work evicts pages, begins segments and takes
/// checkpoints.
pub fn settings() -> Settings {
    let small = || DatabaseSettings { page_bytes: Some(Bytes::kib(4)), ..DatabaseSettings::default() };
    Settings {
        memory: Some(Bytes::kib(256)),
        log_segment_first: Some(Bytes::kib(64)),
        log_segment_max: Some(Bytes::kib(256)),
        checkpoint_log: Some(Bytes::kib(256)),
        lock_timeout_millis: Some(2_000),
        keep_log: Some(Bytes::mib(64)),
        database: NAMES.map(|name| (name.to_owned(), small())).into(),
        ..Settings::default()
    }
}

pub fn open(directory: &Path) -> Shop {
    Shop::open(Env::builder().settings(settings()).open(directory).unwrap()).unwrap()
}

/// Does `work` while `others` threads trade. Each thread has a handle of its own, as a process would. Returns the
/// commits of the threads.
pub fn while_others_trade(directory: &Path, others: u64, seed: u64, work: impl FnOnce()) -> Vec<Commit> {
    let (stop, commits) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for other in 0..others {
            let (stop, commits) = (&stop, &commits);
            scope.spawn(move || {
                let shop = open(directory);
                let mut random = Random::new(seed * 1000 + other);
                let mut own = Vec::new();
                let unfinished = shop.unfinished(&mut random).unwrap();
                // Relaxed: the flag publishes no other data.
                while !stop.load(Ordering::Relaxed) {
                    own.extend(shop.trade(&mut random).unwrap());
                }
                drop(unfinished);
                commits.lock().unwrap().extend(own);
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        work();
        stop.store(true, Ordering::Relaxed);
    });
    commits.into_inner().unwrap()
}

#[test]
fn a_backup_under_load_restores_to_one_committed_state() {
    let (mut commits_in_all, mut reread) = (0, 0);
    let rounds = sizes::number("LIBTP_TEST_BACKUPS", 3);
    for seed in sizes::first_seed()..sizes::first_seed() + rounds {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (backup, restored) = (other.path().join("backup"), other.path().join("restored"));
        let shop = open(directory.path());
        let mut commits = vec![shop.stock().unwrap()];
        let mut taken = None;
        commits.extend(while_others_trade(directory.path(), 3, seed, || {
            taken = Some(shop.env.backup(&backup, &mut |_| {}).unwrap());
        }));
        let taken = taken.unwrap();
        let done = Backup::open(&backup).unwrap().restore(&restored, RestorePoint::End, &mut |_| {}).unwrap();
        assert_eq!(done.end, taken.end, "seed {seed}");
        judge(&open(&restored), &commits, done.end);
        // The backup has not changed the original environment.
        judge(&shop, &commits, u64::MAX);
        commits_in_all += commits.len();
        reread += taken.reread;
    }
    println!("figures: {rounds} backups under load restored, {commits_in_all} commits, {reread} pages read again");
}

#[test]
fn the_state_at_any_lsn_after_the_copy_can_be_restored() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let seed = sizes::first_seed();
    let shop = open(directory.path());
    let mut commits = vec![shop.stock().unwrap()];
    commits.extend(while_others_trade(directory.path(), 2, seed, || {
        shop.env.backup(&backup, &mut |_| {}).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        shop.env.backup_more(&backup, &mut |_| {}).unwrap();
    }));
    drop(shop);
    // The log continues in another incarnation.
    let shop = open(directory.path());
    let mut last = None;
    commits.extend(while_others_trade(directory.path(), 2, seed + 7, || {
        std::thread::sleep(Duration::from_millis(100));
        last = Some(shop.env.backup_more(&backup, &mut |_| {}).unwrap());
    }));
    let last = last.unwrap();
    let backup = Backup::open(&backup).unwrap();
    let mut random = Random::new(seed);
    let places = sizes::number("LIBTP_TEST_PLACES", 100);
    for _ in 0..places {
        let until = backup.earliest() + random.below(backup.end() - backup.earliest());
        let restored = tempfile::tempdir().unwrap();
        let done = backup.restore(restored.path(), RestorePoint::Lsn(until), &mut |_| {}).unwrap();
        // The restore ends after the record that begins at or before `until`. No later commit may be there.
        assert!(done.end > until && done.end <= last.end, "{until}: {done:?}");
        judge(&open(restored.path()), &commits, until + 1);
    }
    println!(
        "figures: states at {places} places in {} bytes of log restored, {} commits",
        backup.end() - backup.earliest(),
        commits.len()
    );
}
