//! Tests of pages without a tree: random changes to a few leaves, by the redo of log records, compared with a BTreeMap.
//!
//! Pure functions of bytes change a page, and no reader can check bytes by eye. The tests check four properties. Every
//! change is made twice from the same image and gives the same image. The undo of a change restores the record. Splits
//! move records and lose none. Searches find each key, and the place of each absent key.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::btree::encode::{self, After, Taken};
use crate::btree::log_records::{Reclaim, ReclaimEntry, RECLAIM_REMOVE};
use crate::btree::redo;
use crate::btree::split_plan::{plan, Incoming};
use crate::log_body::short;
use crate::page::free_pages::{self, Meta};
use crate::page::node::Node;
use crate::page::rebuild::{close, make_new, rebuild, Frame};
use crate::page::record_lsn::RecordFlags;
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use zerocopy::IntoBytes;

const PAGE: usize = 4096;
const FILE: u32 = 7;

type Redo = fn(&mut PageMut<'_, '_>, usize, Lsn, &[u8]) -> Result<(), libtp_txn::Damage>;

/// Neighbouring leaves, with a model of their contents.
struct Leaves {
    pages: BTreeMap<u32, Vec<u8>>,
    meta: Vec<u8>,
    model: BTreeMap<Vec<u8>, (Vec<u8>, u64, bool)>,
    lsn: u64,
}

fn id(page: u32) -> u64 {
    (u64::from(FILE) << 32) | u64::from(page)
}

fn empty_frame() -> Frame {
    Frame { left: 0, right: 0, flags: 0, unlinked: 0, low: vec![], high: vec![] }
}

impl Leaves {
    fn new() -> Leaves {
        let mut first = vec![0; PAGE];
        make_new(&mut PageMut::detached(&mut first), (FILE, 2), 0, &empty_frame()).unwrap().finish().unwrap();
        let mut meta = vec![0; PAGE];
        let start = Meta { page_count: 3.into(), ..Meta::default() };
        free_pages::make_new(&mut PageMut::detached(&mut meta), FILE, start);
        Leaves { pages: BTreeMap::from([(2, first)]), meta, model: BTreeMap::new(), lsn: 8 }
    }

    /// Returns the leaf of a key, found only by right links and high keys.
    fn leaf_of(&self, key: &[u8]) -> u32 {
        let mut page = 2;
        loop {
            let node = Node::over(&self.pages[&page]).unwrap();
            assert!(!node.is_below(key), "the search went too far right");
            if !node.belongs_right(key) {
                return page;
            }
            page = node.right().expect("only a page with a right neighbour has a high key");
        }
    }

    /// Applies a record to a page, twice from the same image, and checks that both results are equal.
    fn apply(&mut self, page: u32, role: usize, redo: Redo, body: &[u8]) {
        self.lsn += 8;
        let image = if page == 1 { &mut self.meta } else { self.pages.entry(page).or_insert_with(|| vec![0; PAGE]) };
        let mut again = image.clone();
        redo(&mut PageMut::detached(image), role, Lsn::new(self.lsn), body).unwrap();
        redo(&mut PageMut::detached(&mut again), role, Lsn::new(self.lsn), body).unwrap();
        assert!(*image == again, "the change and its redo differ");
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let page = self.leaf_of(key);
        let node = Node::over(&self.pages[&page]).unwrap();
        let (slot, found) = node.find(key);
        let incoming = Incoming { key, slot, bytes: node.record_need(key.len(), value.len()), is_new: !found };
        if found {
            let record = node.record(slot).unwrap();
            if !node.fits_change(slot, value.len()) {
                return self.split_and_put(page, incoming, value);
            }
            let after = After { stored: value, flags: RecordFlags::NONE };
            let body = encode::update(id(page), slot, &(&record).into(), key, after).to_vec();
            self.apply(page, 0, redo::update, &body);
        } else {
            if node.record_need(key.len(), value.len()) > node.free_bytes() {
                return self.split_and_put(page, incoming, value);
            }
            let body = encode::insert(id(page), slot, RecordFlags::NONE, key, value).to_vec();
            self.apply(page, 0, redo::insert, &body);
        }
        self.model.insert(key.to_vec(), (value.to_vec(), self.lsn, false));
    }

