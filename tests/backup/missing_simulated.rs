//! A database's file is missing at a restart, on a simulated disk. In the first case the power fails at any call of
//! that restart, and then the file returns: each change must be undone once. In the second case the power has failed
//! while pages were written to the file: their images in the double-write file must be kept until the file returns.

use std::collections::BTreeMap;

use libtp::{Bytes, Env, Platform, Settings, SharedMemory};
use libtp_io::{Directory, Operation};
use libtp_sim::{Calls, Fault, LossMode, Random, Repeat, SimDisk};
use libtp_tests::sizes;
use libtp_tests::versions::{any_loss, new_disk, platform_on};

const KV: &str = "kv";
const OTHER: &str = "other";
const FILE: &str = "kv.tp";
const AWAY: &str = "kv away";

fn open(disk: &SimDisk) -> libtp::Result<Env> {
    let settings = Settings {
        no_background: true,
        // The memory is smaller than the databases, so that a restart writes pages and log while it undoes the
        // transaction.
        memory: Some(Bytes::kib(192)),
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(64)),
        ..Settings::default()
    };
    let platform: Platform = platform_on(disk, &SharedMemory::new())?;
    Env::builder().settings(settings).open_on(platform, &mut |_| {})
}

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn records(env: &Env, name: &str) -> Records {
    let db = env.btree(name).unwrap();
    assert!(env.verify(name).unwrap().findings.is_empty(), "{name}");
    let all = |txn: &libtp::Txn| {
        let (mut cursor, mut all) = (db.cursor(txn), Records::new());
        while let Some((key, value)) = cursor.next()? {
            all.insert(key, value);
        }
        Ok(all)
    };
    env.run(all).unwrap()
}

fn rename(disk: &SimDisk, from: &str, to: &str) {
    let directory = disk.subdirectory("env").unwrap();
    directory.rename(from, to).unwrap();
    directory.sync().unwrap();
}

/// Returns a disk on which an unfinished transaction has changed both databases, and the records from before the
/// transaction.
fn play(seed: u64) -> (SimDisk, [Records; 2]) {
    let disk = new_disk(seed, &["env"]);
    let mut random = Random::new(seed);
    let env = open(&disk).unwrap();
    let dbs = [KV, OTHER].map(|name| env.btree(name).unwrap());
    for number in 0..600_u32 {
        env.run(|txn| dbs.iter().try_for_each(|db| db.put(txn, &number.to_be_bytes(), &[1; 500]))).unwrap();
    }
    let before = [KV, OTHER].map(|name| records(&env, name));
    let txn = env.begin().unwrap();
    for _ in 0..400 {
        let db = &dbs[random.index(2)];
        let key = u32::try_from(random.below(1200)).unwrap().to_be_bytes();
        match random.chance(1, 3) {
            true => drop(db.delete(&txn, &key).unwrap()),
            false => db.put(&txn, &key, &vec![2; 300 + random.index(400)]).unwrap(),
        }
    }
    env.flush().unwrap();
    let image = disk.crash_image(any_loss(&mut random), seed);
    (image, before)
}

