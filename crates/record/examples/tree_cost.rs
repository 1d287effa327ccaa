//! Measures the hot paths (a get, an update, an insertion and an append), and a bare loop in the same run.
//!
//! `cargo run --release -p libtp-record --example tree_cost [RECORDS [PART OF A NAME [SLICES]]]`. All pages are in
//! memory, one thread works, and the tree has a million records of 100 bytes by default. Prints the nanoseconds per
//! call, for the slice at the fifth percentile and for the median slice. Each call includes a tenth of a transaction.

#![allow(clippy::unwrap_used)] // A failure ends the measurement.

#[path = "../tests/world/mod.rs"]
mod world;

use std::time::Instant;

use libtp_record::{Access, BtreeCursor, Database, Method};
use libtp_txn::TxnSession;
use world::{Place, Random, World};

/// The number of calls of a slice. Slices are short, because other work of the machine disturbs some of them.
const SLICE_CALLS: u64 = 1500;
const PER_TXN: u64 = 10;

/// Returns the number of slices, which is the third argument.
fn slice_count() -> usize {
    std::env::args().nth(3).and_then(|count| count.parse().ok()).unwrap_or(200)
}

struct Bench<'b> {
    world: &'b World,
    txn: &'b TxnSession,
    database: &'b Database,
}

impl Bench<'_> {
    /// Runs `call` in transactions of ten and prints its cost.
    fn run(&self, name: &str, mut call: impl FnMut(&Access<'_>)) {
        if !name.contains(&std::env::args().nth(2).unwrap_or_default()) {
            return;
        }
        let mut slices = Vec::new();
        for _ in 0..slice_count() {
            let started = Instant::now();
            for _ in 0..SLICE_CALLS / PER_TXN {
                self.txn.begin(&self.world.managers);
                let access = self.world.access(self.txn, self.database);
                for _ in 0..PER_TXN {
                    call(&access);
                }
                self.txn.commit_now(&self.world.managers).unwrap();
            }
            slices.push(started.elapsed().as_nanos() as f64 / SLICE_CALLS as f64);
        }
        slices.sort_by(f64::total_cmp);
        let (best, middle) = (slices[slices.len() / 20], slices[slices.len() / 2]);
        println!("{name:<52} {best:>8.0} ns {middle:>8.0} ns");
    }
}

fn load(world: &World, txn: &TxnSession, database: &Database, records: u64) {
    let started = Instant::now();
    for chunk in 0..records / 1000 {
        txn.begin(&world.managers);
        let access = world.access(txn, database);
        for number in chunk * 1000..(chunk + 1) * 1000 {
            access.put(&number.to_be_bytes(), &[7; 100]).unwrap();
        }
        txn.commit_now(&world.managers).unwrap();
    }
    let nanos = started.elapsed().as_nanos() as f64 / records as f64;
    println!("{:<52} {nanos:>8.0} ns", "put, in order (load)");
}

fn main() {
    let records: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let place = Place::new();
    let world = World::new(&place, 1 << 30);
    let txn = world.join();
    let database = world.database(&txn, "accounts", Method::Btree, 8192);
    load(&world, &txn, &database, records);
    let mut random = Random(88172645463325252);
    let bench = Bench { world: &world, txn: &txn, database: &database };
    bench.run("nothing (a tenth of begin and commit)", |_| ());
    bench.run("random number and hash alone", |_| {
        std::hint::black_box(libtp_record::key_hash::key_hash(&random.below(records).to_be_bytes()));
    });
    let memory: Vec<u64> = (0..25 << 20).collect();
    let mut last = 0;
    bench.run("one cache line at random out of 200 MB", |_| {
        let at = (random.next() ^ last) % memory.len() as u64;
        last = memory[usize::try_from(at).unwrap()];
    });
    bench.run("get, random", |access| {
        let key = random.below(records).to_be_bytes();
        assert_eq!(access.get(&key, <[u8]>::len).unwrap(), Some(100));
    });
    bench.run("get, the same 100 records", |access| {
        let key = random.below(100).to_be_bytes();
        assert_eq!(access.get(&key, <[u8]>::len).unwrap(), Some(100));
    });
    bench.run("update 8 bytes, random", |access| {
        let key = random.below(records).to_be_bytes();
        access.update(&key, |value| value[..8].copy_from_slice(&random.next().to_le_bytes())).unwrap();
    });
    bench.run("update 8 bytes, the same 100 records", |access| {
        let key = random.below(100).to_be_bytes();
        access.update(&key, |value| value[..8].copy_from_slice(&random.next().to_le_bytes())).unwrap();
    });
    let mut value = [7; 100];
    bench.run("put of the same length, random", |access| {
        let key = random.below(records).to_be_bytes();
        value[..8].copy_from_slice(&random.next().to_le_bytes());
        access.put(&key, &value).unwrap();
    });
    let mut next = records;
    bench.run("put new, in order", |access| {
        next += 1;
        access.put(&next.to_be_bytes(), &[7; 100]).unwrap();
    });
    bench.run("put new, random place", |access| {
        let key = [&random.below(records).to_be_bytes()[..], &random.next().to_be_bytes()].concat();
        access.put(&key, &[7; 100]).unwrap();
    });
    let mut cursor_key = 0;
    bench.run("scan, a hundred records", |access| {
        let mut cursor = BtreeCursor::new(*access);
        cursor_key = (cursor_key + 7919) % records;
        let mut found = cursor.move_to(&cursor_key.to_be_bytes()).unwrap();
        for _ in 0..99 {
            found = found && cursor.move_next().unwrap();
        }
        std::hint::black_box(found);
    });
    let history = world.database(&txn, "history", Method::Recno { record_bytes: 50 }, 8192);
    let bench = Bench { world: &world, txn: &txn, database: &history };
    bench.run("recno append, 50 bytes", |access| {
        access.recno_append(&[1; 50]).unwrap();
    });
    bench.run("recno get, random", |access| {
        assert!(access.recno_get(1 + random.below(slice_count() as u64 * SLICE_CALLS), <[u8]>::len).unwrap().is_some());
    });
}
