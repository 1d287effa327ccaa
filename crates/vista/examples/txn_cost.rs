//! Measures the cost of a transaction compared with the same stores without a transaction: the synthetic benchmark of
//! Rio Vista, section 5.1.
//!
//! Prints a line per size with the medians of nanoseconds per transaction. The transactions of the line "8 hot" always
//! change the same bytes. The rounds of transactions alternate with rounds of the bare stores. The overhead is the
//! median of the differences of adjacent rounds. `txn_cost pages` guards the segment by pages, `txn_cost keys` guards
//! it by protection keys, and `txn_cost write-back` writes cache lines back.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use vista::{Guard, Options, Segment};

const DATABASE: u64 = 50 << 20;
const ROUNDS: u64 = 21;

fn main() {
    let file = std::path::PathBuf::from(format!("/dev/shm/vista-cost-{}", std::process::id()));
    let options = Options::new(DATABASE);
    let (options, divisor) = match std::env::args().nth(1).as_deref() {
        Some("pages") => (options.guard(Guard::Pages), 200),
        Some("keys") => (options.guard(Guard::Keys), 1),
        Some("write-back") => (options.write_back(true), 20),
        _ => (options, 1),
    };
    let mut segment = options.open(&file).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, usize::try_from(DATABASE).unwrap()).unwrap().fill(1);
    txn.end().unwrap();
    println!("bytes     bare ns vista ns overhead ns overhead/bare");
    measure::<8, true>("8 hot", &mut segment, divisor);
    measure::<8, false>("8", &mut segment, divisor);
    measure::<64, false>("64", &mut segment, divisor);
    measure::<1024, false>("1 Ki", &mut segment, divisor);
    measure::<4096, false>("4 Ki", &mut segment, divisor);
    measure::<65_536, false>("64 Ki", &mut segment, divisor);
    measure::<1_048_576, false>("1 Mi", &mut segment, divisor);
    let _ = std::fs::remove_file(&file);
}

fn measure<const BYTES: usize, const HOT: bool>(name: &str, segment: &mut Segment, divisor: u64) {
    let count = ((50_000_000 / (BYTES + 20)) as u64).min(2_000_000) / divisor + 1;
    let place = |nth: u64| -> u64 {
        if HOT {
            return 64;
        }
        // The generator has no state, so the next address does not depend on the address before it.
        let mixed = (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16;
        mixed % (DATABASE / BYTES as u64) * BYTES as u64
    };
    let (mut bares, mut vistas, mut overheads) = (Vec::new(), Vec::new(), Vec::new());
    let image = vec![3_u8; BYTES];
    let image: &[u8; BYTES] = image.as_slice().try_into().unwrap();
    for round in 0..ROUNDS {
        let mut txn = segment.begin();
        let bare = txn.set_range(0, usize::try_from(DATABASE).unwrap()).unwrap();
        let start = Instant::now();
        for nth in 0..count {
            let at = usize::try_from(place(nth + round)).unwrap();
            body(black_box(&mut bare[at..at + BYTES]), image, nth);
        }
        let bare = start.elapsed().as_secs_f64() * 1e9 / count as f64;
        txn.end().unwrap();
        let start = Instant::now();
        for nth in 0..count {
            let mut txn = segment.begin();
            body(black_box(txn.set_range(place(nth + round), BYTES).unwrap()), image, nth);
            txn.end().unwrap();
        }
        let vista = start.elapsed().as_secs_f64() * 1e9 / count as f64;
        bares.push(bare);
        vistas.push(vista);
        overheads.push(vista - bare);
    }
    let (bare, vista, overhead) = (median(bares), median(vistas), median(overheads));
    println!("{name:<8} {bare:>8.1} {vista:>8.1} {overhead:>11.1} {:>13.2}", overhead / bare);
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[inline(always)]
fn body<const BYTES: usize>(range: &mut [u8], image: &[u8; BYTES], nth: u64) {
    if BYTES == 8 {
        range.copy_from_slice(&nth.to_ne_bytes());
    } else {
        range.copy_from_slice(image);
    }
}
