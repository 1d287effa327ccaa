//! Redo after a death between any two bytes: the kinds of records whose redo stores without before-images.
//!
//! The doubt: such a redo begins on a page that has a part of its own stores, so it must find each place by bytes that
//! it does not change. The cases: each kind on the list (an update in place and its compensation on a leaf, a put, an
//! update and its compensation on a page of records by number), from every prefix of its stores, byte by byte, and
//! again from every prefix of the repetition's. Roll-back takes stores with before-images back, so no prefix has such a store.

use crate::btree::encode::{self, After};
use crate::btree::log_records::Update;
use crate::log_body::{read, Redone};
use crate::page::node::Node;
use crate::page::rebuild::{make_new, Frame};
use crate::page::recno::{self, RecnoPage};
use crate::page::record_lsn::RecordFlags;
use crate::recno::log_records::{encode_change, encode_restore, Change};
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

/// Returns the page that a death leaves: before-images are back, `stored` has none.
fn after_death(page: &[u8], stored: &[(usize, u8)]) -> Vec<u8> {
    let mut left = page.to_vec();
    stored.iter().for_each(|&(at, byte)| left[at] = byte);
    left
}

/// Checks a record from every prefix, twice over. Returns the number of bytes stored without before-images.
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

/// Checks that a redo which refuses a body has stored nothing: each byte of the body is wrong, and the body too short.
fn check_refusals(page: &[u8], redo: Redo, body: &[u8]) {
    let wrong = (0..body.len()).flat_map(|at| [0, 1, 0x10, 0x7f, 0x80, 0xff, !body[at]].map(|byte| (at, byte)));
    let wrong = wrong.map(|(at, byte)| after_death(body, &[(at, byte)]));
    for body in wrong.chain((0..body.len()).map(|length| body[..length].to_vec())) {
        let (done, copy, _) = redone(page, redo, &body);
        assert!(done.is_ok() || copy == page, "redo stored, and then refused {body:?}: {done:?}");
    }
}

/// Returns a leaf with records of many lengths; those with odd keys are ghosts.
fn leaf() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let frame = Frame { low: b"key/".to_vec(), high: b"key0".to_vec(), ..Frame::default() };
    make_new(&mut PageMut::detached(&mut page), (7, 2), 0, &frame).unwrap().finish().unwrap();
    for nth in 0..20_u8 {
        let (key, value) =
            ([b"key/", &[nth; 9][..usize::from(nth % 9) + 1]].concat(), vec![nth ^ 0x55; usize::from(nth) * 3]);
        let slot = Node::over(&page).unwrap().find(&key).0;
        let mut body = Vec::new();
        let flags = if nth % 2 == 1 { RecordFlags::GHOST } else { RecordFlags::NONE };
        encode::insert(&mut body, 7 << 32 | 2, slot, flags, &key, &value);
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
            let mut body = Vec::new();
            encode::update(
                &mut body,
                7 << 32 | 2,
                slot,
                &record,
                &key,
                After { stored: &stored, flags: RecordFlags::NONE },
            );
            repeated += check_prefixes(&page, btree::redo::update, &body);
            let (_, updated, _) = redone(&page, btree::redo::update, &body);
            let (update, rest) = read::<Update>(&body).unwrap();
            let cut_out = &rest[key.len()..key.len() + usize::from(update.cut_bytes.get())];
            let mut undo = Vec::new();
            encode::restore_update(&mut undo, 7 << 32 | 2, slot, update, cut_out);
            repeated += check_prefixes(&updated, btree::redo::restore, &undo);
            // Another length: every store has a before-image.
            stored.truncate(length / 2);
            body.clear();
            encode::update(
                &mut body,
                7 << 32 | 2,
                slot,
                &record,
                &key,
                After { stored: &stored, flags: RecordFlags::NONE },
            );
            let saved = check_prefixes(&page, btree::redo::update, &body);
            assert!(saved == 0 || length / 2 == length, "{saved} bytes have no before-image");
        }
    }
    assert!(repeated > 1000, "{repeated}");
}

#[test]
fn changes_of_records_by_number_are_repeated_from_every_prefix() {
    const BYTES: usize = 11;
    let mut page = vec![0; 16 << 10];
    recno::make_new(&mut PageMut::detached(&mut page), (7, 2), u32::try_from(BYTES).unwrap());
    // Beyond 255, so that the count of used slots changes in two bytes.
    let capacity = RecnoPage::over(&page).unwrap().capacity();
    for slot in (0..capacity).step_by(51).chain([capacity - 1]) {
        for value in [[1; BYTES], [0xa5; BYTES]] {
            let before = RecnoPage::over(&page).unwrap().slot(slot).unwrap();
            let mut body = Vec::new();
            encode_change(&mut body, 7 << 32 | 2, slot, &before, Some(&value));
            assert_ne!(check_prefixes(&page, by_number::redo::change, &body), 0);
            let (_, changed, _) = redone(&page, by_number::redo::change, &body);
            let (change, rest) = read::<Change>(&body).unwrap();
            let mut undo = Vec::new();
            encode_restore(&mut undo, change, &rest[..usize::from(change.cut_bytes.get())]);
            check_prefixes(&changed, by_number::redo::restore, &undo);
            let there = RecnoPage::over(&changed).unwrap().slot(slot).unwrap();
            let mut deletion = Vec::new();
            encode_change(&mut deletion, 7 << 32 | 2, slot, &there, None);
            assert_eq!(check_prefixes(&changed, by_number::redo::change, &deletion), 0, "a ghost has before-images");
            page = changed;
        }
    }
}
