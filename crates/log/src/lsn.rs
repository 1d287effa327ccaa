//! The LSN: a record's place in the endless log, which also identifies the record and orders it in time.
//!
//! Paper: LIBTP section 3.2.1. An LSN is the byte position of a record's first byte in the stream of records. The
//! headers of segment files are not counted, so the stream has no holes, and arithmetic gives the file and the offset
//! of a byte ([`Geometry`](crate::Geometry)).
//!
//! Invariants
//! 1. Every record begins at a multiple of eight, so every LSN is a multiple of eight.
//! 2. Zero is not an LSN: the first record of an environment is at [`Lsn::FIRST`].

use std::fmt;

/// The byte position of a record in the endless log. Zero means no LSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Lsn(u64);

rio::bits!(Lsn: u64);

impl rio::Checkable for Lsn {
    /// An LSN is a multiple of eight, and below 2^55: a log written at 1 GB/s has that many bytes after a year.
    const FREE: u64 = 0x1FF << 55 | 7;
}

impl Lsn {
    /// No LSN: before every record.
    pub const NONE: Lsn = Lsn(0);
    /// The first record of an environment.
    pub const FIRST: Lsn = Lsn(8);

    /// Makes an LSN from a byte position.
    #[inline]
    pub const fn new(position: u64) -> Lsn {
        Lsn(position)
    }

    /// Returns the byte position.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns whether this is no LSN.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the position `bytes` further on.
    ///
    /// # Panics
    /// If the sum passes 2^64, which a log written at 1 GB/s reaches after 580 years.
    #[inline]
    pub fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0.checked_add(bytes).expect("a log stays far below 2^64 bytes"))
    }

    /// Returns the position `bytes` earlier, at least zero.
    #[inline]
    pub const fn minus(self, bytes: u64) -> Lsn {
        Lsn(self.0.saturating_sub(bytes))
    }

    /// Returns the bytes from `earlier` to here; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
