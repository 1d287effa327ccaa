//! Measures writing pages back: many dirty pages at once, and more pages than frames.
//!
//! `cargo run --release -p libtp-buffer --example write_cost`

#[path = "../tests/world/mod.rs"]
mod world;

use std::time::Instant;

use libtp_buffer::Settings;
use world::{frames, page_id, Place, World, PAGE_BYTES};

const PAGES: u32 = 8 << 10;

fn main() {
    for batch_pages in [16, 64, 240] {
        let (_place, directory) = Place::new();
        let world = World::new(directory, &Settings { batch_pages, ..frames(2 * u64::from(PAGES)) });
        let session = world.join();
        for round in 0..2 {
            for page in 1..=PAGES {
                world.set_new(&session, page_id(page), 1).expect("the pool grows to its budget");
            }
            let start = Instant::now();
            world.buffers.write_all(&session).expect("the disk takes them");
            rate(&format!("all dirty, batches of {batch_pages}, round {round}"), start);
        }
        let (_place, directory) = Place::new();
        let world = World::new(directory, &Settings { batch_pages, ..frames(u64::from(PAGES) / 8) });
        let session = world.join();
        let start = Instant::now();
        for page in 1..=PAGES {
            world.set(&session, page_id(page), 1).expect("pages make room for each other");
        }
        rate(&format!("frames for an eighth of the pages, batches of {batch_pages}"), start);
    }
}

fn rate(what: &str, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let megabytes = f64::from(PAGES) * f64::from(PAGE_BYTES) / 1e6;
    println!("{:7.0} pages/s {:6.0} MB/s  {what}", f64::from(PAGES) / seconds, megabytes / seconds);
}
