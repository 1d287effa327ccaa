//! Work in versions on a simulated disk: each transaction brings all data to the next version. After a power cut, all
//! data must have the same version.

use std::path::PathBuf;
use std::sync::Arc;

use libtp::{Bytes, Durability, Env, Memory, Platform, Settings, SharedMemory};
use libtp_io::Directory;
use libtp_sim::{LossMode, Random, SimDisk};

use crate::sizes;

/// Returns the platform of an environment in `directory`.
pub fn platform(directory: Arc<dyn Directory>, memory: &SharedMemory) -> Platform {
    Platform {
        path: PathBuf::from("sim:"),
        log_directory: Arc::clone(&directory),
        directory,
        memory: Memory::Shared(memory.clone()),
        log_types: Arc::default(),
    }
}

/// Returns the platform of an environment in the directory `env` of a disk.
///
/// # Errors
/// The disk's errors.
pub fn platform_on(disk: &SimDisk, memory: &SharedMemory) -> libtp::Result<Platform> {
    Ok(Platform { path: PathBuf::from("sim:/env"), ..platform(disk.subdirectory("env")?, memory) })
}

/// Returns settings with little memory and short logs. No work of the environment is started by a clock.
pub fn settings() -> Settings {
    Settings {
        no_background: true,
        memory: Some(Bytes::kib(192)),
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(64)),
        checkpoint_log: Some(Bytes::kib(96)),
        lock_timeout_millis: Some(0),
        // The durability of ordinary transactions. A transaction that drops a database or changes plain files is
        // synced.
        durability: Some(Durability::Relaxed),
        relaxed_millis: Some(3_600_000),
        ..Settings::default()
    }
}

/// Opens the environment in the directory `env` of a disk.
///
/// # Errors
/// The library's errors.
pub fn open(disk: &SimDisk, memory: &SharedMemory) -> libtp::Result<Env> {
    Env::builder().settings(settings()).open_on(platform_on(disk, memory)?, &mut |_| {})
}

/// Returns a disk with these directories.
///
/// # Panics
/// Never: the disk fails no call.
pub fn new_disk(seed: u64, directories: &[&str]) -> SimDisk {
    let disk = SimDisk::new(seed);
    for name in directories {
        disk.subdirectory(name).expect("a healthy disk");
    }
    disk.sync().expect("a healthy disk");
    disk
}

/// A run: the disk afterwards, and the calls at which each version was made.
pub struct Played {
    disk: SimDisk,
    /// The number of disk calls when version 0 was complete.
    begun: usize,
    /// For each later version, the number of disk calls when it was requested, and when it was answered.
    versions: Vec<(usize, usize)>,
}

impl Played {
    /// Makes versions 1 to `versions` by calls of `step`. Between them, `change` makes a part of the next version in
    /// transactions that then abort or die.
    ///
    /// # Panics
    /// If a call fails.
    pub fn new(
        disk: SimDisk,
        env: &Env,
        versions: u64,
        random: &mut Random,
        change: impl Fn(&libtp::Txn<'_>) -> libtp::Result<()>,
        step: impl Fn(u64) -> libtp::Result<()>,
    ) -> Played {
        let begun = disk.io_index();
        let mut played = Vec::new();
        for version in 1..=versions {
            if random.chance(1, 3) {
                // No image may show a change of this transaction.
                let txn = env.begin().expect("a healthy disk");
                change(&txn).expect("a healthy disk");
                if random.coin() {
                    txn.abort().expect("a healthy disk");
                } else {
                    // The session is left in the state in which a killed process leaves it.
                    txn.die();
                    env.managers().reap().expect("a healthy disk");
                }
            }
            let asked = disk.io_index();
            step(version).expect("a healthy disk");
            played.push((asked, disk.io_index()));
            if random.chance(1, 3) {
                env.background_step().expect("a healthy disk");
            }
            if random.chance(1, 4) {
                env.checkpoint().expect("a healthy disk");
            }
        }
        Played { disk, begun, versions: played }
    }

    /// Returns the versions that may be found after a crash at call `at`.
    fn allowed(&self, at: usize) -> std::ops::RangeInclusive<u64> {
        let count =
            |is: &dyn Fn(&(usize, usize)) -> bool| self.versions.iter().filter(|version| is(version)).count() as u64;
        count(&|(_, answered)| *answered <= at)..=count(&|(asked, _)| *asked < at)
    }
}

/// Makes `LIBTP_TEST_SEEDS` runs, and cuts the power at `LIBTP_TEST_STATES` disk calls of each run, and at some disk
/// calls of the opening that follows. `judge` opens an image and returns its version. Returns the number of images of
/// runs, and the number of images of openings.
///
/// # Panics
/// If an image has no version, or a version that is not allowed.
pub fn cut_the_power(
    (seeds, states): (u64, u64),
    play: impl Fn(u64) -> Played,
    judge: impl Fn(&SimDisk) -> Result<u64, String>,
) -> (u64, u64) {
    let (seeds, states) = (sizes::number("LIBTP_TEST_SEEDS", seeds), sizes::number("LIBTP_TEST_STATES", states));
    let (first, mut judged, mut deeper) = (sizes::first_seed(), 0, 0);
    for seed in first..first + seeds {
        let played = play(seed);
        let mut random = Random::new(seed);
        let end = played.disk.io_index();
        for _ in 0..states {
            let at = played.begun + random.index(end - played.begun + 1);
            let mode = any_loss(&mut random);
            let image = played.disk.image_at(at, mode, random.next_u64());
            let what = format!("LIBTP_TEST_SEED={seed} call {at} of {end} {mode:?}");
            let allowed = played.allowed(at);
            let check = |image: &SimDisk, what: &str| {
                let version = judge(image).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(
                    allowed.contains(&version),
                    "{what}: version {version} is found, but only {allowed:?} are allowed"
                );
            };
            check(&image, &what);
            judged += 1;
            if random.chance(1, 3) {
                // The power fails again during the opening.
                let mode = any_loss(&mut random);
                let at = random.index(image.io_index() + 1);
                check(&image.image_at(at, mode, random.next_u64()), &format!("{what}, then call {at} {mode:?}"));
                deeper += 1;
            }
        }
    }
    (judged, deeper)
}

/// Draws how unsynced bytes are lost.
pub fn any_loss(random: &mut Random) -> LossMode {
    LossMode::ALL[random.index(LossMode::ALL.len())]
}
