//! A log whose ring outlives the system: a commit is safe when its record is in memory, without a system call.
//!
//! Paper: Rio Vista, section 3, under the log of LIBTP 4.2; PROTOCOLS L9. The process that makes the region notes in
//! the log's header which failures the memory survives, and every process obeys the note. If the memory survives
//! failures that the processor's cache does not survive, cache lines are written back. Only the lines of the log are
//! written back, since a rescue reads only the log of such a region ([`crate::rescue_survivor`]).
//!
//! Invariants, if lines are written back
//! 1. Every byte of the ring below `written_back` is in memory, and the tail in memory is at or beyond `written_back`.
//! 2. `durable` is at or below `written_back`. Its value reaches memory before a chunk below it is used again.
//! 3. The directory's entry of a chunk is in memory before `ring_end` covers the chunk, and so before any session logs
//!    in it.
//!
//! `ring_end` and `file_end` are not written back, because between any two write-backs a session could log beyond the
//! values in memory. If the machine was started again since the region was made, the directory gives the end instead
//! ([`Ring::end`](crate::ring::Ring::end)).
//!
//! The word `written_back` itself reaches memory when the next commit writes back its cache line. So after a crash the
//! word may be too small, never too large. If the last answered records are damaged, the rescue then treats them as
//! never answered. Undamaged records beyond `written_back` are saved. A second fence in each commit would make
//! `written_back` exact.
//!
//! If we die here: `written_back` is too small, and the next commit writes the same lines back again.

use rio::{planted, Lasting, Offset, Region, RootSlot, WriteBack};

use crate::tail::LogHeader;
use crate::{LogManager, Lsn};

/// Notes in a region which failures its memory survives. The region already has a log, and no other process is
/// attached.
///
/// # Panics
/// If the region has no log.
pub fn note_lasting(region: &Region, lasting: Lasting) {
    let offset = region.root::<LogHeader>(RootSlot::Log).expect("the log was seen before this note");
    region.at(offset).lasting.publish(lasting.to_word());
}

/// Returns the failures that a region's memory survives, by its note. A region without a log survives only the end of
/// processes.
pub fn lasting_of(region: &Region) -> Lasting {
    let header = region.root::<LogHeader>(RootSlot::Log).and_then(|offset| region.try_at(offset));
    header.map_or_else(Lasting::default, |header| Lasting::from_word(header.lasting.load()))
}

/// Returns whether the region's note of the failures that its memory survives is damaged. The region may still contain
/// valid records, but it is unknown whether its memory lost cache lines.
pub fn is_lasting_hit(region: &Region) -> bool {
    let header = region.root::<LogHeader>(RootSlot::Log).and_then(|offset| region.try_at(offset));
    header.is_some_and(|header| Lasting::try_from_word(header.lasting.load()).is_none())
}

impl LogManager {
    /// Returns the failures that the region's memory survives.
    #[inline]
    pub fn lasting(&self) -> Lasting {
        self.ring.lasting
    }

    /// Makes the record at `lsn` and all earlier records safe: they are then in memory that survives the failures that
    /// [`LogManager::lasting`] returns. Makes no system call.
    #[inline]
    pub fn keep(&self, lsn: Lsn) {
        if self.ring.lasting.write_back != WriteBack::None {
            self.write_back(lsn);
        }
    }

    #[inline(never)]
    fn write_back(&self, lsn: Lsn) {
        let (header, how) = (&*self.header, self.ring.lasting.write_back);
        let kept = header.written_back.load();
        if kept > lsn || planted("log: answered commits are not written back") {
            return;
        }
        // Acquire: the bytes of every session's records below the tail are visible here.
        let tail = header.tail.load();
        self.ring.write_back(kept.max(header.ring_start.load()), tail);
        self.ring.region().write_back_thing(how, &header.tail);
        self.ring.region().fence(how);
        header.written_back.raise(tail);
    }
}

/// Writes `durable` back to memory, before a chunk below it is used again.
pub(crate) fn keep_durable(region: &Region, header: &LogHeader, how: WriteBack) {
    if !planted("log: a chunk is reused before the durable end is written back") {
        region.write_back_thing(how, &header.durable);
        region.fence(how);
    }
}

/// Writes back a chunk's place and the region's size, before any session logs in the chunk.
pub(crate) fn keep_chunk(region: &Region, header: &LogHeader, entries: [usize; 2], how: WriteBack) {
    if how == WriteBack::None || planted("log: the ring's directory is not written back") {
        return;
    }
    for entry in entries {
        region.write_back_thing(how, &header.directory[entry]);
    }
    region.write_back_thing(how, &header.ring_start);
    let (at, bytes) = rio::SIZES;
    let sizes = Offset::from_raw(at).expect("the sizes are not the first word");
    region.write_back_lines(how, sizes, usize::try_from(bytes).expect("two words"));
    region.fence(how);
}
