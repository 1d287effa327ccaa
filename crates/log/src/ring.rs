//! The ring: the log's newest bytes, in chunks of shared memory.
//!
//! Chunk `n` has the bytes from `n * chunk_bytes` on; the directory's entry `n % 1024` has its place. A new environment
//! has two chunks. When appenders come near the ring's end, a wholly durable chunk is moved from the ring's beginning
//! to its end, or a new chunk is allocated, up to `ring_bytes_max`; beyond that, the log is flushed first.
//!
//! Invariants
//! 1. Bytes from `durable` on stay in their place: only chunks wholly below `durable` move (PROTOCOLS L3).
//! 2. Readers take no latch: copied bytes are checked by LSN and checksum, and read from the files if they are wrong.
//!
//! Latch: `ring` (rank 82), then nothing.
//! If we die here: the move of a chunk is a section. If the section is closed and `ring_end` is not yet published, the
//! next session that makes room finds the chunk in its new place. A chunk that is allocated and not yet in the
//! directory is lost until the region is rebuilt (256 KiB by default).

use libtp_process::{Rank, Session};
use rio::{failpoint, planted, Bytes, Checked, Held, Lasting, Offset, Region, SharedHold, WriteBack};

use crate::lasting::{keep_chunk, keep_durable};
use crate::seen::SeenChunk;
use crate::tail::{Chunk, LogHeader, DIRECTORY_CHUNKS};
use crate::{Error, Lsn, Result, Settings};

/// One process's handle to the ring.
pub(crate) struct Ring {
    region: Region,
    header: Held<LogHeader>,
    shift: u32,
    seen: SeenChunk,
    /// Which failures the region's memory survives.
    pub(crate) lasting: Lasting,
}

/// The bounds of the ring's length.
#[derive(Clone, Copy)]
pub(crate) struct RingBounds {
    /// The length from which on the log is flushed before the ring grows.
    pub(crate) bytes_max: u64,
    /// The number of durable bytes that are kept for readers.
    pub(crate) bytes_kept: u64,
}

impl RingBounds {
    pub(crate) fn new(settings: &Settings) -> RingBounds {
        RingBounds { bytes_max: settings.ring_bytes_max, bytes_kept: settings.ring_bytes_kept }
    }
}

#[cold]
fn too_much_at_once() -> Error {
    let source_text =
        "the change needs more of the log at once than shared memory can hold; make it in several transactions"
            .to_string();
    Error::Full { what: "the log's part in shared memory", source_text }
}

impl Ring {
    pub(crate) fn new(region: &Region, header: Held<LogHeader>) -> Ring {
        let shift = header.chunk_bytes.get().trailing_zeros();
        let lasting = Lasting::from_word(header.lasting.load());
        Ring { region: region.clone(), header, shift, seen: SeenChunk::default(), lasting }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the place of the byte at `lsn`, and the number of bytes from there to its chunk's end.
    #[inline]
    fn place(&self, lsn: Lsn) -> Option<(Offset<Bytes>, usize)> {
        let number = lsn.raw() >> self.shift;
        let into = lsn.raw() & (self.chunk_bytes() - 1);
        let slot = usize::try_from(number % DIRECTORY_CHUNKS as u64).expect("a remainder of 1024 is small");
        // Acquire: pairs with the publish of the chunk in the directory.
        let chunk = self.header.directory[slot].load().place()?;
        let left = usize::try_from(self.chunk_bytes() - into).expect("a chunk is far smaller than memory");
        Some((chunk.plus(into), left))
    }

    /// Copies a record's bytes, which are whole words, to their position from `lsn` to `end`. Returns false if the ring
    /// does not reach `end`. The caller holds the append latch, or no other process is attached.
    #[inline]
    pub(crate) fn copy_in(&self, lsn: Lsn, end: Lsn, bytes: &[u8]) -> bool {
        match self.seen.place(lsn, end) {
            Some(place) => {
                self.region.copy_in(place, bytes);
                true
            }
            None => self.copy_in_anywhere(lsn, end, bytes),
        }
    }

    #[inline(never)]
    fn copy_in_anywhere(&self, lsn: Lsn, end: Lsn, bytes: &[u8]) -> bool {
        // Acquire: the chunks up to the ring's end were made before the end was published.
        if end > self.header.ring_end.load() {
            return false;
        }
        let mut lsn = lsn;
        let mut rest = bytes;
        loop {
            let (place, left) = self.place(lsn).expect("the ring has chunks up to its end");
            let into = self.chunk_bytes() - left as u64;
            self.seen.see(lsn.raw() - into, lsn.raw() + left as u64, place.raw() - into);
            if rest.len() <= left {
                self.region.copy_in(place, rest);
                return true;
            }
            let (now, later) = rest.split_at(left);
            self.region.copy_in(place, now);
            lsn = lsn.plus(left as u64);
            rest = later;
        }
    }

    /// Copies whole words out of the ring. Returns false if the ring has no chunk for some of the bytes. A chunk may
    /// move during the copy, so the caller checks the copied bytes.
    #[inline]
    pub(crate) fn copy_out(&self, lsn: Lsn, bytes: &mut [u8]) -> bool {
        let mut lsn = lsn;
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((place, left)) = self.place(lsn) else { return false };
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            self.region.copy_out(place, now);
            lsn = lsn.plus(now.len() as u64);
            rest = later;
        }
        true
    }

