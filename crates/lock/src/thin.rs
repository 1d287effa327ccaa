//! The words of thin locks.
//!
//! Departure from LIBTP 3.2.3 (docs/design/0021, which has the rules by number). A fixed table has a word for each
//! value of a mixed name's low bits. If only one locker wants a lock, the lock's word has the place of that
//! locker's request. The request is on its locker's stack and in no queue, and its state is *thin*.
//!
//! ```text
//!   63                32 31     20 19      4 3    1  0
//!  +--------------------+---------+---------+------+-----+
//!  | place of a request |  check  |   tag   | mode | FAT |      zero: free
//!  +--------------------+---------+---------+------+-----+
//! ```
//! Invariants
//! 1. A thin request is held exactly if the word of its name has the request's place. The word also has the mode.
//! 2. A name has a queue only while its word has FAT, except for databases, which are never thin.
//! 3. Without the latch of the bucket, only three swaps change a word: a locker makes a free word its own, and an owner
//!    frees its word or changes the mode in it. While a session holds the latch, no other session changes a word with
//!    FAT.
//! 4. No word is stored inside a section (PROTOCOLS D2).

use rio::{bits, planted, shared, Word};

use crate::mode::Mode;
use crate::request::Place;

/// The number of low bits of a mixed name that choose its word. No bucket has a higher level.
pub(crate) const WORD_BITS: u32 = 16;
/// The number of words.
pub(crate) const WORDS: u32 = 1 << WORD_BITS;

shared! {
    /// The words, by number.
    pub(crate) struct ThinWords {
        /// The words.
        pub(crate) words: [Word<Thin>; 65536],
    } size 524288
}

impl ThinWords {
    /// Returns the word of a mixed name.
    #[inline]
    pub(crate) fn of(&self, mixed: u64) -> &Word<Thin> {
        &self.words[word_number(mixed)]
    }
}

/// The value of a word. Twelve of its bits are a checksum of the other bits. A session compares the checksum before it
/// uses the place or the mode of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thin(u64);
bits!(Thin: u64);

#[cold]
#[inline(never)]
fn nonsense(raw: u64) -> ! {
    panic!("a word of the lock table has the value {raw:#x}, which the library does not store there")
}

impl Thin {
    /// The bits of a checksum of the other bits.
    const CHECK: u64 = 0xFFF << 20;
    const TAG: u64 = 0xFFFF << 4;
    const MODE: u64 = 7 << 1;

    /// No locker has the word, and no name of the word has a queue.
    pub(crate) const FREE: Thin = Thin(0);
    /// The names of the word may have queues.
    pub(crate) const FAT: Thin = Thin::sealed(1);

    #[inline]
    const fn sealed(bits: u64) -> Thin {
        Thin(bits | bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & Thin::CHECK)
    }

    /// Returns the bits without the checksum.
    ///
    /// # Panics
    /// If a wild store has damaged the word.
    #[inline]
    fn whole(self) -> u64 {
        let bits = self.0 & !Thin::CHECK;
        if self != Thin::sealed(bits) && !planted("lock: the check bits of requests are ignored") {
            nonsense(self.0);
        }
        bits
    }

    #[inline]
    fn tag(mixed: u64) -> u64 {
        mixed >> WORD_BITS << 4 & Thin::TAG
    }

    /// Returns the value of a word with a thin lock.
    #[inline]
    pub(crate) fn owned(place: Place, mixed: u64, mode: Mode) -> Thin {
        Thin::sealed(u64::from(place.0) << 32 | Thin::tag(mixed) | u64::from(mode.code()) << 1)
    }

    /// Returns whether the word has this place of a request, and does not have the bit FAT.
    #[inline]
    pub(crate) fn is_owned_by(self, place: Place) -> bool {
        self.0 >> 32 == u64::from(place.0) && !self.is_fat()
    }

    /// Returns the place of the owner's request.
    #[inline]
    pub(crate) fn place(self) -> Place {
        #[allow(clippy::cast_possible_truncation, reason = "the place is the high half")]
        Place((self.whole() >> 32) as u32)
    }

    /// Returns the mode of the owner.
    #[inline]
    pub(crate) fn mode(self) -> Option<Mode> {
        Mode::from_code(u32::try_from((self.whole() & Thin::MODE) >> 1).unwrap_or(0))
    }

    #[inline]
    pub(crate) fn is_fat(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline]
    pub(crate) fn with_fat(self) -> Thin {
        Thin::sealed(self.whole() | 1)
    }

    #[inline]
    pub(crate) fn with_mode(self, mode: Mode) -> Thin {
        Thin::sealed(self.whole() & !Thin::MODE | u64::from(mode.code()) << 1)
    }

    /// Returns whether a locker may have a lock on the name, in the word or in a queue. False is certain.
    #[inline]
    pub(crate) fn may_be_for(self, mixed: u64) -> bool {
        self.is_fat() || self != Thin::FREE && self.whole() & Thin::TAG == Thin::tag(mixed)
    }
}

/// Returns the number of a name's word.
#[inline]
pub(crate) fn word_number(mixed: u64) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
    let low = mixed as usize;
    low & (WORDS as usize - 1)
}
