//! A page with arbitrary contents and a right checksum, of a tree, a hash file, records by number, a list, or the
//! program's own pages.
//!
//! An input names a page of one of the small databases (`scene.rs`) and gives its contents after the fields that the
//! page cache checks. Then:
//!
//! * `verify` must return findings, each a sentence, or an error.
//! * In any case, everything is read: each key, keys that do not exist, all records forwards and backwards, and by
//!   numbers; and the file is salvaged. Each call must return records or an error.
//! * If `verify` finds nothing, the page is as good as a page that the library made, and changes must succeed. Records
//!   are put, changed and deleted, and the transaction aborts: all records must be as before. Then the same changes are
//!   committed, and leaves are merged: the records must be those of a map in memory, and `verify` must find nothing.
//!
//! *Changes* of a page with findings are not tried. A change checks the page that it changes, but not everything that
//! other pages record about this page; and after the log record is appended, the change of the page must not fail
//! (docs/protocols.md, D11).

use std::collections::BTreeMap;
use std::sync::Arc;

use libtp_buffer::{seal, PageId, PageNo};
use libtp_io::{Directory, OpenMode};
use libtp_record::{
    Access, BtreeCursor, DamagedFile, Database, HashCursor, KeyRange, NumberCursor, PageLock, SalvagedRecord, Verified,
};

use crate::environment;
use crate::input::{Input, Random};
use crate::scene::{keys, value, PAGE_BYTES, RECORD_BYTES};
use crate::world::{Kind, Scene, World};

/// The offset in a page at which an input's bytes begin, with the page's kind. The checksum, number, LSN and file of
/// the page are before it.
const AT: usize = 20;
/// The bytes of the mark of the log's incarnation, which the page cache checks.
const INCARNATION: std::ops::Range<usize> = 22..24;
/// The largest number of records of one scan. A scan with more goes round in a circle and would not end.
const RECORDS_MAX: usize = 1 << 20;

/// The largest number of errors before the rest of a page is skipped. A scan that goes round in a circle fails only
/// after a long time.
const REFUSED_MAX: u32 = 8;

/// The parts of an input: a page of a scene, and its bytes.
pub struct Finished {
    scene: usize,
    page: usize,
    bytes: Vec<u8>,
    salt: u8,
}

impl Finished {
    /// Decodes an input: scene, page and salt, and then one of two forms. If the highest bit of the scene's byte is
    /// set, changes of the existing page follow, each an offset, a count and bytes. Otherwise the number of bytes at
    /// the page's beginning follows, then these bytes, and the bytes at its end.
    pub fn of(world: &World, input: &[u8]) -> Finished {
        let mut input = Input(input);
        let (which, page, salt) = (input.byte(), input.byte(), input.byte());
        let scene = usize::from(which & 0x7f) % world.scenes.len();
        let pages = &world.scenes[scene].pages;
        let page = usize::from(page) % pages.len();
        let mut bytes = pages[page].clone();
        if which & 0x80 != 0 {
            while !input.0.is_empty() {
                let at = AT + usize::from(input.short()) % (PAGE_BYTES - AT);
                let count = usize::from(input.byte() % 16) + 1;
                for (place, &byte) in bytes[at..].iter_mut().zip(input.take(count)) {
                    *place = byte;
                }
            }
        } else {
            let front = usize::from(input.short()).min(PAGE_BYTES - AT);
            bytes[AT..].fill(0);
            let front = input.take(front);
            bytes[AT..AT + front.len()].copy_from_slice(front);
            let back = input.take(PAGE_BYTES - AT - front.len());
            bytes[PAGE_BYTES - back.len()..].copy_from_slice(back);
        }
        bytes[INCARNATION].fill(0);
        Finished { scene, page, bytes, salt }
    }
}