    /// Returns the first bytes of `from .. to`, as far as they are contiguous in memory. The hold is the leadership of
    /// a flush. `from` is at or beyond `durable`, which no other session raises, so the chunk does not move; `to` is at
    /// or below the tail, so the bytes do not change.
    pub(crate) fn piece<'g>(&'g self, from: Lsn, to: Lsn, hold: &'g impl SharedHold) -> &'g [u8] {
        let (place, left) = self.place(from).expect("the ring has a chunk for every position from durable to the tail");
        let want = usize::try_from(to.since(from)).unwrap_or(usize::MAX);
        self.region.bytes(place, left.min(want), hold)
    }

    /// Makes chunks up to `need`, or returns that the log must be flushed first.
    ///
    /// # Errors
    /// [`Error::Full`] when the region cannot grow and nothing durable can be moved.
    pub(crate) fn make_room(&self, session: &Session, need: Lsn, bounds: RingBounds) -> Result<Room> {
        let header = &*self.header;
        let _latch = header.ring.exclusive(session, Rank::LOG_FLUSH);
        let most = bounds.bytes_max.min(self.directory_bytes());
        failpoint("ring: latched to make room");
        while header.ring_end.get() < need {
            let (start, end) = (header.ring_start.get(), header.ring_end.get());
            let has_most = end.since(start) >= most;
            // Acquire: the bytes below `durable` are in the files before the chunk is used again.
            let durable = header.durable.load();
            let is_flushed = durable >= header.tail.load();
            let spare = |kept: u64| start.plus(self.chunk_bytes() + kept) <= durable;
            if self.chunk_at(end).is_some() && end.since(start) <= self.directory_bytes() {
                // A session died between moving the chunk and publishing `ring_end`.
                self.keep_entries(end, end);
                header.ring_end.publish(end.plus(self.chunk_bytes()));
            } else if spare(if has_most { 0 } else { bounds.bytes_kept }) {
                self.move_chunk(session, start, end);
            } else if has_most && !is_flushed {
                return Ok(Room::FlushFirst);
            } else if end.since(start) >= self.directory_bytes() {
                return Err(too_much_at_once());
            } else if let Err(error) = self.add_chunk(end) {
                // There is no memory for a new chunk: use a durable chunk that is kept for readers, or have the log
                // flushed to free a chunk.
                match (spare(0), is_flushed) {
                    (true, _) => self.move_chunk(session, start, end),
                    (false, false) => return Ok(Room::FlushFirst),
                    (false, true) => return Err(error),
                }
            }
        }
        Ok(Room::Made)
    }

    /// Refuses more bytes after the tail than the directory can name.
    pub(crate) fn check_bytes(&self, bytes: u64) -> Result<()> {
        // The chunks of the durable end and of the last byte may be used in part.
        match bytes + 2 * self.chunk_bytes() <= self.directory_bytes() {
            true => Ok(()),
            false => Err(too_much_at_once()),
        }
    }

    fn directory_bytes(&self) -> u64 {
        (DIRECTORY_CHUNKS as u64 - 1) << self.shift
    }

    fn entry(&self, lsn: Lsn) -> &Checked<Chunk> {
        &self.header.directory[self.slot(lsn)]
    }

    fn slot(&self, lsn: Lsn) -> usize {
        let slot = (lsn.raw() >> self.shift) % DIRECTORY_CHUNKS as u64;
        usize::try_from(slot).expect("a remainder of 1024 is small")
    }

    fn keep_entries(&self, one: Lsn, other: Lsn) {
        keep_chunk(&self.region, &self.header, [self.slot(one), self.slot(other)], self.lasting.write_back);
    }

    /// Starts writing the cache lines of `from .. to` back to memory. Bytes whose chunk has moved meanwhile are on the
    /// disk.
    pub(crate) fn write_back(&self, from: Lsn, to: Lsn) {
        let mut at = from;
        while at < to {
            let Some((place, left)) = self.place(at) else {
                at = at.plus(self.chunk_bytes() - at.raw() % self.chunk_bytes());
                continue;
            };
            let bytes = usize::try_from(to.since(at)).unwrap_or(usize::MAX).min(left);
            self.region.write_back_lines(self.lasting.write_back, place, bytes);
            at = at.plus(bytes as u64);
        }
    }

    /// Returns whether the position `lsn` has a chunk inside the region.
    fn holds(&self, lsn: Lsn) -> bool {
        let reaches = |chunk: Offset<Bytes>| {
            chunk.raw() % 64 == 0 && self.region.reaches(chunk.raw().saturating_add(self.chunk_bytes()))
        };
        self.entry(lsn).try_load().and_then(Chunk::place).is_some_and(reaches)
    }

