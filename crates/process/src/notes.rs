//! The notes of a session about its latches, for its repairer after its death (PROTOCOLS D7).
//!
//! A note is one word: the latch's place, whether it is wanted exclusively, and a state. For an exclusive latch, the
//! latch word names the owner, so the note is only a hint and has the state `holding` from the start. For a shared
//! latch, the latch word has only a count, and the state shows whether the count includes the session:
//!
//! ```text
//!   none --> wanting --> holding --> releasing --> none
//!              |  ^         ^            |
//!   (asleep)   v  |         +------------+  (frozen)
//!             none
//! ```
//!
//! Stores are relaxed. The following swap on the latch word publishes a `wanting` or `releasing` to a reaper that
//! freezes the word after that swap. A reaper of a dead session has learned of the death from the kernel, which
//! orders all stores.

use rio::bits;

/// The number of latches that a session may hold or want at once.
pub const NOTES: usize = 12;

/// The number of a note in its slot. An enum, so that an access by number needs no check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NoteNumber {
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    N9,
    N10,
    N11,
}

impl NoteNumber {
    /// Returns the note of that number, if a slot has a note of that number.
    #[inline]
    pub(crate) fn new(number: u32) -> Option<NoteNumber> {
        use NoteNumber::{N0, N1, N10, N11, N2, N3, N4, N5, N6, N7, N8, N9};
        Some(match number {
            0 => N0,
            1 => N1,
            2 => N2,
            3 => N3,
            4 => N4,
            5 => N5,
            6 => N6,
            7 => N7,
            8 => N8,
            9 => N9,
            10 => N10,
            11 => N11,
            _ => return None,
        })
    }

    /// Returns the note's bit in a set of notes.
    #[inline]
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// All notes of a slot, as a set.
pub(crate) const ALL_NOTES: u32 = (1 << NOTES) - 1;

/// One note. A latch's offset is a multiple of eight; the three low bits are the mode and the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note(u64);
bits!(Note: u64);

const WANTING: u64 = 1;
const HOLDING: u64 = 2;
const RELEASING: u64 = 3;
const STATE: u64 = 3;
const EXCLUSIVE: u64 = 4;

impl Note {
    /// The empty note.
    pub(crate) const NONE: Note = Note(0);

    /// Makes a note: the session may or may not be counted in the latch at `place`.
    #[inline]
    pub(crate) fn wanting(place: u64) -> Note {
        Note(place + WANTING)
    }

    /// Makes a note: the session is counted in the latch at `place`.
    #[inline]
    pub(crate) fn holding(place: u64) -> Note {
        Note(place + HOLDING)
    }

    /// Makes a note: the session may or may not still be counted in the latch at `place`.
    #[inline]
    pub(crate) fn releasing(place: u64) -> Note {
        Note(place + RELEASING)
    }

    /// Makes a note: the session holds the latch at `place` exclusively, or wants it exclusively. The latch word shows
    /// whether it is held.
    #[inline]
    pub(crate) fn exclusive(place: u64) -> Note {
        Note(place + (EXCLUSIVE | HOLDING))
    }

    /// Returns whether the note states that a latch is held.
    pub(crate) fn is_held(self) -> bool {
        self.0 & STATE == HOLDING
    }

    /// Returns the latch's place, and whether it is held exclusively.
    pub(crate) fn held(self) -> (u64, bool) {
        (self.place(), self.is_exclusive())
    }

    /// Returns the latch's place.
    pub(crate) fn place(self) -> u64 {
        self.0 & !(STATE | EXCLUSIVE)
    }

    /// Returns whether the note is about a latch held or wanted exclusively.
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// Returns whether the note is unsure: the latch's count may or may not include the session.
    pub(crate) fn is_unsure(self) -> bool {
        matches!(self.0 & STATE, WANTING | RELEASING)
    }

    /// Returns whether the note is about the latch at `place`.
    pub(crate) fn is_about(self, place: u64) -> bool {
        self != Note::NONE && self.0 & !(STATE | EXCLUSIVE) == place
    }
}
