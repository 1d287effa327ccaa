//! Tests that the log alone suffices to rebuild the pages, for every record type in the table.
//!
//! The same function changes a page at run time and after a crash, but the log record may lack something that the
//! function needs. So a workload logs records of every type. Then the whole log is applied to pages of zeros, and each
//! result must equal the live page, byte by byte. A second application, with the LSN test of the redo driver, must
//! change nothing. `describe` must describe each record.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::{BTreeMap, BTreeSet};

use libtp_buffer::{page_lsn, FileId, PageId, PageMut};
use libtp_log::Lsn;
use libtp_process::Rank;
use libtp_record::{Access, BtreeCursor, KeyRange, Method, PageLock};
use libtp_txn::Durability;
use world::{Place, Random, World};

/// Pages made from the log.
#[derive(Default)]
struct Shadow {
    pages: BTreeMap<u64, Vec<u8>>,
    seen: BTreeSet<u16>,
    changed: u64,
}

impl Shadow {
    fn apply(&mut self, world: &World) {
        for record in world.managers.log.roll(Lsn::FIRST) {
            let record = record.unwrap();
            let Some(record_type) = world.managers.types.get(record.header.kind()) else { continue };
            let is_clr = record.header.flags() & libtp_txn::CLR_FLAG != 0;
            let body = if is_clr { &record.body[8..] } else { &record.body[..] };
            if record.header.kind() >= 32 {
                let text = (record_type.describe)(body);
                assert!(text.len() > 5 && text != "unreadable", "{record_type:?}: {text}");
            }
            self.seen.insert(record.header.kind());
            for (role, id) in (record_type.pages)(body).iter() {
                let bytes = world.managers.buffers.file_by_id(id.file()).unwrap().page_bytes as usize;
                let page = self.pages.entry(id.raw()).or_insert_with(|| vec![0; bytes]);
                if page_lsn(page) >= record.lsn {
                    continue;
                }
                let mut target = PageMut::detached(page);
                (record_type.redo)(&mut target, role, record.lsn, body)
                    .unwrap_or_else(|damage| panic!("{record_type:?} role {role} on {id}: {}", damage.0));
                target.set_lsn(record.lsn);
                self.changed += 1;
            }
        }
    }

    fn compare(&self, world: &World, txn: &libtp_txn::TxnSession) {
        for (&raw, shadow) in &self.pages {
            let id = PageId::from_u64(raw);
            let live = world.managers.buffers.shared(txn.session(), id, Rank::page(0)).unwrap();
            let differs = live.iter().zip(shadow).position(|(live, shadow)| live != shadow);
            assert_eq!(differs, None, "{id} differs from the state that the log gives");
        }
    }
}

/// Makes changes that log every type: all sizes, aborts, deletions of whole ranges, scans that clean up.
fn workload(world: &World, txn: &libtp_txn::TxnSession) {
    let tree = world.database(txn, "tree", Method::Btree, 4096);
    let numbers = world.database(txn, "numbers", Method::Recno { record_bytes: 30 }, 4096);
    let hash = world.database(txn, "hash", Method::Hash, 4096);
    let mut random = Random(42);
    for round in 0..300u64 {
        txn.begin(&world.managers);
        let access = world.access(txn, &tree);
        for _ in 0..20 {
            let key = format!("a shared beginning {:05}", random.below(2000)).into_bytes();
            let bytes = if random.below(12) == 0 { random.below(9000) } else { random.below(200) };
            match random.below(4) {
                0 => drop(access.delete(&key).unwrap()),
                _ => access.put(&key, &vec![7; usize::try_from(bytes).unwrap()]).unwrap(),
            }
        }
        let access = world.access(txn, &hash);
        for _ in 0..20 {
            // Few records fit on a page, so that pages of a chain become empty.
            let key = random.below(900).to_be_bytes();
            let bytes = [random.below(200), 800, 900, random.below(9000)][usize::try_from(random.below(4)).unwrap()];
            match random.below(4) {
                0 => drop(access.delete(&key).unwrap()),
                _ => access.put(&key, &vec![8; usize::try_from(bytes).unwrap()]).unwrap(),
            }
        }
        let access = world.access(txn, &numbers);
        for _ in 0..5 {
            let number = access.recno_append(&[9; 30]).unwrap();
            access.recno_put(1 + random.below(number), &[random.next().to_le_bytes()[0]; 30]).unwrap();
            access.recno_delete(1 + random.below(number)).unwrap();
        }
        if round % 5 == 4 {
            txn.abort(&world.managers).unwrap();
        } else {
            txn.commit(&world.managers, Durability::Relaxed).unwrap();
        }
    }
    empty_and_scan(world, txn, &tree);
    keys_come_and_go(world, txn);
    loaded_and_compacted(world, txn);
    pages_of_the_programs_own(world, txn);
    world.assert_sound(txn, &tree);
    world.assert_sound(txn, &numbers);
    world.assert_sound(txn, &hash);
}

