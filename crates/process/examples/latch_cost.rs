//! What an uncontended latch costs, beside a bare compare-and-swap in the same run.
//!
//! `cargo run --release -p libtp-process --example latch_cost`

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use libtp_process::{Latch, ProcessManager, Rank, Settings};
use rio::Region;

const ROUNDS: u32 = 20_000_000;

/// The best of five runs, in nanoseconds a round.
fn nanos(mut round: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| round());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    let mut runs = [0, 1, 2, 3, 4].map(run);
    runs.sort_by(f64::total_cmp);
    runs[0]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let region = Region::anonymous(1 << 24)?;
    ProcessManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &Settings::default())?;
    let session = processes.join()?;
    let latch = region.at(region.allocate::<Latch>(1)?);
    let word = AtomicU64::new(0);
    // One swap in, one swap out: what any latch with an owner costs at least.
    let bare = nanos(|| {
        let _ = black_box(&word).compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        let _ = black_box(&word).compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
    });
    // Taken and given back with one swap and one plain store, which cannot see a waiter.
    let store = nanos(|| {
        let _ = black_box(&word).compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        black_box(&word).store(0, Ordering::Release);
    });
    let shared = nanos(|| drop(black_box(latch).shared(black_box(&session), Rank::CATALOGUE)));
    let exclusive = nanos(|| drop(black_box(latch).exclusive(black_box(&session), Rank::CATALOGUE)));
    println!("nanoseconds for one uncontended acquire and release, best of five runs of {ROUNDS}");
    println!("{bare:8.2}  bare: two compare-and-swaps");
    println!("{store:8.2}  bare: a compare-and-swap and a store");
    println!("{shared:8.2}  latch, shared");
    println!("{exclusive:8.2}  latch, exclusive");
    #[cfg(feature = "sysv")]
    {
        let semaphore = libtp_process::sysv::SemaphoreLatch::new()?;
        let kernel = nanos_of_kernel_call(&semaphore);
        println!("{kernel:8.2}  System V semaphore, the paper's figure 5");
    }
    Ok(())
}

#[cfg(feature = "sysv")]
fn nanos_of_kernel_call(semaphore: &libtp_process::sysv::SemaphoreLatch) -> f64 {
    let rounds = ROUNDS / 100;
    let start = Instant::now();
    (0..rounds).for_each(|_| drop(semaphore.acquire()));
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}
