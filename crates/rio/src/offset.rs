//! Typed offsets: the references between values in a region.
//!
//! An offset counts bytes from the region's base, so it is the same in every process; zero means no offset. Every use
//! of an offset checks bounds and alignment, because another process may have stored a bad offset.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

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

    /// Returns an offset of the same place for another type. Its use checks again.
    #[inline]
    pub fn cast<U>(self) -> Offset<U> {
        Offset(self.0, PhantomData)
    }

    /// Returns the offset of the place `bytes` further on.
    ///
    /// # Panics
    /// If the sum passes 2^64, which no region reaches.
    #[inline]
    pub fn plus(self, bytes: u64) -> Offset<T> {
        Offset(self.0.checked_add(bytes).expect("an offset is inside a region, far below 2^64"), PhantomData)
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

/// The type of untyped bytes: `Offset<Bytes>` names where an area begins.
pub struct Bytes(());
