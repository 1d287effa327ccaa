//! Measures the cost of automatic ranges: microseconds per page, compared with declared ranges of the same pages.
//!
//! Prints a line for each number of pages that a transaction stores to. Each number is the median of rounds; the two
//! kinds of range take turns.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use vista::{Error, Segment};

const PAGE: usize = 4096;
const DATABASE: usize = 50 << 20;
const ROUNDS: usize = 21;

fn main() {
    // Each kind of range has a separate segment, because the flat part stays protected from one automatic transaction
    // to the next.
    let (mut segment, mut other) = (open("declared"), open("automatic"));
    println!("pages   declared   automatic   us per page");
    for pages in [1, 16, 256] {
        let (mut declared, mut automatic) = (Vec::new(), Vec::new());
        let place = |nth: usize| nth * 7919 % (DATABASE / PAGE) * PAGE;
        for round in 0..ROUNDS {
            let start = Instant::now();
            let mut txn = segment.begin();
            for nth in 0..pages {
                txn.set_range(place(nth + round) as u64, PAGE).unwrap()[round] = 2;
            }
            txn.end().unwrap();
            declared.push(start.elapsed().as_secs_f64() * 1e6 / pages as f64);
            let start = Instant::now();
            let store = |bytes: &mut [u8]| {
                (0..pages).for_each(|nth| bytes[place(nth + round) + round] = 3);
                Ok::<(), Error>(())
            };
            other.automatically(store).unwrap();
            automatic.push(start.elapsed().as_secs_f64() * 1e6 / pages as f64);
        }
        println!("{pages:>5} {:>10.2} {:>11.2}", median(declared), median(automatic));
    }
}

fn open(name: &str) -> Segment {
    let file = std::path::PathBuf::from(format!("/dev/shm/vista-auto-{}-{name}", std::process::id()));
    let mut segment = Segment::open(&file, DATABASE as u64).unwrap();
    let _ = std::fs::remove_file(&file);
    let mut txn = segment.begin();
    txn.set_range(0, DATABASE).unwrap().fill(1);
    txn.end().unwrap();
    segment
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