#[test]
fn changes_are_undone_once_in_a_file_that_returns_after_an_interrupted_restart() {
    let (seeds, states) = (sizes::number("LIBTP_TEST_SEEDS", 2), sizes::number("LIBTP_TEST_STATES", 100).div_ceil(5));
    let first = sizes::first_seed();
    for seed in first..first + seeds {
        let (disk, before) = play(seed);
        let mut random = Random::new(seed);
        rename(&disk, FILE, AWAY);
        let begun = disk.io_index();
        drop(open(&disk).unwrap());
        for _ in 0..states {
            let mut cut = |disk: &SimDisk, from: usize| {
                let at = from + random.index(disk.io_index() - from + 1);
                let mode = any_loss(&mut random);
                (disk.image_at(at, mode, random.next_u64()), format!("call {at} {mode:?}"))
            };
            let (mut image, at) = cut(&disk, begun);
            let mut what = format!("LIBTP_TEST_SEED={seed} {at}");
            rename(&image, AWAY, FILE);
            for _ in 0..2 {
                // The power fails in a restart; the next restart is complete.
                let begun = image.io_index();
                drop(open(&image).unwrap_or_else(|error| panic!("{what}: {error}")));
                let (next, at) = cut(&image, begun);
                image = next;
                what += &format!(", {at}");
                let env = open(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
                for (name, before) in [KV, OTHER].iter().zip(&before) {
                    assert!(
                        records(&env, name) == *before,
                        "{what}: {name} has other records than before the transaction"
                    );
                }
            }
        }
    }
}

/// Fills both databases, changes all values, and takes a checkpoint, which writes the pages to their files. Returns the
/// disk, the numbers of disk calls before and after the checkpoint, and the records.
fn play_a_checkpoint(seed: u64) -> (SimDisk, [usize; 2], [Records; 2]) {
    let disk = new_disk(seed, &["env"]);
    let env = open(&disk).unwrap();
    let dbs = [KV, OTHER].map(|name| env.btree(name).unwrap());
    let fill = |byte: u8| {
        for number in 0..60_u32 {
            env.run(|txn| dbs.iter().try_for_each(|db| db.put(txn, &number.to_be_bytes(), &[byte; 500]))).unwrap();
        }
    };
    fill(1);
    env.checkpoint().unwrap();
    fill(2);
    let begun = disk.io_index();
    env.checkpoint().unwrap();
    let all = [KV, OTHER].map(|name| records(&env, name));
    let ended = disk.io_index();
    (disk, [begun, ended], all)
}

/// Opens the environment, changes the other database and takes a checkpoint. The checkpoint's batch uses the
/// double-write file again, in which the images of the missing file were.
fn work_beside(image: &SimDisk, what: &str) {
    let env = open(image).unwrap_or_else(|error| panic!("{what}: {error}"));
    let other = env.btree(OTHER).unwrap();
    env.run(|txn| other.put(txn, b"beside", b"")).unwrap();
    env.checkpoint().unwrap();
}

#[test]
fn torn_pages_are_mended_when_their_file_is_back() {
    let (seeds, first) = (sizes::number("LIBTP_TEST_SEEDS", 2).div_ceil(2), sizes::first_seed());
    let mut mended = [0; 2];
    for seed in first..first + seeds {
        let (disk, [begun, ended], all) = play_a_checkpoint(seed);
        let mut random = Random::new(seed);
        let modes = [LossMode::Torn512, LossMode::Torn4096, LossMode::Reordered];
        let states = (begun..=ended).flat_map(|at| modes.map(|mode| (at, mode)));
        for ((at, mode), is_away) in states.flat_map(|state| [(state, false), (state, true)]) {
            let mut image = disk.image_at(at, mode, random.next_u64());
            // Returns an image of a power cut at a random call from `begun` on.
            let mut cut = |disk: &SimDisk, begun: usize| {
                let at = begun + random.index(disk.io_index() - begun + 1);
                let mode = any_loss(&mut random);
                disk.image_at(at, mode, random.next_u64())
            };
            let what = format!("LIBTP_TEST_SEED={seed} call {at} {mode:?}, away: {is_away}");
            if is_away {
                rename(&image, FILE, AWAY);
                let begun = image.io_index();
                if at % 3 == 0 {
                    // If a sync of the directory fails, the name of the file with the kept images may not be on disk.
                    let syncs = Calls::Of(Operation::SyncDirectory);
                    image.fail_call(syncs, at as u64 / 3 % 3, Fault::Eio, Repeat::Once);
                    drop(open(&image));
                    image.clear_faults();
                }
                work_beside(&image, &what);
                image = cut(&image, begun);
                rename(&image, AWAY, FILE);
                let begun = image.io_index();
                mended[1] += open(&image).unwrap_or_else(|error| panic!("{what}: {error}")).opened().mended;
                image = cut(&image, begun);
            } else {
                // One opening of the file fails, because the process is at its limit of open files.
                let opens = Calls::On(Operation::Open, FILE.into());
                image.fail_call(opens, at as u64 % 3, Fault::Limit(24), Repeat::Once);
                if open(&image).is_ok() {
                    work_beside(&image, &what);
                }
                image.clear_faults();
            }
            let env = open(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            mended[0] += if is_away { 0 } else { env.opened().mended };
            let (kv, mut other) = (records(&env, KV), records(&env, OTHER));
            other.remove(&b"beside"[..]);
            assert!(kv == all[0] && other == all[1], "{what}: the records differ from the committed records");
        }
    }
    assert!(mended.iter().all(|&pages| pages > 0), "{mended:?} torn pages were mended, so the test shows nothing");
}
