//! Typed memory: values in a segment, and pointers to them.
//!
//! Beyond the paper, whose programs are in C. A [`Ptr`] is a position with a type. The value there is read through the
//! segment or through a transaction on it. [`Txn::write`] declares the value's range and, like every declaration,
//! returns the permission to store.
//!
//! `zerocopy`'s traits decide which types may be stored in a segment: types without padding, if any bytes are a valid
//! value of the type. So a damaged segment shows wrong values and does no worse harm. Types that have a meaning in one
//! process only (references, boxes, open files) do not compile.
//!
//! Several threads that share a segment can use single values, but no collections (`of_threads`).

mod chain;
mod hash_map;
mod map;
mod node;
mod of_threads;
mod vector;

pub use hash_map::HashMap;
pub use map::Map;
pub use vector::Vector;

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Error, Result, Segment, Txn};

/// Types that may be stored in a segment: numbers, arrays and structs of them, [`Ptr`]s, the collections of this crate.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Account { balance: i64, history: vista::Ptr<vista::Vector<i64>> }
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<Account>();
/// ```
///
/// Types that have a meaning in one process only may not be stored:
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<&'static u64>();
/// ```
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<Box<u64>>();
/// ```
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<String>();
/// ```
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<std::os::fd::OwnedFd>();
/// ```
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<*const u64>();
/// ```
/// Types with invalid byte patterns may not be stored:
/// ```compile_fail,E0277
/// fn may_persist<T: vista::Persist>() {}
/// may_persist::<bool>();
/// ```
pub trait Persist: FromBytes + IntoBytes + Immutable + KnownLayout + 'static {}
impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + 'static> Persist for T {}

/// A pointer to a value in a segment, or to nothing. Zeros point to nothing.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Ptr<T> {
    place: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Ptr<T> {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> PartialEq for Ptr<T> {
    fn eq(&self, other: &Ptr<T>) -> bool {
        self.place == other.place
    }
}

impl<T> Eq for Ptr<T> {}

impl<T> std::fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ptr({:#x})", self.place)
    }
}

/// Read access to all of a segment: the [`Segment`] itself, and its [`Txn`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not give access to a whole segment",
    note = "one of several threads may use only the memory that it has locked (`ThreadTxn::look` and `write`); the collections are for one thread"
)]
pub trait Memory {
    /// Returns the segment.
    fn segment(&self) -> &Segment;
}

impl Memory for Segment {
    fn segment(&self) -> &Segment {
        self
    }
}

impl Memory for Txn<'_> {
    fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// Stores to a segment in a transaction. A [`Txn`] implements it, and so do transactions that end in another way, such
/// as a transaction over records and memory.
pub trait Stores: Memory {
    /// As [`Txn::set_range`].
    ///
    /// # Errors
    /// As [`Txn::set_range`].
    fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]>;

    /// As [`Txn::malloc`].
    ///
    /// # Errors
    /// As [`Txn::malloc`].
    fn malloc(&mut self, bytes: u64) -> Result<u64>;

    /// As [`Txn::free`].
    ///
    /// # Errors
    /// As [`Txn::free`].
    fn free(&mut self, at: u64) -> Result<()>;

    /// Makes sure that the ranges (positions and lengths) can be declared one after another, and that one call of the
    /// heap can also be made. So a change of several places is made either in all of them or, if this call fails, in
    /// none.
    ///
    /// # Errors
    /// As [`Txn::set_range`]: nothing has changed.
    fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> Result<()>;

    /// As [`Segment::root`].
    fn root<T: Persist>(&self) -> Ptr<T> {
        self.segment().root()
    }

    /// Declares that the transaction may change the value, and returns it.
    ///
    /// # Errors
    /// As [`Txn::set_range`] and [`Ptr::look`].
    fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T>
    where
        Self: Sized,
    {
        place.look(self)?;
        let at = place.at(self.segment());
        let range = self.set_range(at, size_of::<T>())?;
        Ok(T::mut_from_bytes(range).unwrap_or_else(|_| unreachable!("the place was checked")))
    }

    /// Allocates a value in the heap.
    ///
    /// # Errors
    /// As [`Txn::malloc`].
    fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>>
    where
        Self: Sized,
    {
        let place = create_row(self, 1)?;
        *self.write(place)? = value;
        Ok(place)
    }

    /// Frees a value that [`Stores::create`] has made. Values that it points to stay allocated.
    ///
    /// # Errors
    /// As [`Txn::free`].
    fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()> {
        let at = place.at(self.segment());
        self.free(at)
    }
}

impl Stores for Txn<'_> {
    #[inline]
    fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        Txn::set_range(self, at, bytes)
    }

    fn malloc(&mut self, bytes: u64) -> Result<u64> {
        Txn::malloc(self, bytes)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        Txn::free(self, at)
    }

    fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        self.in_log(|segment| segment.ensure_ranges(ranges))
    }
}

/// An upper bound of the old bytes that one call of the heap saves.
const UNDO_OF_A_CALL: usize = 4096;
/// The position of a range in a block that is not allocated yet.
pub(crate) const NEW: u64 = u64::MAX;

