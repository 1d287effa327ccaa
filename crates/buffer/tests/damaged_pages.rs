//! Tests of bytes on the disk that are not the page: each session that reads the page gets an error, never the bytes.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::sync::Arc;
use std::thread;

use libtp_buffer::Error;
use libtp_io::{Directory, OpenMode};
use world::{frames, page_id, Place, World, PAGE_BYTES};

/// Makes a world with pages 1 to 9 written, and no page in memory.
fn written() -> (Place, Arc<dyn Directory>, World) {
    let (place, directory) = Place::new();
    let world = World::new(directory.clone(), &frames(64));
    let session = world.join();
    for number in 1..=9 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    world.buffers.write_all(&session).unwrap();
    world.drop_pages(&session);
    drop(session);
    (place, directory, world)
}

fn damage(directory: &Arc<dyn Directory>, change: impl Fn(&mut Vec<u8>)) {
    let file = directory.open("pages.tp", OpenMode::Existing).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    change(&mut bytes);
    file.write_at(&bytes, 0).unwrap();
}

fn place_of(number: u32) -> std::ops::Range<usize> {
    let bytes = PAGE_BYTES as usize;
    number as usize * bytes..(number as usize + 1) * bytes
}

fn corrupt(world: &World, number: u32) -> String {
    let session = world.join();
    match world.get(&session, page_id(number)) {
        Err(Error::Corrupt { file, page, what }) => {
            assert_eq!((file.as_str(), page.raw()), ("pages.tp", number));
            what
        }
        other => panic!("page {number}: {other:?}"),
    }
}

#[test]
fn a_flipped_bit_is_noticed_and_other_pages_can_be_read() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| bytes[place_of(4)][4000] ^= 1);
    assert!(corrupt(&world, 4).contains("checksum"));
    let session = world.join();
    for number in [1, 2, 3, 5, 6, 7, 8, 9] {
        assert_eq!(world.get(&session, page_id(number)).unwrap(), u64::from(number));
    }
    // After a repair from a backup, the page can be read again.
    damage(&directory, |bytes| bytes[place_of(4)][4000] ^= 1);
    assert_eq!(world.get(&session, page_id(4)).unwrap(), 4);
}

#[test]
fn pages_that_changed_places_are_noticed() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| {
        let second = bytes[place_of(2)].to_vec();
        bytes.copy_within(place_of(3), place_of(2).start);
        bytes[place_of(3)].copy_from_slice(&second);
    });
    assert!(corrupt(&world, 2).contains("page 3 of file 1 is in its place"));
    assert!(corrupt(&world, 3).contains("page 2 of file 1 is in its place"));
}

#[test]
fn a_page_from_beyond_the_log_is_noticed() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| {
        let page = &mut bytes[place_of(5)];
        page[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        libtp_buffer::seal(page);
    });
    assert!(corrupt(&world, 5).contains("the log ends"), "{}", corrupt(&world, 5));
}

#[test]
fn a_page_whose_last_record_is_of_another_incarnation_of_the_log_is_noticed() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| {
        let page = &mut bytes[place_of(5)];
        let incarnation = u16::from_le_bytes([page[22], page[23]]);
        assert_ne!(incarnation, 0, "on the disk the page has the mark of an incarnation of the log");
        page[22..24].copy_from_slice(&(incarnation + 1).to_le_bytes());
        libtp_buffer::seal(page);
    });
    assert!(corrupt(&world, 5).contains("was lost before a restart"), "{}", corrupt(&world, 5));
    let session = world.join();
    let sound = world.buffers.shared(&session, page_id(4), world::LEAF).unwrap();
    assert_eq!(
        sound.header().incarnation.get(),
        0,
        "in memory the page has no mark: another incarnation may change it"
    );
}

#[test]
fn pages_never_written_and_pages_beyond_the_end_are_zeros() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| bytes[place_of(6)].fill(0));
    let session = world.join();
    for number in [6, 1_000_000] {
        let page = world.buffers.shared(&session, page_id(number), world::LEAF).unwrap();
        assert!(page.lsn().is_none() && page.iter().all(|&byte| byte == 0));
        assert_eq!(page.header().kind, 0, "the kind shows that the page was never made");
    }
}

#[test]
fn every_session_that_waits_for_a_damaged_page_gets_the_error() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| bytes[place_of(4)].fill(0xaa));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| drop(corrupt(&world, 4))));
        }
    });
    let session = world.join();
    assert!(!world.buffers.is_resident(page_id(4)));
    // The frames were not lost: the pool is as large as before.
    for number in 1..=500 {
        if number != 4 {
            world.get(&session, page_id(number)).unwrap();
        }
    }
    assert!(world.buffers.stats()[0].frames <= 64);
}

#[test]
fn a_prefetch_reports_no_damage_but_a_later_read_reports_it() {
    let (_place, directory, world) = written();
    damage(&directory, |bytes| bytes[place_of(4)][100] ^= 1);
    let session = world.join();
    assert_eq!(world.buffers.prefetch(&session, world::FILE, libtp_buffer::PageNo::new(1), 9).unwrap(), 8);
    assert!(corrupt(&world, 4).contains("checksum"));
    let reads = world.buffers.stats()[0].reads;
    for number in [1, 2, 3, 5, 6, 7, 8, 9] {
        assert_eq!(world.get(&session, page_id(number)).unwrap(), u64::from(number));
    }
    assert_eq!(world.buffers.stats()[0].reads, reads, "the pages were in memory");
}
