//! A database's file is missing while a restart undoes a transaction, on a simulated disk: the power fails at any
//! call of the restart, and then the file is back. Each change is undone once.

use std::collections::BTreeMap;

use libtp::{Bytes, Env, Platform, Settings, SharedMemory};
use libtp_io::Directory;
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;

use crate::dropped_simulated::platform_on;

const KV: &str = "kv";
const OTHER: &str = "other";
const FILE: &str = "kv.tp";
const AWAY: &str = "kv away";

fn open(disk: &SimDisk) -> libtp::Result<Env> {
    let settings = Settings {
        no_background: true,
        // Smaller than the databases, so that a restart writes pages and log while it undoes the transaction.
        memory: Some(Bytes::kib(192)),
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(64)),
        ..Settings::default()
    };
    let platform: Platform = platform_on(disk, &SharedMemory::new())?;
    Env::builder().settings(settings).open_on(platform, &mut |_, _, _| {})
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

/// Returns a disk on which an unfinished transaction has changed both databases, and their records before it.
fn play(seed: u64) -> (SimDisk, [Records; 2]) {
    let disk = SimDisk::new(seed);
    disk.subdirectory("env").unwrap();
    disk.sync().unwrap();
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
    let image = disk.crash_image(LossMode::ALL[random.index(LossMode::ALL.len())], seed);
    (image, before)
}

#[test]
fn a_file_that_is_back_after_a_restart_was_cut_is_taken_back_once() {
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
                let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
                (disk.image_at(at, mode, random.next_u64()), format!("call {at} {mode:?}"))
            };
            let (mut image, at) = cut(&disk, begun);
            let mut what = format!("LIBTP_TEST_SEED={seed} {at}");
            rename(&image, AWAY, FILE);
            for _ in 0..2 {
                // A restart is cut, and then another one ends.
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
