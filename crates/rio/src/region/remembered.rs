//! Remembered places: the places at which this process last found values of a region, each with an area that belongs to
//! the value.
//!
//! Every use of an offset checks bounds and alignment. Here they are checked only once, when the value is remembered.
//!
//! Invariants
//! 1. The low half of an entry is zero, or the place of a `T` in the region, in units of [`UNIT`].
//! 2. Entries are this process's own memory. A wild store of another process does not reach them.
//!
//! An entry may be stale: another value may be at its place now. So the caller checks the value.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Bytes, Offset, Region, Shared};

/// The alignment of values.
const UNIT: u64 = 64;
/// The alignment of areas. In these units, the places of a value and of its area fit into one word, except at the far
/// end of a large region.
const AREA_UNIT: u64 = 4096;

/// A table of `N` entries for values of one region.
pub struct Remembered<T: Shared, const N: usize> {
    region: Region,
    entries: Box<[AtomicU64; N]>,
    values: PhantomData<T>,
}

impl<T: Shared, const N: usize> Remembered<T, N> {
    /// Makes a table without entries.
    pub fn new(region: &Region) -> Remembered<T, N> {
        let zeros: Box<[AtomicU64]> = (0..N).map(|_| AtomicU64::new(0)).collect();
        let entries = zeros.try_into().unwrap_or_else(|_| unreachable!("the vector has `N` entries"));
        Remembered { region: region.clone(), entries, values: PhantomData }
    }

    /// Returns the entry for a number. Numbers that are equal modulo `N` share an entry.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Place<'_, T> {
        // Relaxed: the caller acquires a word of the value. The entry itself needs no order: any entry of the table
        // leads to a value (invariant 1).
        Place { region: &self.region, entry: self.entries[number % N].load(Ordering::Relaxed), value: PhantomData }
    }

    /// Remembers a value of the region and the area that belongs to the value. Does nothing if a place does not fit
    /// into an entry.
    ///
    /// # Panics
    /// If the value is not in the region.
    pub fn set(&self, number: usize, value: &T, area: Option<Offset<Bytes>>) {
        let (place, area) = (self.region.offset_of(value).raw(), Offset::into_raw(area));
        if place % UNIT != 0 || area % AREA_UNIT != 0 {
            return;
        }
        if let (Ok(place), Ok(area)) = (u32::try_from(place / UNIT), u32::try_from(area / AREA_UNIT)) {
            self.entries[number % N].store(u64::from(area) << 32 | u64::from(place), Ordering::Relaxed);
        }
    }
}

/// An entry: the place at which a value was found.
pub struct Place<'r, T> {
    region: &'r Region,
    entry: u64,
    value: PhantomData<&'r T>,
}

impl<'r, T: Shared> Place<'r, T> {
    /// Returns the value, if the entry has one.
    #[inline(always)]
    pub fn value(&self) -> Option<&'r T> {
        let place = (self.entry & u64::from(u32::MAX)) * UNIT;
        if place == 0 {
            return None;
        }
        let place = self.region.0.mapping.base().as_ptr().wrapping_add(usize::try_from(place).ok()?);
        // SAFETY: this place was the address of a `&T` in this mapping when the entry was stored (invariant 1; an entry
        // is one word), so it is aligned and in bounds. Regions never shrink, and the mapping lives as long as `'r`.
        // `T: Shared` is atomics only, valid for any bytes.
        Some(unsafe { &*place.cast::<T>() })
    }

    /// Asks the processor to bring the beginning of the value into its cache. Only a hint, which reads nothing.
    #[inline]
    pub fn prefetch_value(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            let place = usize::try_from((self.entry & u64::from(u32::MAX)) * UNIT).unwrap_or_default();
            let address = self.region.0.mapping.base().as_ptr().wrapping_add(place).cast_const().cast::<i8>();
            // SAFETY: a prefetch reads nothing and faults on no address; SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
    }

    /// Asks the processor to bring `bytes` of the area into its cache. Only a hint, which reads nothing.
    #[inline(always)]
    pub fn prefetch(&self, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            let area = usize::try_from((self.entry >> 32) * AREA_UNIT).unwrap_or_default();
            for line in (area..area + bytes).step_by(64) {
                let address = self.region.0.mapping.base().as_ptr().wrapping_add(line).cast_const().cast::<i8>();
                // SAFETY: a prefetch reads nothing and faults on no address; SSE is part of x86-64.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Word;

    crate::shared! {
        /// A value of one line.
        struct Line {
            first: Word<u64>,
            rest: [Word<u64>; 7],
        } size 64
    }

    #[test]
    fn an_entry_leads_to_the_value_that_was_remembered_last() {
        let region = Region::anonymous(1 << 20).expect("memory");
        let table = Remembered::<Line, 8>::new(&region);
        assert!(table.get(3).value().is_none());
        table.get(3).prefetch(512);
        table.get(3).prefetch_value();
        let mut places = Vec::new();
        for number in 0..3 {
            let place = region.allocate::<Line>(1).expect("room");
            region.at(place).first.init(number);
            places.push(place);
        }
        for (number, &place) in places.iter().enumerate() {
            table.set(8 * number + 3, region.at(place), Offset::from_raw(4096));
            assert_eq!(table.get(3).value().map(|line| line.first.get()), Some(number as u64));
            table.get(3).prefetch(512);
        }
        assert!(table.get(4).value().is_none());
    }

    #[test]
    fn a_place_that_fits_no_entry_is_not_remembered() {
        let region = Region::anonymous(1 << 20).expect("memory");
        let words = Remembered::<Word<u64>, 2>::new(&region);
        let place = region.allocate::<Line>(1).expect("room");
        words.set(0, &region.at(place).rest[0], None);
        assert!(words.get(0).value().is_none());
        words.set(0, &region.at(place).first, Offset::from_raw(64));
        assert!(words.get(0).value().is_none());
    }

    #[test]
    #[should_panic(expected = "of its own region only")]
    fn a_value_of_another_region_is_refused() {
        let (one, other) = (Region::anonymous(1 << 20).expect("memory"), Region::anonymous(1 << 20).expect("memory"));
        let place = other.allocate::<Line>(1).expect("room");
        Remembered::<Line, 2>::new(&one).set(0, other.at(place), None);
    }
}
