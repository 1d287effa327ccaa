//! The machine crashes between any two calls to the disk, and the memory is, when it is opened again, as after a transaction:
//! one that had been acknowledged, or the one that was being written.
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::sync::Arc;

use libtp_sim::{LossMode, SimDisk};
use rvm::{Options, Rvm};
use vista::Segment;

const BYTES: u64 = 4096;
/// Blocks of the heap: the place and the length of each, from byte 64 on.
const BLOCKS: u64 = 12;

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn options(group: u32) -> Options {
    Options::of(vista::Options::new(BYTES).anywhere()).log_bytes(64 << 10).group(group)
}

fn word(segment: &Segment, at: u64) -> u64 {
    u64::from_ne_bytes(segment.get(at, 8).unwrap().try_into().unwrap())
}

/// The transaction of that number.
fn transact(memory: &mut Rvm, draw: &mut Draw, number: u64) -> rvm::Result<()> {
    let mut txn = memory.begin()?;
    txn.set_range(0, 8).unwrap().copy_from_slice(&number.to_ne_bytes());
    for _ in 0..draw.below(5) {
        let (at, bytes) = (512 + draw.below(BYTES - 1024), usize::try_from(draw.below(500)).unwrap());
        txn.set_range(at, bytes).unwrap().fill(u8::try_from(draw.below(256)).unwrap());
    }
    let slot = 64 + draw.below(BLOCKS) * 16;
    let block = u64::from_ne_bytes(txn.get(slot, 8).unwrap().try_into().unwrap());
    if block != 0 {
        txn.free(block).unwrap();
    }
    let bytes = 1 + draw.below(if number % 9 == 0 { 9000 } else { 300 });
    let block = txn.malloc(bytes).unwrap();
    txn.set_range(block, usize::try_from(bytes).unwrap()).unwrap().fill(u8::try_from(slot % 251).unwrap());
    let entry = txn.set_range(slot, 16).unwrap();
    entry[..8].copy_from_slice(&block.to_ne_bytes());
    entry[8..].copy_from_slice(&bytes.to_ne_bytes());
    if draw.below(6) == 0 {
        // Not one of those that are counted: the same number comes again.
        txn.abort();
        return transact(memory, draw, number);
    }
    txn.end()
}

/// The flat part, whose blocks are what was put there.
fn state(segment: &Segment) -> Vec<u8> {
    segment.verify().unwrap();
    for slot in (0..BLOCKS).map(|nth| 64 + nth * 16) {
        let (block, bytes) = (word(segment, slot), usize::try_from(word(segment, slot + 8)).unwrap());
        let fill = u8::try_from(slot % 251).unwrap();
        assert!(block == 0 || segment.get(block, bytes).unwrap().iter().all(|byte| *byte == fill), "block {block}");
    }
    segment.bytes().to_vec()
}

fn crash_everywhere(group: u32, transactions: u64, seed: u64) {
    let disk = SimDisk::new(seed);
    let (mut draw, mut states, mut ends, mut safe) = (Draw(seed), vec![vec![0; 4096]], Vec::new(), Vec::new());
    let mut memory = options(group).open_in(Arc::new(disk.clone())).unwrap();
    let made = disk.io_index();
    for number in 1..=transactions {
        transact(&mut memory, &mut draw, number).unwrap();
        states.push(state(memory.segment()));
        ends.push(disk.io_index());
        // Of a group that is not full yet nothing was promised.
        safe.push((disk.io_index(), (number + 1).saturating_sub(u64::from(group))));
    }
    let (mut images, mut tried) = (disk.crash_images(), 0);
    loop {
        let position = images.position();
        let modes = if images.unsynced() == 0 { &LossMode::ALL[6..] } else { &LossMode::ALL[..] };
        for mode in modes {
            let left = images.image(*mode, seed + position as u64);
            let mut memory = options(group).open_in(Arc::new(left.clone())).unwrap();
            let found = word(memory.segment(), 0);
            let least = safe.iter().rev().find(|(end, _)| *end <= position).map_or(0, |(_, number)| *number);
            // The one that is being written may be there, and those of its group.
            let most = ends.iter().filter(|end| **end <= position).count() as u64 + u64::from(group);
            assert!((least..=most).contains(&found), "{mode:?} at {position}: {found} is there, {least} were safe");
            assert_eq!(state(memory.segment()), states[usize::try_from(found).unwrap()], "{mode:?} at {position}");
            transact(&mut memory, &mut Draw(seed), found + 1).unwrap();
            memory.flush().unwrap();
            let expected = state(memory.segment());
            drop(memory);
            let again = options(group).open_in(Arc::new(left)).unwrap();
            assert_eq!(state(again.segment()), expected, "{mode:?} at {position}, used and opened again");
            tried += 1;
        }
        if images.advance().is_none() {
            break;
        }
    }
    assert!(images.position() > made + 100, "hardly anything was done");
    println!(
        "figures: groups of {group}: {transactions} transactions, {} calls, {tried} crashes, 0 torn, 0 lost",
        images.position()
    );
}

#[test]
fn the_machine_crashes_between_any_two_calls() {
    crash_everywhere(1, 60, 1);
}

#[test]
fn the_machine_crashes_while_groups_are_written() {
    crash_everywhere(4, 160, 2);
}
