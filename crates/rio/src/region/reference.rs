//! References into a region: to the values that typed offsets name, and to words that any thread may store to.
//!
//! Every use of an offset checks bounds and alignment, because another process may have stored a bad offset.

use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Bytes, Offset, Region, RegionHeader, Shared};

/// The payload with which a thread unwinds when its region is broken (PROTOCOLS D13): the thread can neither continue
/// nor return a value. The environment catches the unwinding and rebuilds the region.
pub struct Broken;

impl Region {
    /// Returns the `T` at `offset`.
    ///
    /// # Panics
    /// If the offset is out of the region's bounds or misaligned: the code that stored it broke an invariant. In a
    /// region marked broken, the thread unwinds with [`Broken`] instead.
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
        // SAFETY: `place` is aligned, and all of `T` is inside the file's size and inside this mapping, which lives as
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

    /// Returns a handle to the `T` at `offset`. The handle keeps the mapping alive, and its uses are not checked again.
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

    /// Returns the header, which is at offset zero, to which no [`Offset`] points.
    #[inline]
    pub(crate) fn header_at_base(&self) -> &RegionHeader {
        let place = self.place(0, size_of::<RegionHeader>(), 64).expect("a mapped region is longer than its header");
        // SAFETY: in bounds (no region is shorter than its header) and page-aligned; atomics only.
        unsafe { &*place.cast::<RegionHeader>() }
    }

    /// Copies `src` into the region, eight bytes at a time. Both `at` and the length are multiples of eight.
    ///
    /// For bytes that a reader may copy out at the same time and then check (the log's ring). The copy is made of
    /// relaxed atomic stores, so a torn read is a wrong checksum and never undefined behaviour.
    ///
    /// # Panics
    /// If the area is out of bounds or not made of whole words.
    #[inline]
    pub fn copy_in(&self, at: Offset<Bytes>, src: &[u8]) {
        let words = self.slice_of_words(at, src.len());
        let store = |word: &AtomicU64, eight: &[u8]| {
            let eight = eight.first_chunk().map_or(0, |eight| u64::from_ne_bytes(*eight));
            // Relaxed: the log's tail, stored with release after this copy, publishes the bytes.
            word.store(eight, Ordering::Relaxed);
        };
        // Four words at once, so that a short record is copied with few jumps.
        let (mut fours, mut parts) = (words.chunks_exact(4), src.chunks_exact(32));
        for (four, part) in (&mut fours).zip(&mut parts) {
            store(&four[0], &part[..8]);
            store(&four[1], &part[8..16]);
            store(&four[2], &part[16..24]);
            store(&four[3], &part[24..]);
        }
        for (word, eight) in fours.remainder().iter().zip(parts.remainder().chunks_exact(8)) {
            store(word, eight);
        }
    }

    /// Copies out of the region, eight bytes at a time. Both `at` and the length are multiples of eight.
    ///
    /// # Panics
    /// If the area is out of bounds or not made of whole words.
    #[inline]
    pub fn copy_out(&self, at: Offset<Bytes>, dst: &mut [u8]) {
        let words = self.slice_of_words(at, dst.len());
        for (word, eight) in words.iter().zip(dst.chunks_exact_mut(8)) {
            // Relaxed: the caller loaded the tail with acquire before this copy, and checks the copy.
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    #[inline]
    fn slice_of_words(&self, at: Offset<Bytes>, bytes: usize) -> &[AtomicU64] {
        assert!(bytes % 8 == 0, "copies in and out of a region are whole words");
        let place = self.known_place(at.raw(), bytes, 8);
        // SAFETY: in bounds and aligned to eight; atomics tolerate any other atomic access. Code that wants such an
        // area as a plain slice needs a hold that excludes writers (`bytes.rs`).
        unsafe { std::slice::from_raw_parts(place.cast::<AtomicU64>(), bytes / 8) }
    }

    /// Returns the words that a rollback stores to. Only the owner of the section rolls back, or a session that repairs
    /// after the owner's death.
    #[inline]
    pub(crate) fn undo_words(&self, at: u64, bytes: usize) -> &[AtomicU64] {
        self.slice_of_words(Offset::from_raw(at).expect("a before-image has a place"), bytes)
    }

    /// Returns the address of bytes that must be in the region.
    ///
    /// # Panics
    /// As [`Region::at`].
    #[inline]
    pub(crate) fn known_place(&self, offset: u64, bytes: usize, align: usize) -> *mut u8 {
        self.place(offset, bytes, align).unwrap_or_else(|| self.out_of_bounds(offset))
    }

    /// Unwinds if the region is broken, otherwise panics. In a broken region the place may be valid: after
    /// [`Region::give_up_growth`], this process does not see the region's new part.
    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, offset: u64) -> ! {
        if self.is_broken() {
            std::panic::resume_unwind(Box::new(Broken));
        }
        panic!("offset {offset:#x} is outside its region or misaligned: the region's structure is broken")
    }
}

/// A `T` in a region, with the mapping that contains it. Dereferencing costs nothing.
pub struct Held<T: Shared> {
    place: NonNull<T>,
    region: Region,
}

impl<T: Shared> Held<T> {
    /// Returns the region that contains the value.
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

/// Several consecutive `T`, with the mapping that contains them.
pub struct HeldSlice<T: Shared> {
    place: NonNull<[T]>,
    region: Region,
}

impl<T: Shared> HeldSlice<T> {
    /// Returns the region that contains the values.
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
