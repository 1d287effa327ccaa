//! An inner page on the way down, read without its latch (docs/design/0022).
//!
//! The words that are loaded here may belong to two states of the page. So this file checks only the page's bounds, and
//! reports no damage. It leaves every doubtful case to the search with latches: keys that differ after equal heads, an
//! unlinked page, a page of another kind. At the end it loads the count of changes again, and the child is valid only
//! if the count is unchanged.
//!
//! The high key is not compared. For a key that belongs further right, the search goes down to a child of this page. No
//! child of this page reaches beyond this page's high key, so on the leaf the leaf's own high key shows that the key is
//! further right (PROTOCOLS T2). No search leads to a page whose range is above the key, because the lower bound of a
//! page never changes.

use std::cmp::Ordering;

use rio::Racing;

use crate::page::node::INNER_CELL_HEAD;
use crate::page::slotted::{head_at, slots_at, Flags, SLOT_BYTES};
use crate::page::PageKind;
use crate::pages::Pages;

/// The offset of the head in a slot.
const HEAD_IN_SLOT: usize = 4;
const HEAD_BYTES: usize = 4;

/// Returns the child of an inner page on the way to `key`, and the child's level. `None` if the page must be latched.
#[inline(always)]
pub(crate) fn child(pages: &Pages<'_>, number: u32, key: &[u8]) -> Option<(u32, u8)> {
    let glance = pages.glance(number)?;
    let (child, level) = child_of(&glance.bytes(), key)?;
    let is_believed = glance.is_unchanged();
    is_believed.then_some((child, level - 1))
}

/// Returns the child on the way to `key`, and the page's level, which is not zero. Both may have any value if the page
/// changes meanwhile.
#[inline(always)]
fn child_of(page: &Racing<'_>, key: &[u8]) -> Option<(u32, u8)> {
    // The offsets of docs/formats/page.md and docs/formats/btree.md.
    let [.., kind, level, _, _] = page.first_u64::<16>().to_le_bytes();
    let (count, low, high) = (page.first_u64::<40>(), page.first_u64::<48>(), page.first_u64::<56>());
    let ([slots, flags], [prefix, low_bytes], [high_bytes, skip]) = (halves(count), halves(low >> 32), halves(high));
    let is_inner = kind == PageKind::Btree as u8 && level != 0;
    if !is_inner || slots == 0 || flags & usize::from(Flags::DELETED) != 0 {
        return None;
    }
    let slots_at = slots_at(high_bytes, low_bytes);
    // The first child has no key.
    let (first_at, keys) = (slots_at + SLOT_BYTES, slots - 1);
    let head = head_at(key, prefix + skip);
    let below = page.count_below(first_at + HEAD_IN_SLOT, keys, head)?;
    let slot_at = |nth: usize| slots_at + SLOT_BYTES * nth;
    let cell_at = |nth: usize| (page.u32(slot_at(nth)) & 0xffff) as usize;
    let mut cell = cell_at(below);
    // Heads leave out bytes that all keys of the page share.
    let skipped = match skip != 0 && keys != 0 {
        true => {
            let with_key = if below == 0 { cell_at(1) } else { cell };
            compare(key.get(prefix..)?, page, with_key + INNER_CELL_HEAD, skip)?
        }
        false => Ordering::Equal,
    };
    match skipped {
        Ordering::Less => cell = cell_at(0),
        Ordering::Greater => cell = cell_at(keys),
        Ordering::Equal if below < keys && page.u32(slot_at(below + 1) + HEAD_IN_SLOT) == head => {
            cell = equal(page.u32(slot_at(below + 1)), key.len().checked_sub(prefix)?, skip)?;
        }
        Ordering::Equal => {}
    }
    let child = page.u32(cell);
    (child != 0).then_some((child, level))
}

