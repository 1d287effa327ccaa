//! Page bytes: the plain data of a region, and the argument why references to it are sound.
//!
//! A `&[u8]` or `&mut [u8]` into a region exists only while a *hold* is borrowed: a latch guard. **The argument.** The
//! latch that guards an area of bytes is a word in the same region. Every process that maps the region was built with
//! the same layout hash (checked at attach), so it runs this same code. This code reaches bytes of an area only through
//! the calls below. Each call demands a borrow of a guard, and the owner of an area hands out only guards of the latch
//! that guards this area. A shared guard excludes every exclusive guard in all processes. An exclusive guard excludes
//! every other guard. The latch's acquire and release order the accesses. So while a `&mut [u8]` lives, no other thread
//! reads or writes the bytes, and while a `&[u8]` lives, no thread writes them. Only a wild store breaks the argument,
//! and against a wild store no reference in any program is safe.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use crate::checksum::mix;
use crate::{Bytes, Offset, Region, Shown, Word};

/// Proof that no thread changes an area's bytes while this value is borrowed.
///
/// Implemented by latch guards, by the leader of a log flush for the published, immutable part of the log's tail, by
/// the owner of a segment, and by a worker for the stripes of its ranges. A hold does not state which area it guards:
/// the area's owner hands out the hold only for that area.
///
/// # Safety
/// A value exists only while no thread of any process changes the bytes of the areas for which the value is given out.
/// Code that can make two values for one area can make conflicting references to the same bytes, so the trait is
/// `unsafe`:
/// ```compile_fail,E0200
/// struct Mine;
/// impl rio::SharedHold for Mine {}
/// ```
pub unsafe trait SharedHold {}

/// Proof that no other thread reads or changes an area's bytes while this value is borrowed. Implemented by exclusive
/// latch guards.
///
/// # Safety
/// A value exists only while no other thread of any process reads or changes those bytes.
pub unsafe trait ExclusiveHold: SharedHold {}

impl Region {
    /// Returns the bytes of an area, for as long as the hold is borrowed.
    ///
    /// # Panics
    /// If the area is out of bounds.
    #[inline]
    pub fn bytes<'g>(&'g self, at: Offset<Bytes>, bytes: usize, _hold: &'g impl SharedHold) -> &'g [u8] {
        let place = self.area(at, bytes);
        // SAFETY: in bounds of the file and the mapping (checked by `area`), which lives as long as `self`; the hold
        // excludes writers, by the argument at the top of this file.
        unsafe { std::slice::from_raw_parts(place, bytes) }
    }

    /// Returns the bytes of an area, to fill them with content that is not trusted yet (a page read from disk). A
    /// repair does not undo these stores.
    ///
    /// # Panics
    /// If the area is out of bounds.
    #[inline]
    pub fn bytes_mut<'g>(&'g self, at: Offset<Bytes>, bytes: usize, _hold: &'g mut impl ExclusiveHold) -> &'g mut [u8] {
        let place = self.area(at, bytes);
        // SAFETY: as in `bytes`; the exclusive hold, mutably borrowed, excludes readers and writers everywhere.
        unsafe { std::slice::from_raw_parts_mut(place, bytes) }
    }

    /// Asks the processor to bring `bytes` at `at` into its cache. A hint: reads nothing, and ignores an area outside
    /// the region.
    #[inline]
    pub fn prefetch(&self, at: Offset<Bytes>, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(place) = self.place(at.raw(), bytes, 1) {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            for line in (0..bytes).step_by(64) {
                let address = place.wrapping_add(line).cast_const().cast::<i8>();
                // SAFETY: a prefetch reads nothing and faults on no address; SSE is part of x86-64.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (at, bytes);
    }

    /// As [`Region::undo_words`], where the image is not made of whole words.
    pub(crate) fn undo_bytes(&self, at: u64, bytes: usize) -> &[AtomicU8] {
        let place = self.known_place(at, bytes, 1);
        // SAFETY: in bounds; atomics tolerate any other atomic access, and the thread that rolls back holds the latch
        // that guards the bytes.
        unsafe { std::slice::from_raw_parts(place.cast::<AtomicU8>(), bytes) }
    }

    #[inline]
    fn area(&self, at: Offset<Bytes>, bytes: usize) -> *mut u8 {
        self.known_place(at.raw(), bytes, 8)
    }
}

impl<'v> Shown<'v> {
    /// Asks the processor to bring the first cache line into its cache. A hint.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing and faults on no address; SSE is part of x86-64.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            _mm_prefetch::<_MM_HINT_T0>(self.place.cast_const().cast::<i8>());
        };
    }

