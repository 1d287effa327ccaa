//! A simulated disk: the power fails at any call, and unsynced contents and names are lost, torn or kept; then again
//! while the environment is opened. The files and the record have one version, and no answered version is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtp::{Bytes, Durability, Env, Error, Memory, Platform, Settings, SharedMemory};
use libtp_io::{Directory, OpenMode};
use libtp_sim::{Calls, Fault, LossMode, Random, Repeat, SimDisk};
use libtp_tests::sizes;

use crate::business::{version_of, Business};

const PLACE: &str = "/etc";
const TEMPORARY: &str = ".libtp-";

fn open(disk: &SimDisk, memory: &SharedMemory) -> libtp::Result<Env> {
    let directory = disk.subdirectory("env")?;
    let platform = Platform {
        path: PathBuf::from("sim:/env"),
        log_directory: Arc::clone(&directory),
        directory,
        memory: Memory::Shared(memory.clone()),
        log_types: Arc::default(),
    };
    let settings = Settings {
        no_background: true,
        memory: Some(Bytes::kib(192)),
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(64)),
        checkpoint_log: Some(Bytes::kib(96)),
        lock_timeout_millis: Some(0),
        // A transaction with files is synced all the same.
        durability: Some(Durability::Relaxed),
        // Nothing may depend on the clock.
        relaxed_millis: Some(3_600_000),
        ..Settings::default()
    };
    Env::builder().settings(settings).open_on(platform, &mut |_| {})
}

/// The disk after a run of the business.
struct Played {
    disk: SimDisk,
    /// The call from which on version 0 is there.
    begun: usize,
    /// For each version, the calls at which it was requested and answered.
    versions: Vec<(usize, usize)>,
}

fn play(seed: u64, versions: u64) -> Played {
    let (disk, memory) = (SimDisk::new(seed), SharedMemory::new());
    for name in ["env", "etc"] {
        disk.subdirectory(name).unwrap();
    }
    disk.sync().unwrap();
    let mut random = Random::new(seed);
    let env = open(&disk, &memory).unwrap();
    let business = Business::open(&env, Path::new(PLACE)).unwrap();
    business.begin(&env).unwrap();
    let begun = disk.io_index();
    let mut played = Vec::new();
    for _ in 0..versions {
        if random.chance(1, 3) {
            // This transaction makes nothing else durable.
            let txn = env.begin().unwrap();
            business.change(&txn).unwrap();
            if random.coin() {
                txn.abort().unwrap();
            } else {
                // As a killed process leaves it.
                txn.die();
                env.managers().reap().unwrap();
            }
        }
        let asked = disk.io_index();
        business.step(&env).unwrap();
        played.push((asked, disk.io_index()));
        if random.chance(1, 3) {
            env.background_step().unwrap();
        }
        if random.chance(1, 4) {
            env.checkpoint().unwrap();
        }
    }
    Played { disk, begun, versions: played }
}

/// Opens the state that a crash left, and checks it from inside and outside. Returns its version.
fn judge(disk: &SimDisk) -> Result<u64, String> {
    let text = |error: libtp::Error| error.to_string();
    let env = open(disk, &SharedMemory::new()).map_err(text)?;
    let business = Business::open(&env, Path::new(PLACE)).map_err(text)?;
    // As other programs first: the files are as the opening left them.
    let directory = disk.subdirectory("etc").map_err(|error| error.to_string())?;
    let mut names = directory.list().map_err(|error| error.to_string())?;
    names.sort();
    let mut versions = Vec::new();
    for name in &names {
        if name.starts_with(TEMPORARY) {
            return Err(format!("{name} was not swept"));
        }
        let file = directory.open(name, OpenMode::ReadOnly).map_err(|error| error.to_string())?;
        let mut contents = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut contents, 0).map_err(|error| error.to_string())?;
        versions.push(version_of(&contents).map_err(|what| format!("{name}: {what}"))?);
    }
    let version = business.read(&env).map_err(text)?;
    if names != Business::names(version) || versions.iter().any(|&it| it != version) {
        return Err(format!("the record is of version {version}, and the files {names:?} of {versions:?}"));
    }
    match business.rows(&env).map_err(text)? {
        0 => Ok(version),
        rows => Err(format!("{rows} rows are left")),
    }
}