/// Tests one input.
pub fn page(input: &[u8]) {
    environment::with(|world| {
        let message = Finished::of(world, input);
        let scene = &world.scenes[message.scene];
        world.restore(scene);
        salvage(world, scene, &message);
        let number = PageNo::new(u32::try_from(message.page).unwrap_or(u32::MAX));
        if message.page != 0 {
            world.put_page(PageId::new(scene.file, number), &message.bytes);
        }
        match world.open(scene) {
            Err(error) => is_a_sentence(&error.to_string()),
            Ok(database) => opened(world, scene, &database, message.salt),
        }
        world.restore(scene);
    });
}

fn opened(world: &World, scene: &Scene, database: &Database, salt: u8) {
    let is_good = verified(world, database).is_some_and(|verified| verified.findings.is_empty());
    let before = world.run_in_vain(database, |access| read_all(access, scene, is_good));
    if !is_good {
        return;
    }
    let before = before.expect("a page without findings can be read");
    world.run_in_vain(database, |access| drop(change(access, scene, salt, before.clone())));
    let after = world.run_in_vain(database, |access| read_all(access, scene, true));
    assert!(after.as_ref() == Some(&before), "the records differ after changes and an abort");
    let expected = world.run(database, |access| change(access, scene, salt, before));
    if scene.kind == Kind::Tree {
        let compacted = world.access(database).compact(&[], 1_000, 90);
        compacted.expect("leaves without findings can be merged");
    }
    let after = world.run_in_vain(database, |access| read_all(access, scene, true));
    assert!(after == Some(expected), "the records are not those of the map in memory");
    let verified = verified(world, database).expect("`verify` succeeds again after the changes");
    assert!(
        verified.findings.is_empty(),
        "there were no findings before the changes, but after them there are: {:?}",
        verified.findings
    );
    note_pages(world, scene);
}

/// Records the number of pages of the file, so that [`World::restore`] clears them all.
fn note_pages(world: &World, scene: &Scene) {
    let meta = world.page(PageId::new(scene.file, PageNo::new(libtp_record::free_pages::META_PAGE)));
    scene.used.set(libtp_record::free_pages::Meta::of(&meta).map_or(0, |meta| meta.page_count.get()).min(1 << 10));
}

fn verified(world: &World, database: &Database) -> Option<Verified> {
    match libtp_record::verify(&world.access(database)) {
        Ok(verified) => {
            verified.findings.iter().for_each(|finding| is_a_sentence(&finding.what));
            Some(verified)
        }
        Err(error) => {
            is_a_sentence(&error.to_string());
            None
        }
    }
}

fn is_a_sentence(text: &str) {
    assert!(text.contains(' ') && text.len() > 10, "the error {text:?} is no sentence");
}

/// The records of a scene, by key or by number.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the value of a result, or `None` for an error. On a page without findings an error is a failure.
fn answer<T>(result: libtp_record::Result<T>, is_good: bool) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let text = error.to_string();
            assert!(!is_good, "`verify` finds nothing, but a read fails: {text}");
            is_a_sentence(&text);
            None
        }
    }
}

/// Reads all records in every way; returns `None` if there was an error.
fn read_all(access: &Access<'_>, scene: &Scene, is_good: bool) -> Option<Records> {
    match scene.kind {
        Kind::Tree => read_tree(access, scene.name, is_good),
        Kind::Hash => read_hash(access, scene.name, is_good),
        Kind::Numbers => read_numbers(access, is_good),
        Kind::List => read_list(access, is_good),
        Kind::Pages => read_pages(access, is_good),
    }
}

fn number_key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Calls `next` until it returns `None` or an error. Returns the values, and whether there was no error.
fn all<T>(is_good: bool, mut next: impl FnMut() -> libtp_record::Result<Option<T>>) -> (Vec<T>, bool) {
    let mut found = Vec::new();
    loop {
        match answer(next(), is_good) {
            Some(Some(one)) => found.push(one),
            Some(None) => return (found, true),
            None => return (found, false),
        }
        assert!(found.len() < RECORDS_MAX, "a scan goes round in a circle");
    }
}

