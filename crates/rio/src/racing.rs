//! Bytes of a region that other threads may store to while this thread loads them.
//!
//! A reference to such bytes would be undefined behaviour (`bytes.rs`), so this file makes no reference to them. Each
//! load is one instruction of the processor, written as assembly, so the compiler assumes nothing about the bytes. A
//! loaded value may be useless: half old, half new. The caller checks whether a thread has stored meanwhile, and uses
//! no value before this check. The caller may compute the next offset from such a value, so each load stays within the
//! area for any offset, and nothing here panics.
//!
//! Only on x86-64, whose processors keep the order of loads. Elsewhere no area can be read in this way.

use std::marker::PhantomData;

use crate::schedule::point;
use crate::{Bytes, Offset, Region};

/// The least number of bytes of an area: loads at offsets below it need no check.
const BYTES_MIN: usize = 64;

/// An area of plain bytes, to be loaded from while other threads store to it.
#[derive(Clone, Copy)]
pub struct Racing<'r> {
    place: *const u8,
    bytes: usize,
    region: PhantomData<&'r Region>,
}

impl Region {
    /// Returns an area of at least 64 bytes, to be loaded from while other threads store to it. `None` if the area is
    /// not in the region, and on processors other than x86-64.
    #[inline(always)]
    pub fn racing(&self, at: Offset<Bytes>, bytes: usize) -> Option<Racing<'_>> {
        if cfg!(not(target_arch = "x86_64")) || bytes < BYTES_MIN {
            return None;
        }
        let place = self.place(at.raw(), bytes, 8)?.cast_const();
        Some(Racing { place, bytes, region: PhantomData })
    }
}

#[cfg(target_arch = "x86_64")]
impl Racing<'_> {
    /// Returns the eight bytes at `AT`, in the first 64 bytes of the area.
    #[inline(always)]
    pub fn first_u64<const AT: usize>(&self) -> u64 {
        const { assert!(AT + 8 <= BYTES_MIN) };
        point();
        let value: u64;
        // SAFETY: as in `u32`: every area has at least 64 bytes.
        unsafe {
            std::arch::asm!("mov {value}, qword ptr [{place} + {at}]", value = lateout(reg) value,
                place = in(reg) self.place, at = const AT, options(nostack, preserves_flags, readonly));
        }
        value
    }

    /// Returns the four bytes at `at`. If not all of these bytes are in the area, returns the area's last four bytes.
    #[inline(always)]
    pub fn u32(&self, at: usize) -> u32 {
        point();
        let at = at.min(self.bytes - 4);
        let value: u32;
        // SAFETY: four bytes within the area, which is in a mapping that lives as long as its region (`racing` checked
        // both). The load changes nothing, and assembly may load bytes that other threads store to.
        unsafe {
            std::arch::asm!("mov {value:e}, dword ptr [{place} + {at}]", value = lateout(reg) value,
                place = in(reg) self.place, at = in(reg) at, options(nostack, preserves_flags, readonly));
        }
        value
    }

    /// Returns the eight bytes at `at`. Bytes after the area's end count as zero.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // an area has less than 2^29 bytes; else the result is of no use
    pub fn u64(&self, at: usize) -> u64 {
        point();
        let from = at.min(self.bytes - 8);
        let value: u64;
        // SAFETY: as in `u32`, with eight bytes.
        unsafe {
            std::arch::asm!("mov {value}, qword ptr [{place} + {from}]", value = lateout(reg) value,
                place = in(reg) self.place, from = in(reg) from, options(nostack, preserves_flags, readonly));
        }
        value.checked_shr(8 * (at - from) as u32).unwrap_or(0)
    }

    /// Returns how many of `count` sorted numbers of four bytes are below `value`. The first number is at `at`, and
    /// each further number is eight bytes after the previous number. `None` if the area ends before the last number.
    ///
    /// If the numbers change meanwhile, the result is any number up to `count`.
    #[inline(always)]
    pub fn count_below(&self, at: usize, count: usize, value: u32) -> Option<usize> {
        point();
        if count == 0 {
            return Some(0);
        }
        let last = count.checked_mul(8)?.checked_add(at)?.checked_sub(8)?;
        if last > self.bytes - 4 {
            return None;
        }
        let numbers = self.place.wrapping_add(at);
        let (mut first, mut below) = (numbers, 0_usize);
        // A binary search without a branch on a comparison, because the processor cannot predict the direction. SAFETY:
        // as in `u32`. The search loads no number before the first or after the last, and the area has all these
        // numbers: at all times, `left` numbers begin at `first`.
        unsafe {
            std::arch::asm!(
                "cmp {left}, 1",
                "jbe 3f",
                "2:",
                "mov {half}, {left}",
                "shr {half}, 1",
                "lea {middle}, [{first} + {half} * 8]",
                "sub {left}, {half}",
                "cmp dword ptr [{middle}], {value:e}",
                "cmovb {first}, {middle}",
                "cmp {left}, 1",
                "ja 2b",
                "3:",
                "cmp dword ptr [{first}], {value:e}",
                "setb {below:l}",
                first = inout(reg) first, left = inout(reg) count => _, value = in(reg) value,
                half = out(reg) _, middle = out(reg) _, below = inout(reg) below,
                options(nostack, readonly),
            );
        }
        Some((first.addr() - numbers.addr()) / 8 + below)
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Racing<'_> {
    /// Returns zero: no area is read in this way.
    pub fn first_u64<const AT: usize>(&self) -> u64 {
        0
    }

    /// Returns zero: no area is read in this way.
    pub fn u32(&self, _: usize) -> u32 {
        0
    }

    /// Returns zero: no area is read in this way.
    pub fn u64(&self, _: usize) -> u64 {
        0
    }

    /// Returns `None`: no area is read in this way.
    pub fn count_below(&self, _: usize, _: usize, _: u32) -> Option<usize> {
        None
    }
}
