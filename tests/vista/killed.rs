//! A process that changes a segment is killed many times. Each next process that opens the segment finds every
//! transaction either complete or undone.
//!
//! The child reports ended transactions, so that the test also checks that acknowledged transactions are kept.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtp_tests::sizes;

use crate::business::Draw;
use crate::modes::{memory_of, tear, Mode};

const CHILD: &str = "VISTA_TEST_CHILD";
/// Set if the child only opens the segment.
const RECOVERS: &str = "VISTA_TEST_RECOVERS";
/// Number of children that open a segment of a killed process, and are killed, before the segment is judged.
const OPENERS: u64 = 3;

#[test]
fn killed_at_any_moment() {
    if let Ok(path) = std::env::var(CHILD) {
        let (path, seed) = (Path::new(&path), sizes::first_seed());
        match sizes::number(RECOVERS, 0) {
            0 => Mode::of(path).change(path, seed),
            _ => Mode::of(path).recover(path, seed),
        }
        std::process::exit(0);
    }
    // Divides the kills among all modes.
    let kills = sizes::number("LIBTP_TEST_KILLS", 120).div_ceil(Mode::ALL.len() as u64);
    let total: u64 = Mode::ALL.into_iter().map(|mode| kill_again_and_again(mode, kills)).sum();
    println!("figures: {total} kills in {} modes, 0 torn, 0 lost", Mode::ALL.len());
}

fn start(directory: &Path, seed: u64, recovers: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::killed_at_any_moment", "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .env(RECOVERS, u64::from(recovers).to_string())
        .env("LIBTP_TEST_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a child some time after it has printed a given line. Returns the last number that the child reported.
fn kill(mut child: Child, is_told: impl Fn(&str) -> bool, later: Duration) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = lines.by_ref().find(|line| is_told(line)).into_iter().collect::<Vec<_>>();
    assert!(!told.is_empty(), "the child ended before the kill: {:?}", child.wait());
    std::thread::sleep(later);
    child.kill().unwrap();
    child.wait().unwrap();
    told.extend(lines);
    told.iter().rev().find_map(|line| line.parse().ok()).unwrap_or(0)
}

/// Kills children in one mode, and judges the segment after the kills. Returns the number of kills.
fn kill_again_and_again(mode: Mode, kills: u64) -> u64 {
    let place: PathBuf = if mode.is_in_memory() { "/dev/shm".into() } else { std::env::temp_dir() };
    let parent = tempfile::tempdir_in(place).unwrap();
    let directory = parent.path().join(mode.name());
    std::fs::create_dir(&directory).unwrap();
    let (begun, mut draw, mut rolled_back, mut least, mut killed) = (Instant::now(), Draw(7), 0, 0, 0);
    let mut most = 0;
    for seed in 0..kills {
        // Most children are killed after their first transactions, and a few while they open the segment.
        let is_under_way = seed % 16 != 15;
        let is_told = |line: &str| if is_under_way { line.parse::<u64>().is_ok() } else { line == "opening" };
        let later = Duration::from_micros(draw.below(4000));
        let told = kill(start(&directory, seed, false), is_told, later);
        killed += 1;
        least = told.max(least);
        if mode == Mode::Recovery {
            for nth in 0..OPENERS {
                let later = Duration::from_micros(draw.below(600));
                kill(start(&directory, seed + nth, true), |line| line == "opening", later);
                killed += 1;
            }
        }
        if mode == Mode::Checkpoints && least != 0 {
            tear(&directory);
            // Every second time, the segment is not judged: the next child restores the segment, and is killed during
            // the restore or soon after it.
            if seed % 2 == 0 {
                continue;
            }
        }
        let judged = mode.judge(&directory);
        let (ended, was_rolled_back) = judged.unwrap_or_else(|what| panic!("{mode:?}, after {killed} kills: {what}"));
        rolled_back += u64::from(was_rolled_back);
        assert!(ended >= least, "{mode:?}: {least} transactions were seen or reported, and {ended} are kept");
        most = ended.max(most);
        // A later restore from the checkpoint may lose transactions that are not in the checkpoint.
        if mode != Mode::Checkpoints {
            least = ended;
        }
        // A segment that may have grown to its greatest length is replaced by a new segment.
        if mode == Mode::Growing && seed % 10 == 9 {
            std::fs::remove_file(directory.join("segment")).unwrap();
            least = 0;
        }
    }
    if !mode.has_undo() {
        // The removal succeeds only if the killed processes have left no file in the directory.
        std::fs::remove_dir(memory_of(&directory)).expect("memory that ends with its process never has a file name");
    }
    println!(
        "figures: {mode:?}: {killed} kills, {most} transactions ended, {rolled_back} rolled back or restored, 0 torn, 0 lost, {} s",
        begun.elapsed().as_secs()
    );
    assert!(!mode.has_undo() || rolled_back > kills / 10, "{mode:?}: too few children died in a transaction");
    killed
}
