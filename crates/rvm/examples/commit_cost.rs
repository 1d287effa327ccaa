//! Measures the cost of a commit, compared with a bare write and sync of the same number of bytes: `commit_cost
//! DIRECTORY`, by default the current directory.
//!
//! Prints microseconds per transaction of 8 bytes at a random place of 50 MB, for groups of 1, 8 and 64. Each number is
//! the median of the rounds, in which the measurements take turns.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use rvm::Options;

const DATABASE: u64 = 50 << 20;
/// The length of a record of one word: its header, a place, a length, and the word.
const RECORD: usize = 40 + 24;
const ROUNDS: usize = 25;
const COUNT: u64 = 64;

fn main() {
    let parent = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let directory = parent.join(format!("rvm-cost-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let bare = OpenOptions::new().create(true).truncate(true).write(true).open(directory.join("bare")).unwrap();
    bare.write_all_at(&vec![0; 8 << 20], 0).unwrap();
    bare.sync_all().unwrap();
    println!("group   bare write+fdatasync     rvm   ratio");
    for group in [1, 8, 64] {
        let place = directory.join(format!("group-{group}"));
        std::fs::create_dir(&place).unwrap();
        let mut memory = Options::new(DATABASE).group(group).open(&place).unwrap();
        // A store to each page loads all pages before the measurement.
        for at in (0..DATABASE).step_by(4 << 20) {
            let mut txn = memory.begin().unwrap();
            txn.set_range(at, (4 << 20).min(usize::try_from(DATABASE - at).unwrap())).unwrap().fill(1);
            txn.end().unwrap();
        }
        memory.truncate().unwrap();
        let (mut bares, mut costs, mut at, mut drawn) = (Vec::new(), Vec::new(), 0, 1_u64);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..COUNT / u64::from(group) {
                let bytes = [7; RECORD * 64];
                bare.write_all_at(&bytes[..RECORD * group as usize], at).unwrap();
                bare.sync_data().unwrap();
                at += (RECORD * group as usize) as u64;
            }
            bares.push(start.elapsed().as_secs_f64() * 1e6 / COUNT as f64);
            let start = Instant::now();
            for _ in 0..COUNT {
                drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let mut txn = memory.begin().unwrap();
                txn.set_range((drawn >> 33) % (DATABASE / 8) * 8, 8).unwrap().copy_from_slice(&drawn.to_ne_bytes());
                txn.end().unwrap();
            }
            memory.flush().unwrap();
            costs.push(start.elapsed().as_secs_f64() * 1e6 / COUNT as f64);
        }
        let (bare, cost) = (median(bares), median(costs));
        println!("{group:>5} {bare:>18.2} us {cost:>7.2} {:>7.2}", cost / bare);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
