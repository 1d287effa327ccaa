//! A new environment that is filled before another process can open it. After a power cut, it has all records, or there
//! is no environment.

use libtp::{Durability, Env, Error, SharedMemory};
use libtp_io::{Directory, OpenMode};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;

use crate::simulated::{inside, platform, quiet};

const RECORDS: u64 = 400;

/// Opens the environment, if there is one.
fn open_existing(disk: &SimDisk) -> libtp::Result<Env> {
    let target = platform("filled", inside(disk, "filled"), &SharedMemory::new());
    Env::builder().create(false).settings(quiet()).open_on(target, &mut |_| {})
}

#[test]
fn a_power_cut_during_a_load_leaves_all_records_or_no_environment() {
    let seed = sizes::first_seed();
    let disk = SimDisk::new(seed);
    let target = platform("filled", inside(&disk, "filled"), &SharedMemory::new());
    disk.sync().unwrap();
    let begun = disk.io_index();
    let filling = Env::builder().settings(quiet()).open_to_fill_on(target, &mut |_| {}).unwrap();
    let list = filling.env().list("lines").unwrap();
    for batch in 0..RECORDS / 40 {
        let lines = batch * 40..(batch + 1) * 40;
        let put = |txn: &libtp::Txn<'_>| {
            lines.clone().try_for_each(|n| list.append(txn, &[7; 100]).map(|at| assert_eq!(at, n + 1)))
        };
        filling.env().run_with(Durability::Relaxed, put).unwrap();
    }
    filling.env().checkpoint().unwrap();
    drop(list);
    filling.finish().unwrap();
    let mut random = Random::new(seed);
    let (mut whole, mut none) = (0, 0);
    let mut images = disk.crash_images();
    images.advance_to(begun);
    let mut is_over = false;
    while !is_over {
        is_over = images.advance().is_none();
        let position = images.position();
        if position > begun + 20 && !is_over && !random.chance(1, 16) {
            continue;
        }
        for mode in LossMode::ALL {
            let image = images.image(mode, position as u64);
            let what = format!("LIBTP_TEST_SEED={seed} call {position} {mode:?}");
            match open_existing(&image) {
                Ok(env) => {
                    let list = env.list("lines").unwrap_or_else(|error| panic!("{what}: {error}"));
                    let count = env.run(|txn| list.count(txn)).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(count, RECORDS, "{what}: an environment with an incomplete load was opened");
                    whole += 1;
                }
                Err(Error::Environment { .. }) if !is_over => none += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} images with an environment, {none} images without");
    println!("figures: {} power cuts in a load, {whole} left all records, {none} no environment", whole + none);
}

#[test]
fn the_next_call_completes_a_creation_that_was_cut_off() {
    let seed = sizes::first_seed();
    let disk = SimDisk::new(seed);
    let create = |disk: &SimDisk| {
        let target = platform("new", inside(disk, "new"), &SharedMemory::new());
        Env::builder().create_new(true).settings(quiet()).open_on(target, &mut |_| {})
    };
    inside(&disk, "new");
    disk.sync().unwrap();
    let begun = disk.io_index();
    let env = create(&disk).unwrap();
    let done = disk.io_index();
    let mut images = disk.crash_images();
    images.advance_to(begun);
    let mut cut_off = 0;
    while images.position() < done {
        let position = images.position();
        for mode in LossMode::ALL {
            match create(&images.image(mode, position as u64)) {
                Ok(_) => cut_off += 1,
                // The creation was complete, but the removal of its mark was not synced.
                Err(Error::Environment { .. }) if position + 1 >= done => {}
                Err(error) => panic!("LIBTP_TEST_SEED={seed} call {position} of {begun} to {done} {mode:?}: {error}"),
            }
        }
        images.advance();
    }
    let refused = create(&disk.crash_image(LossMode::KeepAll, 1)).err().unwrap();
    assert!(matches!(refused, Error::Environment { .. }), "{refused}");
    drop(env);
    println!("figures: {cut_off} power cuts in a creation, after each the next creation succeeded");
}

#[test]
fn an_abandoned_load_leaves_the_directory_unchanged() {
    let disk = SimDisk::new(1);
    let directory = inside(&disk, "filled");
    directory.open("libtp.toml", OpenMode::CreateNew).unwrap();
    let target = || platform("filled", inside(&disk, "filled"), &SharedMemory::new());
    let fill = || Env::builder().settings(quiet()).open_to_fill_on(target(), &mut |_| {});
    let filling = fill().unwrap();
    filling.env().btree("tree").unwrap();
    // Another program puts a file in the directory.
    directory.open("notes", OpenMode::CreateNew).unwrap();
    // Openings and loads by other processes are refused.
    let refused = [open_existing(&disk).err().unwrap(), fill().err().unwrap()];
    assert!(refused.iter().all(|error| error.to_string().contains("load.unfinished")), "{refused:?}");
    assert!(filling.abandon().unwrap());
    assert_eq!(directory.list().unwrap(), ["libtp.toml", "notes"]);
    // An environment that existed before the load is not removed when the load is abandoned.
    let filling = fill().unwrap();
    filling.finish().unwrap();
    let filling = fill().unwrap();
    filling.env().btree("tree").unwrap();
    assert!(!filling.abandon().unwrap());
    assert_eq!(open_existing(&disk).unwrap().databases().unwrap(), ["tree"]);
}

#[cfg(feature = "failpoints")]
const PLACE: &str = "LIBTP_TEST_FILLED";

/// The entry of the child, which fills an environment and dies at the failpoint in `LIBTP_FAILPOINT`.
#[cfg(feature = "failpoints")]
#[test]
fn entry() {
    let Some(place) = sizes::chosen::<std::path::PathBuf>(PLACE) else { return };
    let filling = Env::builder().open_to_fill(place.join("env"), &mut |_| {}).unwrap();
    let list = filling.env().list("lines").unwrap();
    filling.env().run(|txn| list.append(txn, b"line").map(|_| ())).unwrap();
    drop(list);
    if place.join("gives up").exists() {
        filling.abandon().unwrap();
    } else {
        filling.finish().unwrap();
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_in_a_load_leaves_no_environment_that_opens() {
    use libtp_tests::failpoints::{self, Scene};
    use libtp_tests::process::dies_at;
    for point in failpoints::all().filter(|point| point.scene == Scene::Load) {
        let place = tempfile::tempdir().unwrap();
        if point.name == "load: only the mark left" {
            std::fs::write(place.path().join("gives up"), "").unwrap();
        }
        let died = dies_at(point.name, "filling::entry", &[(PLACE, place.path().display().to_string())]);
        assert!(died, "no process reached {:?}", point.name);
        let open = |create| Env::builder().create(create).open(place.path().join("env")).map(drop);
        open(false).expect_err(point.name);
        let refused = open(true).expect_err(point.name).to_string();
        assert!(refused.contains("load.unfinished"), "{}: {refused}", point.name);
    }
}
