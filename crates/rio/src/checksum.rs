//! The checksum of undo log records and of sealed tables.
//!
//! Each word costs one multiplication, and both halves of the product enter the sum. If one word differs, a later word
//! hides the difference only by chance, one time in 2^64.

/// Returns the sum with one more word.
#[inline]
pub(crate) fn mix(sum: u64, word: u64) -> u64 {
    let wide = u128::from(sum ^ word) * 0x9e37_79b9_7f4a_7c15;
    let half = |shift: u32| u64::try_from(wide >> shift & u128::from(u64::MAX)).unwrap_or_default();
    half(0) ^ half(64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn no_two_inverted_bits_leave_the_sum_unchanged() {
        for words in [[0, 0], [u64::MAX, 1], [0x1234_5678_9abc_def0, 7]] {
            let of = |words: [u64; 2]| words.into_iter().fold(1, mix);
            for first in 0..64 {
                for second in 0..64 {
                    let turned = [words[0] ^ 1 << first, words[1] ^ 1 << second];
                    assert_ne!(of(words), of(turned), "bits {first} and {second} of {words:x?}");
                }
            }
        }
    }
}
