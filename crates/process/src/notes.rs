//! The notes a session leaves about its latches, for whoever repairs it after its death (PROTOCOLS D7).
//!
//! A note is one word: where the latch lies, whether it is wanted exclusively, and a state. For an exclusive latch the
//! latch word itself names the owner, so its note is a hint only and is `holding` from the start. For a shared one the
//! latch has a count, and the states say how sure the note is:
//!
//! ```text
//!   none --> wanting --> holding --> releasing --> none
//!              |  ^         ^            |
//!   (asleep)   v  |         +------------+  (frozen)
//!             none
//! ```
//!
//! Stores are relaxed. The swap on the latch word that follows publishes a `wanting` or `releasing` to a reaper that
//! froze the word after it; a reaper of a dead session has learned from the kernel that it is gone, which orders all.

use rio::bits;

/// How many latches a session may hold or want at once.
pub const NOTES: usize = 12;

/// One note. A latch's offset is a multiple of eight; the three bits below say the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note(u64);
bits!(Note: u64);

const WANTING: u64 = 1;
const HOLDING: u64 = 2;
const RELEASING: u64 = 3;
const STATE: u64 = 3;
const EXCLUSIVE: u64 = 4;

impl Note {
    /// Nothing noted.
    pub(crate) const NONE: Note = Note(0);

    /// May or may not be counted in the latch at `place`.
    #[inline]
    pub(crate) fn wanting(place: u64) -> Note {
        Note(place | WANTING)
    }

    /// Is counted in the latch at `place`.
    #[inline]
    pub(crate) fn holding(place: u64) -> Note {
        Note(place | HOLDING)
    }

    /// May or may not be counted any more.
    #[inline]
    pub(crate) fn releasing(place: u64) -> Note {
        Note(place | RELEASING)
    }

    /// Holds the latch at `place` exclusively, or wants to: the latch says.
    #[inline]
    pub(crate) fn exclusive(place: u64) -> Note {
        Note(place | EXCLUSIVE | HOLDING)
    }

    /// Whether it says that a latch is held.
    pub(crate) fn is_held(self) -> bool {
        self.0 & STATE == HOLDING
    }

    /// Where the latch lies, and whether it is held alone.
    pub(crate) fn held(self) -> (u64, bool) {
        (self.place(), self.is_exclusive())
    }

    /// Where the latch lies.
    pub(crate) fn place(self) -> u64 {
        self.0 & !(STATE | EXCLUSIVE)
    }

    /// Whether it is about a latch held or wanted alone.
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// Whether nobody but the session itself can say if it is counted.
    pub(crate) fn is_unsure(self) -> bool {
        matches!(self.0 & STATE, WANTING | RELEASING)
    }

    /// Whether it is about the latch at `place`.
    pub(crate) fn is_about(self, place: u64) -> bool {
        self != Note::NONE && self.0 & !(STATE | EXCLUSIVE) == place
    }
}
