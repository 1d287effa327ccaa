//! Runs each hot path separately, to count its instructions. `cargo xtask bench counts` runs this example under
//! callgrind.
//!
//! Callgrind counts only the instructions inside [`counted_operations`] on this thread: no loading, no warming up, no
//! other thread. Each path is warmed up and then run `count` times. After each path the example prints a line
//! `NAME<tab>CALLS<tab>OPERATIONS`; callgrind writes its counts in the same order. The first path does nothing; its
//! count is the cost of counting, which is subtracted from the other counts. All random numbers come from one seed, and
//! no other thread works, so two counts of one build differ by at most a few tenths of a percent.
//!
//! `cargo run --release -p libtp-bench --example instructions [-- PART OF A NAME]` runs the paths without counting.
#![allow(clippy::unwrap_used)] // A failure ends the measurement.

mod bank;
mod managers;
mod records;

use std::hint::black_box;

use libtp::{Env, Settings};

/// The directory of all files; it is removed at the end.
pub struct Place(tempfile::TempDir);

impl Place {
    /// Makes a new environment without background threads, and with a cache in which the whole environment fits.
    pub fn env(&self, name: &str) -> Env {
        let settings =
            Settings { memory: Some(libtp::Bytes::mib(256)), no_background: true, ..libtp::Settings::default() };
        let builder = Env::builder().settings(settings).durability(libtp::Durability::Relaxed);
        builder.open(self.0.path().join(name)).unwrap()
    }
}

/// Runs the paths whose names contain `part`.
pub struct Paths {
    part: String,
}

impl Paths {
    /// Warms up by calls of `operation`, and then counts `count` calls. Each call does `operations` operations.
    pub fn run(&self, name: &str, operations: u64, count: u64, operation: &mut dyn FnMut()) {
        if name.contains(&self.part) || name == NOTHING {
            (0..count.div_ceil(4)).for_each(|_| operation());
            counted_operations(operation, count);
            println!("{name}\t{count}\t{}", operations * count);
        }
    }
}

/// The path that does nothing.
const NOTHING: &str = "nothing";

/// Calls `operation` `count` times. Callgrind finds this function by its name, so it must not be inlined.
#[inline(never)]
fn counted_operations(operation: &mut dyn FnMut(), count: u64) {
    for _ in 0..black_box(count) {
        black_box(&mut *operation)();
    }
}

/// Random numbers from one seed (xorshift).
pub struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(88_172_645_463_325_252)
    }
}

impl Random {
    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

fn main() {
    let paths = Paths { part: std::env::args().nth(1).unwrap_or_default() };
    let place = Place(tempfile::tempdir().unwrap());
    paths.run(NOTHING, 1, 10_000, &mut || {});
    bank::run(&paths, &place);
    records::run(&paths, &place);
    managers::run(&paths, &place);
}
