//! A process that changes a segment is killed again and again, and whoever maps it next finds every transaction whole.
//!
//! The segment holds cells whose sum never changes, and a list of blocks from the heap: its length and the sum of what is
//! in it are written beside it in the same transactions. The child tells of each transaction that ended, so that what was
//! acknowledged is looked for, too.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vista::{Segment, Txn};

const CELLS: u64 = 512;
/// Words behind the cells: transactions ended, the list's first block, its length, the sum of what is in it.
const ENDED: u64 = CELLS * 8;
const FIRST: u64 = ENDED + 8;
const LENGTH: u64 = ENDED + 16;
const SUM: u64 = ENDED + 24;
const BYTES: u64 = 1 << 20;
const CHILD: &str = "VISTA_TEST_CHILD";

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

fn get(txn: &Txn<'_>, at: u64) -> u64 {
    word(txn.get(at, 8).unwrap())
}

fn set(txn: &mut Txn<'_>, at: u64, value: u64) {
    txn.set_range(at, 8).unwrap().copy_from_slice(&value.to_ne_bytes());
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What the child does until it is killed.
fn change(path: &Path, seed: u64) {
    let mut segment = Segment::open(path, BYTES).unwrap();
    let mut draw = Draw(seed);
    let mut told = std::io::stdout().lock();
    loop {
        let mut txn = segment.begin();
        let ended = get(&txn, ENDED);
        // Many cells, so that most kills come in the middle of one.
        for _ in 0..=draw.below(20) {
            let (from, to, amount) = (draw.below(CELLS) * 8, draw.below(CELLS) * 8, draw.below(1000));
            let value = get(&txn, from).wrapping_sub(amount);
            set(&mut txn, from, value);
            let value = get(&txn, to).wrapping_add(amount);
            set(&mut txn, to, value);
        }
        match draw.below(4) {
            0 => push(&mut txn, &mut draw),
            1 => pop(&mut txn),
            2 => {
                let at = 8192 + draw.below(BYTES - 8192 - 65_536);
                let length = usize::try_from(1 + draw.below(65_536)).unwrap();
                let fill = u8::try_from(draw.below(256)).unwrap();
                txn.set_range(at, length).unwrap().fill(fill);
            }
            _ => {}
        }
        if draw.below(8) == 0 {
            txn.abort();
            continue;
        }
        set(&mut txn, ENDED, ended + 1);
        txn.end().unwrap();
        if ended % 64 == 0 {
            writeln!(told, "{}", ended + 1).unwrap();
        }
    }
}

/// A block: the next one, its own length, and as many bytes of a value.
fn push(txn: &mut Txn<'_>, draw: &mut Draw) {
    let bytes = 32 + draw.below(3000);
    let block = txn.malloc(bytes).unwrap();
    let (first, length, sum) = (get(txn, FIRST), get(txn, LENGTH), get(txn, SUM));
    set(txn, block, first);
    set(txn, block + 8, bytes);
    txn.set_range(block + 16, usize::try_from(bytes - 16).unwrap()).unwrap().fill(5);
    set(txn, FIRST, block);
    set(txn, LENGTH, length + 1);
    set(txn, SUM, sum + bytes);
}

fn pop(txn: &mut Txn<'_>) {
    let block = get(txn, FIRST);
    if block == 0 {
        return;
    }
    let (next, bytes) = (get(txn, block), get(txn, block + 8));
    let (length, sum) = (get(txn, LENGTH), get(txn, SUM));
    set(txn, FIRST, next);
    set(txn, LENGTH, length - 1);
    set(txn, SUM, sum - bytes);
    txn.free(block).unwrap();
}

/// Whether everything agrees; how many transactions ended.
fn judge(segment: &Segment) -> u64 {
    let at = |at: u64| word(segment.get(at, 8).unwrap());
    let total = (0..CELLS).fold(0_u64, |sum, cell| sum.wrapping_add(at(cell * 8)));
    assert_eq!(total, 0, "the cells' sum: a transaction was torn");
    let (mut block, mut length, mut sum) = (at(FIRST), 0, 0);
    while block != 0 {
        let bytes = at(block + 8);
        let body = segment.get(block + 16, usize::try_from(bytes - 16).unwrap()).unwrap();
        assert!(body.iter().all(|&byte| byte == 5), "a block's bytes");
        (length, sum) = (length + 1, sum + bytes);
        assert!(length <= at(LENGTH), "the list has no end");
        block = at(block);
    }
    assert_eq!((length, sum), (at(LENGTH), at(SUM)), "the list");
    at(ENDED)
}

#[test]
fn killed_at_any_moment() {
    if let Ok(path) = std::env::var(CHILD) {
        let seed = std::env::var("VISTA_TEST_SEED").unwrap().parse().unwrap();
        change(&PathBuf::from(path), seed);
    }
    let kills: u64 = std::env::var("LIBTP_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let path = std::env::temp_dir().join(format!("vista-killed-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let (start, mut draw, mut rolled_back, mut ended) = (Instant::now(), Draw(7), 0, 0);
    for seed in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_at_any_moment", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .env("VISTA_TEST_SEED", seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_number = |line: &String| line.parse::<u64>().is_ok();
        // Under way, or it will not be; a few die while they map.
        let mut told = 0;
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
        let segment = Segment::open(&path, BYTES).unwrap();
        rolled_back += u64::from(segment.rolled_back() != 0);
        let now = judge(&segment);
        assert!(now >= told && now >= ended, "{told} were told, {ended} were there, {now} are");
        ended = now;
    }
    println!(
        "figures: {kills} kills, {ended} transactions ended, {rolled_back} rolled back at map, 0 torn, 0 lost, {} s",
        start.elapsed().as_secs()
    );
    assert!(rolled_back > kills / 10, "hardly anyone died in a transaction: nothing was tested");
    std::fs::remove_file(&path).unwrap();
}
