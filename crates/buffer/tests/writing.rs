//! Tests of writing pages: a page is written only after its log, and no page is lost if the disk refuses a call.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp_buffer::{
    check, page_lsn, restore_torn, Error, FileId, Home, PageId, PageNo, Settings, WriteAhead, DOUBLE_WRITE_NAME,
};
use libtp_io::{OpenMode, Operation};
use libtp_log::{FlushedTo, LogManager, Lsn};
use libtp_process::Session;
use libtp_sim::{Accepted, Calls, Change, Fault, LossMode, Repeat, SimDisk, WholeWrites};
use world::{file_info, frames, page_id, value_of, World, FILE, LEAF, PAGE_BYTES};

const PAGES: u32 = 40;

/// Makes a world on a simulated disk with `PAGES` dirty pages, each with its own number as value. Writing them takes
/// three batches, so the double-write file is used again.
fn dirty_world(disk: &SimDisk) -> (World, Session) {
    let world = World::new(Arc::new(disk.process_view()), &Settings { batch_pages: 15, ..frames(256) });
    let session = world.join();
    set_all(&world, &session, 0);
    (world, session)
}

fn set_all(world: &World, session: &Session, add: u64) {
    for number in 1..=PAGES {
        if add == 0 {
            // Pinned as a new page.
            drop(world.buffers.pin_new(session, page_id(number)).unwrap());
        }
        world.set(session, page_id(number), u64::from(number) + add).unwrap();
    }
}

fn get_all(world: &World, session: &Session, add: u64) {
    for number in 1..=PAGES {
        assert_eq!(world.get(session, page_id(number)).unwrap(), u64::from(number) + add, "page {number}");
    }
}

/// Asserts that the disk has all pages, with the values of the round `add`.
fn on_the_disk(disk: &SimDisk, add: u64) {
    let bytes = disk.file_bytes("pages.tp").unwrap();
    for number in 1..=PAGES {
        let page = &bytes[(number * PAGE_BYTES) as usize..][..PAGE_BYTES as usize];
        check(page, page_id(number)).unwrap();
        assert_eq!(value_of(page), u64::from(number) + add, "page {number} on the disk");
    }
}

#[test]
fn no_page_is_on_the_disk_before_its_log() {
    let disk = SimDisk::new(1);
    let (world, session) = dirty_world(&disk);
    assert_eq!(world.log.durable(), Lsn::FIRST, "nothing was forced yet");
    assert_eq!(world.buffers.write_all(&session).unwrap(), PAGES as usize);
    let youngest = (1..=PAGES).map(|number| world.buffers.shared(&session, page_id(number), LEAF).unwrap().lsn()).max();
    assert!(world.log.durable() > youngest.unwrap());
    on_the_disk(&disk, 0);
}

/// A log that refuses while its flag is set.
struct Refusing(Arc<LogManager>, AtomicBool);

impl WriteAhead for Refusing {
    fn incarnation_mark(&self, _: Lsn) -> Option<std::num::NonZeroU16> {
        None
    }

    fn tail(&self) -> Lsn {
        self.0.tail()
    }
    fn flushed(&self) -> FlushedTo {
        self.0.flushed()
    }
    fn force(&self, session: &Session, lsn: Lsn) -> libtp_log::Result<FlushedTo> {
        if self.1.load(Ordering::Relaxed) {
            return Err(libtp_log::Error::PastEnd { lsn, end: lsn });
        }
        self.0.force(session, lsn)
    }
}

#[test]
fn no_page_is_written_if_the_log_refuses() {
    let disk = SimDisk::new(2);
    let (world, session) = dirty_world(&disk);
    let log = Arc::new(Refusing(world.log.clone(), AtomicBool::new(true)));
    let buffers = world.with_log(log.clone());
    let minimum = buffers.dirty_minimum();
    assert!(matches!(buffers.write_all(&session), Err(Error::Log(_))));
    let written = disk.file_bytes("pages.tp").unwrap();
    assert!(written.iter().all(|&byte| byte == 0), "a page is on the disk before its log");
    assert_eq!((buffers.dirty_minimum(), buffers.dirty_count()), (minimum, PAGES as usize));
    log.1.store(false, Ordering::Relaxed);
    assert_eq!(buffers.write_all(&session).unwrap(), PAGES as usize);
    on_the_disk(&disk, 0);
}