/// Puts long keys at one end and deletes them at the other. Pages above the leaves have few children.
fn keys_come_and_go(world: &World, txn: &libtp_txn::TxnSession) {
    let tree = world.database(txn, "deep", Method::Btree, 4096);
    let key = |number: u64| format!("{}{number:04}", "k".repeat(900)).into_bytes();
    for number in 0..400_u64 {
        world.run(txn, &tree, |access| {
            access.put(&key(number), b"v").unwrap();
            if number >= 100 {
                access.delete(&key(number - 100)).unwrap();
            }
        });
        if number % 20 == 19 {
            world.managers.log.force(txn.session(), world.managers.log.tail().minus(8)).unwrap();
            let low = std::ops::Bound::Unbounded;
            let gone = key(number.saturating_sub(99));
            world.access(txn, &tree).clear_away(&KeyRange::between(low, std::ops::Bound::Excluded(&gone))).unwrap();
        }
    }
    world.assert_sound(txn, &tree);
}

/// Makes and changes pages with contents of a program, and undoes changes.
fn pages_of_the_programs_own(world: &World, txn: &libtp_txn::TxnSession) {
    let pages = world.database(txn, "pages", Method::Pages, 4096);
    let change = |access: &Access<'_>, number: u32, byte: u8| {
        access.page_lock(number, PageLock::Write).unwrap();
        let mut copy = access.page_copy(number).unwrap();
        copy.bytes[100..200].fill(byte);
        access.page_put(&copy, None, &[]).unwrap();
    };
    world.run(txn, &pages, |access| (0..5).for_each(|number| change(access, number, 1)));
    txn.begin(&world.managers);
    (2..7).for_each(|number| change(&world.access(txn, &pages), number, 2));
    txn.abort(&world.managers).unwrap();
    world.run(txn, &pages, |access| assert_eq!(access.page_copy(3).unwrap().bytes[150], 1));
    world.assert_sound(txn, &pages);
}

/// Loads a tree, gives it an index, and deletes most of its records, so that its leaves are merged.
fn loaded_and_compacted(world: &World, txn: &libtp_txn::TxnSession) {
    let tree = world.database(txn, "loaded", Method::Btree, 4096);
    let key = |number: u64| format!("key/{number:07}").into_bytes();
    world.run(txn, &tree, |access| {
        let mut loader = access.begin_load(100).unwrap();
        (0..3000).for_each(|number| loader.push(&key(number), &[7; 60]).unwrap());
        loader.finish().unwrap()
    });
    world.run(txn, &tree, |access| access.set_index(FileId::new(77), true).unwrap());
    txn.begin(&world.managers);
    world.access(txn, &tree).set_index(FileId::new(77), false).unwrap();
    txn.abort(&world.managers).unwrap();
    world.run(txn, &tree, |access| assert_eq!(access.indices().unwrap(), [FileId::new(77)]));
    world.run(txn, &tree, |access| {
        (0..3000).filter(|number| number % 8 != 0).for_each(|number| assert!(access.delete(&key(number)).unwrap()));
    });
    world.managers.log.force_all(txn.session()).unwrap();
    let (mut merged, mut from) = (0, Some(Vec::new()));
    while let Some(key) = from {
        let done = world.access(txn, &tree).compact(&key, 16, 100).unwrap();
        merged += done.merged;
        from = done.next;
    }
    assert!(merged > 10, "{merged} leaves were merged");
    world.assert_sound(txn, &tree);
}

/// Deletes all records, and scans until nothing is left to clean.
fn empty_and_scan(world: &World, txn: &libtp_txn::TxnSession, tree: &libtp_record::Database) {
    world.run(txn, tree, |access| {
        let mut cursor = BtreeCursor::for_update(*access);
        let mut found = cursor.move_first().unwrap();
        while found {
            let key = cursor.record().unwrap().0.to_vec();
            access.delete(&key).unwrap();
            found = cursor.move_next().unwrap();
        }
    });
    let before = world.assert_sound(txn, tree);
    assert_eq!(before.records, 0);
    for _ in 0..40 {
        world.run(txn, tree, |access| assert!(!BtreeCursor::new(*access).move_first().unwrap()));
    }
    let after = world.assert_sound(txn, tree);
    assert!(after.free_pages > before.free_pages && after.tree_pages < before.tree_pages, "{before:?} {after:?}");
    assert!(after.ghosts < before.ghosts / 4, "{before:?} {after:?}");
}

#[test]
fn the_log_alone_makes_every_page_and_a_second_redo_changes_nothing() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    workload(&world, &txn);
    let mut shadow = Shadow::default();
    shadow.apply(&world);
    shadow.compare(&world, &txn);
    let missing: Vec<_> =
        libtp_record::record_types().into_iter().filter(|it| !shadow.seen.contains(&it.code)).collect();
    assert!(missing.is_empty(), "the workload never logged {missing:?}");
    let changed = shadow.changed;
    shadow.apply(&world);
    assert_eq!(shadow.changed, changed, "applying the log twice changed something");
}
