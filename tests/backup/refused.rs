//! Openings that are refused: they change no byte, and what is refused is put right by putting back what was missing.

use libtp::{Env, SharedMemory};
use libtp_io::{Directory, OpenMode};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;

use crate::shop::{judge, Commit, Shop};
use crate::simulated::{inside, open, platform};

/// Bytes of log in each segment of these environments.
const SEGMENT_BYTES: u64 = (16 << 10) - 4096;

fn segment_of(lsn: u64) -> u64 {
    lsn / SEGMENT_BYTES + 1
}

/// Every file with its bytes.
fn contents(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.file_bytes(&path))).collect()
}

/// Opens the environment on that disk, after a new start of the machine.
fn open_anew(disk: &SimDisk, name: &str) -> libtp::Result<Env> {
    open(platform(name, inside(disk, name), &SharedMemory::new()))
}

/// An environment with commits in several segments behind its last checkpoint, and what was committed.
fn trade_on(disk: &SimDisk, seed: u64) -> (Shop, Vec<Commit>) {
    let shop = Shop::open(open_anew(disk, "env").unwrap()).unwrap();
    let mut random = Random::new(seed);
    let mut commits = vec![shop.stock().unwrap()];
    shop.env.checkpoint().unwrap();
    let checkpointed = segment_of(shop.env.stats().unwrap().log_tail);
    while segment_of(commits.last().unwrap().lsn) < checkpointed + 3 {
        commits.extend(shop.trade(&mut random).unwrap());
    }
    // Some of them have not waited for the disk.
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
            let what = format!("LIBTP_TEST_SEED={seed}, {kept:?} bytes left of {name}");
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
            let error = open_anew(&image, "env").err().unwrap_or_else(|| panic!("{what}: it was opened"));
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