#[test]
#[should_panic(expected = "only after the log of its last change")]
fn a_log_that_reports_a_wrong_durable_end_is_noticed() {
    struct Liar(Arc<LogManager>);
    impl WriteAhead for Liar {
        fn incarnation_mark(&self, _: Lsn) -> Option<std::num::NonZeroU16> {
            None
        }

        fn tail(&self) -> Lsn {
            self.0.tail()
        }
        fn flushed(&self) -> FlushedTo {
            self.0.flushed()
        }
        fn force(&self, _: &Session, _: Lsn) -> libtp_log::Result<FlushedTo> {
            Ok(self.0.flushed())
        }
    }
    let disk = SimDisk::new(3);
    let (world, session) = dirty_world(&disk);
    let buffers = world.with_log(Arc::new(Liar(world.log.clone())));
    let _ = buffers.write_all(&session);
}

#[test]
fn a_page_stays_in_the_dirty_minimum_until_its_file_is_synced() {
    let disk = SimDisk::new(4);
    let (world, session) = dirty_world(&disk);
    let minimum = world.buffers.dirty_minimum().expect("pages are dirty");
    // The pages are written home, then the sync fails: from now on every write is refused.
    disk.fail_call(Calls::On(Operation::Sync, "pages.tp".into()), 0, Fault::Eio, Repeat::Once);
    assert!(matches!(world.buffers.write_all(&session), Err(Error::Failed)));
    assert!(world.buffers.is_failed() && world.again().buffers.is_failed());
    assert_eq!(world.buffers.dirty_minimum(), Some(minimum));
    // The disk works again, but the state of the unsynced bytes is unknown.
    assert!(matches!(world.buffers.write_all(&session), Err(Error::Failed)));
    assert!(matches!(world.buffers.sync_files(), Err(Error::Failed)));
    assert_eq!(world.buffers.dirty_minimum(), Some(minimum));
    get_all(&world, &session, 0);
}

#[test]
fn a_full_disk_refuses_new_pages_and_takes_existing_pages() {
    let disk = SimDisk::new(5);
    let (world, session) = dirty_world(&disk);
    world.log.force(&session, page_lsn(&world.buffers.shared(&session, page_id(PAGES), LEAF).unwrap())).unwrap();
    disk.set_capacity(Some(disk.bytes_used()));
    let error = world.buffers.pin_new(&session, page_id(100_000)).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    // Pages got their blocks when they were made, and the double-write file has blocks, too: all pages can be written.
    world.buffers.write_all(&session).unwrap();
    assert!(world.buffers.dirty_count() == 0 && !world.buffers.is_failed());
    get_all(&world, &session, 0);
    on_the_disk(&disk, 0);
    disk.set_capacity(None);
    world.buffers.pin_new(&session, page_id(100_000)).map(|_| ()).unwrap();
}

#[test]
fn a_page_with_a_failed_read_does_not_count_as_a_new_page() {
    let disk = SimDisk::new(7);
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    world.drop_pages(&session);
    disk.fail_call(Calls::On(Operation::Read, "pages.tp".into()), 0, Fault::Eio, Repeat::Once);
    let error = world.buffers.pin_new(&session, page_id(5)).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");
    drop(world.buffers.pin_new(&session, page_id(5)).unwrap());
    get_all(&world, &session, 0);
}