/// Returns the cell of a slot if the slot's key is equal to the wanted key. `slot` is the slot's first word: the cell's
/// offset and the key's length. Both keys have the same head and the same skipped bytes, and the wanted key has
/// `key_bytes` bytes. `None` if the lengths differ, or if the keys have bytes after their heads.
#[inline(always)]
fn equal(slot: u32, key_bytes: usize, skip: usize) -> Option<usize> {
    let [cell, bytes] = halves(slot.into());
    (bytes == key_bytes && bytes <= skip + HEAD_BYTES).then_some(cell)
}

/// Returns the two lower numbers of a word that consists of numbers of two bytes.
#[inline(always)]
fn halves(word: u64) -> [usize; 2] {
    [(word & 0xffff) as usize, (word >> 16 & 0xffff) as usize]
}

/// Compares the first `count` bytes of `ours` with the page's bytes at `at`. `None` if `ours` is shorter.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // the first four bytes are meant
fn compare(ours: &[u8], page: &Racing<'_>, at: usize, count: usize) -> Option<Ordering> {
    if let (Some(eight), 1..=8) = (ours.first_chunk::<8>(), count) {
        let rest = 64 - 8 * count;
        return Some((u64::from_be_bytes(*eight) >> rest).cmp(&(page.u64(at).swap_bytes() >> rest)));
    }
    if let (Some(four), 1..=4) = (ours.first_chunk::<4>(), count) {
        let rest = 32 - 8 * count;
        return Some((u32::from_be_bytes(*four) >> rest).cmp(&((page.u64(at) as u32).swap_bytes() >> rest)));
    }
    compare_slowly(ours, page, at, count)
}

