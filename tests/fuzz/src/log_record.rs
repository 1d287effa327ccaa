//! One log record whose checksum is right and whose body is arbitrary: described, redone and undone.
//!
//! An input names a type, a role, a page and the body. Then:
//!
//! * `describe` and `pages`, which `tp printlog` and recovery call for every record, return whatever the body is.
//! * The record is redone on that page, on a page that was never written, and on each page that it names itself: redo
//!   refuses, or changes the page; twice from the same image it makes the same image.
//! * The record is logged, read, and undone, as an abort would: this returns an error, or succeeds.
//! * A checkpoint's body that can be read is written as the same bytes.
//!
//! The effects of a page that such a record has changed are not tested here: `page.rs` tests arbitrary pages.

use libtp_buffer::{FileId, PageId, PageMut};
use libtp_log::{record_bytes, Entry, Lsn, RecordRef};
use libtp_record::Database;

use libtp_txn::{Change, Checkpoint, RecordType, CHECKPOINT};

use crate::input::Input;
use crate::scene::{Scene, PAGE_BYTES};
use crate::world::{self, World};

/// Bodies longer than this are cut to their front.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Writes an input: a record of that kind with that body, for a page of a scene. The seeds are made with it.
pub fn encode(kind: u16, scene: u8, page: u8, role: u8, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[scene, page, role], body].concat()
}

/// Tests one input.
pub fn log_record(input: &[u8]) {
    world::with(|world| {
        let mut input = Input(input);
        let (kind, scene, page, role) = (input.short(), input.byte(), input.byte(), input.byte());
        let types = &world.managers.types;
        let known: Vec<&RecordType> = types.iter().collect();
        let record_type = types.get(kind).unwrap_or(known[usize::from(kind) % known.len()]);
        let scene = &world.scenes[usize::from(scene) % world.scenes.len()];
        let page = &scene.pages[usize::from(page) % scene.pages.len()];
        let body = input.take(BODY_BYTES_MAX);
        let _ = (record_type.describe)(body);
        if record_type.code == CHECKPOINT {
            checkpoint(body);
        }
        let role = usize::from(role) % 5;
        redone(record_type, role, page, body);
        redone(record_type, role, &[0; PAGE_BYTES], body);
        for (role, id) in (record_type.pages)(body).iter() {
            let scene = world.scenes.iter().find(|scene| scene.file == id.file());
            let number = usize::try_from(id.page().raw()).unwrap_or(usize::MAX);
            let page = scene.and_then(|scene| scene.pages.get(number)).map_or(&[0; PAGE_BYTES][..], Vec::as_slice);
            redone(record_type, role, page, body);
        }
        if record_type.undo.is_some() {
            undone(world, record_type, body);
        }
    });
}

fn redone(record_type: &RecordType, role: usize, page: &[u8], body: &[u8]) {
    let redo = || {
        let mut page = page.to_vec();
        let redone = (record_type.redo)(&mut PageMut::detached(&mut page), role, Lsn::new(1 << 20), body);
        redone.map(|()| page)
    };
    match (redo(), redo()) {
        (Ok(once), Ok(again)) => assert!(once == again, "{record_type:?} makes different pages from the same page"),
        (Err(once), Err(again)) => {
            assert_eq!(once, again);
            assert!(once.0.contains(' '), "{record_type:?} refuses a page and says {:?}", once.0);
        }
        _ => panic!("{record_type:?} refuses a page that it took before"),
    }
}

fn checkpoint(body: &[u8]) {
    if let Some(checkpoint) = Checkpoint::decode(body) {
        assert!(checkpoint.encode() == body, "a checkpoint that was read is written different");
    }
}

/// Logs the record in a transaction of its own, and undoes it.
fn undone(world: &World, record_type: &RecordType, body: &[u8]) {
    let Some(undo) = record_type.undo else { return };
    for scene in &world.scenes {
        world.restore(scene);
    }
    // All databases are open, as after a restart.
    let opened: Vec<Database> = world.scenes.iter().map(|scene| world.open(scene).expect("no file changed")).collect();
    let (managers, txn) = (&world.managers, &world.txn);
    let log = &managers.log;
    txn.begin(managers);
    log.reserve(txn.session(), record_bytes(body.len())).expect("the log has room");
    let entry = Entry { kind: record_type.code, flags: 0, txn: txn.id(), prev: Lsn::NONE };
    let lsn = log.log_entry(txn.session(), &entry, &[body]);
    txn.session().clear_append();
    let record = log.read(lsn).expect("the record was just logged");
    assert!(record.body == body && record.header.kind() == record_type.code, "the record reads back different");
    let record: RecordRef<'_> = record.borrow();
    if let Err(error) = undo(&Change::new(managers, txn), &record) {
        assert!(error.to_string().contains(' '), "{record_type:?} is not undone, and says {error}");
    }
    txn.abort(managers).expect("nothing is left to be taken back");
    for (scene, database) in world.scenes.iter().zip(&opened) {
        note_pages(world, scene, database.id());
        world.restore(scene);
    }
}

/// Records how many pages the file has after the undo, so that [`World::restore`] clears them.
fn note_pages(world: &World, scene: &Scene, file: FileId) {
    let meta = world.page(PageId::new(file, libtp_buffer::PageNo::new(libtp_record::free_pages::META_PAGE)));
    let count = libtp_record::free_pages::Meta::of(&meta).map_or(0, |meta| meta.page_count.get());
    scene.used.set(count.min(1 << 10));
}