fn read_tree(access: &Access<'_>, name: &str, is_good: bool) -> Option<Records> {
    let mut cursor = BtreeCursor::new(*access);
    let (forwards, is_whole) = all(is_good, || cursor.next());
    let mut cursor = BtreeCursor::new(*access);
    let mut last = Some(answer(cursor.last(), is_good).flatten());
    let (mut backwards, is_whole_back) = all(is_good, || last.take().map_or_else(|| cursor.prev(), Ok));
    let mut refused = 0;
    for key in keys(name) {
        let found = answer(access.get(&key, <[u8]>::to_vec), is_good);
        refused += u32::from(found.is_none());
        if refused > REFUSED_MAX {
            break;
        }
        let mut cursor = BtreeCursor::new(*access);
        let sought = answer(cursor.seek(&key), is_good);
        if is_good {
            let there = forwards.iter().find(|(other, _)| *other == key).map(|(_, value)| value);
            assert!(found.flatten().as_ref() == there, "a get and the scan differ about a key");
            assert!(sought.flatten().is_some_and(|(at, _)| at == key) == there.is_some());
        }
    }
    let count = answer(access.count_range(KeyRange::with_prefix(b"")), is_good);
    let records = forwards.len();
    if is_good {
        backwards.reverse();
        assert!(forwards == backwards, "a scan backwards finds other records");
        assert!(count == Some(records as u64), "the count differs from the number of records");
    }
    (is_whole && is_whole_back).then(|| forwards.into_iter().collect())
}

fn read_hash(access: &Access<'_>, name: &str, is_good: bool) -> Option<Records> {
    let mut cursor = HashCursor::new(*access);
    let (found, is_whole) = all(is_good, || cursor.next());
    let records: Records = found.into_iter().collect();
    for key in keys(name) {
        let found = answer(access.get(&key, <[u8]>::to_vec), is_good);
        assert!(!is_good || found.flatten().as_ref() == records.get(&key), "a get and the scan differ about a key");
    }
    is_whole.then_some(records)
}

fn read_numbers(access: &Access<'_>, is_good: bool) -> Option<Records> {
    let mut cursor = NumberCursor::new(*access);
    let (forwards, is_whole) = all(is_good, || cursor.next());
    let mut cursor = NumberCursor::new(*access);
    let mut last = Some(answer(cursor.last(), is_good).flatten());
    let (backwards, is_whole_back) = all(is_good, || last.take().map_or_else(|| cursor.prev(), Ok));
    let records: Records = forwards.into_iter().map(|(number, bytes)| (number_key(number), bytes)).collect();
    for number in [0, 1, 7, 170, 171, 400, 401, 1_000, u64::from(u32::MAX), u64::MAX] {
        let found = answer(access.recno_get(number, <[u8]>::to_vec), is_good && (1..2_000).contains(&number));
        if is_good && (1..2_000).contains(&number) {
            assert!(
                found.flatten().as_ref() == records.get(&number_key(number)),
                "a get and the scan differ about number {number}"
            );
        }
    }
    assert!(!is_good || backwards.len() == records.len(), "a scan backwards finds other records");
    (is_whole && is_whole_back).then_some(records)
}

fn read_list(access: &Access<'_>, is_good: bool) -> Option<Records> {
    let count = answer(access.list_count(), is_good);
    let mut records = Records::new();
    let (mut is_whole, mut refused) = (count.is_some(), 0);
    for number in 0..=count.unwrap_or(0).min(300) + 2 {
        match answer(access.list_get(number, <[u8]>::to_vec), is_good) {
            Some(Some(record)) => drop(records.insert(number_key(number), record)),
            Some(None) => {}
            None => {
                is_whole = false;
                refused += 1;
                if refused > REFUSED_MAX {
                    break;
                }
            }
        }
    }
    let _ = answer(access.list_get(u64::MAX, <[u8]>::to_vec), is_good);
    assert!(!is_good || count == Some(records.len() as u64), "the count differs from the number of records");
    is_whole.then_some(records)
}

fn read_pages(access: &Access<'_>, is_good: bool) -> Option<Records> {
    let count = answer(access.page_count(), is_good);
    let mut records = Records::new();
    for number in 0..count?.min(64) {
        let copy = answer(access.page_copy(number), is_good)?;
        // A page that a change adds stays after an abort, filled with zeros. It counts as missing.
        if copy.bytes.iter().any(|&byte| byte != 0) {
            records.insert(number_key(u64::from(number)), copy.bytes);
        }
    }
    Some(records)
}

