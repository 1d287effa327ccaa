//! Control words: the only plain data that several processes may access at once, so every control word is atomic.
//!
//! There are two ways to change a word, and each has its own calls. [`Word::set`] demands an open
//! [`Section`](crate::Section), which is rolled back if the process dies. [`Word::publish`] and the read-modify-write
//! calls are for words that other threads read without a latch. The store to such a word is the *last* store of its
//! change, and is never rolled back (PROTOCOLS D2).

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::schedule::point;
use crate::Offset;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A machine integer with an atomic twin: `u32` or `u64`.
pub trait Atom: sealed::Sealed + Copy + Eq + fmt::Debug + 'static {
    /// The atomic twin.
    type Cell: Send + Sync + 'static;
    /// The width in bytes.
    const BYTES: usize;
    /// Loads the value.
    fn load(cell: &Self::Cell, order: Ordering) -> Self;
    /// Stores the value.
    fn store(cell: &Self::Cell, value: Self, order: Ordering);
    /// Swaps if the cell holds `old`; the error is the value found.
    fn swap_if(cell: &Self::Cell, old: Self, new: Self) -> Result<Self, Self>;
    /// Adds, with wrapping; returns the earlier value.
    fn add(cell: &Self::Cell, value: Self) -> Self;
    /// Stores the larger of the two values; returns the earlier value.
    fn max(cell: &Self::Cell, value: Self) -> Self;
    /// Sets the bits of `value`; returns the earlier value.
    fn or(cell: &Self::Cell, value: Self) -> Self;
    /// Clears all bits that `value` does not have; returns the earlier value.
    fn and(cell: &Self::Cell, value: Self) -> Self;
    /// Widens the value to 64 bits.
    fn widen(self) -> u64;
}

macro_rules! atom {
    ($int:ty, $cell:ty, $bytes:literal) => {
        impl Atom for $int {
            type Cell = $cell;
            const BYTES: usize = $bytes;
            #[inline]
            fn load(cell: &$cell, order: Ordering) -> $int {
                cell.load(order)
            }
            #[inline]
            fn store(cell: &$cell, value: $int, order: Ordering) {
                cell.store(value, order);
            }
            // AcqRel: a swap may acquire another thread's stores and release our own.
            #[inline]
            fn swap_if(cell: &$cell, old: $int, new: $int) -> Result<$int, $int> {
                cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            }
            #[inline]
            fn add(cell: &$cell, value: $int) -> $int {
                cell.fetch_add(value, Ordering::AcqRel)
            }
            #[inline]
            fn max(cell: &$cell, value: $int) -> $int {
                cell.fetch_max(value, Ordering::AcqRel)
            }
            #[inline]
            fn or(cell: &$cell, value: $int) -> $int {
                cell.fetch_or(value, Ordering::AcqRel)
            }
            #[inline]
            fn and(cell: &$cell, value: $int) -> $int {
                cell.fetch_and(value, Ordering::AcqRel)
            }
            #[inline]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
        impl Bits for $int {
            type Raw = $int;
            #[inline]
            fn to_raw(self) -> $int {
                self
            }
            #[inline]
            fn from_raw(raw: $int) -> $int {
                raw
            }
        }
    };
}
atom!(u32, AtomicU32, 4);
atom!(u64, AtomicU64, 8);

/// A value that fits one word: an integer or a newtype of one (declare it with [`bits!`](crate::bits)).
///
/// Every bit pattern must be a value: a word may hold anything that another process has stored.
pub trait Bits: Copy + 'static {
    /// The integer type that stores the value.
    type Raw: Atom;
    /// Returns the integer.
    fn to_raw(self) -> Self::Raw;
    /// Returns the value of an integer. Every integer has a value.
    fn from_raw(raw: Self::Raw) -> Self;
}

/// Makes a one-field newtype storable in a [`Word`]: `bits!(Lsn: u64);`
#[macro_export]
macro_rules! bits {
    ($name:ty : $raw:ty) => {
        impl $crate::Bits for $name {
            type Raw = $raw;
            #[inline]
            fn to_raw(self) -> $raw {
                self.0
            }
            #[inline]
            fn from_raw(raw: $raw) -> Self {
                Self(raw)
            }
        }
    };
}

