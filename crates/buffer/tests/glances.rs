//! Pages that are read without their latches, while other sessions change and replace them (docs/design/0022).
//!
//! A wrong reader would believe half a change, a change that is rolled back, or another page in the same frame. So the
//! writers change both ends of a page, some writers roll their sections back, and the pool has so few frames that pages
//! are replaced all the time.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libtp_buffer::PageId;
use libtp_process::Session;
use world::{frames, page_id, Place, World, LEAF, PAGE_BYTES};
use zerocopy::IntoBytes;

const PAGES: u32 = 24;
const FRAMES: u64 = 16;
const RUN: Duration = Duration::from_millis(1500);

/// Changes both ends of the page in a section, and rolls the section back.
fn set_and_roll_back(world: &World, session: &Session, id: PageId, value: u64) {
    let mut page = world.buffers.exclusive(session, id, LEAF).unwrap();
    let mut section = session.section();
    let mut bytes = page.page_mut(&mut section);
    bytes.range(64..72).copy_from_slice(value.as_bytes());
    let last = bytes.bytes().len();
    bytes.range(last - 8..last).copy_from_slice(value.as_bytes());
    section.roll_back();
}

fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Reads pages without their latches. Returns how often it believed a page.
fn read(world: &World, mut state: u64, taken_back: u64) -> u64 {
    let (begun, mut believed) = (Instant::now(), 0);
    while begun.elapsed() < RUN {
        for _ in 0..64 {
            let page = 1 + u32::try_from(draw(&mut state)).unwrap() % PAGES;
            let Some(glance) = world.buffers.glance(page_id(page)) else { continue };
            let bytes = glance.bytes();
            let (number, first, last) = (bytes.u32(4), bytes.u64(64), bytes.u64(PAGE_BYTES as usize - 8));
            if glance.is_unchanged() {
                believed += 1;
                assert_eq!(number, page, "another page is believed");
                assert_eq!(first, last, "half a change is believed");
                assert_ne!(first, taken_back, "a change that is rolled back is believed");
            }
        }
    }
    believed
}

#[test]
fn a_page_read_without_its_latch_is_whole_or_is_not_believed() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(FRAMES));
    let session = world.join();
    for page in 1..=PAGES {
        world.set_new(&session, page_id(page), 1).unwrap();
    }
    let next = AtomicU64::new(2);
    let others: Vec<World> = (0..4).map(|_| world.again()).collect();
    let believed: Vec<u64> = std::thread::scope(|threads| {
        for (number, world) in others[..2].iter().enumerate() {
            let next = &next;
            threads.spawn(move || {
                let (session, mut state, begun) = (world.join(), 7 + number as u64, Instant::now());
                while begun.elapsed() < RUN {
                    let id = page_id(1 + u32::try_from(draw(&mut state)).unwrap() % PAGES);
                    world.set(&session, id, next.fetch_add(1, Ordering::Relaxed)).unwrap();
                    set_and_roll_back(world, &session, id, u64::MAX);
                }
            });
        }
        let readers = others[2..].iter().zip(100..);
        let readers: Vec<_> =
            readers.map(|(world, state)| threads.spawn(move || read(world, state, u64::MAX))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let changes = next.into_inner();
    assert!(believed.iter().all(|&times| times > 1000) && changes > 1000, "{believed:?} looks, {changes} changes");
    drop(others);
    drop(session);
}