    fn split_and_put(&mut self, page: u32, incoming: Incoming<'_>, value: &[u8]) {
        let node = Node::over(&self.pages[&page]).unwrap();
        let plan = plan(&node, incoming).expect("a full page can be cut");
        let right = Meta::of(&self.meta).unwrap().page_count.get();
        let taken = Taken { pages: [right], free_head: 0, page_count: right + 1 };
        let neighbour = node.right();
        let mut body = Vec::new();
        encode::split(&mut body, id(page), &node, &plan, taken).unwrap();
        self.apply(right, 1, redo::split, &body);
        self.apply(page, 0, redo::split, &body);
        self.apply(1, 2, redo::split, &body);
        if let Some(neighbour) = neighbour {
            self.apply(neighbour, 3, redo::split, &body);
        }
        self.put(incoming.key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        let page = self.leaf_of(key);
        let node = Node::over(&self.pages[&page]).unwrap();
        let (slot, found) = node.find(key);
        if !found || node.record(slot).unwrap().is_ghost() {
            return;
        }
        let after = After { stored: &[], flags: RecordFlags::GHOST };
        let body = encode::update(id(page), slot, &(&node.record(slot).unwrap()).into(), key, after).to_vec();
        self.apply(page, 0, redo::update, &body);
        self.model.insert(key.to_vec(), (vec![], self.lsn, true));
    }

    /// Makes a change and its compensation, and checks that the record has its old LSN, flags and bytes.
    fn put_and_undo(&mut self, key: &[u8], value: &[u8]) {
        let before = self.model.get(key).cloned();
        let deletes = value.is_empty() && before.as_ref().is_some_and(|(_, _, ghost)| !ghost);
        if deletes {
            self.delete(key)
        } else {
            self.put(key, value)
        }
        let page = self.leaf_of(key);
        let node = Node::over(&self.pages[&page]).unwrap();
        let (slot, _) = node.find(key);
        let mut body = Vec::new();
        match &before {
            None => {
                let undone = encode::insert(id(page), slot, RecordFlags::NONE, key, value);
                encode::restore_insert(&mut body, id(page), slot, &undone);
                self.model.insert(key.to_vec(), (vec![], 0, true));
            }
            Some((old, lsn, ghost)) => {
                // The test keeps no log, so it builds the first log record again.
                let mut image = self.pages[&page].clone();
                let word = crate::page::record_lsn::pack_lsn(Lsn::new(*lsn), ghost_flag(*ghost));
                let record = node.record(slot).unwrap();
                image[record.cell_at..record.cell_at + 8].copy_from_slice(&word.to_le_bytes());
                let mut then = Node::over(&image).unwrap().record(slot).unwrap();
                then.stored = old;
                let after = After { stored: record.stored, flags: record.flags };
                let undone = encode::update(id(page), slot, &(&then).into(), key, after);
                encode::restore_update(&mut body, id(page), slot, &undone);
                self.model.insert(key.to_vec(), (old.clone(), *lsn, *ghost));
            }
        }
        let free_before = node.free_bytes();
        self.apply(page, 0, redo::restore, &body);
        let free_after = Node::over(&self.pages[&page]).unwrap().free_bytes();
        assert_eq!(free_before, free_after, "undo needed space");
    }

    /// Removes the ghosts from every page and the slack from every record.
    fn reclaim(&mut self) {
        for page in self.pages.keys().copied().collect::<Vec<_>>() {
            let node = Node::over(&self.pages[&page]).unwrap();
            let mut entries = Vec::new();
            for slot in 0..node.count() {
                let action = if node.record(slot).unwrap().is_ghost() { RECLAIM_REMOVE } else { 2 };
                entries.push(ReclaimEntry { slot: short(slot), action: action.into() });
            }
            let head = Reclaim { page: id(page).into(), count: short(entries.len()), ..Reclaim::default() };
            let mut body = head.as_bytes().to_vec();
            entries.iter().for_each(|entry| body.extend_from_slice(entry.as_bytes()));
            self.apply(page, 0, redo::reclaim, &body);
        }
        self.model.retain(|_, (_, _, ghost)| !*ghost);
    }

    /// Walks from the first page to the last and compares all records with the model.
    fn check(&self) {
        let mut page = 2;
        let mut expected = self.model.iter();
        let mut left = 0;
        loop {
            let node = Node::over(&self.pages[&page]).unwrap();
            assert_eq!(node.header().left.get(), left);
            let garbage = node.header().garbage_bytes.get() as usize;
            let cells: usize = (0..node.count()).map(|slot| node.cell_bytes(slot)).sum();
            assert_eq!(PAGE - node.header().heap_start.get() as usize, cells + garbage, "garbage is wrong");
            for slot in 0..node.count() {
                let (key, (value, lsn, ghost)) = expected.next().expect("a record too many");
                let record = node.record(slot).unwrap();
                assert_eq!(&node.key(slot).to_vec(), key);
                assert_eq!((record.stored, record.lsn.raw(), record.is_ghost()), (&value[..], *lsn, *ghost));
                assert_eq!(node.find(key), (slot, true));
            }
            left = page;
            let Some(right) = node.right() else { break };
            page = right;
        }
        assert!(expected.next().is_none(), "a record is lost");
    }
}

fn ghost_flag(ghost: bool) -> RecordFlags {
    if ghost {
        RecordFlags::GHOST
    } else {
        RecordFlags::NONE
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Undone(Vec<u8>, Vec<u8>),
    Reclaim,
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0u16..400).prop_map(|number| format!("customer/{number:05}").into_bytes()),
        4 => proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x61), Just(0xff)], 0..12),
        1 => (0u8..6, 900usize..=1024).prop_map(|(first, bytes)| vec![first; bytes]),
        1 => (0u8..6, 0u16..300).prop_map(|(first, tail)| [&vec![first; 60][..], &tail.to_be_bytes()].concat()),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (any::<u8>(), 0usize..120).prop_map(|(byte, bytes)| vec![byte; bytes]),
        1 => (any::<u8>(), 0usize..900).prop_map(|(byte, bytes)| vec![byte; bytes]),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fitting = |(key, mut value): (Vec<u8>, Vec<u8>)| {
        value.truncate((PAGE / 4).saturating_sub(key.len()));
        (key, value)
    };
    let step = prop_oneof![
        10 => (keys(), values()).prop_map(fitting).prop_map(|(key, value)| Step::Put(key, value)),
        3 => keys().prop_map(Step::Delete),
        3 => (keys(), values()).prop_map(fitting).prop_map(|(key, value)| Step::Undone(key, value)),
        1 => Just(Step::Reclaim),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn leaves_and_a_btreemap_have_the_same_records_after_splits_undo_and_reclaiming(steps in steps()) {
        let mut leaves = Leaves::new();
        for step in steps {
            match step {
                Step::Put(key, value) => leaves.put(&key, &value),
                Step::Delete(key) => leaves.delete(&key),
                Step::Undone(key, value) => leaves.put_and_undo(&key, &value),
                Step::Reclaim => leaves.reclaim(),
            }
        }
        leaves.check();
    }

    #[test]
    fn a_search_for_an_absent_key_finds_its_slot(present in proptest::collection::btree_set(keys(), 0..60), absent in keys()) {
        let mut leaves = Leaves::new();
        present.iter().for_each(|key| leaves.put(key, b""));
        let page = leaves.leaf_of(&absent);
        let node = Node::over(&leaves.pages[&page]).unwrap();
        let (slot, found) = node.find(&absent);
        prop_assert_eq!(found, present.contains(&absent));
        let expected = (0..node.count()).take_while(|&slot| node.key(slot).to_vec() < absent).count();
        prop_assert_eq!(slot, expected);
        prop_assert!(!node.is_above_all(&absent, node.cell_head()) || (slot, found) == (node.count(), false));
        for near in 0..=slot {
            prop_assert_eq!(node.find_near(&absent, near), slot, "from {}", near);
        }
    }

    #[test]
    fn a_key_that_differs_in_the_bytes_that_all_keys_share_belongs_at_an_edge_of_the_page(
        shared in 0usize..20,
        tails in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..8), 1..40),
        wanted in (proptest::collection::vec(any::<u8>(), 0..8), 0usize..28, any::<u8>(), 0usize..30),
    ) {
        let key = |tail: &[u8]| [&vec![0x61; shared][..], tail].concat();
        let mut leaves = Leaves::new();
        tails.iter().for_each(|tail| leaves.put(&key(tail), b""));
        let (tail, place, byte, length) = wanted;
        let mut wanted = key(&tail);
        if let Some(there) = wanted.get_mut(place) {
            *there = byte;
        }
        wanted.truncate(length);
        let node = Node::over(&leaves.pages[&2]).unwrap();
        let below = (0..node.count()).filter(|&slot| node.key(slot).to_vec() < wanted).count();
        let is_there = (0..node.count()).any(|slot| node.key(slot).to_vec() == wanted);
        prop_assert_eq!(node.find(&wanted), (below, is_there));
        prop_assert!(!node.is_above_all(&wanted, node.cell_head()) || (below, is_there) == (node.count(), false));
        for near in 0..=below {
            prop_assert_eq!(node.find_near(&wanted, near), below, "from {}", near);
        }
    }

    #[test]
    fn bytes_that_are_no_page_are_read_without_a_panic(seed in proptest::collection::vec(any::<u8>(), 256), count in 0u16..40, key in keys()) {
        let mut page: Vec<u8> = seed.iter().copied().cycle().take(PAGE).collect();
        page[20] = 3;
        page[21] &= 1;
        page[40..42].copy_from_slice(&count.to_le_bytes());
        page[44..48].copy_from_slice(&3000u32.to_le_bytes());
        page[52..58].copy_from_slice(&[2, 0, 5, 0, 9, 0]);
        if let Some(node) = Node::over(&page) {
            node.find(&key);
            let _ = node.child(node.child_slot(&key));
            (0..=node.count() + 1).for_each(|near| _ = node.find_near(&key, near));
            for slot in 0..=node.count() {
                let _ = (node.record(slot), node.key(slot), node.child(slot), node.cell_bytes(slot));
            }
        }
    }
}