/// A shared control word.
#[repr(transparent)]
pub struct Word<T: Bits>(pub(crate) <T::Raw as Atom>::Cell, PhantomData<T>);

impl<T: Bits> Word<T> {
    /// Reads the word. The caller holds the latch that guards the word, or needs no order with other accesses.
    #[inline]
    pub fn get(&self) -> T {
        // Relaxed: the latch's acquire orders this load after the stores of the previous holder.
        T::from_raw(T::Raw::load(&self.0, Ordering::Relaxed))
    }

    /// Reads the word with acquire order: all stores before the matching [`Word::publish`] are visible afterwards.
    #[inline]
    pub fn load(&self) -> T {
        point();
        T::from_raw(T::Raw::load(&self.0, Ordering::Acquire))
    }

    /// Stores to the word with release order, as the last store of a change; never rolled back (PROTOCOLS D2).
    #[inline]
    pub fn publish(&self, value: T) {
        point();
        T::Raw::store(&self.0, value.to_raw(), Ordering::Release);
    }

    /// Stores to a word that no other thread can reach yet, or that only its owner writes (a note in a slot).
    #[inline]
    pub fn init(&self, value: T) {
        T::Raw::store(&self.0, value.to_raw(), Ordering::Relaxed);
    }

    /// Swaps if the word holds `old`; the error is the value found.
    #[inline]
    pub fn compare_exchange(&self, old: T, new: T) -> Result<T, T> {
        point();
        T::Raw::swap_if(&self.0, old.to_raw(), new.to_raw()).map(T::from_raw).map_err(T::from_raw)
    }

    /// Adds, with wrapping; returns the earlier value.
    #[inline]
    pub fn fetch_add(&self, value: T::Raw) -> T {
        point();
        T::from_raw(T::Raw::add(&self.0, value))
    }

    /// Stores the larger of `value` and the word; returns the earlier value.
    #[inline]
    pub fn fetch_max(&self, value: T) -> T {
        point();
        T::from_raw(T::Raw::max(&self.0, value.to_raw()))
    }

    /// Sets the bits of `value`; returns the earlier value.
    #[inline]
    pub fn fetch_or(&self, value: T::Raw) -> T {
        T::from_raw(T::Raw::or(&self.0, value))
    }

    /// Clears all bits that `value` does not have; returns the earlier value.
    #[inline]
    pub fn fetch_and(&self, value: T::Raw) -> T {
        T::from_raw(T::Raw::and(&self.0, value))
    }

    /// Returns the atomic, for a futex or for code that combines several bits in the word.
    #[inline]
    pub fn cell(&self) -> &<T::Raw as Atom>::Cell {
        &self.0
    }
}

impl<T: Bits + fmt::Debug> fmt::Debug for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A word that holds the [`Offset`] of a `T`, or `None`.
#[repr(transparent)]
pub struct Link<T>(pub(crate) Word<u64>, PhantomData<fn() -> T>);

impl<T> Link<T> {
    /// Reads the link under the guarding latch.
    #[inline]
    pub fn get(&self) -> Option<Offset<T>> {
        Offset::from_raw(self.0.get())
    }

    /// Reads the link with acquire order.
    #[inline]
    pub fn load(&self) -> Option<Offset<T>> {
        Offset::from_raw(self.0.load())
    }

    /// Stores to the link as the last store of a change.
    #[inline]
    pub fn publish(&self, to: Option<Offset<T>>) {
        self.0.publish(Offset::into_raw(to));
    }

    /// Stores to a link that no other thread can reach yet.
    #[inline]
    pub fn init(&self, to: Option<Offset<T>>) {
        self.0.init(Offset::into_raw(to));
    }

    /// Swaps if the link holds `old`; the error is the offset found.
    ///
    /// # Errors
    /// The link held another offset.
    pub fn compare_exchange(&self, old: Option<Offset<T>>, new: Option<Offset<T>>) -> Result<(), Option<Offset<T>>> {
        match self.0.compare_exchange(Offset::into_raw(old), Offset::into_raw(new)) {
            Ok(_) => Ok(()),
            Err(found) => Err(Offset::from_raw(found)),
        }
    }
}