#[test]
fn a_new_page_is_read_only_if_another_session_has_written_it() {
    let disk = SimDisk::new(9);
    let world = World::new(Arc::new(disk.process_view()), &frames(32));
    let session = world.join();
    let reads = || disk.calls(&Calls::On(Operation::Read, "pages.tp".into()));
    let before = reads();
    for number in 1..=200 {
        drop(world.buffers.pin_new(&session, page_id(number)).unwrap());
        world.set(&session, page_id(number), u64::from(number)).unwrap();
    }
    // Some pages were replaced before they were set.
    assert!(reads() - before < 20, "pages that were never written are read: {} reads", reads() - before);
    // This session found long ago that a page does not exist, and makes it only now. Meanwhile other sessions have made
    // and written the page, and it was replaced.
    let gone: Vec<u32> = (1..=200).filter(|number| !world.buffers.is_resident(page_id(*number))).collect();
    assert!(gone.len() > 100, "{}", gone.len());
    for number in gone.iter().step_by(10) {
        assert_eq!(
            value_of(&world.buffers.pin_new(&session, page_id(*number)).unwrap().shared(LEAF)),
            u64::from(*number)
        );
    }
    world.buffers.write_all(&session).unwrap();
    world.drop_pages(&session);
    // The file has a new slot: pages before the end of the file may have been written.
    for number in 1..=200 {
        let page = world.buffers.pin_new(&session, page_id(number)).unwrap();
        assert_eq!(value_of(&page.shared(LEAF)), u64::from(number));
    }
}

/// Makes a disk that promises to write pages whole, and accepts some of them.
fn promising(seed: u64, accepted: Accepted) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.promise_whole_writes(WholeWrites { bytes: 512..=PAGE_BYTES, accepted });
    disk
}

/// Returns how many writes of a part of the trace went to the double-write file, and how many were whole.
fn writes(disk: &SimDisk, from: usize) -> (usize, usize) {
    let trace = disk.trace();
    let is_double = |name: &str| name == DOUBLE_WRITE_NAME;
    let double = trace.iter().find_map(|entry| match &entry.change {
        Change::CreateFile { name, file, .. } if is_double(name) => Some(*file),
        _ => None,
    });
    let count = |wanted: &dyn Fn(&Change) -> bool| trace[from..].iter().filter(|entry| wanted(&entry.change)).count();
    let to_double = count(&|change| matches!(change, Change::Write { file, .. } if Some(*file) == double));
    (to_double, count(&|change| matches!(change, Change::Write { is_whole: true, .. })))
}

#[test]
fn a_disk_that_writes_pages_whole_gets_each_page_once() {
    let disk = promising(1, Accepted::All);
    let (world, session) = dirty_world(&disk);
    let from = disk.io_index();
    assert_eq!(world.buffers.write_all(&session).unwrap(), PAGES as usize);
    // The two writes of the double-write file have made it empty: a mark, and a table without a batch.
    assert_eq!(writes(&disk, from), (2, PAGES as usize));
    on_the_disk(&disk, 0);
    set_all(&world, &session, 1_000);
    let from = disk.io_index();
    world.buffers.write_all(&session).unwrap();
    assert_eq!(writes(&disk, from), (0, PAGES as usize));
    on_the_disk(&disk, 1_000);
    assert_eq!(world.buffers.dirty_count(), 0);
}

#[test]
fn pages_that_the_disk_refuses_to_write_whole_are_written_twice() {
    let disk = promising(1, Accepted::First(20));
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    on_the_disk(&disk, 0);
    assert_eq!(disk.activity().whole_refused, 1, "a refused file is not tried again");
    set_all(&world, &session, 1_000);
    let from = disk.io_index();
    world.buffers.write_all(&session).unwrap();
    // Each of three batches writes images, and a mark.
    assert_eq!(writes(&disk, from), (6, 0));
    on_the_disk(&disk, 1_000);
}

#[test]
fn a_page_that_a_failed_write_tore_is_written_twice_in_the_same_batch() {
    let disk = promising(1, Accepted::TornAfter(20));
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    assert_eq!((disk.activity().whole_write, disk.activity().whole_torn), (20, 1), "a torn file is not tried again");
    assert_eq!(world.buffers.dirty_count(), 0);
    on_the_disk(&disk, 0);
}

