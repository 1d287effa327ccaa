//! Redo after a death between any two bytes: tests of the log records whose redo stores without before-images.
//!
//! Such a redo may begin on a page that already has some of its stores. So it must find the place of each store by
//! bytes that it does not change. The tests use one log record of each such kind: an update in place, its compensation
//! and the cell of an insertion on a leaf; a put, an update and its compensation on a page of records by number. For
//! each record, a first redo is cut off after every number of bytes, and a second redo completes the page. Then the
//! second redo is cut off in the same way, and a third redo completes the page.
//! A prefix has only stores without before-images, because rollback undoes all other stores.

use crate::btree::encode::{self, After};
use crate::changed::Changed;
use crate::log_body::Redone;
use crate::page::node::Node;
use crate::page::rebuild::{make_new, Frame};
use crate::page::recno::{self, RecnoPage};
use crate::page::record_lsn::RecordFlags;
use crate::recno::log_records::{changed, encode_restore};
use crate::{btree, recno as by_number};
use libtp_buffer::PageMut;
use libtp_log::Lsn;

const PAGE: usize = 4096;
const LSN: Lsn = Lsn::new(0x0001_ff00);

type Redo = fn(&mut PageMut<'_, '_>, usize, Lsn, &[u8]) -> Redone;

/// Redoes a record on a copy of a page. Returns the copy, and the bytes that were stored without before-images.
fn redone(page: &[u8], redo: Redo, body: &[u8]) -> (Redone, Vec<u8>, Vec<(usize, u8)>) {
    let (mut copy, mut list) = (page.to_vec(), Vec::new());
    let done = redo(&mut PageMut::listed(&mut copy, &mut list), 0, LSN, body);
    (done, copy, list)
}

/// Returns the page after a death: stores with before-images are rolled back, the stores in `stored` are not.
fn after_death(page: &[u8], stored: &[(usize, u8)]) -> Vec<u8> {
    let mut left = page.to_vec();
    stored.iter().for_each(|&(at, byte)| left[at] = byte);
    left
}

/// Checks the redo of a log record after every prefix of its stores, and a second redo after every prefix of the first
/// redo's stores. Returns the number of bytes stored without before-images.
fn check_prefixes(page: &[u8], redo: Redo, body: &[u8]) -> usize {
    let (done, at_once, list) = redone(page, redo, body);
    done.unwrap();
    for first in 0..=list.len() {
        let left = after_death(page, &list[..first]);
        let (done, again, second_list) = redone(&left, redo, body);
        done.unwrap();
        assert!(again == at_once, "a death after {first} bytes of {}", list.len());
        for second in 0..=second_list.len() {
            let (done, again, _) = redone(&after_death(&left, &second_list[..second]), redo, body);
            done.unwrap();
            assert!(again == at_once, "deaths after {first} and {second} bytes of {}", list.len());
        }
    }
    check_refusals(page, redo, body);
    list.len()
}

/// Checks that a redo that refuses a body has stored nothing. Tries the body with each byte changed, and with each
/// shorter length.
fn check_refusals(page: &[u8], redo: Redo, body: &[u8]) {
    let wrong = (0..body.len()).flat_map(|at| [0, 1, 0x10, 0x7f, 0x80, 0xff, !body[at]].map(|byte| (at, byte)));
    let wrong = wrong.map(|(at, byte)| after_death(body, &[(at, byte)]));
    for body in wrong.chain((0..body.len()).map(|length| body[..length].to_vec())) {
        let (done, copy, _) = redone(page, redo, &body);
        assert!(done.is_ok() || copy == page, "redo stored, and then refused {body:?}: {done:?}");
    }
}

/// Returns a leaf with records of many lengths. Records with odd keys are ghosts.
fn leaf() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let frame = Frame { low: b"key/".to_vec(), high: b"key0".to_vec(), ..Frame::default() };
    make_new(&mut PageMut::detached(&mut page), (7, 2), 0, &frame).unwrap().finish().unwrap();
    for nth in 0..20_u8 {
        let (key, value) =
            ([b"key/", &[nth; 9][..usize::from(nth % 9) + 1]].concat(), vec![nth ^ 0x55; usize::from(nth) * 3]);
        let slot = Node::over(&page).unwrap().find(&key).0;
        let flags = if nth % 2 == 1 { RecordFlags::GHOST } else { RecordFlags::NONE };
        let body = encode::insert(7 << 32 | 2, slot, flags, &key, &value).to_vec();
        btree::redo::insert(&mut PageMut::detached(&mut page), 0, Lsn::new(64), &body).unwrap();
    }
    page
}

