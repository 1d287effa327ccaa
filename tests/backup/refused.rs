//! Refused openings. They change no byte, and an opening succeeds when the missing file is back. An unfinished restore
//! is refused, too.

use std::time::SystemTime;

use libtp::{Backup, Durability, Env, Error, RestorePoint, SharedMemory};
use libtp_io::{Directory, OpenMode};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;

use crate::shop::{judge, Commit, Shop};
use crate::simulated::{inside, open, platform, play, quiet};

/// Bytes of log in each segment of these environments.
const SEGMENT_BYTES: u64 = (16 << 10) - 4096;

fn segment_of(lsn: u64) -> u64 {
    lsn / SEGMENT_BYTES + 1
}

/// Returns every file with its bytes.
fn contents(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.file_bytes(&path))).collect()
}

/// Opens the environment `name` on the disk without shared memory, as after a restart of the machine.
fn open_anew(disk: &SimDisk, name: &str) -> libtp::Result<Env> {
    open(platform(name, inside(disk, name), &SharedMemory::new()))
}

/// Makes an environment with commits in several segments after its last checkpoint. Returns it with its commits.
fn trade_on(disk: &SimDisk, seed: u64) -> (Shop, Vec<Commit>) {
    let shop = Shop::open(open_anew(disk, "env").unwrap()).unwrap();
    let mut random = Random::new(seed);
    let mut commits = vec![shop.stock().unwrap()];
    shop.env.checkpoint().unwrap();
    let checkpointed = segment_of(shop.env.stats().unwrap().log_tail);
    while segment_of(commits.last().unwrap().lsn) < checkpointed + 3 {
        commits.extend(shop.trade(&mut random).unwrap());
    }
    // Some of the commits have not waited for the disk.
    shop.env.flush().unwrap();
    (shop, commits)
}

#[test]
fn a_log_file_that_is_missing_or_cut_is_refused_and_nothing_is_changed() {
    let seed = sizes::first_seed();
    let disk = SimDisk::new(seed);
    let (shop, commits) = trade_on(&disk, seed);
    let oldest = segment_of(shop.env.stats().unwrap().log_oldest);
    let newest = segment_of(commits.last().unwrap().lsn);
    let mut refused = 0;
    for number in oldest..=newest {
        let name = format!("log.{number:08}");
        for kept in [None, Some(0), Some(4096), Some(12_000)] {
            let what = format!("LIBTP_TEST_SEED={seed}, {name} keeps {kept:?} bytes");
            let image = disk.crash_image(LossMode::KeepAll, seed);
            let directory = inside(&image, "env");
            let file = directory.open(&name, OpenMode::Existing).unwrap();
            let mut whole = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(&mut whole, 0).unwrap();
            match kept {
                None => directory.remove(&name).unwrap(),
                Some(bytes) => file.set_len(bytes).unwrap(),
            }
            let before = contents(&image);
            let error = open_anew(&image, "env").err().unwrap_or_else(|| panic!("{what}: the directory was opened"));
            assert!(error.to_string().contains(&name), "{what}: {error}");
            assert!(contents(&image) == before, "{what}: the refused opening has changed a file");
            directory.open(&name, OpenMode::Create).unwrap().write_at(&whole, 0).unwrap();
            let env = open_anew(&image, "env").unwrap_or_else(|error| panic!("{what}, put back: {error}"));
            judge(&Shop::open(env).unwrap(), &commits, u64::MAX);
            refused += 1;
        }
    }
    println!("figures: {refused} openings refused without a change, {} commits kept", commits.len());
}

#[test]
fn damage_in_log_that_only_undo_needs_is_refused_and_nothing_is_changed() {
    let disk = SimDisk::new(sizes::first_seed());
    let env = open_anew(&disk, "env").unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"pears", b"1")).unwrap();
    env.checkpoint().unwrap();
    let loser = env.begin().unwrap();
    let lsn = env.stats().unwrap().log_tail;
    stock.put(&loser, b"pears", b"2").unwrap();
    stock.put(&loser, b"pears", b"3").unwrap();
    // The redo point is after the loser's records.
    env.flush().unwrap();
    env.checkpoint().unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    env.checkpoint().unwrap();
    env.run_with(Durability::Sync, |txn| stock.put(txn, b"plums", b"4")).unwrap();
    let image = disk.crash_image(LossMode::KeepAll, 1);
    let (name, at) = (format!("log.{:08}", segment_of(lsn)), lsn % SEGMENT_BYTES + 4096 + 24);
    let file = inside(&image, "env").open(&name, OpenMode::Existing).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 1], at).unwrap();
    let before = contents(&image);
    let error = open_anew(&image, "env").map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains(&lsn.to_string()), "{lsn}: {error}");
    assert!(contents(&image) == before, "the refused opening has changed a file");
    file.write_at(&byte, at).unwrap();
    let env = open_anew(&image, "env").unwrap();
    let stock = env.btree("stock").unwrap();
    assert_eq!(env.run(|txn| stock.get(txn, b"pears")).unwrap().as_deref(), Some(&b"1"[..]));
    loser.abort().unwrap();
}

#[test]
fn a_refused_restore_makes_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (home, copy, target) =
        (directory.path().join("env"), directory.path().join("copy"), directory.path().join("new/restored"));
    let env = Env::open_or_create(&home).unwrap();
    env.backup(&copy, &mut |_| {}).unwrap();
    let backup = Backup::open(&copy).unwrap();
    let refused = backup.restore(&target, RestorePoint::Lsn(backup.end() + 8), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Backup { .. }), "{refused}");
    assert!(!directory.path().join("new").exists(), "the refused restore has made a directory");
    backup.restore(&target, RestorePoint::End, &mut |_| {}).unwrap();
}