#[test]
fn pages_longer_than_the_disk_writes_whole_are_written_twice() {
    let disk = SimDisk::new(1);
    disk.promise_whole_writes(WholeWrites { bytes: 512..=PAGE_BYTES / 2, accepted: Accepted::All });
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    assert_eq!((disk.activity().whole_write, disk.activity().whole_refused), (0, 0));
    on_the_disk(&disk, 0);
}

/// Ways in which a disk accepts pages.
const ACCEPTED: [Option<Accepted>; 4] =
    [None, Some(Accepted::All), Some(Accepted::First(22)), Some(Accepted::First(PAGES as u64 + 25))];

fn disk_that(seed: u64, accepted: Option<Accepted>) -> SimDisk {
    accepted.map_or_else(|| SimDisk::new(seed), |accepted| promising(seed, accepted))
}

#[test]
fn every_call_that_fails_once_loses_nothing() {
    ACCEPTED.into_iter().take(3).for_each(every_call_fails_once);
}

fn every_call_fails_once(accepted: Option<Accepted>) {
    let calls = {
        let disk = disk_that(6, accepted);
        let (world, session) = dirty_world(&disk);
        let before = disk.calls(&Calls::Any);
        world.buffers.write_all(&session).unwrap();
        disk.calls(&Calls::Any) - before
    };
    let (mut failed, mut poisoned) = (0, 0);
    for call in 0..calls {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            let disk = disk_that(7, accepted);
            let (world, session) = dirty_world(&disk);
            disk.fail_call(Calls::Any, call, fault, Repeat::Once);
            let first = world.buffers.write_all(&session);
            if accepted.is_some() {
                // A short write that met no write yet would strike a later one.
                disk.clear_faults();
            }
            get_all(&world, &session, 0);
            if world.buffers.is_failed() || world.log.is_poisoned() {
                assert!(first.is_err(), "call {call}, {fault:?}");
                poisoned += 1;
                continue;
            }
            failed += u32::from(first.is_err());
            // One page is changed. The batch that was not written home is written before it.
            world.set(&session, page_id(1), 1).unwrap();
            world.buffers.write_all(&session).unwrap_or_else(|error| panic!("call {call}, {fault:?}: {error}"));
            assert_eq!(world.buffers.dirty_count(), 0, "call {call}, {fault:?}");
            on_the_disk(&disk, 0);
        }
    }
    assert!(failed > 5 && poisoned > 2, "{failed} calls failed, {poisoned} of them for good, of {calls}");
}

#[test]
fn an_evictor_that_cannot_write_returns_the_error_and_works_after_the_fault() {
    let disk = SimDisk::new(8);
    let world = World::new(Arc::new(disk.process_view()), &frames(32));
    let session = world.join();
    disk.fail_call(Calls::On(Operation::Write, "libtp.double".into()), 0, Fault::Eio, Repeat::Forever);
    let refused = (1..=100).find_map(|number| world.set(&session, page_id(number), 7).err());
    assert!(matches!(refused, Some(Error::Io(_))), "{refused:?}");
    disk.clear_faults();
    for number in 1..=100 {
        world.set(&session, page_id(number), 8).unwrap();
    }
    for number in 1..=100 {
        assert_eq!(world.get(&session, page_id(number)).unwrap(), 8);
    }
}

#[test]
fn a_written_batch_makes_room_for_the_same_number_of_pages() {
    let world = World::new(Arc::new(SimDisk::new(10).process_view()), &Settings { batch_pages: 16, ..frames(64) });
    let session = world.join();
    let batches = || world.buffers.batch_and_bucket_counts().0;
    // The pool grows until it is full of dirty pages. Until then nothing is written.
    let set = |number: u32| _ = world.set(&session, page_id(number), 1).unwrap();
    let full = (1..).find(|&number| {
        set(number);
        batches() == 1
    });
    let full = full.unwrap();
    assert!(full > 64);
    // Page `full` got the first of the sixteen frames that were cleaned. These pages get the other fifteen frames.
    (full + 1..full + 16).for_each(set);
    assert_eq!(batches(), 1);
    set(full + 16);
    assert_eq!(batches(), 2);
}

