//! The set of 64-byte lines that the log covers. A truncation writes these lines to the database.
//!
//! The set has lines and not pages, because a page may also have vista's own data, such as the undo log.

use std::ops::Range;

const LINE: u64 = 64;

/// A set of lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    words: Vec<u64>,
}

impl Lines {
    /// Adds the lines that hold `bytes` bytes from `place` on.
    pub(crate) fn add(&mut self, place: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (first, last) = (place / LINE, (place + bytes - 1) / LINE);
        let (from, to) = (index(first / 64), index(last / 64));
        if to >= self.words.len() {
            self.words.resize(to + 1, 0);
        }
        for word in from..=to {
            let low = if word == from { u64::MAX << (first % 64) } else { u64::MAX };
            let high = if word == to { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            self.words[word] |= low & high;
        }
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Removes all lines.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the ranges of adjacent lines, in order. A range stays within one word of the set (4 KiB). If a word is
    /// wholly inside `plain`, its range also covers the gaps between its lines: one call for a page takes less time
    /// than a call for each of its lines.
    pub(crate) fn pieces(&self, plain: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        (0_u64..).zip(&self.words).flat_map(move |(nth, &word)| {
            let page = nth * 64 * LINE..(nth + 1) * 64 * LINE;
            let is_plain = word != 0 && plain.start <= page.start && page.end <= plain.end;
            let mut left = if is_plain { filled(word) } else { word };
            std::iter::from_fn(move || {
                let from = u64::from(left.trailing_zeros());
                let count = u64::from((left.checked_shr(u32::try_from(from).ok()?)?).trailing_ones());
                // If a range ends with the word's highest bit, the shift would be by 64, which leaves no bits.
                left &= u64::MAX.checked_shl(u32::try_from(from + count).ok()?).unwrap_or(0);
                Some((nth * 64 + from) * LINE..(nth * 64 + from + count) * LINE)
            })
        })
    }
}

/// Returns all bits from the lowest set bit to the highest set bit.
fn filled(word: u64) -> u64 {
    u64::MAX << word.trailing_zeros() & u64::MAX >> word.leading_zeros()
}

fn index(word: u64) -> usize {
    usize::try_from(word).expect("bytes in memory have an index")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_exactly_the_added_lines() {
        let mut lines = Lines::default();
        assert!(lines.is_empty() && lines.pieces(0..0).next().is_none());
        let mut model = std::collections::BTreeSet::new();
        let mut state = 3_u64;
        for _ in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (place, bytes) = (state >> 33 & 0xffff, state >> 50 & 0x3ff);
            lines.add(place, bytes);
            model.extend((place..place + bytes).map(|byte| byte / LINE));
        }
        lines.add(4096, 4096);
        model.extend(64..128);
        let found: Vec<u64> = lines.pieces(0..0).flat_map(|piece| (piece.start / LINE)..(piece.end / LINE)).collect();
        assert_eq!(found, model.into_iter().collect::<Vec<_>>());
        lines.clear();
        assert!(lines.is_empty());
    }
    #[test]
    fn the_gaps_between_lines_of_a_plain_page_are_included() {
        let mut lines = Lines::default();
        for page in 0..3 {
            lines.add(page * 4096 + 64, 64);
            lines.add(page * 4096 + 640, 64);
        }
        // The first page is not plain, and neither is a part of the last page.
        let pieces: Vec<_> = lines.pieces(4096..3 * 4096 - 64).collect();
        let [first, second] = [64..128, 640..704];
        let last = [8192 + 64..8192 + 128, 8192 + 640..8192 + 704];
        assert_eq!(pieces, [&[first, second, 4096 + 64..4096 + 704], &last[..]].concat());
        lines.add(0, 3 * 4096);
        assert_eq!(lines.pieces(0..3 * 4096).collect::<Vec<_>>(), [0..4096, 4096..8192, 8192..12288]);
    }
}