/// Makes random changes, which must all succeed; returns the records that must be there afterwards.
fn change(access: &Access<'_>, scene: &Scene, salt: u8, mut records: Records) -> Records {
    let mut random = Random::new(u64::from(salt));
    match scene.kind {
        Kind::Tree | Kind::Hash => {
            let keys = keys(scene.name);
            for _ in 0..12 + salt % 32 {
                let index = random.below(keys.len());
                let (key, draw) = (&keys[index], random.below(8));
                if draw < 3 {
                    let was = access.delete(key).expect("it can be deleted");
                    assert_eq!(was, records.remove(key).is_some());
                    continue;
                }
                let bytes = if scene.name == "tall" { vec![salt; draw * 20] } else { value(index, salt) };
                access.put(key, &bytes).expect("it has room");
                records.insert(key.clone(), bytes);
            }
        }
        Kind::Numbers => {
            for _ in 0..12 {
                let number = random.below(450) as u64 + 1;
                if random.below(3) == 0 {
                    let was = access.recno_delete(number).expect("it can be deleted");
                    assert_eq!(was, records.remove(&number_key(number)).is_some());
                } else {
                    access.recno_put(number, &[salt; RECORD_BYTES]).expect("it has room");
                    records.insert(number_key(number), vec![salt; RECORD_BYTES]);
                }
            }
        }
        Kind::List => {
            let mut list: Vec<Vec<u8>> = records.into_values().collect();
            for _ in 0..8 {
                let at = random.below(list.len() + 1);
                if random.below(3) == 0 && at < list.len() {
                    access.list_delete(at as u64 + 1).expect("it can be deleted");
                    list.remove(at);
                } else {
                    access.list_insert(at as u64 + 1, &[salt; 9]).expect("it has room");
                    list.insert(at, vec![salt; 9]);
                }
            }
            return (1..).map(number_key).zip(list).collect();
        }
        Kind::Pages => {
            let number = u32::from(salt % 4).min(access.page_count().expect("it could be read"));
            access.page_lock(number, PageLock::Write).expect("no other session exists");
            let mut copy = access.page_copy(number).expect("it can be read");
            copy.bytes[0] ^= 0xff;
            copy.bytes[200..300].fill(salt);
            access.page_put(&copy, None, b"argument").expect("it has room");
            records.insert(number_key(u64::from(number)), copy.bytes);
        }
    }
    records
}

/// Salvages records from the file as it would be on the disk with the input's page.
fn salvage(world: &World, scene: &Scene, message: &Finished) {
    let mut bytes = Vec::with_capacity(scene.pages.len() * PAGE_BYTES);
    for (number, page) in scene.pages.iter().enumerate() {
        let mut page = if number == message.page { message.bytes.clone() } else { page.clone() };
        seal(&mut page);
        bytes.extend_from_slice(&page);
    }
    let directory: &Arc<dyn Directory> = &world.directory;
    let file = directory.open("wreck", OpenMode::Create).expect("the directory is ours");
    file.write_at(&bytes, 0).expect("there is memory");
    let wreck = match DamagedFile::open(file, "wreck") {
        Ok(wreck) => wreck,
        Err(error) => return is_a_sentence(&error.to_string()),
    };
    let (mut records, mut bytes) = (0_usize, 0);
    let taken = wreck.records::<libtp_record::Error>(
        &mut |record| {
            records += 1;
            bytes += match record {
                SalvagedRecord::Pair { key, value, .. } => key.len() + value.len(),
                SalvagedRecord::Numbered { value, .. } => value.len(),
            };
            Ok(())
        },
        &mut |_, _| {},
    );
    let lost = taken.expect("the disk is memory");
    lost.iter().for_each(|finding| is_a_sentence(&finding.what));
    assert!(records < RECORDS_MAX && bytes < 256 << 20, "more was salvaged than the file can have: {records} records");
}
