//! The rules of PROTOCOLS L10 that the other files do not test.

use std::time::{Duration, SystemTime};

use libtp::{Backup, Error, OpenedBy, RestorePoint};
use libtp_sim::Random;

use crate::load::{open, settings};
use crate::shop::{judge, Shop, NAMES};

#[test]
fn databases_made_during_a_backup_are_in_the_backup() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shop = open(directory.path());
    shop.stock().unwrap();
    let mut is_made = false;
    let env = &shop.env;
    let backup = other.path().join("backup");
    let late = |env: &libtp::Env, value: &[u8]| {
        let late = env.btree("late")?;
        env.run(|txn| late.put(txn, b"key", value))
    };
    shop.env
        .backup(&backup, &mut |now| {
            if now.step == "files" && !is_made {
                is_made = true;
                late(env, b"first").unwrap();
            }
        })
        .unwrap();
    assert!(is_made);
    let value = |name: &str| {
        let restored = other.path().join(name);
        Backup::open(&backup).unwrap().restore(&restored, RestorePoint::End, &mut |_| {}).unwrap();
        let restored = libtp::Env::builder().settings(settings()).open(&restored).unwrap();
        let late = restored.btree("late").unwrap();
        restored.run(|txn| late.get(txn, b"key")).unwrap()
    };
    assert_eq!(value("one").as_deref(), Some(&b"first"[..]));
    let later = env.btree("later").unwrap();
    env.run(|txn| later.put(txn, b"key", b"")).unwrap();
    late(env, b"second").unwrap();
    env.backup_more(&backup, &mut |_| {}).unwrap();
    assert_eq!(value("two").as_deref(), Some(&b"second"[..]));
    assert_eq!(
        libtp::Env::open_or_create(other.path().join("two")).unwrap().databases().unwrap().len(),
        NAMES.len() + 2
    );
}

#[test]
fn a_restored_environment_has_its_own_identity() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    // The environment has no background threads, which would continue after the simulated death of the process.
    let quiet = libtp::Settings { no_background: true, ..settings() };
    let shop = Shop::open(libtp::Env::builder().settings(quiet).open(directory.path()).unwrap()).unwrap();
    let mut commits = vec![shop.stock().unwrap()];
    let mut random = Random::new(3);
    let end = shop.env.backup(&backup, &mut |_| {}).unwrap().end;
    commits.extend(shop.trade(&mut random).unwrap());
    // The shared memory stays, as after a death. It has a commit that the backup does not have.
    shop.env.flush().unwrap();
    let id = |directory: &std::path::Path| std::fs::read(directory.join("control")).unwrap()[16..32].to_vec();
    let old = id(directory.path());
    let region = shop.env.managers().region.path().to_owned();
    shop.env.die();
    std::mem::forget(shop);
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    Backup::open(&backup).unwrap().restore(directory.path(), RestorePoint::End, &mut |_| {}).unwrap();
    assert_ne!(id(directory.path()), old);
    let restored = open(directory.path());
    assert_eq!(restored.env.opened().how, OpenedBy::Clean);
    judge(&restored, &commits, end);
    // Restores the same backup into another directory, while the first restored environment is open.
    let beside = other.path().join("beside");
    Backup::open(&backup).unwrap().restore(&beside, RestorePoint::End, &mut |_| {}).unwrap();
    let beside = open(&beside);
    beside.trade(&mut random).unwrap();
    judge(&restored, &commits, end);
    // No process uses the old region any more. Another test's process may have removed it.
    let _ = std::fs::remove_file(region);
}

#[test]
fn a_log_that_diverged_from_the_backed_up_log_is_not_added() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let copy = other.path().join("copy");
    let shop = open(directory.path());
    shop.stock().unwrap();
    drop(shop);
    // `cp -a` copies the control file, too, so the copy has the same identity.
    assert!(std::process::Command::new("cp").arg("-a").arg(directory.path()).arg(&copy).status().unwrap().success());
    let trade = |shop: &Shop, seed: u64| {
        let mut random = Random::new(seed);
        for _ in 0..20 {
            shop.trade(&mut random).unwrap();
        }
    };
    let (one, two) = (open(directory.path()), open(&copy));
    trade(&one, 1);
    trade(&two, 2);
    two.env.flush().unwrap();
    let end = one.env.backup(&backup, &mut |_| {}).unwrap().end;
    while two.env.stats().unwrap().log_durable < end + 4096 {
        trade(&two, 3);
        two.env.flush().unwrap();
    }
    let added = two.env.backup_more(&backup, &mut |_| {});
    assert!(matches!(added, Err(Error::Backup { .. })), "{added:?}");
    one.env.backup_more(&backup, &mut |_| {}).unwrap();
}

#[test]
fn recycled_log_is_not_added_and_the_error_names_the_setting() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let none = libtp::Settings { keep_log: None, ..settings() };
    let shop = Shop::open(libtp::Env::builder().settings(none).open(directory.path()).unwrap()).unwrap();
    shop.stock().unwrap();
    let end = shop.env.backup(&backup, &mut |_| {}).unwrap().end;
    let mut random = Random::new(4);
    while shop.env.stats().unwrap().log_oldest < end + (600 << 10) {
        for _ in 0..30 {
            shop.trade(&mut random).unwrap();
        }
        shop.env.checkpoint().unwrap();
    }
    let refused = shop.env.backup_more(&backup, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("keep_log") && refused.contains(&end.to_string()), "{refused}");
    assert_eq!(Backup::open(&backup).unwrap().end(), end);
}

