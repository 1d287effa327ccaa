//! The 64-bit hash of a key, which names the key's lock. The function is part of the file format: it never changes
//! (PROTOCOLS K2).
//!
//! Two 64-bit words at a time are multiplied to 128 bits and folded, as in wyhash. The key's length is part of the
//! input, so that keys that differ only by zeros at the end have different hashes. The hash need not resist an
//! attacker, because two keys with the same hash do little harm. The transactions that lock them wait for each other. A
//! link to the record of one key may lead to the record of the other key after the first record was removed; the reader
//! can compare the keys (`link.rs`).

use crate::page::slotted::SplitKey;

const SEEDS: [u64; 4] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Multiplies two words, and mixes the low and high halves of the product.
#[inline]
#[allow(clippy::cast_possible_truncation)] // Both halves of the product are wanted.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were asked for"))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were asked for")))
}

/// Returns the hash of a key.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    let length = key.len();
    let mut state = SEEDS[0];
    let (a, b) = match length {
        0 => (0, 0),
        1..4 => (u64::from(key[0]) << 16 | u64::from(key[length / 2]) << 8 | u64::from(key[length - 1]), 0),
        4..=8 => (half(key, 0), half(key, length - 4)),
        9..=16 => (word(key, 0), word(key, length - 8)),
        _ => {
            let mut at = 0;
            while length - at > 16 {
                state = fold(word(key, at) ^ SEEDS[1], word(key, at + 8) ^ state);
                at += 16;
            }
            (word(key, length - 16), word(key, length - 8))
        }
    };
    fold(SEEDS[2] ^ length as u64, fold(a ^ SEEDS[1], b ^ state) ^ SEEDS[3])
}

/// Returns the hash of a key in two pieces.
pub(crate) fn hash_of(key: SplitKey<'_>) -> u64 {
    let mut whole = [0; 256];
    let Some(whole) = whole.get_mut(..key.bytes()) else { return key_hash(&key.to_vec()) };
    whole[..key.prefix.len()].copy_from_slice(key.prefix);
    whole[key.prefix.len()..].copy_from_slice(key.suffix);
    key_hash(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_hash_of_a_key_never_changes() {
        let keys: [&[u8]; 7] = [b"", b"a", b"abc", b"abcd", b"abcdefgh", b"abcdefghi", b"the quick brown fox jumps"];
        let golden: Vec<u64> = keys.iter().map(|key| key_hash(key)).collect();
        assert_eq!(golden, GOLDEN);
    }

    const GOLDEN: [u64; 7] = [
        4035800190290559095,
        16371867688815553367,
        18272272913624811601,
        13743748986803947935,
        9787838866932441221,
        7614178032275460838,
        83704099459935463,
    ];

    #[test]
    fn a_million_keys_have_a_million_hashes() {
        let mut seen = HashSet::new();
        for number in 0..300_000u64 {
            assert!(seen.insert(key_hash(&number.to_be_bytes())));
            assert!(seen.insert(key_hash(format!("account {number:012}").as_bytes())));
            assert!(seen.insert(key_hash(&number.to_le_bytes()[..6])));
        }
        for zeros in 1..64 {
            assert!(seen.insert(key_hash(&vec![0; zeros * 3 + 8])), "{zeros}");
        }
    }

    #[test]
    fn every_bit_of_a_key_reaches_the_low_bits() {
        for length in [1, 3, 4, 8, 9, 16, 17, 32, 33, 100] {
            let key = vec![7u8; length];
            let hash = key_hash(&key);
            for bit in 0..length * 8 {
                let mut other = key.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(key_hash(&other), hash);
            }
        }
    }
}
