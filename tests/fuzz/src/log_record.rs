//! A log record with an arbitrary body and a right checksum, which is described, redone and undone.
//!
//! An input names a type, a role, a page and the body. Then:
//!
//! * `describe` and `pages` are called, as `tp printlog` and recovery do for every record. They must return, whatever
//!   the body is.
//! * The record is redone on the page, on a page that was never written, and on each page that the record names. Redo
//!   must return an error, or change the page; two calls with the same page must have the same result.
//! * The record is logged, read, and undone, as an abort does. The undo must return an error, or succeed.
//! * If the body of a checkpoint can be decoded, encoding it must give the same bytes.
//!
//! The changed pages are not used further: `page.rs` tests arbitrary pages.

use libtp_buffer::{FileId, PageId, PageMut};
use libtp_log::{record_bytes, Entry, Lsn, RecordRef};
use libtp_record::Database;

use libtp_txn::{Change, Checkpoint, RecordType, CHECKPOINT};

use crate::environment;
use crate::input::Input;
use crate::scene::PAGE_BYTES;
use crate::world::{Scene, World};

/// The largest number of bytes of a body. Further bytes of the input are ignored.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Encodes an input, for the seeds: a record of the type `kind` with this body, for a page of a scene.
pub fn encode(kind: u16, scene: u8, page: u8, role: u8, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[scene, page, role], body].concat()
}

/// Tests one input.
pub fn log_record(input: &[u8]) {
    environment::with(|world| {
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
        (Ok(once), Ok(again)) => {
            assert!(once == again, "two redos of {record_type:?} make different pages from the same page")
        }
        (Err(once), Err(again)) => {
            assert_eq!(once, again);
            assert!(once.0.contains(' '), "the error of the redo of {record_type:?} is no sentence: {:?}", once.0);
        }
        _ => panic!("of two redos of {record_type:?} on the same page, one fails"),
    }
}

fn checkpoint(body: &[u8]) {
    if let Some(checkpoint) = Checkpoint::decode(body) {
        assert!(checkpoint.encode() == body, "a decoded checkpoint is encoded differently");
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
    assert!(
        record.body == body && record.header.kind() == record_type.code,
        "the record is different when it is read back"
    );
    let record: RecordRef<'_> = record.borrow();
    if let Err(error) = undo(&Change::new(managers, txn), &record) {
        assert!(error.to_string().contains(' '), "the error of the undo of {record_type:?} is no sentence: {error}");
    }
    txn.abort(managers).expect("an abort without changes succeeds");
    for (scene, database) in world.scenes.iter().zip(&opened) {
        note_pages(world, scene, database.id());
        world.restore(scene);
    }
}

/// Records the number of pages of the file after the undo, so that [`World::restore`] clears them all.
fn note_pages(world: &World, scene: &Scene, file: FileId) {
    let meta = world.page(PageId::new(file, libtp_buffer::PageNo::new(libtp_record::free_pages::META_PAGE)));
    let count = libtp_record::free_pages::Meta::of(&meta).map_or(0, |meta| meta.page_count.get());
    scene.used.set(count.min(1 << 10));
}
