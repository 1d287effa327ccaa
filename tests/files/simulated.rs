//! Plain files on a simulated disk. The power fails at any call, and again during the next opening. Unsynced contents
//! and names are lost, torn or kept. Afterwards the files and the record have the same version, and no acknowledged
//! version is lost.

use std::path::Path;

use libtp::{Error, SharedMemory};
use libtp_io::{Directory, OpenMode};
use libtp_sim::{Calls, Fault, Random, Repeat, SimDisk};
use libtp_tests::sizes;
use libtp_tests::versions::{any_loss, cut_the_power, new_disk, open, Played};

use crate::business::{version_of, Business};

const PLACE: &str = "/etc";
const TEMPORARY: &str = ".libtp-";

fn play(seed: u64) -> Played {
    let (disk, memory) = (new_disk(seed, &["env", "etc"]), SharedMemory::new());
    let env = open(&disk, &memory).unwrap();
    let business = Business::open(&env, Path::new(PLACE)).unwrap();
    business.begin(&env).unwrap();
    let change = |txn: &libtp::Txn<'_>| business.change(txn).map(drop);
    Played::new(disk, &env, 8, &mut Random::new(seed), change, |_| business.step(&env).map(drop))
}

/// Opens the state that a crash left, and checks it both as another program and in a transaction. Returns its version.
fn judge(disk: &SimDisk) -> Result<u64, String> {
    let text = |error: libtp::Error| error.to_string();
    let env = open(disk, &SharedMemory::new()).map_err(text)?;
    let business = Business::open(&env, Path::new(PLACE)).map_err(text)?;
    // Right after the opening, checks the files as other programs see them.
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
        return Err(format!(
            "the record has version {version}, and the files {names:?} have the versions {versions:?}"
        ));
    }
    match business.rows(&env).map_err(text)? {
        0 => Ok(version),
        rows => Err(format!("{rows} rows are left")),
    }
}

#[test]
fn files_and_records_have_the_same_version_after_any_crash() {
    let (judged, deeper) = cut_the_power((3, 150), play, judge);
    println!("figures: {judged} crashes and {deeper} crashes of the next opening, 0 partial changes, 0 lost");
}

/// Returns the versions that may be found after a commit has returned this answer.
fn after_failure(answer: &libtp::Result<u64>) -> std::ops::RangeInclusive<u64> {
    match answer {
        Ok(_) | Err(Error::FilesWaiting { .. }) => 1..=1,
        Err(Error::OutcomeUnknown { .. }) => 0..=1,
        Err(_) => 0..=0,
    }
}

#[test]
fn files_and_records_have_one_version_if_any_call_fails() {
    let kinds =
        [Fault::Eio, Fault::Enospc].into_iter().flat_map(|fault| [(fault, Repeat::Once), (fault, Repeat::Forever)]);
    let mut random = Random::new(sizes::first_seed());
    let (mut failed, mut refused, mut waiting) = (0, 0, 0);
    for (fault, repeat) in kinds {
        for call in 0.. {
            let (disk, memory) = (new_disk(1, &["env", "etc"]), SharedMemory::new());
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
            // A read in the same environment, if it succeeds, finds an allowed version, too.
            if let Ok(version) = business.read(&env) {
                assert!(allowed.contains(&version), "{what}: a transaction read version {version}");
            }
            let mode = any_loss(&mut random);
            let image = disk.crash_image(mode, random.next_u64());
            let version = judge(&image).unwrap_or_else(|error| panic!("{what}, then {mode:?}: {error}"));
            assert!(allowed.contains(&version), "{what}, then {mode:?}: version {version}");
            drop((business, env));
            let version = judge(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(allowed.contains(&version), "{what}: version {version}");
        }
    }
    assert!(waiting > 0, "no commit left files that wait");
    println!("figures: {failed} failing calls, {refused} returned an error, {waiting} of them with files that wait");
}