    /// Returns the bytes, for as long as the hold is borrowed.
    #[inline(always)]
    pub fn bytes<'g>(self, _hold: &'g impl SharedHold) -> &'g [u8]
    where
        'v: 'g,
    {
        // SAFETY: in bounds of the file and the mapping, and readable, as the maker of `self` checked; the mapping
        // lives as long as its view; the hold excludes writers, by the argument at the top of this file.
        unsafe { std::slice::from_raw_parts(self.place, self.bytes) }
    }

    /// Returns the bytes for stores without a before-image. For new memory, or memory whose pages fault at the first
    /// store.
    #[inline(always)]
    pub fn unsaved<'g>(self, _hold: &'g mut impl ExclusiveHold) -> &'g mut [u8]
    where
        'v: 'g,
    {
        // SAFETY: as in `bytes`; the exclusive hold, mutably borrowed, excludes readers and writers everywhere.
        unsafe { std::slice::from_raw_parts_mut(self.place, self.bytes) }
    }

    /// Calls `save` with the place and the old content of the bytes. Then returns the bytes, which the caller may
    /// change, and the result of `save`.
    #[inline(always)]
    pub(crate) fn saved<'g, R>(
        self,
        hold: &'g mut impl ExclusiveHold,
        save: impl FnOnce(u64, &[u8]) -> R,
    ) -> (&'g mut [u8], R)
    where
        'v: 'g,
    {
        let place = self.at;
        let area = self.unsaved(hold);
        let saved = save(place, area);
        (area, saved)
    }
}

/// Stores an aligned word by one store: a death leaves the old bytes or the new ones.
#[inline(always)]
pub(crate) fn store_whole(place: &mut [u8], word: [u8; 8]) {
    let to = place.as_mut_ptr().cast::<u64>();
    assert!(place.len() == 8 && to.is_aligned(), "a word that is stored at once is aligned");
    // SAFETY: eight bytes, aligned (just asserted), that the caller borrows mutably for the time of this store; a plain
    // and an atomic access of one thread do not conflict.
    let whole = unsafe { AtomicU64::from_ptr(to) };
    // Relaxed: the latch's release publishes the word; a kill needs program order only (PROTOCOLS D15).
    whole.store(u64::from_ne_bytes(word), Ordering::Relaxed);
}

/// Copies a before-image into the caller's undo log.
#[inline(always)]
pub(crate) fn copy_image(words: &[Word<u64>], image: &[u8]) {
    if let ([word], Some((eight, []))) = (words, image.split_first_chunk::<8>()) {
        word.init(u64::from_ne_bytes(*eight));
        return;
    }
    assert!(image.len() <= size_of_val(words), "the words have room for the image");
    let (from, to) = (image.as_ptr(), words.as_ptr().cast_mut().cast::<u8>());
    // If the compiler knows the length, this copy is a few moves.
    if image.len() <= 64 {
        // SAFETY: as in `copy_long_image`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, image.len()) };
        return;
    }
    copy_long_image(words, image);
}