#[test]
fn after_a_crash_at_any_call_every_page_is_whole() {
    ACCEPTED.into_iter().for_each(every_crash_leaves_whole_pages);
}

fn every_crash_leaves_whole_pages(accepted: Option<Accepted>) {
    let disk = disk_that(9, accepted);
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    set_all(&world, &session, 1_000);
    let from = disk.io_index();
    world.buffers.write_all(&session).unwrap();
    set_all(&world, &session, 2_000);
    world.set(&session, page_id(3), 2_003).unwrap();
    world.buffers.write_all(&session).unwrap();
    let to = disk.io_index();
    let mut images = disk.crash_images();
    let mut mended = 0;
    for io in from..=to {
        images.advance_to(io);
        for mode in LossMode::ALL {
            for seed in 0..4 {
                let image = images.image(mode, seed);
                let directory: Arc<dyn libtp_io::Directory> = Arc::new(image.process_view());
                mended += restore(&directory);
                assert_eq!(restore(&directory), 0, "the second call finds nothing to mend");
                whole(&image, &format!("io {io}, {mode:?}, seed {seed}"));
            }
        }
    }
    match accepted {
        Some(Accepted::All) => assert_eq!(mended, 0, "a page that was written whole was torn"),
        _ => assert!(mended > 50, "only {mended} pages were torn: the test shows nothing"),
    }
}

/// The environment's number that the buffer manager reads from a region without an identity.
const ENVIRONMENT: [u8; 16] = [0; 16];

fn restore(directory: &Arc<dyn libtp_io::Directory>) -> usize {
    let mut open = |file| {
        assert_eq!(file, FILE);
        Ok(Home::Here(directory.open("pages.tp", libtp_io::OpenMode::Existing)?))
    };
    restore_torn(&**directory, ENVIRONMENT, &mut open).unwrap().mended
}

/// Asserts that every page passes its checks and has the value of some round.
fn whole(disk: &SimDisk, context: &str) {
    let bytes = disk.file_bytes("pages.tp").unwrap();
    for number in 1..=PAGES {
        let page = &bytes[(number * PAGE_BYTES) as usize..][..PAGE_BYTES as usize];
        check(page, page_id(number)).unwrap_or_else(|damage| panic!("{context}: page {number}: {damage}"));
        let round = value_of(page) - u64::from(number);
        assert!([0, 1_000, 2_000].contains(&round), "{context}: page {number} has {}", value_of(page));
    }
}

#[test]
fn a_mark_from_before_a_restart_does_not_mark_a_new_batch() {
    let disk = SimDisk::new(10);
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    drop((session, world));
    // The region is lost, and batch numbers begin again. The first batch is not written home.
    let world = World::new(Arc::new(disk.process_view()), &frames(256));
    let session = world.join();
    for number in 1..=PAGES {
        world.set_new(&session, page_id(number), 7).unwrap();
    }
    disk.fail_call(Calls::On(Operation::Write, "pages.tp".into()), 0, Fault::Eio, Repeat::Forever);
    world.buffers.write_all(&session).unwrap_err();
    let image = disk.crash_image(LossMode::Torn512, 1);
    let directory: Arc<dyn libtp_io::Directory> = Arc::new(image.process_view());
    let mut open = |_| Ok(Home::Here(directory.open("pages.tp", libtp_io::OpenMode::Existing)?));
    assert_eq!(restore_torn(&*directory, ENVIRONMENT, &mut open).unwrap().looked_at, PAGES as usize);
}

