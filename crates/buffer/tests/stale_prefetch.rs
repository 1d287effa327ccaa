//! A prefetch reads pages from the disk while it holds no latch or pin. In these tests one of the pages is loaded,
//! changed, written home and replaced, before the prefetch puts its bytes into a frame. To force this order, the disk
//! calls a hook in the middle of a read. In another test the reader dies in the middle of a read.

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use libtp_buffer::PageNo;
use libtp_io::{Directory, File, OpenMode, Result};
use libtp_sim::{DirectoryLayer, FileLayer, LayeredDirectory, LayeredFile};
use world::{frames, page_id, Place, World, FILE, LEAF};

type Hook = Box<dyn FnOnce() + Send>;

/// A directory whose files call the hook, once, after a read or before they take room on the disk.
struct Interrupting {
    below: Arc<dyn Directory>,
    hook: Arc<Mutex<Option<Hook>>>,
}

struct InterruptingFile {
    below: Arc<dyn File>,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl DirectoryLayer for Interrupting {
    fn below(&self) -> &dyn Directory {
        &*self.below
    }
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let below = self.below.open(name, mode)?;
        let is_data = std::path::Path::new(name).extension().is_some_and(|extension| extension == "tp");
        Ok(if is_data { Arc::new(LayeredFile(InterruptingFile { below, hook: self.hook.clone() })) } else { below })
    }
}

impl InterruptingFile {
    fn call_hook(&self) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl FileLayer for InterruptingFile {
    fn below(&self) -> &dyn File {
        &*self.below
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.below.read_at(buf, offset);
        self.call_hook();
        read
    }
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.call_hook();
        self.below.allocate(range)
    }
}

#[test]
fn a_page_that_is_written_home_during_the_read_keeps_its_new_bytes() {
    let (_place, below) = Place::new();
    let hook = Arc::new(Mutex::new(None));
    let world =
        Arc::new(World::new(Arc::new(LayeredDirectory(Interrupting { below, hook: hook.clone() })), &frames(32)));
    let session = world.join();
    for number in 1..=8 {
        world.set(&session, page_id(number), 1).unwrap();
    }
    world.buffers.write_all(&session).unwrap();
    world.drop_pages(&session);

    let other = world.clone();
    *hook.lock().unwrap() = Some(Box::new(move || {
        let session = other.join();
        other.set(&session, page_id(3), 2).unwrap();
        other.buffers.write_all(&session).unwrap();
        other.drop_pages(&session);
    }));
    let read = world.buffers.prefetch(&session, FILE, PageNo::new(1), 8).unwrap();
    assert!(hook.lock().unwrap().is_none(), "the read was interrupted");
    assert_eq!(world.get(&session, page_id(3)).unwrap(), 2, "the change is lost");
    assert_eq!(read, 0, "nothing that was read may be believed");
    assert_eq!(world.buffers.prefetch(&session, FILE, PageNo::new(1), 8).unwrap(), 7);
    for number in [1, 2, 4, 5, 6, 7, 8] {
        assert_eq!(world.get(&session, page_id(number)).unwrap(), 1);
    }
}

#[test]
fn a_page_that_is_in_memory_is_left_as_it_is() {
    let (_place, below) = Place::new();
    let hook = Arc::new(Mutex::new(None));
    let world =
        Arc::new(World::new(Arc::new(LayeredDirectory(Interrupting { below, hook: hook.clone() })), &frames(32)));
    let session = world.join();
    for number in 1..=8 {
        world.set(&session, page_id(number), 1).unwrap();
    }
    world.buffers.write_all(&session).unwrap();
    world.drop_pages(&session);
    let other = world.clone();
    *hook.lock().unwrap() = Some(Box::new(move || {
        other.set(&other.join(), page_id(3), 2).unwrap();
    }));
    assert_eq!(world.buffers.prefetch(&session, FILE, PageNo::new(1), 8).unwrap(), 7);
    assert_eq!(world.get(&session, page_id(3)).unwrap(), 2, "the change is lost");
    assert_eq!(world.buffers.dirty_count(), 1);
}

#[test]
fn a_page_whose_reader_died_does_not_count_as_read() {
    let (_place, below) = Place::new();
    let hook = Arc::new(Mutex::new(None));
    let world =
        Arc::new(World::new(Arc::new(LayeredDirectory(Interrupting { below, hook: hook.clone() })), &frames(32)));
    let (dead, living) = (world.join(), world.join());
    world.set(&living, page_id(3), 1).unwrap();
    world.buffers.write_all(&living).unwrap();
    world.drop_pages(&living);
    let reader: Hook = Box::new(|| std::panic::resume_unwind(Box::new("dies")));
    *hook.lock().unwrap() = Some(reader);
    let read = catch_unwind(AssertUnwindSafe(|| world.get(&dead, page_id(3))));
    assert!(read.is_err(), "the reader dies during the read");
    dead.mark_dead();
    let dead_session = world.processes.take_dead(&living, dead.id()).unwrap();
    dead_session.roll_back();
    dead_session.release_latches();
    // The dead session's latch is free, and the frame has the page's name.
    assert!(world.buffers.is_resident(page_id(3)));
    assert!(world.buffers.shared_now(&living, page_id(3), LEAF, true).is_none(), "the bytes of an unfinished read");
    assert!(world.buffers.exclusive_now(&living, page_id(3), LEAF).is_none(), "the bytes of an unfinished read");
    assert!(world.buffers.repair_frames(&living, &dead_session));
    dead_session.bury(std::time::Instant::now());
    assert_eq!(world.get(&living, page_id(3)).unwrap(), 1);
}

#[test]
fn a_page_that_another_session_has_made_meanwhile_is_not_filled_with_zeros() {
    let (_place, below) = Place::new();
    let hook = Arc::new(Mutex::new(None));
    let world =
        Arc::new(World::new(Arc::new(LayeredDirectory(Interrupting { below, hook: hook.clone() })), &frames(32)));
    let session = world.join();
    let other = world.clone();
    // The hook runs when the file asks for room on the disk, before the page is in the table.
    *hook.lock().unwrap() = Some(Box::new(move || {
        let session = other.join();
        other.set_new(&session, page_id(5), 2).unwrap();
        other.buffers.write_all(&session).unwrap();
        other.drop_pages(&session);
    }));
    drop(world.buffers.pin_new(&session, page_id(5)).unwrap());
    assert!(hook.lock().unwrap().is_none(), "the hook ran");
    assert_eq!(world.get(&session, page_id(5)).unwrap(), 2, "the page has zeros in place of the written bytes");
}