#[test]
fn a_used_page_is_made_new_again_after_a_death_in_the_middle() {
    let mut page = vec![0xee; 4096];
    page[8..16].copy_from_slice(&5_u64.to_le_bytes());
    let mut blank = vec![0; 4096];
    // The session dies before the page is complete; the repair repeats the change.
    let _ = make_new(&mut PageMut::detached(&mut page), (1, 2), 0, &Frame::default()).unwrap();
    for page in [&mut page, &mut blank] {
        make_new(&mut PageMut::detached(page), (1, 2), 0, &Frame::default()).unwrap().finish().unwrap();
    }
    assert!(page[16..] == blank[16..], "old bytes are left");
}

#[test]
fn closing_a_page_gives_the_same_records_fences_and_free_bytes_as_writing_it_again() {
    for (shared, low) in [(0, &b""[..]), (1, b"k"), (6, b"key/00"), (30, b"key/00")] {
        let mut leaves = Leaves::new();
        for number in 0..40_u32 {
            leaves.put(format!("key/{:0>shared$}{number:02}", "").as_bytes(), &vec![7; number as usize]);
        }
        let frame = Frame { low: low.to_vec(), ..Frame::of(&Node::over(&leaves.pages[&2]).unwrap()) };
        let mut page = leaves.pages.remove(&2).unwrap();
        rebuild(&mut PageMut::detached(&mut page), &frame, |_, cell, writer| writer.push(cell)).unwrap();
        let high = format!("key/{:0>shared$}4", "").into_bytes();
        let frame = Frame { high, right: 9, flags: 1, ..frame };
        let (mut closed, mut again) = (page.clone(), page);
        close(&mut PageMut::detached(&mut closed), &frame).unwrap();
        rebuild(&mut PageMut::detached(&mut again), &frame, |_, cell, writer| writer.push(cell)).unwrap();
        let (closed, again) = (Node::over(&closed).unwrap(), Node::over(&again).unwrap());
        assert_eq!(Frame::of(&closed), frame);
        assert_eq!(closed.free_bytes(), again.free_bytes());
        assert_eq!(closed.header().prefix_bytes, again.header().prefix_bytes);
        assert_eq!(closed.header().skip_bytes, again.header().skip_bytes);
        assert_eq!(closed.count(), again.count());
        for slot in 0..closed.count() {
            assert_eq!(closed.key(slot).to_vec(), again.key(slot).to_vec());
            assert_eq!(closed.slots()[slot].head, again.slots()[slot].head);
            assert_eq!(closed.record(slot).unwrap().stored, again.record(slot).unwrap().stored);
            assert_eq!(closed.record(slot).unwrap().lsn, again.record(slot).unwrap().lsn);
        }
    }
}

