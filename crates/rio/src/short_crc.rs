//! The CRC-32C of a few whole words, by the processor's instruction for one word.
//!
//! For a few hundred bytes this costs less than a call of code that is optimised for kilobytes.
//!
//! The `unsafe` is a call of a function that needs an instruction of the processor. The call comes only after a check
//! that the processor has the instruction.

/// The greatest length that is summed word by word. For longer input, code that sums several parts at once is faster.
const BYTES_MAX: usize = 1024;

/// Continues a CRC-32C: `crc` is the checksum of earlier bytes (zero for none), and the result is the checksum of the
/// earlier bytes followed by `bytes`. Returns `None` if `bytes` is longer than a kilobyte or not made of whole words of
/// eight bytes, or if the processor has no instruction for it.
#[inline]
pub fn short_crc32c(crc: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= BYTES_MAX && bytes.len() % 8 == 0 && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2 (just checked).
        return Some(unsafe { of_words(crc, bytes) });
    }
    let _ = (crc, bytes, BYTES_MAX);
    None
}

/// Returns the CRC-32C of earlier bytes followed by `bytes`, which are whole words. `crc` is the checksum of the
/// earlier bytes.
///
/// # Safety
/// The processor has SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[allow(unused_unsafe)] // from Rust 1.87 on the instruction needs no `unsafe` here
unsafe fn of_words(crc: u32, bytes: &[u8]) -> u32 {
    let next = |crc: u64, word: &[u8]| {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        // SAFETY: the caller has made sure that the processor has SSE 4.2.
        unsafe { std::arch::x86_64::_mm_crc32_u64(crc, word) }
    };
    let (mut crc, mut bytes) = (u64::from(!crc), bytes);
    // Eight words at once: few jumps.
    while let Some((eight, rest)) = bytes.split_first_chunk::<64>() {
        crc = eight.chunks_exact(8).fold(crc, next);
        bytes = rest;
    }
    crc = bytes.chunks_exact(8).fold(crc, next);
    #[allow(clippy::cast_possible_truncation)] // the instruction leaves the high half zero
    let crc = crc as u32;
    !crc
}