impl Segment {
    fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        // Each range takes whole words, a header, a checksum and a zero at the end.
        let bytes =
            ranges.iter().map(|(_, bytes)| bytes.saturating_add(40)).fold(UNDO_OF_A_CALL, usize::saturating_add);
        let there = || ranges.iter().filter(|range| range.0 != NEW);
        there().try_for_each(|&(at, bytes)| self.get(at, bytes).map(drop))?;
        self.reserve_undo(bytes)?;
        there().try_for_each(|&(at, bytes)| self.open_range(at, bytes))
    }
}

/// Declares that the transaction may change the bytes of `count` adjacent values, and returns the bytes.
pub(crate) fn write_row<T: Persist>(txn: &mut impl Stores, first: Ptr<T>, count: u64) -> Result<&mut [u8]> {
    let at = first.at(txn.segment());
    let bytes = usize::try_from(count.saturating_mul(size_of::<T>() as u64)).unwrap_or(usize::MAX);
    txn.set_range(at, bytes)
}

/// Allocates room for `count` adjacent values. The bytes are not cleared.
pub(crate) fn create_row<T: Persist>(txn: &mut impl Stores, count: u64) -> Result<Ptr<T>> {
    const { assert!(align_of::<T>() <= 16, "the heap's blocks begin at multiples of 16") };
    let bytes = count.checked_mul(size_of::<T>() as u64);
    let at = txn.malloc(bytes.ok_or_else(|| txn.segment().out_of_range(u64::MAX, usize::MAX))?)?;
    Ok(Ptr { place: at + txn.segment().from, of: PhantomData })
}

impl<T> Ptr<T> {
    /// A pointer to nothing.
    pub const NONE: Ptr<T> = Ptr { place: 0, of: PhantomData };

    /// Returns whether the pointer points to nothing.
    pub fn is_none(self) -> bool {
        self.place == 0
    }

    fn of_place(place: u64) -> Ptr<T> {
        Ptr { place, of: PhantomData }
    }

    /// Returns a pointer to the place that is `bytes` bytes after the place of this pointer.
    pub(crate) fn after<U>(self, bytes: u64) -> Ptr<U> {
        Ptr::of_place(self.place.saturating_add(bytes))
    }
}

impl<T: Persist> Ptr<T> {
    /// Returns the value that the pointer points to.
    ///
    /// # Errors
    /// `OutOfRange` if the segment has no such bytes; `Misplaced` if a value of this type cannot begin at the place.
    pub fn look(self, memory: &impl Memory) -> Result<&T> {
        let segment = memory.segment();
        let bytes = segment.get(self.at(segment), size_of::<T>())?;
        T::ref_from_bytes(bytes).map_err(|_| self.misplaced(segment))
    }

    /// Returns a pointer to a part of the value that this pointer points to: `root.part(|root| &root.names, &segment)`.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    ///
    /// # Panics
    /// If `of` returns something that is not a part of the value.
    pub fn part<U: Persist>(self, of: impl FnOnce(&T) -> &U, memory: &impl Memory) -> Result<Ptr<U>> {
        let whole = self.look(memory)?;
        Ok(self.part_at(whole, of(whole)))
    }

    /// Returns a pointer to `part`, which is a part of `whole`, the value that this pointer points to.
    fn part_at<U: Persist>(self, whole: &T, part: &U) -> Ptr<U> {
        let from = std::ptr::from_ref(part).addr().wrapping_sub(std::ptr::from_ref(whole).addr());
        let end = from.checked_add(size_of::<U>());
        assert!(end.is_some_and(|end| end <= size_of::<T>()), "a part of a value is inside the value");
        self.after(from as u64)
    }

    /// Returns a pointer to the `nth` of several adjacent values. This pointer points to the first of them.
    pub(crate) fn nth(self, nth: u64) -> Ptr<T> {
        self.after(nth.saturating_mul(size_of::<T>() as u64))
    }

    /// Returns the value's position and length in the segment.
    pub(crate) fn range(self, segment: &Segment) -> (u64, usize) {
        (self.at(segment), size_of::<T>())
    }

    fn at(self, segment: &Segment) -> u64 {
        self.place.wrapping_sub(segment.from)
    }

    #[cold]
    fn misplaced(self, segment: &Segment) -> Error {
        Error::Misplaced { path: segment.path().to_path_buf(), at: self.at(segment), align: align_of::<T>() }
    }
}

impl Segment {
    /// Returns a pointer to the value at the beginning of the flat part. The value is zeros at first. A program finds
    /// all its other values from this value.
    pub fn root<T: Persist>(&self) -> Ptr<T> {
        Ptr::of_place(self.from)
    }
}

impl Txn<'_> {
    /// As [`Segment::root`].
    pub fn root<T: Persist>(&self) -> Ptr<T> {
        self.segment.root()
    }

    /// Declares that the transaction may change the value, and returns it.
    ///
    /// # Errors
    /// As [`Txn::set_range`] and [`Ptr::look`].
    #[inline]
    pub fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T> {
        Stores::write(self, place)
    }

    /// Allocates a value in the heap.
    ///
    /// # Errors
    /// As [`Txn::malloc`].
    pub fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>> {
        Stores::create(self, value)
    }

    /// Frees a value that [`Txn::create`] has made. Values that it points to stay allocated.
    ///
    /// # Errors
    /// As [`Txn::free`].
    pub fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()> {
        Stores::delete(self, place)
    }
}
