//! A worker: a process that makes transfers until it is killed or ordered to leave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp::{Durability, Env};
use libtp_sim::Random;
use libtp_tests::bank::{settings, Bank};
use libtp_tests::process::{next_order, now, say};

/// The test that a worker runs.
pub const ENTRY: &str = "worker::entry";
/// The variable with the environment's directory. A process without the variable is no worker.
pub const DIRECTORY: &str = "LIBTP_TEST_WORKER_DIRECTORY";
/// The variable with the worker's number, which is unique.
pub const NUMBER: &str = "LIBTP_TEST_WORKER_NUMBER";
/// The variable with the seed.
pub const SEED: &str = "LIBTP_TEST_WORKER_SEED";
/// The variable with the durability, `Sync` or `Relaxed`. Without the variable, the durability is random.
pub const DURABILITY: &str = "LIBTP_TEST_WORKER_DURABILITY";

/// The entry of a worker. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    if let Err(error) = work(PathBuf::from(directory), number(NUMBER), number(SEED)) {
        say(&format!("failed {error}"));
    }
}

fn work(directory: PathBuf, worker: u64, seed: u64) -> libtp::Result<()> {
    let env = Env::builder().settings(settings()).open(directory)?;
    say(&format!("opened {:?} {}", env.opened().how, env.stats()?.log_incarnation));
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    // Any order, or the end of the test, makes the worker leave.
    std::thread::spawn(move || {
        next_order();
        // Relaxed: the flag publishes no other data.
        theirs.store(true, Ordering::Relaxed);
    });
    let (bank, mut random) = (Bank::open(&env)?, Random::new(seed));
    let mut number = 0;
    let chosen = match std::env::var(DURABILITY).as_deref() {
        Ok("Sync") => Some(Durability::Sync),
        Ok("Relaxed") => Some(Durability::Relaxed),
        _ => None,
    };
    // Relaxed: the flag publishes no other data.
    while !stop.load(Ordering::Relaxed) {
        let any = if random.chance(1, 4) { Durability::Sync } else { Durability::Relaxed };
        let durability = chosen.unwrap_or(any);
        bank.transfer(worker, number, &mut random, durability)?;
        say(&format!("ack {number} {}", now()));
        number += 1;
    }
    drop(bank);
    drop(env);
    say("left");
    Ok(())
}
