//! The databases of the small environment. There is at least one of each kind, with every structure that a file may
//! have.

use std::cell::Cell;

use libtp_buffer::{seal, PageId, PageMut, PageNo};
use libtp_log::Lsn;
use libtp_record::free_pages::{Meta, META_PAGE};
use libtp_record::{Access, Database, KeyFormat, Method, OpenSettings, PageLock};

use crate::input::Random;
use crate::world::{Kind, Scene, World};

/// Bytes of a page of every scene.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a record of the scene with numbers.
pub const RECORD_BYTES: usize = 20;

type Fill = fn(&World, &Database);

const SCENES: [(&str, Kind, Fill); 6] = [
    ("tree", Kind::Tree, fill_tree),
    ("tall", Kind::Tree, fill_tall),
    ("hash", Kind::Hash, fill_hash),
    ("numbers", Kind::Numbers, fill_numbers),
    ("list", Kind::List, fill_list),
    ("pages", Kind::Pages, fill_pages),
];

/// Makes all databases.
pub fn all(world: &World) -> Vec<Scene> {
    SCENES.iter().map(|&(name, kind, fill)| make(world, name, kind, fill)).collect()
}

fn make(world: &World, name: &'static str, kind: Kind, fill: Fill) -> Scene {
    let method = match kind {
        Kind::Tree | Kind::List => Method::Btree,
        Kind::Hash => Method::Hash,
        Kind::Numbers => Method::Recno { record_bytes: u32::try_from(RECORD_BYTES).expect("the bytes are few") },
        Kind::Pages => Method::Pages,
    };
    let key_format = if kind == Kind::List { libtp_record::open::LIST } else { KeyFormat::default() };
    let page_bytes = u32::try_from(PAGE_BYTES).ok();
    let settings = OpenSettings { create: Some(method), key_format, page_bytes, ..OpenSettings::default() };
    let opened = libtp_record::open(&world.managers, &world.txn, &*world.directory, name, &settings);
    let database = opened.expect("the file can be made").expect("the database was made");
    fill(world, &database);
    let file = database.id();
    let meta = world.page(PageId::new(file, PageNo::new(META_PAGE)));
    let count = Meta::of(&meta).expect("every file has a meta page").page_count.get();
    let pages = (0..count).map(|number| world.page(PageId::new(file, PageNo::new(number)))).collect();
    Scene { name, kind, file, page_bytes: PAGE_BYTES, pages, used: Cell::new(0) }
}

/// Returns the keys of a scene with keys, and some keys that it does not have.
pub fn keys(name: &str) -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let tall = |index: usize| [format!("{:02}", index * 37 % 100).into_bytes(), vec![b'k'; 700]].concat();
    match name {
        "tall" => (0..26).map(tall).collect(),
        _ => (0..120)
            .map(|index| match index % 12 {
                0 => vec![b'z'; index],
                1 => format!("customer {index} of the bank").into_bytes(),
                _ => random.number().to_be_bytes()[..3 + index % 5].to_vec(),
            })
            .collect(),
    }
}

/// Returns a value for a key. Some values are long, and have pages of their own.
pub fn value(index: usize, salt: u8) -> Vec<u8> {
    let bytes = match index % 40 {
        17 => 9_000,
        18 => 3_000,
        other => other * 3,
    };
    vec![salt.wrapping_add(u8::try_from(index % 251).unwrap_or(0)); bytes]
}

fn put_all(access: &Access<'_>, name: &str, salt: u8) {
    for (index, key) in keys(name).iter().enumerate().filter(|(index, _)| index % 5 != 4) {
        access.put(key, &value(index, salt)).expect("it has room");
    }
}

fn fill_tree(world: &World, database: &Database) {
    world.run(database, |access| put_all(access, database.name(), 1));
    world.run(database, |access| {
        for (index, key) in keys(database.name()).iter().enumerate() {
            match index % 40 {
                17 if index < 40 => access.put(key, &value(index, 2)).expect("it has room"),
                5 | 18 => assert!(access.delete(key).expect("it can be deleted")),
                _ => {}
            }
        }
    });
}

fn fill_tall(world: &World, database: &Database) {
    let short = |index: usize| vec![1; index];
    world.run(database, |access| {
        for (index, key) in keys(database.name()).iter().enumerate().filter(|(index, _)| index % 5 != 4) {
            access.put(key, &short(index)).expect("it has room");
        }
    });
}

fn fill_hash(world: &World, database: &Database) {
    world.run(database, |access| put_all(access, database.name(), 1));
    world.run(database, |access| assert!(access.delete(&keys(database.name())[5]).expect("it can be deleted")));
}

fn fill_numbers(world: &World, database: &Database) {
    world.run(database, |access| {
        for number in 1..=400_u64 {
            access.recno_put(number, &[number.to_le_bytes()[0]; RECORD_BYTES]).expect("it has room");
        }
        access.recno_delete(7).expect("the record is there");
    });
}

fn fill_list(world: &World, database: &Database) {
    world.run(database, |access| {
        for number in 0..150_usize {
            access.list_append(&vec![1; number % 60]).expect("it has room");
        }
        access.list_delete(9).expect("the record is there");
        access.list_insert(3, b"between").expect("it has room");
    });
}

fn fill_pages(world: &World, database: &Database) {
    world.run(database, |access| {
        for number in 0..3 {
            access.page_lock(number, PageLock::Write).expect("no other session exists");
            let mut copy = access.page_copy(number).expect("it can be read");
            copy.bytes[100..108].fill(number.to_le_bytes()[0] + 1);
            access.page_put(&copy, None, &[]).expect("it has room");
        }
    });
}

/// Returns a file of these pages as it would be on the disk. `lsn` is the LSN of every page but the first; with `None`,
/// every page but the first is filled with zeros, as if it was never written.
pub fn on_disk(pages: &[Vec<u8>], lsn: Option<Lsn>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pages.len() * PAGE_BYTES);
    for (number, page) in pages.iter().enumerate() {
        let mut page = page.clone();
        match lsn {
            Some(lsn) if number != 0 => PageMut::detached(&mut page).set_lsn(lsn),
            None if number != 0 => page.fill(0),
            _ => {}
        }
        seal(&mut page);
        bytes.extend_from_slice(&page);
    }
    bytes
}