impl Played {
    /// Returns the versions that may be found after a crash at a call.
    fn allowed(&self, at: usize) -> std::ops::RangeInclusive<u64> {
        let count =
            |is: &dyn Fn(&(usize, usize)) -> bool| self.versions.iter().filter(|version| is(version)).count() as u64;
        count(&|(_, answered)| *answered <= at)..=count(&|(asked, _)| *asked < at)
    }
}

#[test]
fn files_and_records_are_of_one_version_after_any_crash() {
    let (seeds, states) = (sizes::number("LIBTP_TEST_SEEDS", 3), sizes::number("LIBTP_TEST_STATES", 150));
    let (first, mut deeper, mut judged) = (sizes::first_seed(), 0, 0);
    for seed in first..first + seeds {
        let played = play(seed, 8);
        let mut random = Random::new(seed);
        let end = played.disk.io_index();
        for _ in 0..states {
            let at = played.begun + random.index(end - played.begun + 1);
            let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
            let image = played.disk.image_at(at, mode, random.next_u64());
            let what = format!("LIBTP_TEST_SEED={seed} call {at} of {end} {mode:?}");
            let version = judge(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            judged += 1;
            let allowed = played.allowed(at);
            assert!(allowed.contains(&version), "{what}: version {version} is found, and {allowed:?} may be");
            if random.chance(1, 3) {
                // The power fails again during the opening.
                let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
                let at = random.index(image.io_index() + 1);
                let again = image.image_at(at, mode, random.next_u64());
                let found = judge(&again).unwrap_or_else(|error| panic!("{what}, then call {at} {mode:?}: {error}"));
                assert!(allowed.contains(&found), "{what}, then call {at} {mode:?}: version {found}");
                deeper += 1;
            }
        }
    }
    println!("figures: {judged} crashes and {deeper} of the openings after them, 0 in part, 0 lost");
}

/// Returns the versions that a failed call may leave, by its answer.
fn after_failure(answer: &libtp::Result<u64>) -> std::ops::RangeInclusive<u64> {
    match answer {
        Ok(_) | Err(Error::FilesWaiting { .. }) => 1..=1,
        Err(Error::OutcomeUnknown { .. }) => 0..=1,
        Err(_) => 0..=0,
    }
}

#[test]
fn whatever_call_fails_files_and_records_are_of_one_version() {
    let kinds =
        [Fault::Eio, Fault::Enospc].into_iter().flat_map(|fault| [(fault, Repeat::Once), (fault, Repeat::Forever)]);
    let mut random = Random::new(sizes::first_seed());
    let (mut failed, mut refused, mut waiting) = (0, 0, 0);
    for (fault, repeat) in kinds {
        for call in 0.. {
            let (disk, memory) = (SimDisk::new(1), SharedMemory::new());
            for name in ["env", "etc"] {
                disk.subdirectory(name).unwrap();
            }
            disk.sync().unwrap();
            let env = open(&disk, &memory).unwrap();
            let business = Business::open(&env, Path::new(PLACE)).unwrap();
            business.begin(&env).unwrap();
            disk.fail_call(Calls::Any, call, fault, repeat);
            let answer = business.step(&env);
            let Some(_) = disk.first_strike() else { break };
            disk.clear_faults();
            let what = format!("call {call} fails with {fault:?} {repeat:?}, answered {answer:?}");
            failed += 1;
            refused += u64::from(answer.is_err());
            waiting += u64::from(matches!(answer, Err(Error::FilesWaiting { .. })));
            let allowed = after_failure(&answer);
            // Reads in the environment that goes on show an allowed version, too, if they succeed.
            if let Ok(version) = business.read(&env) {
                assert!(allowed.contains(&version), "{what}: version {version} is seen");
            }
            let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
            let image = disk.crash_image(mode, random.next_u64());
            let version = judge(&image).unwrap_or_else(|error| panic!("{what}, then {mode:?}: {error}"));
            assert!(allowed.contains(&version), "{what}, then {mode:?}: version {version}");
            drop((business, env));
            let version = judge(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(allowed.contains(&version), "{what}: version {version}");
        }
    }
    assert!(waiting > 0, "no file had to wait");
    println!(
        "figures: {failed} failing calls, {refused} answered with an error, {waiting} of them with files that wait"
    );
}
