//! The workload on recoverable memory on a disk: numbered transactions on ranges and on blocks of the heap.

use rvm::{Options, Rvm};
use vista::Segment;

/// Bytes of the flat part.
pub const BYTES: u64 = 4096;
/// The number of blocks in the heap. The place and the length of each block are stored from byte 64 on.
const BLOCKS: u64 = 12;

/// A source of numbers from a seed.
pub struct Draw(pub u64);

impl Draw {
    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

pub fn options(group: u32) -> Options {
    Options::of(vista::Options::new(BYTES).anywhere()).log_bytes(64 << 10).group(group)
}

/// Returns the word at a place.
pub fn word(segment: &Segment, at: u64) -> u64 {
    u64::from_ne_bytes(segment.get(at, 8).unwrap().try_into().unwrap())
}

/// Runs transaction `number`.
pub fn transact(memory: &mut Rvm, draw: &mut Draw, number: u64) -> rvm::Result<()> {
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
        // An aborted transaction does not count: the next transaction gets the same number.
        txn.abort();
        return transact(memory, draw, number);
    }
    txn.end()
}

/// Checks the blocks' contents and returns the flat part.
pub fn state(segment: &Segment) -> Vec<u8> {
    segment.verify().unwrap();
    for slot in (0..BLOCKS).map(|nth| 64 + nth * 16) {
        let (block, bytes) = (word(segment, slot), usize::try_from(word(segment, slot + 8)).unwrap());
        let fill = u8::try_from(slot % 251).unwrap();
        assert!(block == 0 || segment.get(block, bytes).unwrap().iter().all(|byte| *byte == fill), "block {block}");
    }
    segment.bytes().to_vec()
}
