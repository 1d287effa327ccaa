//! Damaged backups, full disks, and directories that are no backup: each is reported.

use std::path::Path;
use std::sync::Arc;

use libtp::{Backup, Error, RestorePoint};
use libtp_io::Directory;
use libtp_sim::{Random, SimDisk};
use libtp_tests::sizes;

use crate::load::open;
use crate::shop::{judge, Commit, Shop};

fn traded(directory: &Path, count: usize) -> (Shop, Vec<Commit>) {
    let shop = open(directory);
    let mut commits = vec![shop.stock().unwrap()];
    let mut random = Random::new(5);
    for _ in 0..count {
        commits.extend(shop.trade(&mut random).unwrap());
    }
    (shop, commits)
}

#[test]
fn a_damaged_backup_is_noticed() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let (shop, mut commits) = traded(directory.path(), 80);
    shop.env.backup(&backup, &mut |_| {}).unwrap();
    let mut random = Random::new(6);
    for _ in 0..30 {
        commits.extend(shop.trade(&mut random).unwrap());
    }
    shop.env.backup_more(&backup, &mut |_| {}).unwrap();
    Backup::open(&backup).unwrap().check(&mut |_| {}).unwrap();
    let files: Vec<_> = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path()).collect();
    let harms = sizes::number("LIBTP_TEST_HARMS", 60);
    let (mut noticed, mut harmless) = (0, 0);
    for _ in 0..harms {
        let file = &files[random.index(files.len())];
        if file.ends_with("libtp.toml") {
            continue;
        }
        let good = std::fs::read(file).unwrap();
        let mut bad = good.clone();
        let at = random.index(bad.len());
        match random.below(4) {
            0 => bad.truncate(at),
            // A lost page reads as zeros, like a page that was never written.
            1 => bad[at / 4096 * 4096..].iter_mut().take(4096).for_each(|byte| *byte = 0),
            _ => bad[at] ^= 1 << random.below(8),
        }
        if bad == good {
            continue;
        }
        std::fs::write(file, &bad).unwrap();
        let restored = other.path().join("restored");
        let what = format!("{} at {at}", file.display());
        let checked = Backup::open(&backup).and_then(|backup| backup.check(&mut |_| {}));
        match Backup::open(&backup).and_then(|backup| backup.restore(&restored, RestorePoint::End, &mut |_| {})) {
            Err(Error::Corrupt(_) | Error::Backup { .. }) => {
                assert!(checked.is_err(), "{what}: `check` does not report the damage");
                noticed += 1;
            }
            Err(error) => panic!("{what}: {error}"),
            // Damage to the log before the checkpoint does no harm.
            Ok(done) => {
                judge(&open(&restored), &commits, done.end);
                harmless += 1;
            }
        }
        // The restore may have made files before it noticed the damage.
        let _ = std::fs::remove_dir_all(&restored);
        std::fs::write(file, &good).unwrap();
    }
    println!("figures: {} damaged backups, {noticed} noticed, {harmless} with harmless damage", noticed + harmless);
    assert!(noticed > harms / 2);
}

#[test]
fn a_damaged_page_of_a_backup_is_named() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let (shop, _) = traded(directory.path(), 80);
    shop.env.backup(&backup, &mut |_| {}).unwrap();
    let files = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "tp")) {
        let good = std::fs::read(&file).unwrap();
        for at in [100, good.len() - 100] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&file, &bad).unwrap();
            let error = Backup::open(&backup).and_then(|backup| backup.check(&mut |_| {})).unwrap_err();
            let Error::Corrupt(damage) = &error else { panic!("{error}") };
            let page = damage.page.unwrap_or_else(|| panic!("no page is named: {error}"));
            assert_eq!(page == 0, at == 100, "{error}");
            assert!(error.to_string().contains(&format!("page {page}")), "{error}");
        }
        std::fs::write(&file, &good).unwrap();
    }
}

#[test]
fn a_full_disk_ends_a_backup_and_does_not_affect_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let (shop, mut commits) = traded(directory.path(), 80);
    let mut random = Random::new(7);
    let (mut refused, mut taken) = (0, 0);
    let disk = SimDisk::new(1);
    let to: Arc<dyn Directory> = Arc::new(disk.clone());
    for room in (0..).map(|step| step * (48 << 10)) {
        disk.set_capacity(Some(room));
        commits.extend(shop.trade(&mut random).unwrap());
        match shop.env.backup_on(&to, &mut |_| {}) {
            Err(Error::Full { .. }) => {
                refused += 1;
                assert!(Backup::open_on(Arc::clone(&to)).is_err(), "with {room} bytes there must be no backup");
            }
            Err(error) => panic!("{room} bytes: {error}"),
            Ok(_) => {
                taken += 1;
                let restored = tempfile::tempdir().unwrap();
                let backup = Backup::open_on(Arc::clone(&to)).unwrap();
                let end = backup.restore(restored.path(), RestorePoint::End, &mut |_| {}).unwrap().end;
                judge(&open(restored.path()), &commits, end);
                break;
            }
        }
    }
    // An addition to the backup fails because the disk is full. The backup must keep its earlier state.
    let before = Backup::open_on(Arc::clone(&to)).unwrap().end();
    for _ in 0..40 {
        commits.extend(shop.trade(&mut random).unwrap());
    }
    assert!(matches!(shop.env.backup_more_on(&to, &mut |_| {}), Err(Error::Full { .. })));
    let backup = Backup::open_on(Arc::clone(&to)).unwrap();
    assert_eq!(backup.end(), before);
    let restored = tempfile::tempdir().unwrap();
    backup.restore(restored.path(), RestorePoint::End, &mut |_| {}).unwrap();
    judge(&open(restored.path()), &commits, before);
    disk.set_capacity(None);
    let more = shop.env.backup_more_on(&to, &mut |_| {}).unwrap();
    let again = tempfile::tempdir().unwrap();
    Backup::open_on(to).unwrap().restore(again.path(), RestorePoint::End, &mut |_| {}).unwrap();
    judge(&open(again.path()), &commits, more.end);
    println!("figures: {refused} backups refused on a full disk, {taken} taken");
}

#[test]
fn a_directory_that_is_no_backup_of_this_environment_is_refused() {
    let (one, two, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let ((first, _), (second, _)) = (traded(one.path(), 3), traded(two.path(), 3));
    let watch = &mut |_: libtp::Progress| {};
    assert!(
        matches!(first.env.backup_more(&backup, watch), Err(Error::Backup { .. })),
        "the directory has no backup yet"
    );
    first.env.backup(&backup, watch).unwrap();
    assert!(
        matches!(first.env.backup(&backup, watch), Err(Error::Backup { .. })),
        "the directory has a backup already"
    );
    assert!(
        matches!(second.env.backup_more(&backup, watch), Err(Error::Backup { .. })),
        "the backup is of another environment"
    );
    assert!(
        matches!(first.env.backup(one.path(), watch), Err(Error::Backup { .. })),
        "the directory is an environment"
    );
    assert!(matches!(Backup::open(one.path()), Err(Error::Backup { .. })));
    let whole = Backup::open(&backup).unwrap();
    assert!(matches!(whole.restore(two.path(), RestorePoint::End, watch), Err(Error::Environment { .. })));
    let fresh = other.path().join("fresh");
    assert!(matches!(
        whole.restore(&fresh, RestorePoint::Lsn(whole.earliest() - 48), watch),
        Err(Error::Backup { .. })
    ));
    let _ = std::fs::remove_dir_all(&fresh);
    assert!(matches!(whole.restore(&fresh, RestorePoint::Lsn(whole.end() + 8), watch), Err(Error::Backup { .. })));
}