#[test]
fn an_environment_without_its_control_file_is_refused_and_no_new_environment_is_made() {
    let seed = sizes::first_seed();
    let disk = SimDisk::new(seed);
    let (_shop, commits) = trade_on(&disk, seed);
    let image = disk.crash_image(LossMode::KeepAll, seed);
    let directory = inside(&image, "env");
    directory.rename("control", "away").unwrap();
    let before = contents(&image);
    let error = open_anew(&image, "env").err().unwrap();
    assert!(matches!(error, Error::Environment { .. }), "{error}");
    assert!(contents(&image) == before, "the refused opening has changed a file");
    directory.rename("away", "control").unwrap();
    judge(&Shop::open(open_anew(&image, "env").unwrap()).unwrap(), &commits, u64::MAX);
}

#[test]
fn a_power_cut_in_a_restore_leaves_a_whole_environment_or_no_environment() {
    let seed = sizes::first_seed();
    let played = play(seed).unwrap();
    let backup = Backup::open_on(inside(&played.disk, "backup")).unwrap();
    let disk = SimDisk::new(seed);
    let target = platform("restored", inside(&disk, "restored"), &SharedMemory::new());
    disk.sync().unwrap();
    let begun = disk.io_index();
    let end = backup.restore_on(target, quiet(), RestorePoint::End, &mut |_| {}).unwrap().end;
    let mut random = Random::new(seed);
    let (mut whole, mut none, mut not_begun) = (0, 0, 0);
    let mut images = disk.crash_images();
    images.advance_to(begun);
    let mut is_over = false;
    while !is_over {
        is_over = images.advance().is_none();
        let position = images.position();
        if position > begun + 40 && !is_over && !random.chance(1, 8) {
            continue;
        }
        for mode in LossMode::ALL {
            let image = images.image(mode, position as u64);
            let what = format!("LIBTP_TEST_SEED={seed} call {position} {mode:?}");
            if inside(&image, "restored").list().unwrap().is_empty() {
                assert!(!is_over, "{what}: the complete restore has lost its files");
                not_begun += 1;
                continue;
            }
            match open_anew(&image, "restored") {
                Ok(env) => {
                    judge(&Shop::open(env).unwrap_or_else(|error| panic!("{what}: {error}")), &played.commits, end);
                    whole += 1;
                }
                Err(Error::Environment { .. }) if !is_over => none += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} images with an environment, {none} images without");
    println!("figures: {} power cuts in a restore, {whole} left an environment, {none} left no environment, {not_begun} left an empty directory", whole + none + not_begun);
}

#[test]
fn a_restore_with_wrong_arguments_or_settings_is_refused_and_nothing_is_changed() {
    let seed = sizes::first_seed();
    let played = play(seed).unwrap();
    let disk = SimDisk::new(seed);
    let target = || platform("restored", inside(&disk, "restored"), &SharedMemory::new());
    let before = contents(&disk);
    let refused = |directory, until| {
        let backup = Backup::open_on(directory).unwrap();
        let error = backup.restore_on(target(), quiet(), until, &mut |_| {}).unwrap_err();
        assert!(contents(&disk) == before, "the refused restore has made a file: {error}");
        error
    };
    let backup = || inside(&played.disk, "backup");
    let (earliest, end) = (Backup::open_on(backup()).unwrap().earliest(), Backup::open_on(backup()).unwrap().end());
    for until in
        [RestorePoint::Lsn(earliest - 48), RestorePoint::Lsn(end + 8), RestorePoint::Time(SystemTime::UNIX_EPOCH)]
    {
        let error = refused(backup(), until);
        assert!(matches!(error, Error::Backup { .. }), "{until:?}: {error}");
    }
    let with_settings = |text: &[u8]| {
        let image = played.disk.crash_image(LossMode::KeepAll, seed);
        inside(&image, "backup").open("libtp.toml", OpenMode::Create).unwrap().write_at(text, 0).unwrap();
        inside(&image, "backup")
    };
    for text in [b"lanes = 65\n".to_vec(), b"#".repeat((1 << 20) + 1)] {
        let error = refused(with_settings(&text), RestorePoint::End);
        assert!(matches!(error, Error::Settings { .. }), "{error}");
        assert!(error.to_string().contains("libtp.toml"), "{error}");
    }
    // Settings in the target have precedence over the backup's.
    inside(&disk, "restored").open("libtp.toml", OpenMode::Create).unwrap().write_at(b"lanes = 64\n", 0).unwrap();
    let backup = Backup::open_on(with_settings(b"lanes = 65\n")).unwrap();
    backup.restore_on(target(), quiet(), RestorePoint::End, &mut |_| {}).unwrap();
    judge(&Shop::open(open_anew(&disk, "restored").unwrap()).unwrap(), &played.commits, end);
}

#[test]
fn an_environment_is_not_made_in_the_directory_of_a_backup() {
    let seed = sizes::first_seed();
    let played = play(seed).unwrap();
    for (begins, name) in [("backup.toml", "whole"), ("backup.unfinished", "cut off")] {
        let image = played.disk.crash_image(LossMode::KeepAll, seed);
        let directory = inside(&image, "backup");
        if begins == "backup.unfinished" {
            for name in directory.list().unwrap() {
                directory.remove(&name).unwrap();
            }
            directory.open(begins, OpenMode::CreateNew).unwrap();
        }
        let before = contents(&image);
        let error = open_anew(&image, "backup").err().unwrap_or_else(|| panic!("{name}: it was opened"));
        assert!(error.to_string().contains(begins), "{name}: {error}");
        assert!(contents(&image) == before, "{name}: the refused opening has changed a file");
    }
}
