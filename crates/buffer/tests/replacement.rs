//! Tests with more pages than frames: a read returns the last written value in every thread of every process, and a
//! page in use stays in its frame.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use libtp_buffer::{check, PageNo, Policy, PoolSettings, Settings};
use world::{frames, page_id, value_of, Place, World, FILE, LEAF, PAGE_BYTES};

const PAGES: u32 = 2_000;

/// A small generator of pseudorandom numbers, so that a failing run can be repeated.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Changes and reads random pages. The model is changed and read under the same latch as the page.
fn work(world: &World, model: &[AtomicU64], seed: u64, rounds: u32) {
    let session = world.join();
    let mut random = seed;
    for _ in 0..rounds {
        let number = u32::try_from(next(&mut random) % u64::from(PAGES)).unwrap() + 1;
        let (id, expected) = (page_id(number), &model[number as usize]);
        if next(&mut random) % 3 == 0 {
            let value = next(&mut random) | 1;
            world.log.reserve(&session, 256).unwrap();
            let page = world.buffers.exclusive(&session, id, LEAF).unwrap();
            assert_eq!(value_of(&page), expected.load(Ordering::Relaxed), "page {number} before a change");
            expected.store(value, Ordering::Relaxed);
            world.set_latched(&session, page, value);
        } else {
            let page = world.buffers.shared(&session, id, LEAF).unwrap();
            assert_eq!(value_of(&page), expected.load(Ordering::Relaxed), "page {number}");
        }
    }
}

fn many_threads_and_few_frames(policy: Policy) {
    let (place, directory) = Place::new();
    let pool = PoolSettings { budget_bytes: 64 * u64::from(PAGE_BYTES), policy };
    let mut settings = Settings::default();
    (settings.pool, settings.batch_pages) = (pool, 32);
    let first = World::new(directory, &settings);
    let second = first.again();
    let model: Vec<AtomicU64> = (0..=PAGES).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for (seed, world) in [(1, &first), (2, &second), (3, &first), (4, &second)] {
            let model = &model;
            scope.spawn(move || work(world, model, seed * 0x9e37_79b9, 4_000));
        }
        // Prefetches in parallel, so that pages are read while they are written home.
        scope.spawn(|| {
            let session = first.join();
            for round in 0..300 {
                let start = PageNo::new(1 + (round * 37) % (PAGES - 40));
                first.buffers.prefetch(&session, FILE, start, 32).unwrap();
            }
        });
        // Runs a background writer and a checkpointer, too.
        scope.spawn(|| {
            let session = second.join();
            for _ in 0..20 {
                second.buffers.background_step(&session).unwrap();
                session.sleep(std::time::Duration::from_millis(2));
            }
            second.buffers.write_all(&session).unwrap();
        });
    });
    let session = second.join();
    // On a busy machine a session may find every frame in use, and the pool grows to twice its budget.
    assert!(second.buffers.stats()[0].frames <= 2 * 64, "{:?}", second.buffers.stats());
    assert!(second.buffers.stats()[0].evictions > 1_000, "{:?}", second.buffers.stats());
    second.buffers.write_all(&session).unwrap();
    assert_eq!((second.buffers.dirty_minimum(), second.buffers.dirty_count()), (None, 0));
    let bytes = std::fs::read(place.file("pages.tp")).unwrap();
    for (number, expected) in (0..).zip(&model).skip(1) {
        let at = number as usize * PAGE_BYTES as usize;
        let Some(page) = bytes.get(at..at + PAGE_BYTES as usize) else {
            assert_eq!(expected.load(Ordering::Relaxed), 0, "page {number} was never written to the disk");
            continue;
        };
        check(page, page_id(number)).unwrap();
        assert_eq!(value_of(page), expected.load(Ordering::Relaxed), "page {number} on the disk");
    }
}

#[test]
fn two_processes_agree_with_a_model_under_the_clock() {
    many_threads_and_few_frames(Policy::Clock);
}

