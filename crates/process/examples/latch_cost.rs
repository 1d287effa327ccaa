//! Measures the cost of an uncontended latch and, in the same run, of a bare compare-and-swap.
//!
//! `cargo run --release -p libtp-process --example latch_cost`

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use libtp_process::{Latch, ProcessManager, Rank, Settings};
use rio::Region;

const ROUNDS: u32 = 20_000_000;

/// Returns the best of five runs, in nanoseconds per round.
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
    // One swap takes the latch, and one swap releases it: no latch with an owner costs less.
    let bare = nanos(|| {
        let _ = black_box(&word).compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        let _ = black_box(&word).compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
    });
    // A swap takes the latch, and a plain store releases it. Such a store does not notice a waiter.
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
    for threads in [2, 4, 16] {
        let nanos = contended(&processes, latch, threads);
        println!(
            "{nanos:8.2}  latch, exclusive, {threads} threads that hold it for a hundred steps each: wall time per turn"
        );
    }
    #[cfg(feature = "sysv")]
    {
        let semaphore = libtp_process::sysv::SemaphoreLatch::new()?;
        let kernel = nanos_of_kernel_call(&semaphore);
        println!("{kernel:8.2}  System V semaphore, the paper's figure 5");
    }
    Ok(())
}

/// Runs threads that all want one latch. Each thread holds the latch for a hundred steps, then works a hundred steps
/// without it. Returns nanoseconds per turn.
fn contended(processes: &ProcessManager, latch: &Latch, threads: u32) -> f64 {
    let rounds = 1_000_000 / threads;
    let busy = || {
        (0_u64..100).for_each(|step| {
            black_box(step);
        })
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let session = processes.join().expect("the region has room for a session");
                for _ in 0..rounds {
                    let guard = latch.exclusive(&session, Rank::CATALOGUE);
                    busy();
                    drop(guard);
                    busy();
                }
            });
        }
    });
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds * threads)
}

#[cfg(feature = "sysv")]
fn nanos_of_kernel_call(semaphore: &libtp_process::sysv::SemaphoreLatch) -> f64 {
    let rounds = ROUNDS / 100;
    let start = Instant::now();
    (0..rounds).for_each(|_| drop(semaphore.acquire()));
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}
