//! Tests of growth: a pool is small at first, grows to its budget, and no further. If the region cannot grow, pages are
//! replaced.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libtp_buffer::{PageId, PageNo, PoolSettings, Settings};
use world::{file_info, frames, page_id, Place, World, LEAF, PAGE_BYTES};

#[test]
fn a_new_pool_takes_little_and_grows_to_its_budget() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(500));
    let session = world.join();
    world.get(&session, page_id(1)).unwrap();
    let stats = world.buffers.stats()[0];
    assert!(stats.bytes <= 256 << 10, "{stats:?}");
    assert!(world.region.size() < 2 << 20, "the whole region has {} bytes", world.region.size());
    for number in 1..=2_000 {
        world.get(&session, page_id(number)).unwrap();
    }
    let stats = world.buffers.stats()[0];
    assert_eq!((stats.frames, stats.bytes), (500, 500 * u64::from(PAGE_BYTES)));
    assert_eq!(stats.evictions, 1_500);
    let (_, buckets) = world.buffers.batch_and_bucket_counts();
    assert!(buckets >= 500, "the table grew to {buckets} buckets");
}

#[test]
fn where_the_region_cannot_grow_pages_are_replaced_instead() {
    let (_place, directory) = Place::new();
    let world = World::with_reserve(directory, &frames(100_000), 3 << 20);
    let session = world.join();
    for round in 0..2 {
        for number in 1..=1_000 {
            world.set(&session, page_id(number), u64::from(number + round)).unwrap();
        }
    }
    let stats = world.buffers.stats()[0];
    assert!(stats.frames < 400 && stats.evictions > 1_000, "{stats:?}");
    for number in 1..=1_000 {
        assert_eq!(world.get(&session, page_id(number)).unwrap(), u64::from(number + 1));
    }
}

#[test]
fn readers_find_their_pages_while_the_table_grows() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &frames(4_000));
    let other = world.again();
    let session = world.join();
    for number in 1..=40 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for world in [&world, &other] {
            let done = &done;
            scope.spawn(move || {
                let session = world.join();
                while !done.load(Ordering::Relaxed) {
                    for number in 1..=40 {
                        assert_eq!(world.get(&session, page_id(number)).unwrap(), u64::from(number));
                    }
                }
            });
        }
        for number in 41..=3_500 {
            world.get(&session, page_id(number)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(world.buffers.stats()[0].misses, 3_500, "no page was loaded twice");
    assert!(world.buffers.batch_and_bucket_counts().1 > 3_000);
}

#[test]
fn a_database_with_a_pool_of_its_own_keeps_its_pages() {
    let (_place, directory) = Place::new();
    let world = World::new(directory.clone(), &frames(32));
    let session = world.join();
    let pool = world
        .buffers
        .add_pool(&session, &PoolSettings { budget_bytes: 64 * 16384, ..PoolSettings::default() })
        .unwrap();
    directory.open("index.tp", libtp_io::OpenMode::Create).unwrap();
    let file = libtp_buffer::FileId::new(2);
    let info = libtp_buffer::FileInfo { pool, ..file_info(file, "index", 16384) };
    world.buffers.register_file(&session, &info).unwrap();
    let index = |number| PageId::new(file, PageNo::new(number));
    for number in 1..=50 {
        world.set(&session, index(number), 5).unwrap();
    }
    for number in 1..=500 {
        world.get(&session, page_id(number)).unwrap();
    }
    assert!((1..=50).all(|number| world.buffers.is_resident(index(number))));
    // Another process sees the same pools and files.
    let other = world.again();
    assert_eq!(other.buffers.file_by_name("index"), Some(info.clone()));
    assert_eq!(other.buffers.file_by_id(file), Some(info));
    assert_eq!(other.get(&other.join(), index(50)).unwrap(), 5);
    assert_eq!(other.buffers.stats().len(), 2);
    let page = world.buffers.shared(&session, index(1), LEAF);
    assert_eq!(page.unwrap().len(), 16384);
}

#[test]
fn unsuitable_files_are_refused_and_suitable_files_are_registered() {
    let (_place, directory) = Place::new();
    let world = World::new(directory, &Settings::default());
    let session = world.join();
    let register = |info| world.buffers.register_file(&session, &info);
    register(world::file_info(world::FILE, world::NAME, PAGE_BYTES)).unwrap();
    let id = libtp_buffer::FileId::new;
    for bad in [
        file_info(id(2), world::NAME, PAGE_BYTES),
        file_info(world::FILE, "other", PAGE_BYTES),
        file_info(world::FILE, world::NAME, 4096),
        file_info(id(0), "zero", PAGE_BYTES),
        file_info(id(3), "odd", 5000),
        file_info(id(3), "", PAGE_BYTES),
        file_info(id(3), &"x".repeat(201), PAGE_BYTES),
    ] {
        let error = register(bad.clone()).unwrap_err();
        assert!(matches!(error, libtp_buffer::Error::Unsuitable { .. }), "{bad:?}: {error}");
    }
    for number in 2..40 {
        register(file_info(id(number), &format!("file {number}"), PAGE_BYTES)).unwrap();
    }
    assert_eq!(world.buffers.files().len(), 39);
    let error = world.get(&session, PageId::new(id(99), PageNo::new(1))).unwrap_err();
    assert!(matches!(error, libtp_buffer::Error::UnknownFile { file } if file == id(99)), "{error}");
}

#[test]
fn forgetting_a_file_frees_its_frames_without_writing_them() {
    let (place, directory) = Place::new();
    let world = World::new(directory, &frames(64));
    let session = world.join();
    for number in 1..=20 {
        world.set(&session, page_id(number), 5).unwrap();
    }
    world.buffers.forget_file(&session, world::FILE);
    assert_eq!((world.buffers.dirty_count(), world.buffers.file_by_id(world::FILE)), (0, None));
    assert!(world.get(&session, page_id(1)).is_err());
    assert_eq!(std::fs::metadata(place.file("pages.tp")).unwrap().len(), 0, "nothing was written");
}
