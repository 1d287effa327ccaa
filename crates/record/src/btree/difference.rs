//! The difference between two values: one range of bytes in the middle. Only these bytes are logged.

use std::ops::Range;

use crate::page::slotted::common_prefix;

/// A change: `put` bytes of the new value replace `cut` bytes of the old one at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The offset at which the values begin to differ.
    pub offset: usize,
    /// The number of bytes of the old value from `offset` on that the new value does not have.
    pub cut: usize,
    /// The number of bytes of the new value from `offset` on that the old value did not have.
    pub put: usize,
}

impl Difference {
    /// Returns the smallest range outside which both values are equal.
    #[inline]
    pub fn between(old: &[u8], new: &[u8]) -> Difference {
        let shorter = old.len().min(new.len());
        let offset = common_prefix(old, new);
        if let Some(middle) = within_a_word(old, new, offset) {
            return middle;
        }
        let rest = shorter - offset;
        let back = equal_back(&old[old.len() - rest..], &new[new.len() - rest..]);
        Difference { offset, cut: old.len() - offset - back, put: new.len() - offset - back }
    }
}

/// Returns a range outside which two strings of the same length are equal. It is the smallest such range, with one
/// exception: if the strings have eight bytes and differ, the range has at least four bytes, because four bytes are
/// copied without a call.
#[inline(always)]
pub(crate) fn unequal_range(old: &[u8], new: &[u8]) -> Range<usize> {
    if let (Ok(x), Ok(y)) = (<[u8; 8]>::try_from(old), <[u8; 8]>::try_from(new)) {
        let unequal = u64::from_le_bytes(x) ^ u64::from_le_bytes(y);
        if unequal == 0 {
            return 0..0;
        }
        let (start, end) = ((unequal.trailing_zeros() / 8) as usize, 8 - (unequal.leading_zeros() / 8) as usize);
        let start = if end - start < 4 { start.min(4) } else { start };
        return start..end.max(start + 4);
    }
    let Difference { offset, put, .. } = Difference::between(old, new);
    offset..offset + put
}

/// Returns the difference of two values if they have the same length and differ only in the eight bytes from `offset`
/// on. The values are equal up to `offset`. The change of a number is usually such a difference.
#[inline]
fn within_a_word(old: &[u8], new: &[u8], offset: usize) -> Option<Difference> {
    let (x, x_rest) = old.get(offset..)?.split_first_chunk()?;
    let (y, y_rest) = new.get(offset..)?.split_first_chunk()?;
    let unequal = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
    if unequal == 0 || x_rest != y_rest {
        return None;
    }
    let bytes = 8 - (unequal.leading_zeros() / 8) as usize;
    Some(Difference { offset, cut: bytes, put: bytes })
}

/// Returns how many bytes at the ends of two slices of the same length are equal.
#[inline]
fn equal_back(a: &[u8], b: &[u8]) -> usize {
    let (mut x, mut y) = (a, b);
    // First compare four words at a time: usually most of a value is unchanged.
    while let (Some((x_rest, x_last)), Some((y_rest, y_last))) = (x.split_last_chunk(), y.split_last_chunk()) {
        if x_last as &[u8; 32] != y_last {
            break;
        }
        (x, y) = (x_rest, y_rest);
    }
    while let (Some((x_rest, x_last)), Some((y_rest, y_last))) = (x.split_last_chunk(), y.split_last_chunk()) {
        let unequal = u64::from_le_bytes(*x_last) ^ u64::from_le_bytes(*y_last);
        if unequal != 0 {
            return a.len() - x.len() + (unequal.leading_zeros() / 8) as usize;
        }
        (x, y) = (x_rest, y_rest);
    }
    a.len() - x.len() + x.iter().rev().zip(y.iter().rev()).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(old: &[u8], new: &[u8], difference: Difference) -> Vec<u8> {
        let Difference { offset, cut, put } = difference;
        [&old[..offset], &new[offset..offset + put], &old[offset + cut..]].concat()
    }

    #[test]
    fn the_middle_alone_differs() {
        let difference = Difference::between(b"0123456789abcdefXY456789", b"0123456789abcdefZ456789");
        assert_eq!(difference, Difference { offset: 16, cut: 2, put: 1 });
    }

    #[test]
    fn equal_values_have_no_difference_and_repeated_bytes_are_not_counted_twice() {
        assert_eq!(Difference::between(b"aaaa", b"aaaa"), Difference { offset: 4, cut: 0, put: 0 });
        assert_eq!(Difference::between(b"aaaa", b"aaaaaa"), Difference { offset: 4, cut: 0, put: 2 });
        assert_eq!(Difference::between(b"", b"x"), Difference { offset: 0, cut: 0, put: 1 });
    }

    #[test]
    fn the_difference_begins_and_ends_with_unequal_bytes() {
        let old = [7; 40];
        for (at, bytes) in (0..40).flat_map(|at| (1..=9).map(move |bytes| (at, bytes))).filter(|(at, n)| at + n <= 40) {
            let mut new = old;
            new[at] = 8;
            new[at + bytes - 1] = 9;
            assert_eq!(Difference::between(&old, &new), Difference { offset: at, cut: bytes, put: bytes });
        }
    }

    #[test]
    fn strings_of_one_length_differ_in_a_small_range() {
        for length in [1, 7, 8, 9, 16, 40] {
            let old = vec![7; length];
            assert!(unequal_range(&old, &old).is_empty());
            for (first, last) in (0..length).flat_map(|first| (first..length).map(move |last| (first, last))) {
                let mut new = old.clone();
                (new[first], new[last]) = (8, 9);
                let range = unequal_range(&old, &new);
                assert!(range.start <= first && last < range.end && range.end <= length, "{range:?}");
                let at_least = if length == 8 { 4 } else { 1 };
                assert_eq!(range.len(), (last + 1 - first).max(at_least));
            }
        }
    }

    #[test]
    fn applying_the_difference_gives_the_new_value() {
        let values: Vec<Vec<u8>> = (0..2000u32)
            .map(|seed| {
                (0..seed % 40).map(|at| u8::from((seed.wrapping_mul(2654435761) >> (at % 31)) & 1 == 1)).collect()
            })
            .collect();
        for pair in values.windows(2) {
            let difference = Difference::between(&pair[0], &pair[1]);
            assert_eq!(apply(&pair[0], &pair[1], difference), pair[1]);
        }
    }
}
