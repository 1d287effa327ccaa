//! A vector in a segment: adjacent values, which move when the vector grows.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{create_row, write_row, NEW};
use crate::{Memory, Persist, Ptr, Result, Stores};

/// A vector. Zeros are an empty vector. The vector is used through a [`Ptr`] to it; a copy of the vector itself would
/// be a second owner of the same values.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Vector<T> {
    header: Header,
    of: PhantomData<fn() -> T>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    count: u64,
    capacity: u64,
    items: Ptr<u8>,
}

impl<T> Default for Vector<T> {
    fn default() -> Vector<T> {
        Vector { header: Header { count: 0, capacity: 0, items: Ptr::NONE }, of: PhantomData }
    }
}

impl<T: Persist> Ptr<Vector<T>> {
    fn header(self) -> Ptr<Header> {
        self.after(0)
    }

    /// Returns the number of values.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn len(self, memory: &impl Memory) -> Result<u64> {
        Ok(self.header().look(memory)?.count)
    }

    /// Returns whether the vector has no values.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn is_empty(self, memory: &impl Memory) -> Result<bool> {
        Ok(self.len(memory)? == 0)
    }

    /// Returns a pointer to the value with the index `index`, counted from zero.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn place(self, memory: &impl Memory, index: u64) -> Result<Option<Ptr<T>>> {
        let vector = self.header().look(memory)?;
        Ok((index < vector.count).then(|| vector.items.after::<T>(0).nth(index)))
    }

    /// Returns the value with the index `index`.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn get(self, memory: &impl Memory, index: u64) -> Result<Option<&T>> {
        self.place(memory, index)?.map(|place| place.look(memory)).transpose()
    }

    /// Appends a value.
    ///
    /// # Errors
    /// As [`Stores::malloc`]; the vector is then unchanged.
    pub fn push(self, txn: &mut impl Stores, value: T) -> Result<()> {
        let vector = self.header().look(txn)?;
        let (count, capacity, mut items) = (vector.count, vector.capacity, vector.items.after::<T>(0));
        if count == capacity {
            let larger = (capacity * 2).max(4);
            let bytes = usize::try_from(count.saturating_mul(size_of::<T>() as u64)).unwrap_or(usize::MAX);
            let old =
                if count == 0 { Vec::new() } else { txn.segment().get(items.range(txn.segment()).0, bytes)?.to_vec() };
            // The room for all ranges is reserved first: if a call failed after the old row was freed, the header would
            // still point to the old row.
            let header = self.header().range(txn.segment());
            txn.ensure_ranges(&[(NEW, bytes), header, (NEW, size_of::<T>()), header])?;
            let row = create_row::<T>(txn, larger)?;
            if count != 0 {
                write_row(txn, row, count)?.copy_from_slice(&old);
            }
            if !items.is_none() {
                txn.delete(items)?;
            }
            let vector = txn.write(self.header())?;
            (vector.items, vector.capacity) = (row.after(0), larger);
            items = row;
        }
        *txn.write(items.nth(count))? = value;
        txn.write(self.header())?.count = count + 1;
        Ok(())
    }

    /// Removes the last value and returns it.
    ///
    /// # Errors
    /// As [`Stores::write`].
    pub fn pop(self, txn: &mut impl Stores) -> Result<Option<T>> {
        let Some(last) = self.len(txn)?.checked_sub(1) else { return Ok(None) };
        let place = self.header().look(txn)?.items.after::<T>(0).nth(last);
        let value = T::read_from_bytes(place.look(txn)?.as_bytes()).unwrap_or_else(|_| unreachable!("the same length"));
        txn.write(self.header())?.count = last;
        Ok(Some(value))
    }

    /// Frees the values; the vector is then empty.
    ///
    /// # Errors
    /// As [`Stores::free`]; the vector is then unchanged.
    pub fn clear(self, txn: &mut impl Stores) -> Result<()> {
        let items = self.header().look(txn)?.items;
        txn.ensure_ranges(&[self.range(txn.segment())])?;
        if !items.is_none() {
            txn.delete(items)?;
        }
        *txn.write(self)? = Vector::default();
        Ok(())
    }
}
