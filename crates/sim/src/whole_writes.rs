//! The promise of a simulated disk to write some pieces whole or not at all.

use std::ops::RangeInclusive;

/// The promise of a disk to write pieces whole.
#[derive(Debug, Clone)]
pub struct WholeWrites {
    /// The lengths of the pieces.
    pub bytes: RangeInclusive<u32>,
    /// The pieces that the disk accepts.
    pub accepted: Accepted,
}

/// The pieces that a disk accepts, of those that it has promised to write whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// All pieces.
    All,
    /// This number of pieces; the disk refuses all later pieces.
    First(u64),
    /// The pieces of processes with odd numbers.
    OfOddProcesses,
    /// This number of pieces; the disk breaks its promise with every later piece: it writes one half and fails.
    TornAfter(u64),
}

impl WholeWrites {
    pub(crate) fn covers(&self, length: usize) -> bool {
        u32::try_from(length).is_ok_and(|length| self.bytes.contains(&length))
    }

    pub(crate) fn accepts(&self, process: u32, before: u64) -> bool {
        match self.accepted {
            Accepted::All | Accepted::TornAfter(_) => true,
            Accepted::First(count) => before < count,
            Accepted::OfOddProcesses => process % 2 == 1,
        }
    }

    /// Returns whether the disk breaks its promise after `before` pieces.
    pub(crate) fn tears(&self, before: u64) -> bool {
        matches!(self.accepted, Accepted::TornAfter(count) if before >= count)
    }
}
