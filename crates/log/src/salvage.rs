//! The log in memory whose own words were hit by a wild store: what is left of it is told by the records themselves.
//!
//! Nothing of the header is believed. The files say up to where they have the log; the record that comes next is looked for
//! in the ring, then the one behind it, and so on, each known by its checksum, which covers its LSN and the log's life. Where
//! the directory does not say where a chunk lies, it is looked for in all of the memory.
//!
//! It is not known where the log ended: behind a record that was hit itself nothing is found any more.
//!
//! A record that was copied into the ring and never published may be found, too. Nobody was told of it, and whoever would
//! still publish it asks where the next life begins.

use std::collections::BTreeMap;

use rio::{Bytes, Offset, Region};

use crate::record::verify;
use crate::tail::{Chunk, LogHeader, DIRECTORY_CHUNKS};
use crate::{Lsn, RecordHeader, RECORD_HEADER_BYTES};

/// Chunks are aligned to this.
const ALIGNED: u64 = 64;

/// What reads the log out of memory that is damaged.
pub(crate) struct Salvage<'r> {
    region: &'r Region,
    header: &'r LogHeader,
    chunk_bytes: u64,
    incarnation: u64,
    /// Where chunks were found that the directory does not name, by their numbers.
    found: BTreeMap<u64, Offset<Bytes>>,
    /// So many times all of the memory may still be searched.
    searches: u32,
}

impl<'r> Salvage<'r> {
    pub(crate) fn new(region: &'r Region, header: &'r LogHeader, chunk_bytes: u64, incarnation: u64) -> Salvage<'r> {
        Salvage { region, header, chunk_bytes, incarnation, found: BTreeMap::new(), searches: 64 }
    }

    /// The records from `from` on, as far as they follow on.
    pub(crate) fn records(&mut self, from: Lsn) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(record) = self.record(from.plus(all.len() as u64)) {
            all.extend_from_slice(&record);
        }
        all
    }

    /// Whether memory has other bytes than these just before `end`. Where it does not say where it has them, it is not known.
    pub(crate) fn has_others_before(&self, end: Lsn, bytes: &[u8]) -> bool {
        let mut there = vec![0; bytes.len()];
        self.copy(end.minus(bytes.len() as u64), &mut there) && there != bytes
    }

    fn record(&mut self, lsn: Lsn) -> Option<Vec<u8>> {
        if let Some(record) = self.record_there(lsn) {
            return Some(record);
        }
        // In the chunk where it begins, or in the next.
        let number = lsn.raw() / self.chunk_bytes;
        let lost = [number, number + 1].into_iter().find(|&number| self.is_lost(number))?;
        self.searches = self.searches.checked_sub(1)?;
        let mut base = rio::HEADER_BYTES.next_multiple_of(ALIGNED);
        while self.region.reaches(base + self.chunk_bytes) {
            self.found.insert(lost, Offset::from_raw(base)?);
            if let Some(record) = self.record_there(lsn) {
                return Some(record);
            }
            base += ALIGNED;
        }
        self.found.remove(&lost);
        None
    }

    /// The record, if it is where its chunk is said to lie.
    fn record_there(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let mut head = [0; RECORD_HEADER_BYTES];
        if !self.copy(lsn, &mut head) {
            return None;
        }
        let header = RecordHeader::plausible(&head).ok()?;
        let mut bytes = vec![0; header.length()];
        let is_good = self.copy(lsn, &mut bytes) && verify(&bytes, lsn, self.incarnation).is_ok();
        is_good.then_some(bytes)
    }

    fn copy(&self, lsn: Lsn, bytes: &mut [u8]) -> bool {
        let (mut lsn, mut rest) = (lsn, bytes);
        while !rest.is_empty() {
            let into = lsn.raw() % self.chunk_bytes;
            let Some(chunk) = self.chunk(lsn.raw() / self.chunk_bytes) else { return false };
            let left = usize::try_from(self.chunk_bytes - into).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            self.region.copy_out(chunk.plus(into), now);
            lsn = lsn.plus(now.len() as u64);
            rest = later;
        }
        true
    }

    fn chunk(&self, number: u64) -> Option<Offset<Bytes>> {
        let named = || self.entry(number).and_then(Chunk::place);
        let place = self.found.get(&number).copied().or_else(named)?;
        let is_inside = place.raw() % ALIGNED == 0 && self.region.reaches(place.raw().saturating_add(self.chunk_bytes));
        is_inside.then_some(place)
    }

    /// Whether the directory's entry for that chunk is nonsense, and it was not found without.
    fn is_lost(&self, number: u64) -> bool {
        self.entry(number).is_none() && !self.found.contains_key(&number)
    }

    fn entry(&self, number: u64) -> Option<Chunk> {
        let at = usize::try_from(number % DIRECTORY_CHUNKS as u64).expect("a remainder of 1024 is small");
        self.header.directory[at].try_load()
    }
}
