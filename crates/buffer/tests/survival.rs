//! Tests of a region whose sessions all died: the pages in memory are kept, and every latch, pin and role is released.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::mem::forget;
use std::sync::Arc;

use libtp_io::Operation;
use libtp_sim::{Calls, Fault, Repeat, SimDisk};
use world::{frames, page_id, World, LEAF};

#[test]
fn latches_pins_and_roles_of_dead_sessions_are_released_and_pages_are_kept() {
    let disk = SimDisk::new(1);
    let world = World::new(Arc::new(disk.process_view()), &frames(64));
    let session = world.join();
    for number in 1..=30 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    let minimum = world.buffers.dirty_minimum();
    forget(world.buffers.exclusive(&session, page_id(1), LEAF).unwrap());
    forget(world.buffers.shared(&session, page_id(2), LEAF).unwrap());
    forget(world.buffers.pin(&session, page_id(3)).unwrap());
    forget(session);
    let survivor = world.again();
    let repair = survivor.processes.repair_alone();
    let found = survivor.buffers.repair_alone();
    assert_eq!((found.kept, found.dropped, found.unsynced), (30, 0, 0));
    assert_eq!(survivor.buffers.repair_alone(), found, "the second repair changes nothing");
    survivor.buffers.all_repeated();
    repair.finish();
    let session = survivor.join();
    let reads = survivor.buffers.stats()[0].reads;
    for number in 1..=30 {
        assert_eq!(survivor.get(&session, page_id(number)).unwrap(), u64::from(number));
    }
    assert_eq!(survivor.buffers.stats()[0].reads, reads, "no page was read again");
    assert_eq!(survivor.buffers.dirty_minimum(), minimum);
    survivor.set(&session, page_id(1), 5).unwrap();
    for number in 31..=500 {
        survivor.set(&session, page_id(number), 1).unwrap();
    }
    assert!(survivor.buffers.stats()[0].frames <= 64, "no frame was lost, so no frame had to be added");
    assert_eq!(survivor.get(&session, page_id(1)).unwrap(), 5);
}

#[test]
fn an_interrupted_batch_is_written_home() {
    let disk = SimDisk::new(2);
    let world = World::new(Arc::new(disk.process_view()), &frames(64));
    let session = world.join();
    for number in 1..=30 {
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    // The first write to the homes fails half way, and then every session dies.
    disk.fail_call(Calls::On(Operation::Write, "pages.tp".into()), 0, Fault::Eio, Repeat::Once);
    world.buffers.write_all(&session).unwrap_err();
    forget(session);
    let survivor = world.again();
    let repair = survivor.processes.repair_alone();
    assert_eq!(survivor.buffers.repair_alone().kept, 30);
    survivor.buffers.all_repeated();
    repair.finish();
    let session = survivor.join();
    assert_eq!(survivor.buffers.dirty_count(), 30);
    // When one page is written, the whole open batch is written home first.
    survivor.buffers.forget_file(&session, libtp_buffer::FileId::new(9));
    let oldest = survivor.buffers.dirty_minimum().unwrap();
    survivor.buffers.write_older(&session, libtp_log::Lsn::new(oldest.raw() + 1)).unwrap();
    let bytes = disk.file_bytes("pages.tp").unwrap();
    for number in 1..=30_u32 {
        let page = &bytes[number as usize * 8192..][..8192];
        libtp_buffer::check(page, page_id(number)).unwrap();
        assert_eq!(world::value_of(page), u64::from(number));
    }
}

#[test]
fn pins_that_a_session_has_no_room_to_note_are_removed_too() {
    let world = World::new(Arc::new(SimDisk::new(3).process_view()), &frames(128));
    let (dead, living) = (world.join(), world.join());
    for number in 1..=100 {
        world.set(&dead, page_id(number), u64::from(number)).unwrap();
        forget(world.buffers.pin(&dead, page_id(number)).unwrap());
    }
    let kept = world.buffers.pin(&living, page_id(70)).unwrap();
    dead.mark_dead();
    let dead_session = world.processes.take_dead(&living, dead.id()).unwrap();
    dead_session.roll_back();
    dead_session.release_latches();
    assert!(world.buffers.repair_frames(&living, &dead_session));
    dead_session.bury(std::time::Instant::now());
    assert_eq!(world.buffers.pinned_by_nobody(&living), []);
    drop(kept);
    world.buffers.check_at_rest();
}
