//! The chunk of the ring that a process appended to last, in its private memory.
//!
//! The words of the ring check themselves, and reading them costs more than a comparison in private memory. The chunk
//! stays in its place: the ring's end only grows, and a chunk moves only when it is wholly below `durable`. So no chunk
//! moves while the tail is in it (`ring.rs`, invariant 1). `ring_end` is stored outside of every section, after the
//! chunk has its place. So no rollback changes the place of a seen chunk. The words belong to one region and are
//! dropped with its handle (PROTOCOLS D13).
//!
//! Only the holder of the append latch, or a caller without concurrent sessions, reads and writes these words. So all
//! three values come from one call.

use std::sync::atomic::{AtomicU64, Ordering};

use rio::{Bytes, Offset};

use crate::Lsn;

/// The chunk that was used last. If all fields are zero, no chunk was seen: no chunk ends at LSN zero.
#[derive(Default)]
pub(crate) struct SeenChunk {
    /// The LSN of its first byte.
    begin: AtomicU64,
    /// The LSN after its last byte.
    end: AtomicU64,
    place: AtomicU64,
}

impl SeenChunk {
    /// Returns the place of the bytes from `lsn` to `end` if they are in the chunk. The ring then reaches to `end`.
    #[inline]
    pub(crate) fn place(&self, lsn: Lsn, end: Lsn) -> Option<Offset<Bytes>> {
        let begin = self.begin.load(Ordering::Relaxed);
        if end.raw() > self.end.load(Ordering::Relaxed) || lsn.raw() < begin {
            return None;
        }
        Offset::from_raw(self.place.load(Ordering::Relaxed) + (lsn.raw() - begin))
    }

    /// Notes that the chunk with the bytes from LSN `begin` to `end` is at `place`, and that the ring reaches to
    /// `end`.
    pub(crate) fn see(&self, begin: u64, end: u64, place: u64) {
        self.begin.store(begin, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_wholly_in_the_seen_chunk_have_a_place() {
        const CHUNK: u64 = 4096;
        let seen = SeenChunk::default();
        for begin in [0, CHUNK, u64::MAX - CHUNK + 1] {
            assert_eq!(seen.place(Lsn::new(begin), Lsn::new(begin + 8)), None, "nothing was seen");
        }
        seen.see(2 * CHUNK, 3 * CHUNK, 640);
        let place = |lsn: u64, bytes| seen.place(Lsn::new(lsn), Lsn::new(lsn + bytes)).map(|place| place.raw());
        assert_eq!(place(2 * CHUNK, CHUNK), Some(640));
        assert_eq!(place(3 * CHUNK - 8, 8), Some(640 + CHUNK - 8));
        for (lsn, bytes) in [(2 * CHUNK, CHUNK + 8), (3 * CHUNK - 8, 16), (3 * CHUNK, 8), (2 * CHUNK - 8, 8), (0, 8)] {
            assert_eq!(place(lsn, bytes), None, "{bytes} bytes at {lsn}");
        }
    }
}
