//! Typed values for several threads. A lock on a value is a lock on its stripes. No other thread can access the value
//! until the transaction ends.
//!
//! A reference lives until the next call on the transaction. Collections need several references at once, so they are
//! for a segment of one thread: with a [`ThreadTxn`] they do not compile.

use super::{Persist, Ptr};
use crate::{Error, Result, ThreadTxn, Threads};

impl Threads {
    /// As [`Segment::root`](crate::Segment::root).
    pub fn root<T: Persist>(&self) -> Ptr<T> {
        Ptr::of_place(self.from)
    }
}

/// Typed values.
///
/// ```
/// # let file = std::env::temp_dir().join(format!("vista-typed-threads-{}", std::process::id()));
/// # let _ = std::fs::remove_file(&file);
/// let threads = vista::Segment::open(&file, 1 << 20)?.share()?;
/// let counter = threads.root::<u64>();
/// threads.worker()?.run(|txn| {
///     *txn.write(counter)? += 1;
///     Ok(())
/// })?;
/// assert_eq!(*counter.look(&threads.into_segment())?, 1);
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The collections are for one thread:
/// ```compile_fail,E0308
/// fn push(numbers: vista::Ptr<vista::Vector<u64>>, txn: &mut vista::ThreadTxn<'_, '_>) -> vista::Result<()> {
///     numbers.push(txn, 1)
/// }
/// ```
/// ```compile_fail,E0277
/// fn count(names: vista::Ptr<vista::Map<u64, u64>>, txn: &vista::ThreadTxn<'_, '_>) -> vista::Result<u64> {
///     names.len(txn)
/// }
/// ```
impl ThreadTxn<'_, '_> {
    /// As [`Segment::root`](crate::Segment::root).
    pub fn root<T: Persist>(&self) -> Ptr<T> {
        self.threads().root()
    }

    /// Returns the value at `place`. No other thread can access the value until the transaction ends.
    ///
    /// # Errors
    /// As [`ThreadTxn::get`] and [`Ptr::look`].
    pub fn look<T: Persist>(&mut self, place: Ptr<T>) -> Result<&T> {
        let at = self.position(place)?;
        Ok(T::ref_from_bytes(self.get(at, size_of::<T>())?)
            .unwrap_or_else(|_| unreachable!("it is as long, and aligned")))
    }

    /// Declares that the transaction may change the value, and returns it. No other thread can access the value until
    /// the transaction ends.
    ///
    /// # Errors
    /// As [`ThreadTxn::set_range`] and [`Ptr::look`].
    pub fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T> {
        let at = self.position(place)?;
        let range = self.set_range(at, size_of::<T>())?;
        Ok(T::mut_from_bytes(range).unwrap_or_else(|_| unreachable!("it is as long, and aligned")))
    }

    /// As [`Ptr::part`]. The whole value is locked.
    ///
    /// # Errors
    /// As [`ThreadTxn::look`].
    ///
    /// # Panics
    /// If `of` returns something that is not a part of the value.
    pub fn part<T: Persist, U: Persist>(&mut self, place: Ptr<T>, of: impl FnOnce(&T) -> &U) -> Result<Ptr<U>> {
        let whole = self.look(place)?;
        Ok(place.part_at(whole, of(whole)))
    }

    /// As [`Txn::create`](crate::Txn::create).
    ///
    /// # Errors
    /// As [`ThreadTxn::malloc`] and [`ThreadTxn::write`].
    pub fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>> {
        const { assert!(align_of::<T>() <= 16, "the heap's blocks begin at multiples of 16") };
        let at = self.malloc(size_of::<T>() as u64)?;
        let place = Ptr::of_place(at + self.threads().from);
        *self.write(place)? = value;
        Ok(place)
    }

    /// As [`Txn::delete`](crate::Txn::delete).
    ///
    /// # Errors
    /// As [`ThreadTxn::free`].
    pub fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()> {
        let at = self.position(place)?;
        self.free(at)
    }

    /// Returns the pointer's position, if a value of its type can begin there. Only the place decides that, because the
    /// mapping begins at a multiple of every alignment.
    fn position<T: Persist>(&self, place: Ptr<T>) -> Result<u64> {
        let (at, align) = (place.place.wrapping_sub(self.threads().from), align_of::<T>());
        if place.place % align as u64 != 0 {
            return Err(Error::Misplaced { path: self.threads().path.clone(), at, align });
        }
        Ok(at)
    }
}
