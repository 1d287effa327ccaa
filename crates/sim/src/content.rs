//! The bytes of one simulated file, in blocks that forks share.
//!
//! A fork of a file copies one reference count. The first change after a fork copies the list of blocks, and each
//! change copies the blocks that it changes. So a crash image of megabytes costs microseconds.
//!
//! Invariants
//! 1. Bytes of a block beyond the file's length are zero.
//! 2. The list of blocks may be shorter than the file: the blocks after the end of the list are holes.

use std::ops::Range;
use std::sync::Arc;

/// The unit in which the page cache writes.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// The unit in which the disk writes.
pub(crate) const SECTOR_BYTES: usize = 512;
/// No file may end after this byte (4 GiB): a wild offset then causes an error and does not use up all memory.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 32;

const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// One block.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// A block that reads as zeros and takes no room on the disk.
    Hole,
    /// A block that reads as zeros and takes room.
    Zero,
    /// A block that has been written.
    Data(Arc<[u8; BLOCK_BYTES]>),
}

impl Block {
    pub(crate) fn bytes(&self) -> &[u8; BLOCK_BYTES] {
        match self {
            Block::Hole | Block::Zero => &ZEROS,
            Block::Data(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8; BLOCK_BYTES] {
        if !matches!(self, Block::Data(_)) {
            *self = Block::Data(Arc::new(ZEROS));
        }
        match self {
            Block::Data(bytes) => Arc::make_mut(bytes),
            Block::Hole | Block::Zero => unreachable!("the block was made data above"),
        }
    }
}

/// Turns a file offset into an index. Callers have checked the offset against [`FILE_BYTES_MAX`].
pub(crate) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("file offsets in the simulation fit in memory")
}

/// Returns the numbers of the blocks that a range of bytes overlaps.
pub(crate) fn blocks_of(range: &Range<u64>) -> Range<usize> {
    index(range.start) / BLOCK_BYTES..index(range.end).div_ceil(BLOCK_BYTES)
}

/// Turns an index into a file offset.
pub(crate) fn offset(index: usize) -> u64 {
    u64::try_from(index).expect("an index fits in 64 bits")
}

/// A file's length and blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    bytes: u64,
    blocks: Arc<Vec<Block>>,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.bytes
    }

    /// Copies bytes from `from` on into `buf`, and returns the number of bytes copied.
    pub(crate) fn read(&self, buf: &mut [u8], from: u64) -> usize {
        let there = self.bytes.saturating_sub(from).min(offset(buf.len()));
        let count = index(there);
        let mut done = 0;
        while done < count {
            let at = index(from) + done;
            let start = at % BLOCK_BYTES;
            let part = (BLOCK_BYTES - start).min(count - done);
            let block = self.block(at / BLOCK_BYTES);
            buf[done..done + part].copy_from_slice(&block.bytes()[start..start + part]);
            done += part;
        }
        count
    }

    pub(crate) fn write(&mut self, bytes: &[u8], from: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let at = index(from) + done;
            let start = at % BLOCK_BYTES;
            let part = (BLOCK_BYTES - start).min(bytes.len() - done);
            let source = &bytes[done..done + part];
            let block = self.block_mut(at / BLOCK_BYTES);
            match <&[u8; BLOCK_BYTES]>::try_from(source) {
                Ok(whole) => *block = Block::Data(Arc::new(*whole)),
                Err(_) => block.bytes_mut()[start..start + part].copy_from_slice(source),
            }
            done += part;
        }
        self.extend(from + offset(bytes.len()));
    }

    pub(crate) fn set_len(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let kept = index(bytes.div_ceil(offset(BLOCK_BYTES)));
            if kept < self.blocks.len() {
                Arc::make_mut(&mut self.blocks).truncate(kept);
            }
            let tail = index(bytes) % BLOCK_BYTES;
            if tail != 0 && matches!(self.blocks.get(kept - 1), Some(Block::Data(_))) {
                self.block_mut(kept - 1).bytes_mut()[tail..].fill(0);
            }
        }
        self.bytes = bytes;
    }

    /// Gives every hole in the range a block, and makes the file at least as long as the range's end.
    pub(crate) fn allocate(&mut self, range: &Range<u64>) {
        let numbers = blocks_of(range);
        if self.holes(numbers.clone()) > 0 {
            let blocks = Arc::make_mut(&mut self.blocks);
            if blocks.len() < numbers.end {
                blocks.resize(numbers.end, Block::Hole);
            }
            for block in &mut blocks[numbers] {
                if matches!(block, Block::Hole) {
                    *block = Block::Zero;
                }
            }
        }
        self.extend(range.end);
    }

    /// Makes the file at least `bytes` long.
    pub(crate) fn extend(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    pub(crate) fn block(&self, number: usize) -> &Block {
        self.blocks.get(number).unwrap_or(&Block::Hole)
    }

    /// Copies `range` of the block `source` into the block `number`. The length stays; the caller extends the file if
    /// necessary.
    pub(crate) fn put(&mut self, number: usize, range: Range<usize>, source: &Block) {
        if range.len() == BLOCK_BYTES {
            *self.block_mut(number) = source.clone();
        } else {
            self.block_mut(number).bytes_mut()[range.clone()].copy_from_slice(&source.bytes()[range]);
        }
    }

    /// Returns the number of blocks that take no room yet.
    pub(crate) fn holes(&self, range: Range<usize>) -> usize {
        range.filter(|&number| matches!(self.block(number), Block::Hole)).count()
    }

    /// Returns the number of blocks that take room.
    pub(crate) fn blocks_used(&self) -> usize {
        self.blocks.iter().filter(|block| !matches!(block, Block::Hole)).count()
    }

    fn block_mut(&mut self, number: usize) -> &mut Block {
        let blocks = Arc::make_mut(&mut self.blocks);
        if blocks.len() <= number {
            blocks.resize(number + 1, Block::Hole);
        }
        &mut blocks[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn the_content_agrees_with_a_vector() {
        let mut random = Random::new(11);
        for _ in 0..50 {
            let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
            for step in 0..60 {
                let from = random.index(20_000);
                match random.below(4) {
                    0 => {
                        content.set_len(offset(from));
                        model.resize(from, 0);
                    }
                    1 => {
                        content.allocate(&(offset(random.index(from + 1))..offset(from)));
                        model.resize(model.len().max(from), 0);
                    }
                    _ => {
                        let from = if random.coin() { from } else { from / 4096 * 4096 };
                        let bytes = vec![step + 1; if random.coin() { 4096 } else { random.index(9000) }];
                        content.write(&bytes, offset(from));
                        model.resize(model.len().max(from + bytes.len()), 0);
                        model[from..from + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                let mut all = vec![0xff; model.len() + 10];
                let start = random.index(model.len() + 1);
                let count = content.read(&mut all, offset(start));
                assert_eq!(all[..count], model[start..]);
                assert_eq!(content.len(), offset(model.len()));
            }
        }
    }

    #[test]
    fn a_fork_does_not_see_later_changes() {
        let mut content = Content::default();
        content.write(&[1; 10_000], 0);
        let fork = content.clone();
        content.write(&[2; 10_000], 0);
        content.set_len(5);
        let mut seen = [0; 10_000];
        assert_eq!(fork.read(&mut seen, 0), 10_000);
        assert_eq!(seen, [1; 10_000]);
    }

    #[test]
    fn written_and_allocated_blocks_take_room() {
        let mut content = Content::default();
        content.set_len(100 * 4096);
        assert_eq!(content.blocks_used(), 0);
        content.write(&[1], 50 * 4096 + 7);
        assert_eq!(content.blocks_used(), 1);
        content.allocate(&(40 * 4096..60 * 4096));
        assert_eq!((content.blocks_used(), content.len()), (20, 100 * 4096));
        content.allocate(&(0..60 * 4096));
        assert_eq!((content.blocks_used(), content.len()), (60, 100 * 4096));
        content.set_len(4097);
        assert_eq!(content.blocks_used(), 2);
    }
}
