//! A process that changes a segment is killed again and again, and whoever maps it next finds every transaction whole.
//!
//! The child tells of transactions that ended, so that what was acknowledged is looked for, too.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtp_tests::sizes;
use vista::{Options, Segment};

use crate::business::{self, Draw};
use crate::several;
use crate::typed;

const BYTES: u64 = 256 << 10;
/// Ranges and blocks have at most so many bytes.
const LONGEST: u64 = 5000;
/// The file says what is done: declared ranges and a list of blocks, or typed memory, or the first by several threads.
const RANGES: &str = "ranges";
const TYPED: &str = "typed";
const SEVERAL: &str = "several";
const CHILD: &str = "VISTA_TEST_CHILD";

fn open(path: &Path, is_written_back: bool) -> Segment {
    Options::new(BYTES).write_back(is_written_back).open(path).unwrap()
}

/// What the child does until it is killed.
fn change(path: &Path, seed: u64) {
    let mut segment = open(path, seed % 4 == 0);
    if path.ends_with(SEVERAL) {
        let before = several::judge(&segment).unwrap();
        let threads = segment.share_by(several::STRIPE).unwrap();
        let told = |ended: u64| {
            if ended % 64 == 0 {
                println!("{}", before + ended);
            }
        };
        several::change(&threads, seed, u64::MAX, LONGEST, &told);
        return;
    }
    let (mut draw, mut told) = (Draw(seed), std::io::stdout().lock());
    let is_typed = path.ends_with(TYPED);
    let mut transact = || match is_typed {
        true => typed::transact(&mut segment, &mut draw),
        false => business::transact(&mut segment, &mut draw, LONGEST),
    };
    loop {
        if let Some(ended) = transact().filter(|ended| ended % 64 == 0) {
            writeln!(told, "{ended}").unwrap();
        }
    }
}

#[test]
fn killed_at_any_moment() {
    if let Ok(path) = std::env::var(CHILD) {
        change(Path::new(&path), sizes::first_seed());
    }
    kill_again_and_again(RANGES, business::judge);
    kill_again_and_again(TYPED, typed::judge);
    kill_again_and_again(SEVERAL, several::judge);
}

fn kill_again_and_again(name: &str, judge: fn(&Segment) -> Result<u64, String>) {
    let kills = sizes::number("LIBTP_TEST_KILLS", 100);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let (start, mut draw, mut rolled_back, mut ended) = (Instant::now(), Draw(7), 0, 0);
    for seed in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::killed_at_any_moment", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .env("LIBTP_TEST_SEED", seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_number = |line: &String| line.parse::<u64>().is_ok();
        // Under way, or it will not be; a few die while they map.
        let mut told: u64 = 0;
        if seed % 16 != 15 {
            told = lines.by_ref().map(Result::unwrap).find(is_number).unwrap().parse().unwrap();
        }
        std::thread::sleep(Duration::from_micros(draw.below(4000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.map_while(Result::ok).filter(is_number).last();
        told = last.map_or(told, |line| line.parse().unwrap());
        if !path.exists() {
            continue;
        }
        let segment = open(&path, false);
        rolled_back += u64::from(segment.rolled_back() != 0);
        let now = judge(&segment).unwrap_or_else(|what| panic!("after {kills} kills: {what}"));
        assert!(now >= told && now >= ended, "{told} were told, {ended} were there, {now} are");
        ended = now;
    }
    println!(
        "figures: {name}: {kills} kills, {ended} transactions ended, {rolled_back} rolled back at map, 0 torn, 0 lost, {} s",
        start.elapsed().as_secs()
    );
    assert!(rolled_back > kills / 10, "hardly anyone died in a transaction: nothing was tested");
}