#[test]
fn rising_keys_leave_full_pages() {
    let mut leaves = Leaves::new();
    for number in 0..3000u32 {
        leaves.put(&number.to_be_bytes(), &[7; 30]);
    }
    leaves.check();
    let used: Vec<usize> = leaves.pages.values().map(|page| PAGE - Node::over(page).unwrap().free_bytes()).collect();
    let full = &used[..used.len() - 1];
    assert!(full.iter().all(|&bytes| bytes > PAGE * 92 / 100), "{used:?}");
}

#[test]
fn falling_keys_leave_full_pages() {
    let mut leaves = Leaves::new();
    for number in (0..3000u32).rev() {
        leaves.put(&number.to_be_bytes(), &[7; 30]);
    }
    leaves.check();
    let full = leaves.pages.values().filter(|page| Node::over(page).unwrap().free_bytes() < PAGE / 10).count();
    assert!(full + 2 >= leaves.pages.len(), "{full} of {}", leaves.pages.len());
}

#[test]
fn keys_and_values_of_a_quarter_page_fit() {
    let mut leaves = Leaves::new();
    for number in 0..40u8 {
        let number = number.wrapping_mul(157);
        leaves.put(&[&[number; 1000][..], &[number]].concat(), &[1; 23]);
    }
    leaves.check();
}
