//! Databases that are dropped and renamed on a simulated disk. The power fails at any call, and again while the
//! environment is opened; unsynced contents and names are lost, torn or kept. Afterwards records, databases and files
//! must have the same version.

use std::collections::BTreeMap;

use libtp::{Backup, Env, Error, RestorePoint, SharedMemory};
use libtp_io::{Directory, Operation};
use libtp_sim::{Calls, Fault, LossMode, Random, Repeat, SimDisk};
use libtp_tests::audit::verify_all;
use libtp_tests::sizes;
use libtp_tests::versions::{any_loss, cut_the_power, new_disk, open, platform_on, settings, Played};

/// The two names of one database: in even versions, and in odd versions.
const SIDES: [&str; 2] = ["left side", "right"];

fn put(env: &Env, name: &str, version: u64) -> libtp::Result<()> {
    let db = env.btree(name)?;
    env.run(|txn| db.put(txn, b"version", &version.to_le_bytes()))
}

fn get(env: &Env, name: &str) -> libtp::Result<Option<u64>> {
    let db = env.btree(name)?;
    let value = env.run(|txn| db.get(txn, b"version"))?;
    Ok(value.map(|value| u64::from_le_bytes(value.try_into().unwrap())))
}

/// Makes the next version: a new table replaces the old table, and another database is renamed.
fn step(env: &Env, version: u64) -> libtp::Result<()> {
    put(env, "table.new", version)?;
    let counter = env.btree("counter")?;
    let side = |version: u64| SIDES[usize::from(version % 2 != 0)];
    env.run(|txn| {
        counter.put(txn, b"version", &version.to_le_bytes())?;
        txn.drop_database("table")?;
        txn.rename_database("table.new", "table")?;
        txn.rename_database(side(version - 1), side(version))
    })
}

fn play(seed: u64) -> Played {
    let (disk, memory) = (new_disk(seed, &["env"]), SharedMemory::new());
    let env = open(&disk, &memory).unwrap();
    for name in ["counter", "table", SIDES[0]] {
        put(&env, name, 0).unwrap();
    }
    env.flush().unwrap();
    let change = |txn: &libtp::Txn<'_>| txn.drop_database("table");
    Played::new(disk, &env, 6, &mut Random::new(seed), change, |version| step(&env, version))
}

