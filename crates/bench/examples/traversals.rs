//! Repeats OO1's traversal on one contender: for a profiler, and to compare two builds in alternate runs.
//!
//! `cargo run --release -p libtp-bench --features peers --example traversals -- CONTENDER PARTS SECONDS [backward]`,
//! where the contender is `libtp`, `libtp hash`, `libtp links` or a peer. The database is in /dev/shm. The example
//! prints nanoseconds per part: the mean, and the value of the fastest traversal.
#![allow(clippy::unwrap_used)] // A failure ends the measurement.

use std::time::{Duration, Instant};

use libtp_bench::catalogue;
use libtp_bench::oo1::{ours, Graph, Way};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [contender, parts, seconds, way @ ..] = arguments.as_slice() else {
        panic!("CONTENDER PARTS SECONDS [backward]");
    };
    let (parts, time) = (parts.parse::<u32>().unwrap(), Duration::from_secs(seconds.parse().unwrap()));
    let way = if way.is_empty() { Way::Forward } else { Way::Backward };
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let (_, open) = ours()
        .into_iter()
        .chain(catalogue::parts())
        .find(|(name, _)| name == contender)
        .expect("this build has the contender");
    let (database, graph) = (open(place.path()).unwrap(), Graph::make(parts, 0));
    let client = database.client().unwrap();
    client.load(&graph, 1..parts + 1).unwrap();
    let (mut root, mut seen, mut best, begin) = (0, 0_u64, f64::MAX, Instant::now());
    while begin.elapsed() < time {
        let (from, before) = (Instant::now(), seen);
        client.traverse(1 + root, way, &mut |_| seen += 1).unwrap();
        best = best.min(from.elapsed().as_secs_f64() / (seen - before) as f64);
        root = (root + 7919) % parts;
    }
    let mean = begin.elapsed().as_secs_f64() / seen as f64;
    println!("{contender}, {parts} parts: {:.0} ns per part, {:.0} in the fastest traversal", mean * 1e9, best * 1e9);
}