#[test]
fn checkpoints_of_all_processes_keep_the_log_that_one_process_asks_to_keep() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let shop = open(directory.path());
    shop.stock().unwrap();
    let end = shop.env.backup(&backup, &mut |_| {}).unwrap().end;
    let none = libtp::Settings { keep_log: None, ..settings() };
    let second = libtp::Env::builder().settings(none).open(directory.path()).unwrap();
    let mut random = Random::new(4);
    while shop.env.stats().unwrap().log_tail < end + (1 << 20) {
        for _ in 0..30 {
            shop.trade(&mut random).unwrap();
        }
        second.checkpoint().unwrap();
    }
    shop.env.backup_more(&backup, &mut |_| {}).unwrap();
}

#[test]
fn log_that_was_kept_over_many_openings_is_added_to_a_backup() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (backup, restored) = (other.path().join("backup"), other.path().join("restored"));
    let opened = || libtp::Env::builder().settings(settings()).open(directory.path()).unwrap();
    let put = |env: &libtp::Env, value: u64| {
        let counter = env.btree("counter")?;
        env.run(|txn| counter.put(txn, b"value", &value.to_le_bytes()))
    };
    let env = opened();
    put(&env, 0).unwrap();
    env.backup(&backup, &mut |_| {}).unwrap();
    drop(env);
    // Makes more incarnations than a slot of the control file lists.
    for opening in 1..=100 {
        let env = opened();
        put(&env, opening).unwrap();
        env.checkpoint().unwrap();
    }
    opened().backup_more(&backup, &mut |_| {}).unwrap();
    Backup::open(&backup).unwrap().restore(&restored, RestorePoint::End, &mut |_| {}).unwrap();
    let restored = libtp::Env::builder().settings(settings()).open(&restored).unwrap();
    let counter = restored.btree("counter").unwrap();
    assert_eq!(restored.run(|txn| counter.get(txn, b"value")).unwrap(), Some(100_u64.to_le_bytes().to_vec()));
}

#[test]
fn a_restore_to_a_time_has_the_commits_before_it_and_none_after_it() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let shop = open(directory.path());
    let mut commits = vec![shop.stock().unwrap()];
    let mut random = Random::new(8);
    shop.env.backup(&backup, &mut |_| {}).unwrap();
    let mut moments = Vec::new();
    for _ in 0..6 {
        for _ in 0..5 {
            commits.extend(shop.trade(&mut random).unwrap());
        }
        // After this flush, all commits so far are on disk.
        shop.env.flush().unwrap();
        let last = commits.iter().map(|commit| commit.lsn).max().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        moments.push((SystemTime::now(), last));
        std::thread::sleep(Duration::from_millis(3));
    }
    shop.env.backup_more(&backup, &mut |_| {}).unwrap();
    let backup = Backup::open(&backup).unwrap();
    for (at, (time, last)) in moments.into_iter().enumerate() {
        let restored = other.path().join(format!("restored-{at}"));
        backup.restore(&restored, RestorePoint::Time(time), &mut |_| {}).unwrap();
        judge(&open(&restored), &commits, last + 1);
    }
    let early = SystemTime::now() - Duration::from_secs(3600);
    let refused =
        |time| backup.restore(other.path().join("refused"), RestorePoint::Time(time), &mut |_| {}).unwrap_err();
    assert!(matches!(refused(early), Error::Backup { .. }));
    assert!(matches!(refused(SystemTime::now() + Duration::from_secs(60)), Error::Backup { .. }));
}

#[test]
fn a_second_backup_into_the_same_directory_is_refused_and_the_first_is_complete() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shop = open(directory.path());
    let mut commits = vec![shop.stock().unwrap()];
    let backup = other.path().join("backup");
    // The errors of a second backup, once while the first backup is a full backup, and once while the first adds log to
    // the directory.
    let mut told = Vec::new();
    let mut beside = |is_more: bool| {
        let second = match is_more {
            true => shop.env.backup_more(&backup, &mut |_| {}),
            false => shop.env.backup(&backup, &mut |_| {}),
        };
        told.push(second.expect_err("another backup is running").to_string());
    };
    let mut is_first = true;
    shop.env
        .backup(&backup, &mut |_| {
            if std::mem::take(&mut is_first) {
                beside(false)
            }
        })
        .unwrap();
    commits.extend(shop.trade(&mut Random::new(5)).unwrap());
    is_first = true;
    let end = shop
        .env
        .backup_more(&backup, &mut |_| {
            if std::mem::take(&mut is_first) {
                beside(true)
            }
        })
        .unwrap()
        .end;
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|told| told.contains("another backup to it is running")), "{told:?}");
    // No process holds the backup any more.
    shop.env.backup_more(&backup, &mut |_| {}).unwrap();
    let restored = other.path().join("restored");
    Backup::open(&backup).unwrap().restore(&restored, RestorePoint::End, &mut |_| {}).unwrap();
    judge(&open(&restored), &commits, end);
}
