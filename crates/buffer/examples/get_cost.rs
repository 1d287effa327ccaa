//! Measures a shared get of a page in memory, and a bare walk over the same memory.
//!
//! `cargo run --release -p libtp-buffer --example get_cost`

#[path = "../tests/world/mod.rs"]
mod world;

use std::hint::black_box;
use std::time::Instant;

use world::{frames, page_id, Place, World, LEAF};

const PAGES: u32 = 16 << 10;
const ROUNDS: u32 = 20_000_000;

fn main() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(u64::from(PAGES) + 64));
    let session = world.join();
    for page in 1..=PAGES {
        drop(world.buffers.pin_new(&session, page_id(page)).expect("the pool grows to its budget"));
    }
    for page in 1..=PAGES {
        drop(world.buffers.shared(&session, page_id(page), LEAF).expect("every page is in memory"));
    }
    let get = |page: u32| {
        let page = world.buffers.shared(&session, page_id(page), LEAF).expect("the page is in memory");
        black_box(&*page);
    };
    measure("one hot page, shared", |_| get(7));
    measure("16,384 pages at random, shared", |random| get(1 + random % PAGES));
    measure("16,384 pages at random, shared, first byte read", |random| {
        let page = world.buffers.shared(&session, page_id(1 + random % PAGES), LEAF).expect("the page is in memory");
        black_box(page[64]);
    });
    measure("one hot page, looked up only", |_| {
        black_box(world.buffers.is_resident(black_box(page_id(7))));
    });
    measure("one hot page, exclusive", |_| {
        let page = world.buffers.exclusive(&session, page_id(7), LEAF).expect("the page is in memory");
        black_box(&*page);
    });
    let pin = world.buffers.pin(&session, page_id(7)).expect("the page is in memory");
    measure("one pinned page, shared", |_| {
        black_box(&*pin.shared(LEAF));
    });
    let words: Vec<u64> = vec![1; PAGES as usize * 1024];
    measure("bare: one word of 16,384 pages at random", |random| {
        black_box(words[(random % PAGES) as usize * 1024]);
    });
    let latch = std::sync::RwLock::new(0_u64);
    measure("bare: one std RwLock, read", |_| {
        black_box(*latch.read().expect("no thread panics"));
    });
}

fn measure(what: &str, mut get: impl FnMut(u32)) {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let mut random = 0x9e37_79b9_u32;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            get(random);
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    println!("{best:7.1} ns  {what}");
}