/// As [`copy_image`], with a zero in the last of the words, after the image.
#[inline(always)]
pub(crate) fn copy_image_and_zero(words: &[Word<u64>], image: &[u8]) {
    let [before @ .., last] = words else { return };
    #[cfg(target_arch = "x86_64")]
    if let ([_], Some((eight, []))) = (before, image.split_first_chunk::<8>()) {
        use std::arch::x86_64::{_mm_cvtsi64_si128, _mm_storeu_si128};
        // SAFETY: SSE2 is part of x86-64.
        let image_and_zero = unsafe { _mm_cvtsi64_si128(i64::from_ne_bytes(*eight)) };
        // SAFETY: the two words are atomics, so they may be stored to through a shared reference; one thread writes an
        // undo log, as in `copy_long_image`. Recovery reads neither of them before the record is published.
        unsafe { _mm_storeu_si128(words.as_ptr().cast_mut().cast(), image_and_zero) };
        return;
    }
    copy_image(before, image);
    last.init(0);
}

/// Adds to the sum the bytes that an undo log names. The log belongs to the caller's transaction or to a dead session.
#[inline]
pub(crate) fn sum_bytes(mut sum: u64, stored: &[AtomicU8]) -> u64 {
    for part in stored.chunks(8) {
        let mut word = [0; 8];
        // SAFETY: in bounds of both areas, which do not overlap. No thread stores there meanwhile, because the caller
        // holds the latch that guards the bytes.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr().cast::<u8>(), word.as_mut_ptr(), part.len()) };
        sum = mix(sum, u64::from_ne_bytes(word));
    }
    sum
}

#[inline(never)]
fn copy_long_image(words: &[Word<u64>], image: &[u8]) {
    assert!(image.len() <= size_of_val(words), "the words have room for the image");
    let (from, to) = (image.as_ptr(), words.as_ptr().cast_mut().cast::<u8>());
    let done = copy_lines(from, to, image.len());
    // SAFETY: in bounds (just checked) of words that are atomics, so they may be stored to through a shared reference.
    // Only one thread writes an undo log, and other threads read the log only when that thread is dead. An image is
    // never part of the log in which it is saved, so the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.wrapping_add(done), to.wrapping_add(done), image.len() - done) };
}

/// Copies whole lines of 64 bytes and returns the number of bytes copied. For 2 KiB and more, the system's `memcpy` is
/// a single instruction, which is slow if the source is not in the cache. An image's source is not in the cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn copy_lines(from: *const u8, to: *mut u8, bytes: usize) -> usize {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    let lines = bytes / 64 * 64;
    // Wider registers take fewer moves, so more lines are in flight at once.
    if lines >= 256 && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; bounds and reasons are those of the caller (`copy_long_image`).
        unsafe { copy_lines_by_halves(from, to, lines) };
        return lines;
    }
    for at in (0..lines).step_by(64) {
        let (from, to) = (from.wrapping_add(at).cast::<__m128i>(), to.wrapping_add(at).cast::<__m128i>());
        let load = |nth: usize| {
            // SAFETY: bounds and reasons are those of the caller (`copy_long_image`); SSE2 is part of x86-64.
            unsafe { _mm_loadu_si128(from.wrapping_add(nth)) }
        };
        for (nth, quarter) in [load(0), load(1), load(2), load(3)].into_iter().enumerate() {
            let to = to.wrapping_add(nth);
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(to, quarter) };
        }
    }
    lines
}

/// Copies whole lines of 64 bytes.
///
/// # Safety
/// The processor has AVX; both areas may be accessed for `bytes` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_lines_by_halves(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    for at in (0..bytes).step_by(64) {
        let (from, to) = (from.wrapping_add(at).cast::<__m256i>(), to.wrapping_add(at).cast::<__m256i>());
        // SAFETY: the caller keeps the conditions of this function.
        let first = unsafe { _mm256_loadu_si256(from) };
        // SAFETY: as above.
        let second = unsafe { _mm256_loadu_si256(from.wrapping_add(1)) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to, first) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to.wrapping_add(1), second) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_lines(_: *const u8, _: *mut u8, _: usize) -> usize {
    0
}
