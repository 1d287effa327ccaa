//! Backups on a simulated disk. In the middle of the backup's reads, other sessions change and write pages, so that the
//! backup reads torn pages. In another test the power fails at any call of a backup: there must be a complete backup or
//! no backup, and the environment is unaffected.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use libtp::{Backup, Bytes, Env, Error, Platform, RestorePoint, Settings, SharedMemory};
use libtp_io::{Directory, File, Result};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;
use libtp_tests::versions;
use libtp_tests::wrapped::{Calls, WrappedDirectory};

use crate::load::settings;
use crate::shop::{judge, model_at, Commit, Shop};

/// The number of bytes after which a read lets other sessions work. It is smaller than a page.
const MOMENT_BYTES: usize = 1536;
/// Reads below this length are reads of single pages, which sessions make while they hold a latch.
const LONG_BYTES: usize = 16 << 10;

/// Replaces the reads of a file: reads long pieces in small parts, and calls the function after each part.
struct Slow<F>(F);

impl<F: Fn() + Send + Sync> Calls for Slow<F> {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        if buf.len() < LONG_BYTES {
            return file.read_at(buf, offset);
        }
        let mut done = 0;
        for part in buf.chunks_mut(MOMENT_BYTES) {
            let read = file.read_at(part, offset + done as u64)?;
            done += read;
            if read < part.len() {
                break;
            }
            (self.0)();
        }
        Ok(done)
    }
}

pub fn platform(name: &str, directory: Arc<dyn Directory>, memory: &SharedMemory) -> Platform {
    Platform { path: PathBuf::from("sim:").join(name), ..versions::platform(directory, memory) }
}

pub fn quiet() -> Settings {
    Settings {
        no_background: true,
        lock_timeout_millis: Some(0),
        // Only a running backup keeps the log.
        keep_log: None,
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(16)),
        ..settings()
    }
}

pub fn open(platform: Platform) -> libtp::Result<Env> {
    Env::builder().settings(quiet()).open_on(platform, &mut |_| {})
}

/// Returns the directory `name` of the disk.
pub fn inside(disk: &SimDisk, name: &str) -> Arc<dyn Directory> {
    disk.subdirectory(name).unwrap()
}

/// Restores the disk's backup to another disk, and judges the restored environment. Returns the backup's end.
fn judge_backup(disk: &SimDisk, commits: &[Commit], until: RestorePoint) -> libtp::Result<u64> {
    let backup = Backup::open_on(inside(disk, "backup"))?;
    let (other, memory) = (SimDisk::new(1), SharedMemory::new());
    let target = || platform("restored", inside(&other, "restored"), &memory);
    let end = backup.restore_on(target(), quiet(), until, &mut |_| {})?.end;
    judge(&Shop::open(open(target())?)?, commits, end);
    Ok(end)
}

/// A disk on which an environment was backed up while it was changed, with the commits and the disk calls of the
/// backup.
pub struct Played {
    pub disk: SimDisk,
    pub commits: Vec<Commit>,
    calls: std::ops::Range<usize>,
    reread: u64,
}

pub fn play(seed: u64) -> libtp::Result<Played> {
    let (disk, memory) = (SimDisk::new(seed), SharedMemory::new());
    // Makes the directories before the sync, so that they survive every power cut.
    let _ = (inside(&disk, "env"), inside(&disk, "backup"));
    disk.sync()?;
    let shop = Arc::new(Shop::open(open(platform("env", inside(&disk, "env"), &memory))?)?);
    let mut random = Random::new(seed);
    let mut first = vec![shop.stock()?];
    for _ in 0..60 {
        first.extend(shop.trade(&mut random)?);
    }
    shop.env.checkpoint()?;
    let done = Arc::new(Mutex::new((random, first)));
    let (at_work, doing) = (Arc::clone(&shop), Arc::clone(&done));
    let meanwhile = move || {
        let mut doing = doing.lock().unwrap();
        let (random, commits) = &mut *doing;
        if random.chance(1, 4) {
            commits.extend(at_work.trade(random).unwrap());
        }
        if random.chance(1, 12) {
            let managers = at_work.env.managers();
            let txn = managers.join().unwrap();
            managers.buffers.write_all(txn.session()).unwrap();
            managers.leave(txn);
        }
        if random.chance(1, 60) {
            at_work.env.checkpoint().unwrap();
        }
    };
    let slow = WrappedDirectory::new(inside(&disk, "env"), ".tp", Arc::new(Slow(meanwhile)));
    let copier = open(platform("env", Arc::new(slow), &memory))?;
    let begun = disk.io_index();
    let taken = copier.backup_on(&inside(&disk, "backup"), &mut |_| {})?;
    let calls = begun..disk.io_index();
    drop(copier);
    drop(shop);
    let commits = done.lock().unwrap().1.clone();
    Ok(Played { disk, commits, calls, reread: taken.reread })
}

#[test]
fn pages_written_while_a_backup_reads_them_do_no_harm() {
    let seeds = sizes::number("LIBTP_TEST_BACKUPS", 10);
    let (mut reread, mut commits) = (0, 0);
    for seed in sizes::first_seed()..sizes::first_seed() + seeds {
        let played = play(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        judge_backup(&played.disk, &played.commits, RestorePoint::End)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        reread += played.reread;
        commits += played.commits.len();
    }
    assert!(reread > 0, "no page was torn, so the test shows nothing");
    println!("figures: {seeds} backups in the middle of {commits} commits, {reread} torn pages read again");
}

#[test]
fn a_power_cut_in_a_backup_leaves_a_whole_backup_or_no_backup() {
    let seed = sizes::first_seed();
    let played = play(seed).unwrap();
    let mut random = Random::new(seed);
    let (mut whole, mut none) = (0, 0);
    for _ in 0..sizes::number("LIBTP_TEST_BACKUP_CUTS", 40) {
        let calls = played.calls.end - played.calls.start;
        // Half of the power cuts are at the backup's last calls, where it becomes valid.
        let at =
            if random.coin() { played.calls.end - random.index(12) } else { played.calls.start + random.index(calls) };
        let mode = LossMode::ALL[random.index(7)];
        let image = played.disk.image_at(at, mode, random.next_u64());
        let what = format!("LIBTP_TEST_SEED={seed} call {at} {mode:?}");
        let env = open(platform("env", inside(&image, "env"), &SharedMemory::new()))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = Shop::open(env).unwrap().state().unwrap();
        let mut ends: Vec<u64> = played.commits.iter().map(|commit| commit.lsn + 1).collect();
        ends.sort_unstable();
        let differs = |end: &u64| {
            let wanted = model_at(&played.commits, *end);
            let places = wanted.keys().chain(found.keys().filter(|place| !wanted.contains_key(*place)));
            places.filter(|place| wanted.get(place) != found.get(place)).count()
        };
        let nearest = ends.iter().rev().map(|end| (differs(end), *end)).min_by_key(|near| near.0).unwrap();
        assert_eq!(
            nearest.0, 0,
            "{what}: number of records that differ from the state at LSN {}, the most similar state",
            nearest.1
        );
        match judge_backup(&image, &played.commits, RestorePoint::End) {
            Ok(_) => whole += 1,
            Err(Error::Backup { .. }) if at < played.calls.end => none += 1,
            Err(error) => panic!("{what}: {error}"),
        }
    }
    assert!(whole > 0 && none > 0, "{whole} power cuts left a backup, {none} left no backup");
    println!("figures: {} power cuts in a backup, {whole} left a complete backup, {none} no backup", whole + none);
}