    /// Returns the end of the consecutive chunks from `from` on, at most `to`.
    pub(crate) fn held_to(&self, from: Lsn, to: Lsn) -> Lsn {
        let mut at = from;
        while at < to && to.since(at) <= self.directory_bytes() && self.holds(at) {
            at = at.plus(self.chunk_bytes() - at.raw() % self.chunk_bytes());
        }
        at.min(to).max(from)
    }

    /// Returns the beginning of the consecutive chunks up to `to`, at least `from`.
    pub(crate) fn held_from(&self, from: Lsn, to: Lsn) -> Lsn {
        let mut at = to;
        while at > from {
            let begin = at.minus(8);
            if !self.holds(begin) {
                break;
            }
            at = begin.minus(begin.raw() % self.chunk_bytes());
        }
        at.max(from).min(to)
    }

    fn chunk_at(&self, lsn: Lsn) -> Option<Offset<Bytes>> {
        self.entry(lsn).get().place()
    }

    /// Moves the chunk at `start` to `end`.
    fn move_chunk(&self, session: &Session, start: Lsn, end: Lsn) {
        let chunk = self.chunk_at(start).expect("the ring has a chunk for every position from ring_start on");
        keep_durable(&self.region, &self.header, self.lasting.write_back);
        let mut section = session.section();
        self.entry(start).set(&mut section, Chunk::NONE);
        failpoint("ring: chunk taken out");
        self.header.ring_start.set(&mut section, start.plus(self.chunk_bytes()));
        failpoint("ring: chunk in neither place");
        self.entry(end).set(&mut section, Chunk::at(chunk));
        failpoint("ring: chunk moved, section open");
        section.close();
        self.keep_entries(start, end);
        failpoint("ring: chunk moved, end not published");
        self.header.ring_end.publish(end.plus(self.chunk_bytes()));
    }

    /// Adds a chunk at `end`. The caller holds the ring's latch, or no other process is attached.
    pub(crate) fn add_chunk(&self, end: Lsn) -> Result<()> {
        let chunk = self
            .region
            .allocate_bytes(self.chunk_bytes(), 64)
            .map_err(|error| Error::from_region("the log's part in shared memory", error))?;
        failpoint("ring: chunk allocated, not in the directory");
        self.entry(end).publish(Chunk::at(chunk));
        self.keep_entries(end, end);
        failpoint("ring: chunk added, end not published");
        self.header.ring_end.publish(end.plus(self.chunk_bytes()));
        Ok(())
    }

    /// Returns the end of the ring's chunks. If cache lines were lost, `ring_end` may have any earlier value, and the
    /// directory gives the end.
    fn end(&self, start: Lsn) -> Option<Lsn> {
        let stated = self.header.ring_end.try_load();
        stated.map(|stated| {
            if self.is_of_earlier_cache() {
                self.held_to(start, start.plus(self.directory_bytes()))
            } else {
                stated
            }
        })
    }

    /// Returns whether cache lines of the ring may have been lost in a crash.
    pub(crate) fn is_of_earlier_cache(&self) -> bool {
        let is_lost = self.lasting.write_back != WriteBack::None && self.region.is_of_earlier_start();
        is_lost && !planted("log: the ring's end is trusted after lost cache lines")
    }

    /// Checks that every position of the ring has a chunk inside the region, and that no two chunks overlap.
    ///
    /// # Errors
    /// The damage.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let start = self.header.ring_start.try_load();
        let ends = start.and_then(|start| Some((start, self.end(start)?)));
        let Some((start, end)) = ends else { return Err("the log's ring has no beginning or no end".into()) };
        if start.raw() % self.chunk_bytes() != 0 || end.raw() % self.chunk_bytes() != 0 || end <= start {
            return Err(format!("the log's ring goes from {start} to {end}, which are not the ends of chunks"));
        }
        if end.since(start) > self.directory_bytes() + self.chunk_bytes() {
            return Err(format!("the log's ring from {start} to {end} is longer than its directory"));
        }
        let mut chunks = Vec::new();
        let mut at = start;
        while at < end {
            let chunk = self.entry(at).try_load().and_then(Chunk::place);
            let chunk = chunk.ok_or_else(|| format!("the log's ring has no chunk at {at}"))?;
            // The check does not use the region's header. The header may be damaged, and then the recovery has only the
            // log.
            if chunk.raw() % 64 != 0 || !self.region.reaches(chunk.raw().saturating_add(self.chunk_bytes())) {
                return Err(format!("the log's ring has its chunk for {at} at {chunk:?}, outside the region"));
            }
            chunks.push(chunk.raw());
            at = at.plus(self.chunk_bytes());
        }
        chunks.sort_unstable();
        if chunks.windows(2).any(|two| two[0] + self.chunk_bytes() > two[1]) {
            return Err("two places of the log's ring share memory".to_string());
        }
        Ok(())
    }
}

/// The result of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Made,
    FlushFirst,
}