#[test]
fn two_processes_agree_with_a_model_under_lru() {
    many_threads_and_few_frames(Policy::Lru);
}

#[test]
fn a_latched_or_pinned_page_is_not_replaced() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(32));
    let (holder, session) = (world.join(), world.join());
    for number in 1..=3 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    let shared = world.buffers.shared(&holder, page_id(1), LEAF).unwrap();
    let exclusive = world.buffers.exclusive(&holder, page_id(2), LEAF).unwrap();
    let pin = world.buffers.pin(&holder, page_id(3)).unwrap();
    let place_of = |page: &[u8]| page.as_ptr() as usize;
    let places = [place_of(&shared), place_of(&exclusive), place_of(&pin.shared(LEAF))];
    for number in 4..1_000 {
        world.set(&session, page_id(number), 9).unwrap();
    }
    world.buffers.background_step(&session).unwrap();
    assert!(world.buffers.stats()[0].evictions > 500);
    assert!(!world.buffers.is_resident(page_id(4)), "others were replaced");
    assert_eq!(places, [place_of(&shared), place_of(&exclusive), place_of(&pin.shared(LEAF))]);
    assert_eq!((value_of(&shared), value_of(&exclusive), value_of(&pin.shared(LEAF))), (1, 2, 3));
    drop((shared, exclusive, pin));
    for number in 4..1_000 {
        world.get(&session, page_id(number)).unwrap();
    }
    assert!((1..=3).any(|number| !world.buffers.is_resident(page_id(number))), "released pages can be replaced");
}

#[test]
fn a_pool_whose_frames_are_all_pinned_grows_past_its_budget() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(32));
    let session = world.join();
    let pins: Vec<_> = (1..=40).map(|number| world.buffers.pin(&session, page_id(number)).unwrap()).collect();
    assert!(world.buffers.stats()[0].frames >= 40);
    drop(pins);
}

#[test]
fn lru_replaces_exactly_the_least_recently_used() {
    let (_place, directory) = Place::new();
    let pool = PoolSettings { budget_bytes: 32 * u64::from(PAGE_BYTES), policy: Policy::Lru };
    let world = World::new(directory, &Settings { pool, ..Settings::default() });
    let session = world.join();
    let mut order: Vec<u32> = Vec::new();
    let mut random = 77;
    for _ in 0..3_000 {
        let number = u32::try_from(next(&mut random) % 50).unwrap() + 1;
        world.get(&session, page_id(number)).unwrap();
        order.retain(|&other| other != number);
        order.push(number);
        let expected = &order[order.len().saturating_sub(32)..];
        for other in 1..=50 {
            let is_recent = expected.contains(&other);
            assert_eq!(world.buffers.is_resident(page_id(other)), is_recent, "page {other} after {expected:?}");
        }
    }
}

#[test]
fn under_the_clock_pages_used_again_and_again_survive_a_scan() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(64));
    let session = world.join();
    let mut kept = 0;
    for number in 100..1_100 {
        world.get(&session, page_id(number)).unwrap();
        for hot in 1..=8 {
            kept += u32::from(world.buffers.is_resident(page_id(hot)));
            world.get(&session, page_id(hot)).unwrap();
        }
    }
    assert!(kept >= 8 * 990, "the hot pages were in memory {kept} times of 8,000");
}

#[test]
fn a_frame_that_gets_another_page_before_it_is_latched_is_not_used_for_the_first_page() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(16));
    let session = world.join();
    for number in 1..=24 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    world.buffers.write_all(&session).unwrap();
    thread::scope(|scope| {
        for seed in 1..=4 {
            let world = &world;
            scope.spawn(move || {
                let session = world.join();
                let mut random = seed * 0x9e37_79b9;
                for _ in 0..100_000 {
                    let number = u32::try_from(next(&mut random) % 24).unwrap() + 1;
                    assert_eq!(world.get(&session, page_id(number)).unwrap(), u64::from(number));
                }
            });
        }
    });
}