#[test]
fn images_of_a_file_that_was_moved_away_stay_until_a_checkpoint_passes_them() {
    let disk = SimDisk::new(11);
    let directory: Arc<dyn libtp_io::Directory> = Arc::new(disk.process_view());
    let world = World::new(directory.clone(), &frames(256));
    let session = world.join();
    set_all(&world, &session, 0);
    directory.open("other.tp", OpenMode::Create).unwrap();
    let other = FileId::new(2);
    world.buffers.register_file(&session, &file_info(other, "other", PAGE_BYTES)).unwrap();
    world.buffers.write_all(&session).unwrap();
    // The next write home is interrupted, the file is moved away, and a batch with another file's page replaces the
    // images.
    set_all(&world, &session, 1_000);
    disk.fail_call(Calls::On(Operation::Write, "pages.tp".into()), 0, Fault::Eio, Repeat::Once);
    world.buffers.write_all(&session).unwrap_err();
    directory.rename("pages.tp", "moved").unwrap();
    world.set_new(&session, PageId::new(other, PageNo::new(1)), 5).unwrap();
    world.buffers.write_all(&session).unwrap();
    let kept = |directory: &dyn libtp_io::Directory| {
        directory.list().unwrap().iter().any(|name| name.starts_with("libtp.double."))
    };
    assert!(kept(&*directory));
    // The memory is lost, and a page of the file is torn.
    let image = disk.crash_image(LossMode::KeepAll, 1);
    let crashed: Arc<dyn libtp_io::Directory> = Arc::new(image.process_view());
    crashed.rename("moved", "pages.tp").unwrap();
    let home = crashed.open("pages.tp", OpenMode::Existing).unwrap();
    home.write_at(&[7; 512], 7 * u64::from(PAGE_BYTES)).unwrap();
    assert!(restore(&crashed) > 0);
    on_the_disk(&image, 1_000);
    assert!(!kept(&*crashed));
    // The memory is intact, and the file is restored.
    directory.rename("moved", "pages.tp").unwrap();
    world.buffers.write_all(&session).unwrap();
    world.buffers.forget_kept_images(Lsn::FIRST).unwrap();
    assert!(kept(&*directory), "a restart from this redo point needs the images");
    world.buffers.forget_kept_images(world.log.tail()).unwrap();
    assert!(!kept(&*directory), "an old image would hide damage");
    on_the_disk(&disk, 1_000);
}

#[test]
fn images_that_a_dead_writer_has_kept_are_found_after_a_checkpoint_found_no_images() {
    let disk = SimDisk::new(12);
    let (world, session) = dirty_world(&disk);
    world.buffers.write_all(&session).unwrap();
    set_all(&world, &session, 1_000);
    disk.fail_call(Calls::On(Operation::Write, "pages.tp".into()), 0, Fault::Eio, Repeat::Once);
    world.buffers.write_all(&session).unwrap_err();
    // The dead writer made the file of images after the checkpoint's search. The data file is restored.
    let directory: Arc<dyn libtp_io::Directory> = Arc::new(disk.process_view());
    directory.open("libtp.double.1.1", OpenMode::CreateNew).unwrap();
    world.buffers.write_all(&session).unwrap();
    world.buffers.forget_kept_images(world.log.tail()).unwrap();
    assert!(!directory.exists("libtp.double.1.1").unwrap(), "an image that stays would hide damage");
}

#[test]
fn a_page_that_stays_latched_stays_dirty_and_other_pages_are_written() {
    let disk = SimDisk::new(1);
    let (world, session) = dirty_world(&disk);
    let holder = world.join();
    let held = world.buffers.exclusive(&holder, page_id(7), LEAF).unwrap();
    let needed = held.lsn();
    assert_eq!(world.buffers.write_all(&session).unwrap(), PAGES as usize - 1);
    assert_eq!(world.buffers.dirty_count(), 1);
    assert!(world.buffers.dirty_minimum().is_some_and(|lsn| lsn <= needed), "a restart begins before the change");
    drop(held);
    assert_eq!(world.buffers.write_all(&session).unwrap(), 1);
    assert_eq!(world.buffers.dirty_minimum(), None);
    on_the_disk(&disk, 0);
}