/// Returns the names of the databases' files.
fn files(disk: &SimDisk) -> libtp::Result<Vec<String>> {
    let files = disk.subdirectory("env")?.list()?;
    let mut names: Vec<String> = files.iter().filter_map(|name| name.strip_suffix(".tp")).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Opens the state that a crash left, and checks it. Returns its version.
fn judge(disk: &SimDisk) -> Result<u64, String> {
    let text = |error: libtp::Error| error.to_string();
    let env = open(disk, &SharedMemory::new()).map_err(text)?;
    let version = get(&env, "counter").map_err(text)?.ok_or("there is no version")?;
    let side = SIDES[usize::from(version % 2 != 0)];
    let mut names = env.databases().map_err(text)?;
    let files = files(disk).map_err(text)?;
    if names != files {
        return Err(format!("the databases are {names:?}, and the files {files:?}"));
    }
    names.retain(|name| name != "table.new");
    let mut wanted = ["counter", side, "table"].map(str::to_owned);
    wanted.sort();
    if names != wanted {
        return Err(format!("in version {version} the databases are {names:?}, not {wanted:?}"));
    }
    let found = [get(&env, "table").map_err(text)?, get(&env, side).map_err(text)?];
    if found != [Some(version), Some(0)] {
        return Err(format!(
            "the counter has version {version}, and the table and the renamed database have the values {found:?}"
        ));
    }
    verify_all(&env)?;
    Ok(version)
}

#[test]
fn records_databases_and_files_are_of_one_version_after_any_crash() {
    cut_the_power((2, 100), play, judge);
}

#[test]
fn records_databases_and_files_are_of_one_version_after_any_failed_call() {
    let mut random = Random::new(sizes::first_seed());
    let (mut failed, mut unknown) = (0, 0);
    for (fault, repeat) in [(Fault::Eio, Repeat::Once), (Fault::Eio, Repeat::Forever), (Fault::Enospc, Repeat::Forever)]
    {
        for call in 0.. {
            let (disk, memory) = (new_disk(1, &["env"]), SharedMemory::new());
            let env = open(&disk, &memory).unwrap();
            for name in ["counter", "table", SIDES[0]] {
                put(&env, name, 0).unwrap();
            }
            put(&env, "table.new", 1).unwrap();
            env.flush().unwrap();
            disk.fail_call(Calls::Any, call, fault, repeat);
            let answer = step(&env, 1);
            let Some(_) = disk.first_strike() else { break };
            disk.clear_faults();
            let what = format!("call {call} fails with {fault:?} {repeat:?}, answered {answer:?}");
            failed += 1;
            let allowed = match &answer {
                Ok(()) => 1..=1,
                Err(Error::OutcomeUnknown { .. }) => 0..=1,
                Err(_) => 0..=0,
            };
            unknown += u64::from(matches!(answer, Err(Error::OutcomeUnknown { .. })));
            let mode = any_loss(&mut random);
            let image = disk.crash_image(mode, random.next_u64());
            let version = judge(&image).unwrap_or_else(|error| panic!("{what}, then {mode:?}: {error}"));
            assert!(allowed.contains(&version), "{what}, then {mode:?}: version {version}");
            drop(env);
            let version = judge(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(allowed.contains(&version), "{what}: version {version}");
            // After a failed sync, reads still return the written bytes, but the kernel does not write them to disk. So
            // the opening must have written again everything that it depends on.
            let image = disk.crash_image(LossMode::DropAll, random.next_u64());
            let after = judge(&image).unwrap_or_else(|error| panic!("{what}, opened, then a power cut: {error}"));
            assert_eq!(after, version, "{what}, opened, then a power cut");
        }
    }
    assert!(unknown > 0, "no call failed after the commit record");
    println!("figures: {failed} failing calls, {unknown} of them after the commit record");
}

#[test]
fn names_do_not_count_as_durable_after_a_failed_sync() {
    let mut failed = 0;
    let directory = || Calls::Of(Operation::SyncDirectory);
    let register = || Calls::On(Operation::Sync, "databases".into());
    for (seed, is_made, calls) in
        (1..=2).flat_map(|seed| [(seed, false, directory()), (seed, true, directory()), (seed, true, register())])
    {
        for call in 0.. {
            let (disk, memory) = (new_disk(seed, &["env"]), SharedMemory::new());
            let env = open(&disk, &memory).unwrap();
            for name in ["counter", "table", SIDES[0]] {
                put(&env, name, 0).unwrap();
            }
            if is_made {
                put(&env, "table.new", 1).unwrap();
            }
            env.flush().unwrap();
            // A sync that fails because the disk is full loses bytes, too.
            let fault = if seed % 2 == 0 { Fault::Eio } else { Fault::Enospc };
            disk.fail_call(calls.clone(), call, fault, Repeat::Once);
            let answer = step(&env, 1);
            if disk.first_strike().is_none() {
                break;
            }
            failed += 1;
            // The next sync succeeds, and does not write the bytes that the failed sync lost.
            let what = format!("disk {seed}, {calls:?} {call}, answered {answer:?}");
            if answer.is_err() {
                let _ = env.managers().reap();
                step(&env, 1).expect_err(&what);
                let _ = env.checkpoint();
            }
            let check =
                |disk: &SimDisk, when: &str| judge(disk).unwrap_or_else(|error| panic!("{what}, {when}: {error}"));
            check(&disk.crash_image(LossMode::DropAll, 1), "then a power cut");
            drop(env);
            let version = check(&disk, "opened again");
            if is_made && calls == directory() {
                let after = check(&disk.crash_image(LossMode::DropAll, 1), "opened again, then a power cut");
                assert_eq!(after, version, "{what}");
            }
        }
    }
    assert!(failed > 0, "no call was a sync");
    println!("figures: {failed} failing syncs of the directory and of the register");
}

#[test]
#[cfg(feature = "failpoints")]
fn repair_does_not_repeat_a_rename_that_another_rename_followed() {
    let (disk, memory) = (new_disk(1, &["env"]), SharedMemory::new());
    let env = open(&disk, &memory).unwrap();
    put(&env, "a", 7).unwrap();
    let place = tempfile::tempdir().unwrap();
    let (asleep, awake) = (place.path().join("wake.asleep"), place.path().join("wake.up"));
    let at = format!("databases: locks released!sleep-panic={}", awake.display());
    std::thread::scope(|threads| {
        // This session releases its locks and stops. The other session then takes these locks and renames the database
        // again. After that, this session dies.
        threads.spawn(|| {
            let _ = rio::failpoint::armed_here(&at, || env.run(|txn| txn.rename_database("a", "b")));
        });
        while !asleep.exists() {
            std::thread::yield_now();
        }
        env.run(|txn| txn.rename_database("b", "c")).unwrap();
        std::fs::write(&awake, b"").unwrap();
    });
    env.managers().reap().unwrap();
    env.checkpoint().unwrap();
    assert_eq!(env.databases().unwrap(), ["c"]);
    let image = disk.crash_image(LossMode::DropAll, 1);
    let env = open(&image, &SharedMemory::new()).unwrap();
    assert_eq!(env.databases().unwrap(), ["c"]);
    assert_eq!(get(&env, "c").unwrap(), Some(7));
}

/// The number that is stored in each database, by the database's name.
type Named = BTreeMap<String, u64>;

/// Opens the state that a crash left, and compares the databases.
fn judge_names(disk: &SimDisk, wanted: &Named, what: &str) -> libtp::Result<()> {
    let builder = Env::builder().settings(settings()).create(false);
    let env = builder.open_on(platform_on(disk, &SharedMemory::new())?, &mut |_| {})?;
    let names: Vec<String> = wanted.keys().cloned().collect();
    assert_eq!(env.databases()?, names, "{what}");
    assert_eq!(files(disk)?, names, "{what}");
    for (name, number) in wanted {
        assert_eq!(get(&env, name)?, Some(*number), "{what}: {name}");
        assert!(env.verify(name)?.findings.is_empty(), "{what}: {name}");
    }
    Ok(())
}

#[test]
fn databases_keep_exchanged_names_after_a_restore_with_any_crash() {
    let seed = sizes::first_seed();
    let mut random = Random::new(seed);
    let source = SimDisk::new(seed);
    let env = open(&source, &SharedMemory::new()).unwrap();
    let mut named = Named::new();
    for (name, number) in ["a", "b", "c", "d", "e", "f"].into_iter().zip(1..) {
        put(&env, name, number).unwrap();
        named.insert(name.into(), number);
    }
    let backup = source.subdirectory("backup").unwrap();
    env.backup_on(&backup, &mut |_| {}).unwrap();
    // Two databases exchange their names, then three databases do.
    let mut states = Vec::new();
    for (from, to) in [("a", "t"), ("b", "a"), ("t", "b"), ("c", "t"), ("d", "c"), ("e", "d"), ("t", "e"), ("f", "g")] {
        env.run(|txn| txn.rename_database(from, to)).unwrap();
        let number = named.remove(from).unwrap();
        named.insert(to.into(), number);
        states.push((env.stats().unwrap().log_tail - 8, named.clone()));
    }
    env.backup_more_on(&backup, &mut |_| {}).unwrap();
    let backup = Backup::open_on(backup).unwrap();
    let restore = |until| {
        let disk = SimDisk::new(seed);
        let target = platform_on(&disk, &SharedMemory::new()).unwrap();
        disk.sync().unwrap();
        backup.restore_on(target, settings(), until, &mut |_| {}).unwrap();
        disk
    };
    for (lsn, then) in states {
        judge_names(&restore(RestorePoint::Lsn(lsn)), &then, &format!("until LSN {lsn}")).unwrap();
    }
    let disk = restore(RestorePoint::End);
    judge_names(&disk, &named, "restored").unwrap();

    let (mut whole, mut none, mut without_register) = (0, 0, 0);
    let end = disk.io_index();
    for at in 0..=end {
        let mode = any_loss(&mut random);
        let mut image = disk.image_at(at, mode, random.next_u64());
        let mut what = format!("LIBTP_TEST_SEED={seed} call {at} of {end} {mode:?}");
        let directory = image.subdirectory("env").unwrap();
        if random.chance(1, 4) && directory.exists("databases").unwrap() {
            // Without the register, the number in each file identifies its database.
            directory.remove("databases").unwrap();
            what += ", register moved away";
            without_register += 1;
        }
        match judge_names(&image, &named, &what) {
            Ok(()) => whole += 1,
            Err(Error::Environment { .. }) if at < end => {
                none += 1;
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
        }
        if random.chance(1, 2) {
            // The power is cut again during the opening.
            let mode = any_loss(&mut random);
            let again = random.index(image.io_index() + 1);
            image = image.image_at(again, mode, random.next_u64());
            what += &format!(", then call {again} {mode:?}");
            judge_names(&image, &named, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    assert!(whole > 0 && none > 0 && without_register > 0, "{whole} images with an environment, {none} images without");
    println!("figures: {} power cuts in a restore, {none} left no environment", whole + none);
}

#[test]
fn a_failed_register_write_of_one_process_does_not_stop_other_processes() {
    for fault in [Fault::Limit(27), Fault::Enospc] {
        let (disk, memory) = (new_disk(1, &["env"]), SharedMemory::new());
        let (one, two) = (open(&disk, &memory).unwrap(), open(&disk, &memory).unwrap());
        put(&two, "theirs", 1).unwrap();
        disk.fail_call(Calls::On(Operation::Write, "databases".into()), 0, fault, Repeat::Once);
        put(&one, "new", 1).expect_err("the register could not be written");
        put(&two, "theirs", 2).expect("another process is not affected");
        put(&one, "new", 2).unwrap();
        one.flush().unwrap();
        drop((one, two));
        let env = open(&disk.crash_image(LossMode::DropAll, 1), &SharedMemory::new()).unwrap();
        assert_eq!((get(&env, "theirs").unwrap(), get(&env, "new").unwrap()), (Some(2), Some(2)), "{fault:?}");
    }
}
