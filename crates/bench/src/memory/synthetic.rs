//! Two benchmarks in 50 MB: the synthetic benchmark changes bytes at a random place, and `Swap` swaps two random
//! pointers.

use std::hint::black_box;
use std::ops::Range;
use std::sync::OnceLock;

use super::change::{Change, Memory};
use super::{size, Work};
use crate::error::Result;

/// Bytes of the database, as in the paper; in tests a tenth.
const DATABASE: u64 = if cfg!(test) { 5 << 20 } else { 50 << 20 };
/// Bytes of the longest transaction.
const LONGEST: usize = 1 << 20;

/// Returns a pseudorandom number that depends only on `nth`, so the processor need not wait for the previous number.
#[inline(always)]
pub(super) fn drawn(nth: u64) -> u64 {
    (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// Returns the bytes that transactions store. Transactions of 8 bytes store their number instead.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| vec![3; LONGEST])
}

/// Returns the place where a transaction stores `bytes` bytes.
#[inline(always)]
fn place(nth: u64, bytes: u64, is_hot: bool) -> u64 {
    if is_hot {
        return 4096_u64.next_multiple_of(bytes);
    }
    drawn(nth) % (DATABASE / bytes) * bytes
}

/// Checks that each piece of `bytes` bytes has either only initial bytes or only stored bytes.
fn are_whole(memory: &[u8], bytes: usize) -> std::result::Result<(), String> {
    let is_whole = |piece: &[u8]| (piece[0] == 1 || piece[0] == 3) && piece.iter().all(|&byte| byte == piece[0]);
    match memory.chunks_exact(bytes).all(is_whole) {
        true => Ok(()),
        false => Err("a piece has neither its initial bytes nor the bytes of a whole transaction".into()),
    }
}

/// The benchmark that changes `N` bytes in each transaction. The field is true if the place is always the same.
pub(super) struct Synthetic<const N: usize>(pub(super) bool);

impl<const N: usize> Work for Synthetic<N> {
    const BYTES: u64 = DATABASE;

    fn load(&self, memory: &mut [u8]) {
        memory.fill(1);
    }

    fn run<M: Memory>(&self, memory: &mut M, numbers: Range<u64>) -> Result<()> {
        let image: &[u8; N] = black_box(image().first_chunk().expect("the image has the longest transaction's length"));
        for nth in numbers {
            let at = place(nth, N as u64, self.0);
            let mut txn = memory.begin()?;
            let range = txn.range::<N>(at)?;
            if N == 8 {
                range.copy_from_slice(&nth.to_ne_bytes());
            } else {
                *range = *image;
            }
            txn.end()?;
        }
        Ok(())
    }

    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String> {
        // Each transaction of 8 bytes stores its number, so there is no rule for the contents.
        if N == 8 {
            Ok(())
        } else {
            are_whole(memory, N)
        }
    }
}

/// The benchmark that changes a number of bytes that is not known at compile time. With `is_hot`, the place is always
/// the same.
pub(super) struct SyntheticOf {
    pub(super) bytes: usize,
    pub(super) is_hot: bool,
}

impl Work for SyntheticOf {
    const BYTES: u64 = DATABASE;

    fn load(&self, memory: &mut [u8]) {
        memory.fill(1);
    }

    fn run<M: Memory>(&self, memory: &mut M, numbers: Range<u64>) -> Result<()> {
        let image = black_box(image().get(..self.bytes).expect("the image has the longest transaction's length"));
        let bytes = self.bytes as u64;
        for nth in numbers {
            let at = place(nth, bytes, self.is_hot);
            let mut txn = memory.begin()?;
            txn.range_of(at, self.bytes)?.copy_from_slice(image);
            txn.end()?;
        }
        Ok(())
    }

    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String> {
        are_whole(memory, self.bytes)
    }
}

/// The benchmark that swaps two pointers in each transaction. The field is true if the two pointers are always the
/// same.
pub(super) struct Swap(pub(super) bool);

impl Work for Swap {
    const BYTES: u64 = DATABASE;

    fn load(&self, memory: &mut [u8]) {
        for (pointer, nth) in memory.chunks_exact_mut(8).zip(0_u64..) {
            pointer.copy_from_slice(&nth.to_ne_bytes());
        }
    }

    fn run<M: Memory>(&self, memory: &mut M, numbers: Range<u64>) -> Result<()> {
        for nth in numbers {
            let place = |nth: u64| drawn(nth) % (DATABASE / 8) * 8;
            let (left, right) = if self.0 { (4096, 4160) } else { (place(2 * nth), place(2 * nth + 1)) };
            let mut txn = memory.begin()?;
            let (pointer, other) = (txn.look::<8>(left)?, txn.look::<8>(right)?);
            *txn.range(left)? = other;
            *txn.range(right)? = pointer;
            txn.end()?;
        }
        Ok(())
    }

    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String> {
        let mut seen = vec![false; size(DATABASE / 8)];
        for pointer in memory.chunks_exact(8) {
            let pointer = u64::from_ne_bytes(pointer.try_into().expect("eight bytes"));
            match usize::try_from(pointer).ok().and_then(|pointer| seen.get_mut(pointer)) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("the pointer {pointer} occurs twice, or was not there at first")),
            }
        }
        Ok(())
    }
}
