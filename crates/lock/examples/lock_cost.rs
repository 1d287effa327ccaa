//! Measures the cost of locks in the pattern of a TPC-B transaction: it locks four databases in `IX` and four records
//! in `X`, then releases all locks. The same run also measures a sharded hash map behind mutexes, which has no queues
//! and no deadlock search, and survives no death.
//!
//! `cargo run --release -p libtp-lock --example lock_cost [-- SECONDS]`; with an argument, only the loop of one thread
//! runs, for SECONDS seconds, so that a profiler can watch it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

use libtp_lock::{LockManager, LockName, LockerId, Mode, Settings, Wait};
use libtp_process::{ProcessManager, Session};
use rio::Region;

const ROUNDS: u32 = 50_000;
const ACCOUNTS: u64 = 1_000_000;
const RUNS: usize = 60;

/// Returns the eight locks of a transaction.
fn names(random: &mut u64, apart: u32) -> [(LockName, Mode); 8] {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let account = *random % ACCOUNTS;
    let record = |space: u32, key: u64| {
        (LockName { space: space + apart, kind: 3, hash: key.wrapping_mul(0x9E37_79B9) }, Mode::X)
    };
    let database = |space: u32| (LockName { space, kind: 1, hash: 0 }, Mode::IX);
    [
        database(1),
        record(1, account),
        database(2),
        record(2, account % 100),
        database(3),
        record(3, account % 10),
        database(4),
        record(4, *random >> 20),
    ]
}

fn transaction(locks: &LockManager, session: &Session, locker: LockerId, random: &mut u64, apart: u32) {
    for (name, mode) in names(random, apart) {
        match locks.lock(session, locker, black_box(name), mode, Wait::Forever) {
            Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
    }
    locks.unlock_all(session, locker);
}

#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u32(&mut self, part: u32) {
        self.write_u64(u64::from(part));
    }
    fn write_u64(&mut self, part: u64) {
        self.0 = (self.0.rotate_left(5) ^ part).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

type Shard = Mutex<HashMap<LockName, u32, BuildHasherDefault<Identity>>>;

/// Puts the same names into a sharded map and removes them. The map has no modes and no conflicts.
fn bare(shards: &[Shard], random: &mut u64) {
    let names = names(random, 0);
    let shard = |name: &LockName| {
        let place = (name.hash >> 3) ^ u64::from(name.space);
        &shards[usize::try_from(place % 64).unwrap_or(0)]
    };
    for (name, _) in &names {
        *shard(name).lock().expect("no thread panics").entry(black_box(*name)).or_default() += 1;
    }
    for (name, _) in &names {
        let mut map = shard(name).lock().expect("no thread panics");
        if let Some(count) = map.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                map.remove(name);
            }
        }
    }
}

/// Returns nanoseconds per round, the best of several runs.
fn best(mut run: impl FnMut()) -> f64 {
    let mut one = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    (0..RUNS).map(|_| one()).fold(f64::INFINITY, f64::min)
}

fn report(nanos: f64, what: &str) {
    println!("{:8.1} ns per lock and unlock, {:8.1} ns per transaction  {what}", nanos / 8.0, nanos);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let region = Region::anonymous(1 << 30)?;
    ProcessManager::init(&region)?;
    LockManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &libtp_process::Settings::default())?;
    let locks = LockManager::attach(&region, &processes, Settings::default())?;

    if let Some(seconds) = std::env::args().nth(1) {
        return run_for(seconds.parse()?, &locks, &processes);
    }
    let shards: Vec<Shard> = (0..64).map(|_| Shard::default()).collect();
    let mut random = 88_172_645_463_325_252;
    let nanos = best(|| (0..ROUNDS).for_each(|_| bare(&shards, &mut random)));
    report(nanos, "bare: a hash map in 64 mutexes");
    let nanos = best(|| {
        (0..ROUNDS).for_each(|_| {
            black_box(names(&mut random, 0));
        })
    });
    println!("{:8.1} ns of this time is for the random choice of the names", nanos / 8.0);

    let session = processes.join()?;
    let locker = locks.new_locker(&session)?;
    let nanos = best(|| (0..ROUNDS).for_each(|_| transaction(&locks, &session, locker, &mut random, 0)));
    report(nanos, "one thread");
    let name = LockName { space: 1, kind: 3, hash: 1 };
    locks.lock(&session, locker, name, Mode::IX, Wait::Forever)?;
    let nanos = best(|| {
        for _ in 0..ROUNDS {
            let _ = black_box(locks.lock(&session, locker, black_box(name), Mode::IX, Wait::Forever));
        }
    });
    println!("{nanos:8.1} ns for a lock already held");
    let other = LockName { hash: 2, ..name };
    let nanos = best(|| {
        for _ in 0..ROUNDS {
            let _ = black_box(locks.instant(&session, locker, black_box(other), Mode::IX, Wait::Forever));
        }
    });
    println!("{nanos:8.1} ns for an instant lock on a free object");
    locks.unlock_all(&session, locker);

    for (threads, apart) in [(1, 0), (2, 100), (2, 0), (4, 0), (16, 0)] {
        let nanos = (0..RUNS / 4).map(|_| together(threads, apart, &locks, &processes)).fold(f64::INFINITY, f64::min);
        let records = if apart == 0 { "the same records" } else { "each thread has its own records" };
        report(nanos, &format!("{threads} threads, time of each thread; {records}"));
    }
    a_million(&locks, &session, locker)?;
    Ok(())
}

/// Takes a million locks for one locker and releases them.
fn a_million(locks: &LockManager, session: &Session, locker: LockerId) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    for hash in 0..1_000_000 {
        locks.lock(session, locker, LockName { space: 1, kind: 3, hash }, Mode::X, Wait::Forever)?;
    }
    let taken = start.elapsed();
    locks.unlock_all(session, locker);
    let given = start.elapsed() - taken;
    println!("a million locks: {taken:?} to take, {given:?} to release; {:?}", locks.stats());
    Ok(())
}

fn run_for(seconds: u64, locks: &LockManager, processes: &ProcessManager) -> Result<(), Box<dyn std::error::Error>> {
    let session = processes.join()?;
    let locker = locks.new_locker(&session)?;
    let (mut random, start) = (88_172_645_463_325_252, Instant::now());
    while start.elapsed().as_secs() < seconds {
        (0..ROUNDS).for_each(|_| transaction(locks, &session, locker, &mut random, 0));
    }
    Ok(())
}

/// Returns nanoseconds per transaction while several threads run transactions.
fn together(threads: u32, apart: u32, locks: &LockManager, processes: &ProcessManager) -> f64 {
    let barrier = Barrier::new(usize::try_from(threads).unwrap_or(1));
    let run = &|seed: u32| {
        let session = processes.join().expect("there is room");
        let locker = locks.new_locker(&session).expect("there is room");
        let mut random = 88_172_645_463_325_252 + u64::from(seed) * 7919;
        barrier.wait();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            // All threads lock the databases in the same order, so there is no deadlock.
            transaction(locks, &session, locker, &mut random, seed * apart);
        }
        let nanos = start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);
        locks.free_locker(&session, locker);
        nanos
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|seed| scope.spawn(move || run(seed))).collect();
        let nanos = all.into_iter().map(|thread| thread.join().expect("no thread panics"));
        nanos.sum::<f64>() / f64::from(threads)
    })
}
