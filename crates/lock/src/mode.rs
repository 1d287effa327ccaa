//! Lock modes: which modes may be held together, and which mode covers which.
//!
//! Paper: LIBTP 3.2.3 has "single writer, multiple readers" and names hierarchical locking [GRAY76] as the obvious
//! addition. These are Gray's five modes and the update mode of System R and its heirs.
//!
//! ```text
//!           IS   IX   S    SIX  U    X        (symmetric)
//!      IS   yes  yes  yes  yes  yes  -
//!      IX   yes  yes  -    -    -    -
//!      S    yes  -    yes  -    yes  -
//!      SIX  yes  -    -    -    -    -
//!      U    yes  -    yes  -    -    -
//!      X    -    -    -    -    -    -
//! ```
//! `U` reads now and may write later. It is compatible with `S`, but granted to only one locker at a time, so two
//! transactions that read and then write wait in the queue instead of deadlocking. The table is symmetric (as in DB2
//! and SQL Server): `S` is also granted while another locker holds `U`. New readers do not starve a writer that turns
//! its `U` into `X`, because a waiting conversion is granted before them.
//!
//! Mode A *covers* mode B if every mode that conflicts with B also conflicts with A. A locker that asks for a second
//! mode then holds the weakest mode that covers both: `S` and `IX` make `SIX`, and so do `U` and `IX`.

use std::fmt;

/// A lock mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Intends to read parts of the object, each under its own lock.
    IS,
    /// Intends to change parts of the object, each under its own lock.
    IX,
    /// Reads the whole object.
    S,
    /// Reads the whole object and intends to change parts of it.
    SIX,
    /// Reads the whole object and may ask for `X` later.
    U,
    /// Changes the whole object.
    X,
}

/// The modes in an order in which every mode is before the modes that cover it.
const WEAKEST_FIRST: [Mode; 6] = [Mode::IS, Mode::IX, Mode::S, Mode::U, Mode::SIX, Mode::X];

/// For each mode, by its code: the bits of the conflicting modes.
const CONFLICTS: [u32; 7] = [
    0,
    bit(Mode::X),
    bit(Mode::S) | bit(Mode::SIX) | bit(Mode::U) | bit(Mode::X),
    bit(Mode::IX) | bit(Mode::SIX) | bit(Mode::X),
    bit(Mode::IX) | bit(Mode::S) | bit(Mode::SIX) | bit(Mode::U) | bit(Mode::X),
    bit(Mode::IX) | bit(Mode::SIX) | bit(Mode::U) | bit(Mode::X),
    bit(Mode::IS) | bit(Mode::IX) | bit(Mode::S) | bit(Mode::SIX) | bit(Mode::U) | bit(Mode::X),
];

const fn bit(mode: Mode) -> u32 {
    1 << (mode as u32 + 1)
}

impl Mode {
    /// All modes; a mode's code is its place here, counted from one. Zero is no mode.
    pub(crate) const ALL: [Mode; 6] = [Mode::IS, Mode::IX, Mode::S, Mode::SIX, Mode::U, Mode::X];

    /// Returns the mode's code, the number that is stored for it. The first code is one.
    #[inline]
    pub(crate) fn code(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the mode of a stored number; `None` for zero and for a number that is no mode.
    #[inline]
    pub(crate) fn from_code(code: u32) -> Option<Mode> {
        let place = usize::try_from(code).ok()?.checked_sub(1)?;
        Mode::ALL.get(place).copied()
    }

    /// Returns the mode's bit in a set of modes.
    #[inline]
    pub(crate) fn bit(self) -> u32 {
        bit(self)
    }

    /// Returns the set of modes that conflict with this mode.
    #[inline]
    pub(crate) fn conflicts(self) -> u32 {
        CONFLICTS[self as usize + 1]
    }

    /// Returns whether two lockers may hold the two modes at once.
    #[inline]
    pub fn is_compatible_with(self, other: Mode) -> bool {
        self.conflicts() & other.bit() == 0
    }

    /// Returns whether a locker that holds this mode needs no lock in mode `other`.
    #[inline]
    pub fn covers(self, other: Mode) -> bool {
        self.conflicts() & other.conflicts() == other.conflicts()
    }

    /// Returns the weakest mode that covers both.
    #[inline]
    pub fn join(self, other: Mode) -> Mode {
        let needed = self.conflicts() | other.conflicts();
        // X covers everything.
        WEAKEST_FIRST.into_iter().find(|mode| mode.conflicts() & needed == needed).unwrap_or(Mode::X)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;
    use Mode::{IS, IX, S, SIX, U, X};

    /// Written by hand, not derived. Rows and columns are in the order of `Mode::ALL`.
    const COMPATIBLE: [&str; 6] = ["+++++-", "++----", "+-+-+-", "+-----", "+-+---", "------"];

    #[test]
    fn modes_are_compatible_exactly_as_in_the_table() {
        for (row, held) in Mode::ALL.into_iter().enumerate() {
            for (column, wanted) in Mode::ALL.into_iter().enumerate() {
                let expected = COMPATIBLE[row].as_bytes()[column] == b'+';
                assert_eq!(held.is_compatible_with(wanted), expected, "{held} beside {wanted}");
                assert_eq!(wanted.is_compatible_with(held), expected, "{wanted} beside {held}");
            }
        }
    }

    #[test]
    fn the_join_of_two_modes_is_as_in_the_table() {
        // The rows are the held modes, and the columns are the modes asked for, both in the order IS, IX, S, SIX, U, X.
        let table = [
            [IS, IX, S, SIX, U, X],
            [IX, IX, SIX, SIX, SIX, X],
            [S, SIX, S, SIX, U, X],
            [SIX, SIX, SIX, SIX, SIX, X],
            [U, SIX, U, SIX, U, X],
            [X, X, X, X, X, X],
        ];
        for (row, held) in Mode::ALL.into_iter().enumerate() {
            for (column, asked) in Mode::ALL.into_iter().enumerate() {
                assert_eq!(held.join(asked), table[row][column], "{held} and {asked}");
            }
        }
    }

    #[test]
    fn a_mode_covers_another_exactly_if_their_join_is_the_mode() {
        for held in Mode::ALL {
            for asked in Mode::ALL {
                assert_eq!(held.covers(asked), held.join(asked) == held, "{held} covers {asked}");
            }
        }
    }

    #[test]
    fn a_stored_number_that_is_no_mode_reads_as_none() {
        assert_eq!(Mode::from_code(0), None);
        assert_eq!(Mode::from_code(7), None);
        for mode in Mode::ALL {
            assert_eq!(Mode::from_code(mode.code()), Some(mode));
        }
    }
}
