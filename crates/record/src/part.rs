//! A change of a part of a value. Data describe the change, not a function of the program.
//!
//! Paper: none; LIBTP's programs read a record, change it and put it back. A session that changes a value by a function
//! of the program latches the record's page twice, because no such function runs under a latch (PROTOCOLS D12). A
//! change described by data is made under the latch of the search, so the page is latched once.

use crate::{Error, Result};

/// A change of a part of a value, which does not change the value's length. Only types of the library implement this
/// trait, so that the change calls no code of the program.
pub trait Part: Copy + sealed::Sealed {
    /// The new bytes.
    type Bytes: AsRef<[u8]>;
    /// The answer to the caller.
    type Told;

    /// Returns the number of the part's bytes.
    fn count(self) -> usize;

    /// Returns the new bytes and the answer to the caller. The new bytes have the length of the old bytes.
    fn change(self, old: &[u8]) -> (Self::Bytes, Self::Told);

    /// Returns the old bytes: the part of a value from `offset` on.
    ///
    /// # Errors
    /// [`Error::PartOutside`].
    #[inline]
    fn of<'v>(self, database: &str, value: &'v [u8], offset: usize) -> Result<&'v [u8]> {
        let part = value.get(offset..).and_then(|rest| rest.get(..self.count()));
        part.ok_or_else(|| outside(database, self.count(), offset, value.len()))
    }

    /// Changes the part of a copied value from `offset` on.
    ///
    /// # Errors
    /// [`Error::PartOutside`]; the value is unchanged.
    fn change_copy(self, database: &str, value: &mut [u8], offset: usize) -> Result<Self::Told> {
        let (new, answer) = self.change(self.of(database, value, offset)?);
        value[offset..offset + self.count()].copy_from_slice(new.as_ref());
        Ok(answer)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Overwrite<'_> {}
    impl Sealed for super::Add {}
}

/// Bytes that replace the same number of old bytes.
#[derive(Clone, Copy, Debug)]
pub struct Overwrite<'b>(pub &'b [u8]);

/// A number to add to a number of eight little-endian bytes. The sum wraps around. The answer is the sum.
#[derive(Clone, Copy, Debug)]
pub struct Add(pub i64);

impl<'b> Part for Overwrite<'b> {
    type Bytes = &'b [u8];
    type Told = ();

    #[inline]
    fn count(self) -> usize {
        self.0.len()
    }

    #[inline]
    fn change(self, _old: &[u8]) -> (&'b [u8], ()) {
        (self.0, ())
    }
}

impl Part for Add {
    type Bytes = [u8; 8];
    type Told = i64;

    #[inline]
    fn count(self) -> usize {
        8
    }

    #[inline]
    fn change(self, old: &[u8]) -> ([u8; 8], i64) {
        let old = old.first_chunk().copied().map_or(0, i64::from_le_bytes);
        let sum = old.wrapping_add(self.0);
        (sum.to_le_bytes(), sum)
    }
}

#[cold]
#[inline(never)]
fn outside(database: &str, bytes: usize, offset: usize, value_bytes: usize) -> Error {
    Error::PartOutside { database: database.into(), bytes, offset, value_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_inside_its_value_is_changed() {
        let mut value = *b"0123456789abcdef";
        assert!(Overwrite(b"xy").change_copy("d", &mut value, 14).is_ok());
        assert_eq!(&value, b"0123456789abcdxy");
        for offset in [15, 16, 17, usize::MAX] {
            let refused = Overwrite(b"zz").change_copy("d", &mut value, offset);
            assert!(matches!(refused, Err(Error::PartOutside { value_bytes: 16, bytes: 2, .. })), "{offset}");
        }
        assert!(Overwrite(b"").change_copy("d", &mut value, 16).is_ok());
        assert!(Add(1).change_copy("d", &mut value, 9).is_err());
        assert_eq!(&value, b"0123456789abcdxy");
    }

    #[test]
    fn a_sum_wraps_around() {
        let mut value = [7; 10];
        value[1..9].copy_from_slice(&i64::MAX.to_le_bytes());
        assert_eq!(Add(2).change_copy("d", &mut value, 1).unwrap(), i64::MIN + 1);
        assert_eq!(Add(-1).change_copy("d", &mut value, 1).unwrap(), i64::MIN);
        assert_eq!((value[0], value[9]), (7, 7));
    }
}
