//! The log's tail: the part of the log that all processes share, in the region.
//!
//! ```text
//!      files only        ring and files          ring only         reserved, not yet written
//!  ...-------------|--------------------------|--------------|--------------------------------|
//!              ring_start                  durable          tail                   ring_end, file_end
//! ```
//!
//! Invariants ([`LogManager::check`](crate::LogManager::check))
//! 1. `ring_start <= durable <= tail <= ring_end`, `tail <= file_end` and `written_back <= tail`. All six only grow.
//! 2. The ring has a chunk for every position from `ring_start` to `ring_end`; the files have blocks up to `file_end`.
//! 3. Every byte below `tail` is part of a record that was published; every byte below `durable` is synced.
//! 4. `poison` is zero until a write or a sync fails; then it is never zero again.
//! 5. These words and the words of the two roles check themselves ([`rio::Checked`]). If a session reads such a word
//!    after a wild store has damaged it, the session panics and its repair gives the region up. So no bytes in memory
//!    or in a file are overwritten because of the damage.
//!
//! `tail`, `durable`, `ring_end` and `file_end` are read without a latch, so the store into each of these words is the
//! last store of its change and is never rolled back (PROTOCOLS D2). If an appender dies under the latch, the tail has
//! not moved: the record does not exist, and the next append overwrites its bytes in the ring (D1, D3).

use libtp_process::{Latch, SessionId};
use rio::{Bytes, Checkable, Checked, Offset, Word};

use crate::Lsn;

/// The number of chunks that the ring's directory can name.
pub(crate) const DIRECTORY_CHUNKS: usize = 1024;
/// The number of sessions that can wait for a flush and be woken. A session that finds no free slot sleeps until the
/// time limit of its sleep.
pub(crate) const WAITERS: usize = 256;

/// The place of a chunk of the ring; zero if there is no chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk(u64);
rio::bits!(Chunk: u64);

impl Checkable for Chunk {
    /// A chunk is aligned to 64 bytes, and no region has 2^48 bytes.
    const FREE: u64 = 0xFFFF << 48 | 63;
}

impl Chunk {
    pub(crate) const NONE: Chunk = Chunk(0);

    pub(crate) fn at(place: Offset<Bytes>) -> Chunk {
        Chunk(place.raw())
    }

    #[inline]
    pub(crate) fn place(self) -> Option<Offset<Bytes>> {
        Offset::from_raw(self.0)
    }
}

/// The value of [`LogHeader::poison`] after a failure. Any other value but zero is damage.
pub(crate) const POISONED: u64 = u64::from_le_bytes(*b"poisoned");

rio::shared! {
    /// A session that waits until the log is durable beyond an LSN.
    pub struct FlushWaiter {
        /// The session; zero if the slot is free. A session takes the slot by compare-and-swap.
        pub session: Word<SessionId>,
        /// The session waits until the log is durable beyond this.
        pub lsn: Word<Lsn>,
    } size 16
}

rio::shared! {
    /// The log manager's header in the region. Each group of eight words has its own cache line, so that appenders, the
    /// leader of a flush and readers do not share lines.
    pub struct LogHeader {
        /// Held for an append. Written by appenders.
        pub append: Latch,
        /// The end of the last published record.
        pub tail: Checked<Lsn>,
        /// If the library writes cache lines back: all bytes of the ring below this LSN are in memory.
        pub written_back: Checked<Lsn>,
        /// Zero. These words fill the cache line of the appenders.
        pub spare_append: [Word<u64>; 5],

        /// The ring has chunks up to this LSN. This word and the next seven are seldom written, but every reservation
        /// reads them.
        pub ring_end: Checked<Lsn>,
        /// Segment files are ready up to this LSN.
        pub file_end: Checked<Lsn>,
        /// [`POISONED`] once a write or a sync of the log failed.
        pub poison: Word<u64>,
        /// The highest session index that ever reserved.
        pub session_high: Word<u64>,
        /// The largest reservation ever made, in bytes.
        pub reserve_largest: Word<u64>,
        /// Bytes of file promised for undo.
        pub promised: Word<u64>,
        /// The log's incarnation.
        pub incarnation: Word<u64>,
        /// The failures that the region's memory survives: 0 for the end of processes, 1 for the end of the system, 2
        /// for the loss of power. 256 is added if cache lines are written back.
        pub lasting: Word<u64>,

        /// The log before this LSN is synced. Written by the leader of a flush.
        pub durable: Checked<Lsn>,
        /// The leader of a flush; zero if there is no leader.
        pub leader: Checked<SessionId>,
        /// Flushes that were completed.
        pub flush_count: Word<u64>,
        /// Calls of sync on segment files.
        pub sync_count: Word<u64>,
        /// Bytes written to segment files by flushes.
        pub bytes_written: Word<u64>,
        /// One more than the highest slot of `waiters` that was ever used.
        pub waiter_high: Word<u64>,
        /// The largest number of bytes of log that was needed at once recently. Each checkpoint lowers it a little.
        pub needed_lately: Word<u64>,
        /// The time of the last flush mark, in microseconds since 1970; zero if there is no mark (`clock.rs`).
        pub mark_time: Word<u64>,

        /// Held while chunks of the ring move.
        pub ring: Latch,
        /// The ring has chunks from this LSN on.
        pub ring_start: Checked<Lsn>,
        /// The session that prepares or recycles segments; zero if there is no such session.
        pub preparer: Checked<SessionId>,
        /// Records below this LSN are deleted.
        pub oldest: Checked<Lsn>,
        /// Bytes of a chunk, a power of two.
        pub chunk_bytes: Word<u64>,
        /// Bytes of the first segment file.
        pub segment_bytes_first: Word<u64>,
        /// Bytes of the largest segment file.
        pub segment_bytes_max: Word<u64>,
        /// Where this region's log began: the end that restart found.
        pub start: Checked<Lsn>,

        /// The place of each chunk. The index of the entry is the chunk's number modulo the directory's length.
        pub directory: [Checked<Chunk>; 1024],
        /// The sessions that wait for a flush.
        pub waiters: [FlushWaiter; 256],

        /// Inode of the directory of the segment files; zero: not known.
        pub files_inode: Word<u64>,
        /// When that directory was made, in nanoseconds since 1970.
        pub files_birth: Word<u64>,
        /// The number of bytes of the path of that directory, for error texts.
        pub files_path_bytes: Word<u64>,
        /// The smallest bound of relaxed commits of all processes that have attached, in microseconds. Zero if no
        /// process has attached. It never grows.
        pub relaxed_bound: Word<u64>,
        /// Zero.
        pub spare_files: [Word<u64>; 4],
        /// The path of the directory of the segment files, in the file system of the process that made the region.
        pub files_path: [Word<u64>; 512],
    } size 16704
}

const _: () = {
    assert!(std::mem::offset_of!(LogHeader, ring_end) == 64);
    assert!(std::mem::offset_of!(LogHeader, durable) == 128);
    assert!(std::mem::offset_of!(LogHeader, ring) == 192);
    assert!(std::mem::offset_of!(LogHeader, directory) == 256);
};

#[cfg(test)]
#[path = "tail/loom_tests.rs"]
mod loom_tests;
