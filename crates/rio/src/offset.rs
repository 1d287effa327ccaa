//! Typed offsets: the references between values in a region.
//!
//! An offset counts bytes from the region's base, so it is the same in every process; zero means none. Following an
//! offset checks bounds and alignment, because another process may have stored a bad one.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use crate::{Region, RegionHeader, Shared};

/// The payload of the unwinding of a thread whose region is broken (PROTOCOLS D13): the thread can neither go on nor
/// return a value. The environment's door catches it and begins anew.
pub struct Broken;

/// The place of a `T` in a region, in bytes from its base. `Option<Offset<T>>` is eight bytes, zero for `None`.
#[repr(transparent)]
pub struct Offset<T>(NonZeroU64, PhantomData<fn() -> T>);

const _: () = assert!(size_of::<Option<Offset<u64>>>() == 8);

impl<T> Offset<T> {
    /// Makes an offset from a stored number; zero gives `None`.
    #[inline]
    pub fn from_raw(raw: u64) -> Option<Offset<T>> {
        NonZeroU64::new(raw).map(|bytes| Offset(bytes, PhantomData))
    }

    /// Returns the number to store.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0.get()
    }

    /// Returns the number to store for an optional offset.
    #[inline]
    pub fn into_raw(offset: Option<Offset<T>>) -> u64 {
        offset.map_or(0, Offset::raw)
    }

    /// Returns the same place as another type; following it checks again.
    #[inline]
    pub fn cast<U>(self) -> Offset<U> {
        Offset(self.0, PhantomData)
    }

    /// Returns the place `bytes` further on.
    ///
    /// # Panics
    /// If the sum passes 2^64, which no region reaches.
    #[inline]
    pub fn plus(self, bytes: u64) -> Offset<T> {
        Offset(self.0.checked_add(bytes).expect("an offset lies inside a region, far below 2^64"), PhantomData)
    }
}

impl<T> Clone for Offset<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Offset<T> {}
impl<T> PartialEq for Offset<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Offset<T> {}
impl<T> Hash for Offset<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T> fmt::Debug for Offset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:#x}", self.0)
    }
}

impl Region {
    /// Returns the `T` at `offset`.
    ///
    /// # Panics
    /// If the offset is out of the region's bounds or misaligned: its storer broke an invariant. In a region marked
    /// broken the thread unwinds with [`Broken`].
    #[inline]
    pub fn at<T: Shared>(&self, offset: Offset<T>) -> &T {
        let place = self.known_place(offset.raw(), size_of::<T>(), align_of::<T>());
        // SAFETY: as in `try_at`.
        unsafe { &*place.cast::<T>() }
    }

    /// Returns the `T` at `offset`, or `None` if the offset is out of bounds or misaligned.
    #[inline]
    pub fn try_at<T: Shared>(&self, offset: Offset<T>) -> Option<&T> {
        let place = self.place(offset.raw(), size_of::<T>(), align_of::<T>())?;
        // SAFETY: `place` is aligned and lies with all of `T` inside the file's size and this mapping, which lives as
        // long as `self`; `T: Shared` is atomics only, valid for any bytes, so other writers cause no race on it.
        Some(unsafe { &*place.cast::<T>() })
    }

    /// Returns `count` values of `T` from `offset` on.
    ///
    /// # Panics
    /// As [`Region::at`].
    #[inline]
    pub fn slice<T: Shared>(&self, offset: Offset<T>, count: usize) -> &[T] {
        let bytes = size_of::<T>().checked_mul(count);
        let place = self.known_place(offset.raw(), bytes.unwrap_or(usize::MAX), align_of::<T>());
        // SAFETY: as in `try_at`, for `count` values in a row, which were bounds-checked together.
        unsafe { std::slice::from_raw_parts(place.cast::<T>(), count) }
    }

    /// Returns a handle to the `T` at `offset` that keeps the mapping alive and is not checked again.
    ///
    /// # Panics
    /// As [`Region::at`].
    pub fn hold<T: Shared>(&self, offset: Offset<T>) -> Held<T> {
        Held { place: NonNull::from(self.at(offset)), region: self.clone() }
    }

    /// Returns a handle to `count` values of `T` from `offset` on.
    ///
    /// # Panics
    /// As [`Region::at`].
    pub fn hold_slice<T: Shared>(&self, offset: Offset<T>, count: usize) -> HeldSlice<T> {
        HeldSlice { place: NonNull::from(self.slice(offset, count)), region: self.clone() }
    }
}

impl Region {
    /// Returns the header, which lies at offset zero, where no [`Offset`] points.
    #[inline]
    pub(crate) fn header_at_base(&self) -> &RegionHeader {
        let place = self.place(0, size_of::<RegionHeader>(), 64).expect("a mapped region is longer than its header");
        // SAFETY: in bounds (every region is at least its header long) and page-aligned; atomics only.
        unsafe { &*place.cast::<RegionHeader>() }
    }

    /// Returns the address of bytes that must lie in the region.
    ///
    /// # Panics
    /// As [`Region::at`].
    #[inline]
    pub(crate) fn known_place(&self, offset: u64, bytes: usize, align: usize) -> *mut u8 {
        self.place(offset, bytes, align).unwrap_or_else(|| self.out_of_bounds(offset))
    }

    /// Unwinds or panics. After [`Region::give_up_growth`] a process does not see the new part of a broken region.
    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, offset: u64) -> ! {
        if self.is_broken() {
            std::panic::resume_unwind(Box::new(Broken));
        }
        panic!("offset {offset:#x} is outside its region or misaligned: the region's structure is broken")
    }
}

/// A `T` in a region, with the mapping that it lies in. Dereferencing costs nothing.
pub struct Held<T: Shared> {
    place: NonNull<T>,
    region: Region,
}

impl<T: Shared> Held<T> {
    /// Returns the region that the value lies in.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl<T: Shared> Deref for Held<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the place was checked by `Region::at`; regions never shrink and `self.region` keeps the mapping.
        unsafe { self.place.as_ref() }
    }
}

impl<T: Shared> Clone for Held<T> {
    fn clone(&self) -> Self {
        Held { place: self.place, region: self.region.clone() }
    }
}

// SAFETY: a `Held` is a `&T` with its mapping; `T: Shared` implies `Sync`, and a region may be used from any thread.
unsafe impl<T: Shared> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Held<T> {}

/// Several consecutive `T`, with the mapping that they lie in.
pub struct HeldSlice<T: Shared> {
    place: NonNull<[T]>,
    region: Region,
}

impl<T: Shared> HeldSlice<T> {
    /// Returns the region that the values lie in.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl<T: Shared> HeldSlice<T> {
    /// Returns a part of the values.
    pub(crate) fn part(&self, range: Range<usize>) -> HeldSlice<T> {
        HeldSlice { place: NonNull::from(&self[range]), region: self.region.clone() }
    }
}

impl<T: Shared> Deref for HeldSlice<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: as for `Held`.
        unsafe { self.place.as_ref() }
    }
}

// SAFETY: as for `Held`.
unsafe impl<T: Shared> Send for HeldSlice<T> {}
// SAFETY: as for `Held`.
unsafe impl<T: Shared> Sync for HeldSlice<T> {}
