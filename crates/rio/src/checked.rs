//! Words that check themselves: a read detects nearly every value that a wild store can leave.
//!
//! Some bits of the value are always zero. The word stores a check value of the other bits in them. The check also
//! depends on the word's address, so a value copied from another word is invalid here. Value and check are in one word,
//! so a death between two stores cannot make them disagree.
//!
//! A read of an invalid word ("nonsense") panics. The library treats the panic as the death of the session. The repair
//! of that session then reads the same word and declares the region broken.

use std::fmt;
use std::marker::PhantomData;

use crate::{Bits, Word};

/// A value with some bits that are always zero.
pub trait Checkable: Bits<Raw = u64> {
    /// The bits that are always zero.
    const FREE: u64;
}

/// A shared word that checks itself. Its calls are those of [`Word`], whose documentation states when each call is
/// right.
#[repr(transparent)]
pub struct Checked<T: Checkable>(pub(crate) Word<u64>, PhantomData<T>);

impl<T: Checkable> Checked<T> {
    /// As [`Word::get`].
    ///
    /// # Panics
    /// If the word holds nonsense. All calls that read a word panic in this case.
    #[inline]
    pub fn get(&self) -> T {
        self.check(self.0.get())
    }

    /// As [`Word::load`].
    ///
    /// # Panics
    /// If the word holds nonsense.
    #[inline]
    pub fn load(&self) -> T {
        self.check(self.0.load())
    }

    /// As [`Checked::load`], or `None` if the word holds nonsense.
    #[inline]
    pub fn try_load(&self) -> Option<T> {
        self.decode(self.0.load())
    }

    /// As [`Word::publish`].
    #[inline]
    pub fn publish(&self, value: T) {
        self.0.publish(self.encode(value));
    }

    /// As [`Word::init`].
    #[inline]
    pub fn init(&self, value: T) {
        self.0.init(self.encode(value));
    }

    /// As [`Word::compare_exchange`].
    ///
    /// # Errors
    /// The value found, if it is not `old`.
    ///
    /// # Panics
    /// If the word holds nonsense.
    #[inline]
    pub fn compare_exchange(&self, old: T, new: T) -> Result<T, T> {
        match self.0.compare_exchange(self.encode(old), self.encode(new)) {
            Ok(_) => Ok(old),
            Err(found) => Err(self.check(found)),
        }
    }

    /// As [`Checked::compare_exchange`], for destructors: never panics. Returns whether it swapped.
    #[inline]
    pub fn swap_if(&self, old: T, new: T) -> bool {
        self.0.compare_exchange(self.encode(old), self.encode(new)).is_ok()
    }

    #[inline]
    pub(crate) fn encode(&self, value: T) -> u64 {
        let raw = value.to_raw();
        debug_assert_eq!(raw & T::FREE, 0, "the bits of the check are no part of the value");
        raw & !T::FREE | self.mark(raw & !T::FREE)
    }

    #[inline]
    fn decode(&self, stored: u64) -> Option<T> {
        let raw = stored & !T::FREE;
        (stored & T::FREE == self.mark(raw)).then(|| T::from_raw(raw))
    }

    #[inline]
    fn check(&self, stored: u64) -> T {
        match self.decode(stored) {
            Some(value) => value,
            None => nonsense(stored),
        }
    }

    /// Returns the check on a value. Of the word's address, the check uses only the low bits, which are the same in
    /// every mapping.
    #[inline]
    fn mark(&self, raw: u64) -> u64 {
        let place = (std::ptr::from_ref(self).addr() as u64 & 0xFF8) + 1;
        let mixed = (raw ^ place.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 32) & T::FREE
    }
}

impl<T: Checkable + Ord> Checked<T> {
    /// Stores the larger of the value and the word, as [`Word::fetch_max`].
    ///
    /// # Panics
    /// If the word holds nonsense.
    #[inline]
    pub fn raise(&self, value: T) {
        let mut seen = self.load();
        while seen < value {
            match self.compare_exchange(seen, value) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }
}

#[cold]
#[inline(never)]
fn nonsense(stored: u64) -> ! {
    panic!("a word of the shared memory has the value {stored:#x}, which the library does not store there")
}

impl<T: Checkable + fmt::Debug> fmt::Debug for Checked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_load() {
            Some(value) => value.fmt(f),
            None => f.write_str("nonsense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Position(u64);
    crate::bits!(Position: u64);
    impl Checkable for Position {
        const FREE: u64 = 7 | 0x1FF << 55;
    }

    crate::shared! {
        struct Pair {
            one: Checked<Position>,
            two: Checked<Position>,
        } size 16
    }

    #[test]
    fn only_values_that_were_stored_are_read() {
        let region = Region::anonymous(1 << 20).unwrap();
        let pair = region.hold(region.allocate::<Pair>(1).unwrap());
        let mut nonsense = 0;
        for step in 0..200_u64 {
            let value = Position(step.wrapping_mul(0x0012_3456_789A_BCDE) & !Position::FREE);
            pair.one.init(value);
            assert_eq!((pair.one.load(), pair.one.try_load()), (value, Some(value)));
            pair.one.raise(Position(8));
            assert_eq!(pair.one.get(), value.max(Position(8)));
            pair.one.init(value);
            let stored = pair.one.0.get();
            for bit in 0..64 {
                pair.one.0.init(stored ^ 1 << bit);
                assert_eq!(pair.one.try_load(), None, "{value:?}, bit {bit}");
            }
            pair.two.0.init(stored);
            nonsense += u32::from(pair.two.try_load().is_none());
        }
        assert!(nonsense >= 199, "a copy of another word passes");
        for wild in [0, u64::MAX, 8, 1000] {
            pair.one.0.init(wild);
            assert_eq!(pair.one.try_load(), None, "{wild}");
        }
    }

    #[test]
    #[should_panic(expected = "which the library does not store there")]
    fn a_read_of_a_damaged_word_panics() {
        let region = Region::anonymous(1 << 20).unwrap();
        let pair = region.hold(region.allocate::<Pair>(1).unwrap());
        pair.one.get();
    }
}