#[test]
fn updates_in_place_and_their_compensations_are_repeated_from_every_prefix() {
    let page = leaf();
    let node = Node::over(&page).unwrap();
    let mut repeated = 0;
    for slot in 0..node.count() {
        let (record, key) = (node.record(slot).unwrap(), node.key(slot).to_vec());
        let length = record.stored.len();
        for (from, to) in [(0, length), (0, 1), (length / 2, length / 2 + 8), (length.saturating_sub(1), length)] {
            let mut stored = record.stored.to_vec();
            stored.iter_mut().take(to).skip(from).for_each(|byte| *byte ^= 0xa5);
            let update = |stored: &[u8]| {
                let after = After { stored, flags: RecordFlags::NONE };
                encode::update(7 << 32 | 2, slot, &(&record).into(), &key, after).to_vec()
            };
            let body = update(&stored);
            repeated += check_prefixes(&page, btree::redo::update, &body);
            let (_, updated, _) = redone(&page, btree::redo::update, &body);
            let mut undo = Vec::new();
            encode::restore_update(&mut undo, 7 << 32 | 2, slot, &Changed::read(&body).unwrap());
            repeated += check_prefixes(&updated, btree::redo::restore, &undo);
            // The record gets another length: every store has a before-image.
            stored.truncate(length / 2);
            let saved = check_prefixes(&page, btree::redo::update, &update(&stored));
            assert!(saved == 0 || length / 2 == length, "{saved} bytes have no before-image");
        }
    }
    assert!(repeated > 1000, "{repeated}");
}

#[test]
fn insertions_are_repeated_from_every_prefix() {
    // On a page whose free bytes are contiguous, and on a page that is compacted first.
    let page = leaf();
    let mut scattered = page.clone();
    let redone = |page: &mut Vec<u8>, redo: Redo, body: &[u8]| {
        redo(&mut PageMut::detached(page), 0, Lsn::new(64), body).unwrap();
    };
    // When a record grows, its old cell becomes garbage.
    let node = Node::over(&page).unwrap();
    let slot = (0..node.count()).max_by_key(|slot| node.record(*slot).unwrap().stored.len()).unwrap();
    let (record, key) = (node.record(slot).unwrap(), node.key(slot).to_vec());
    let after = After { stored: &[1; 100], flags: RecordFlags::NONE };
    let growth = encode::update(7 << 32 | 2, slot, &(&record).into(), &key, after).to_vec();
    redone(&mut scattered, btree::redo::update, &growth);
    let insertion = |page: &[u8], key: &[u8], value: &[u8]| {
        let slot = Node::over(page).unwrap().find(key).0;
        encode::insert(7 << 32 | 2, slot, RecordFlags::NONE, key, value).to_vec()
    };
    for nth in 0_u8.. {
        let free = Node::over(&scattered).unwrap().contiguous_bytes();
        let Some(bytes) = free.checked_sub(43) else { break };
        let value = vec![nth; if free > 2000 { 900 } else { bytes }];
        let body = insertion(&scattered, &[b"key/\xff", &[nth][..]].concat(), &value);
        redone(&mut scattered, btree::redo::insert, &body);
    }
    let node = Node::over(&scattered).unwrap();
    assert_eq!(node.contiguous_bytes(), 20, "an insertion compacts the page");
    for (page, key, bytes) in
        [(&page, b"key/\x03\x03", 60), (&page, b"key/\xff\xff", 0), (&scattered, b"key/\x80\x80", 5)]
    {
        let body = insertion(page, key, &vec![0xA5; bytes]);
        let cell = 12 + key.len() - node.prefix().len() + bytes;
        // The greatest key has its slot in free bytes, too.
        let slot = if key.starts_with(b"key/\xff") { 8 } else { 0 };
        let repeated = if page == &scattered { 0 } else { cell + slot };
        assert_eq!(check_prefixes(page, btree::redo::insert, &body), repeated, "a cell in free bytes is repeated");
    }
}

#[test]
fn changes_of_records_by_number_are_repeated_from_every_prefix() {
    const BYTES: usize = 11;
    let mut page = vec![0; 16 << 10];
    recno::make_new(&mut PageMut::detached(&mut page), (7, 2), u32::try_from(BYTES).unwrap());
    // A slot beyond 255, so that two bytes of the count of used slots change.
    let capacity = RecnoPage::over(&page).unwrap().capacity();
    for slot in (0..capacity).step_by(51).chain([capacity - 1]) {
        for value in [[1; BYTES], [0xa5; BYTES]] {
            let before = RecnoPage::over(&page).unwrap().slot(slot).unwrap();
            let body = changed(7 << 32 | 2, slot, &before, Some(&value)).to_vec();
            assert_ne!(check_prefixes(&page, by_number::redo::change, &body), 0);
            let (_, after, _) = redone(&page, by_number::redo::change, &body);
            let mut undo = Vec::new();
            encode_restore(&mut undo, &Changed::read(&body).unwrap());
            check_prefixes(&after, by_number::redo::restore, &undo);
            let there = RecnoPage::over(&after).unwrap().slot(slot).unwrap();
            let deletion = changed(7 << 32 | 2, slot, &there, None).to_vec();
            assert_eq!(check_prefixes(&after, by_number::redo::change, &deletion), 0, "a ghost has before-images");
            page = after;
        }
    }
}