#[inline(never)]
fn compare_slowly(ours: &[u8], page: &Racing<'_>, at: usize, count: usize) -> Option<Ordering> {
    let parts = (at..).step_by(8).zip(ours.get(..count)?.chunks(8));
    let order = parts.map(|(at, part)| part.cmp(&page.u64(at).to_le_bytes()[..part.len()]));
    Some(order.fold(Ordering::Equal, Ordering::then))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)] // of small random numbers
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering as Order};

    use libtp_buffer::PageMut;
    use rio::{Bytes, Offset, Region, Word};

    use super::*;
    use crate::page::node::Node;
    use crate::page::rebuild::{make_new, Cell, Frame};
    use crate::page::slotted::SplitKey;

    const PAGE: usize = 8192;

    struct Random(u64);

    impl Random {
        fn draw(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 20
        }
    }

    /// The last page of a region: a load beyond the page's end is a fault.
    struct Area {
        region: Region,
        at: Offset<Bytes>,
    }

    impl Area {
        fn new() -> Area {
            let region = Region::anonymous(1 << 20).unwrap();
            let at = region.allocate_bytes(PAGE as u64, PAGE as u64).unwrap();
            Area { region, at }
        }

        fn set(&self, word: usize, value: u64) {
            let at = Offset::<Word<u64>>::from_raw(self.at.raw() + 8 * word as u64).unwrap();
            self.region.at(at).publish(value);
        }

        fn fill(&self, page: &[u8]) -> Racing<'_> {
            for (word, eight) in page.chunks_exact(8).enumerate() {
                self.set(word, u64::from_le_bytes(eight.try_into().unwrap()));
            }
            self.bytes()
        }

        fn bytes(&self) -> Racing<'_> {
            self.region.racing(self.at, PAGE).unwrap()
        }
    }

    fn inner(frame: &Frame, keys: &[Vec<u8>]) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let mut target = PageMut::detached(&mut page);
        let mut writer = make_new(&mut target, (7, 3), 2, frame).unwrap();
        for (key, child) in keys.iter().zip(100..) {
            writer.push(Cell::Child { key: SplitKey::whole(key), child }).unwrap();
        }
        writer.finish().unwrap();
        page
    }

    fn keys_of(shape: u64, random: &mut Random) -> Vec<Vec<u8>> {
        let count = 1 + random.draw() % 100;
        let key = |number: u64| match shape % 5 {
            0 => number.to_be_bytes().to_vec(),
            1 => format!("account/{number:010}").into_bytes(),
            2 => format!("{number}").into_bytes(),
            3 => [&(number % 20).to_be_bytes()[5..], &number.to_be_bytes()].concat(),
            _ => format!("a long beginning that all keys share/{number:06}/x").into_bytes(),
        };
        let mut keys: Vec<Vec<u8>> = (0..count).map(|_| key(random.draw() % 3000)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn an_inner_page_leads_to_the_same_child_with_and_without_its_latch() {
        let (area, mut random) = (Area::new(), Random(1));
        let (mut led, mut left) = (0_u32, 0_u32);
        for round in 0..400 {
            let mut keys = keys_of(round, &mut random);
            if round % 2 == 1 {
                // A split shortens separators: the keys of the page may be shorter than the keys of the searches.
                let most = keys.iter().map(Vec::len).max().unwrap_or(1) as u64;
                let cut = 1 + (random.draw() % most) as usize;
                keys.iter_mut().for_each(|key| key.truncate(cut));
                keys.dedup();
            }
            let (mut low, mut high) = (Vec::new(), Vec::new());
            if round % 3 == 0 && keys.len() > 4 {
                (low, high) = (keys[0].clone(), keys.pop().unwrap());
            }
            let frame = Frame { left: 0, right: 9, flags: 0, unlinked: 0, low: low.clone(), high: high.clone() };
            let page = inner(&frame, &keys);
            let (node, bytes) = (Node::over(&page).unwrap(), area.fill(&page));
            let others = keys_of(round, &mut random);
            for key in others.iter().chain(&keys).filter(|key| **key >= low && (high.is_empty() || **key < high)) {
                match child_of(&bytes, key) {
                    Some(found) => {
                        assert_eq!(found, (node.child(node.child_slot(key)).unwrap(), 2), "{key:?} among {keys:?}");
                        led += 1;
                    }
                    // The search for a key of the page may need a latch, because only the whole keys show that they are
                    // equal. Such a search does not count.
                    None => left += u32::from(!keys.contains(key)),
                }
            }
        }
        assert!(led > 2 * left, "{led} searches need no latch, and {left} need a latch");
    }

    #[test]
    fn a_leaf_and_an_unlinked_page_are_latched() {
        let area = Area::new();
        let frame = |flags| Frame { left: 0, right: 9, flags, unlinked: 0, low: vec![], high: vec![] };
        let keys = vec![vec![], vec![5]];
        assert_eq!(child_of(&area.fill(&inner(&frame(0), &keys)), &[7]), Some((101, 2)));
        assert_eq!(child_of(&area.fill(&inner(&frame(Flags::DELETED), &keys)), &[7]), None);
        assert_eq!(child_of(&area.fill(&inner(&frame(0), &[])), &[7]), None);
        let mut leaf = inner(&frame(0), &keys);
        leaf[21] = 0;
        assert_eq!(child_of(&area.fill(&leaf), &[7]), None);
        assert_eq!(child_of(&area.fill(&[0; PAGE]), &[7]), None);
    }

    #[test]
    fn a_page_that_changes_at_every_word_harms_no_reader() {
        let (area, is_over) = (Area::new(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut random = Random(3);
                while !is_over.load(Order::Relaxed) {
                    // Half of the stores change the header, from which a reader computes all other places.
                    let word = random.draw() as usize % if random.draw() % 2 == 0 { 8 } else { PAGE / 8 };
                    area.set(word, random.draw() << 20 ^ random.draw());
                    area.set(2, u64::from(PageKind::Btree as u8) << 32 | 1 << 40);
                }
            });
            let mut random = Random(4);
            for _ in 0..300_000 {
                let key = format!("{}", random.draw());
                let _ = child_of(&area.bytes(), &key.as_bytes()[..random.draw() as usize % key.len()]);
            }
            is_over.store(true, Order::Relaxed);
        });
    }
}
