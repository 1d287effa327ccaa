//! What a transaction costs beside the same stores without one: the synthetic benchmark of Rio Vista, section 5.1.
//!
//! A line a size: nanoseconds a transaction, the best of several rounds, in turns with the bare stores.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use vista::Segment;

const DATABASE: u64 = 50 << 20;

fn main() {
    let file = std::path::PathBuf::from(format!("/dev/shm/vista-cost-{}", std::process::id()));
    let mut segment = Segment::open(&file, DATABASE).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, usize::try_from(DATABASE).unwrap()).unwrap().fill(1);
    txn.end().unwrap();
    println!("bytes      bare   vista   overhead ns");
    measure::<8, true>("8 hot", &mut segment);
    measure::<8, false>("8", &mut segment);
    measure::<64, false>("64", &mut segment);
    measure::<1024, false>("1 Ki", &mut segment);
    measure::<4096, false>("4 Ki", &mut segment);
    measure::<65_536, false>("64 Ki", &mut segment);
    measure::<1_048_576, false>("1 Mi", &mut segment);
    let _ = std::fs::remove_file(&file);
}

fn measure<const BYTES: usize, const HOT: bool>(name: &str, segment: &mut Segment) {
    let count = ((100_000_000 / (BYTES + 20)) as u64).min(3_000_000);
    let place = |nth: u64| -> u64 {
        if HOT {
            return 64;
        }
        // A generator without memory, so that the next place does not wait for this one.
        let mixed = (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16;
        mixed % (DATABASE / BYTES as u64) * BYTES as u64
    };
    let (mut best_bare, mut best_vista) = (f64::MAX, f64::MAX);
    let image = vec![3_u8; BYTES];
    let image: &[u8; BYTES] = image.as_slice().try_into().unwrap();
    for round in 0..7 {
        let mut txn = segment.begin();
        let bare = txn.set_range(0, usize::try_from(DATABASE).unwrap()).unwrap();
        let start = Instant::now();
        for nth in 0..count {
            let at = usize::try_from(place(nth + round)).unwrap();
            body(black_box(&mut bare[at..at + BYTES]), image, nth);
        }
        best_bare = best_bare.min(start.elapsed().as_secs_f64() * 1e9 / count as f64);
        txn.end().unwrap();
        let start = Instant::now();
        for nth in 0..count {
            let mut txn = segment.begin();
            body(black_box(txn.set_range(place(nth + round), BYTES).unwrap()), image, nth);
            txn.end().unwrap();
        }
        best_vista = best_vista.min(start.elapsed().as_secs_f64() * 1e9 / count as f64);
    }
    println!("{name:<8} {best_bare:>7.1} {best_vista:>7.1} {:>7.1}", best_vista - best_bare);
}

#[inline(always)]
fn body<const BYTES: usize>(range: &mut [u8], image: &[u8; BYTES], nth: u64) {
    if BYTES == 8 {
        range.copy_from_slice(&nth.to_ne_bytes());
    } else {
        range.copy_from_slice(image);
    }
}
