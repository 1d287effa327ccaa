//! The log in memory whose own words were hit by a wild store: what is left of it is told by the records themselves.
//!
//! Nothing of the header is believed. The files say up to where they have the log; the record that comes next is looked for
//! in the ring, then the one behind it, and so on, each known by its checksum, which covers its LSN and the log's life. Where
//! the directory does not say where a chunk lies, it is looked for in all of the memory, from behind the chunk that was found
//! last: most of the ring's chunks lie in the order of their numbers, so that all of them together cost about one pass.
//!
//! It is not known where the log ended: behind a record that was hit itself nothing is found any more. Nor is a chunk found that
//! the directory does not name if one record fills it and reaches over both its ends.
//!
//! A record that was copied into the ring and never published may be found, too. Nobody was told of it, and whoever would
//! still publish it asks where the next life begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Bytes, Offset, Region};

use crate::agree::good_up_to;
use crate::record::verify;
use crate::repair::Rescued;
use crate::tail::{Chunk, LogHeader, DIRECTORY_CHUNKS};
use crate::{Control, Error, LogFiles, Lsn, RecordHeader, Result, RECORD_HEADER_BYTES};

/// Chunks are aligned to this.
const ALIGNED: u64 = 64;
/// How many bytes below the end of the files ring and files must have in common, where it is not known since when the ring has
/// them.
const WITNESS_BYTES: usize = 64;

/// Writes what is left of such a log to the log files and syncs them. Up to `sure` at most memory has what the files have: else
/// the one history is the other's (PROTOCOLS F1), as far as that can be told by so little, and there is nothing to be had.
pub(crate) fn salvage(
    region: &Region,
    header: &LogHeader,
    chunk_bytes: u64,
    directory: &Arc<dyn Directory>,
    control: &Control,
    sure: Lsn,
) -> Result<Option<Rescued>> {
    if planted("log: what was hit is lost") {
        return Ok(None);
    }
    let files = LogFiles::new(Arc::clone(directory), control);
    let from = good_up_to(&files, control.durable_end, Lsn::new(u64::MAX))?;
    let witness = |end: Lsn| {
        let begin = end.minus(WITNESS_BYTES as u64).max(control.oldest).min(end);
        let mut bytes = vec![0; usize::try_from(end.since(begin)).expect("a witness is short")];
        let is_read = files.copy_out(begin, &mut bytes)? == bytes.len();
        Ok::<_, Error>(if is_read { bytes } else { Vec::new() })
    };
    let mut found = Salvage::new(region, header, chunk_bytes, control.incarnation());
    // First: it may have to find the chunk that the next look is for.
    let bytes = found.records(from, &witness(from)?);
    tracing::debug!(%from, bytes = bytes.len(), chunks = found.found.len(), looks = found.looks, "the log was looked for by its records");
    let end = from.min(sure);
    if found.has_others_before(end, &witness(end)?) {
        tracing::error!(%from, "the log in the damaged memory does not go on where the files end: what was in it alone is lost");
        return Ok(None);
    }
    files.write(from, &bytes, control.incarnation())?;
    Ok(Some(Rescued { from, to: from.plus(bytes.len() as u64), tail: None }))
}

/// What reads the log out of memory that is damaged.
pub(crate) struct Salvage<'r> {
    region: &'r Region,
    header: &'r LogHeader,
    chunk_bytes: u64,
    incarnation: u64,
    /// Where chunks were found that the directory does not name, by their numbers.
    found: BTreeMap<u64, u64>,
    /// Where the next search begins.
    next: u64,
    /// What lies before the first record, by which its chunk is known.
    before: (Lsn, Vec<u8>),
    /// So many places were looked at.
    pub(crate) looks: u64,
}

/// What is at a place of the log.
enum Look {
    Record(Vec<u8>),
    /// It cannot be told before that chunk is found.
    Lost(u64),
    Nothing,
}

impl<'r> Salvage<'r> {
    pub(crate) fn new(region: &'r Region, header: &'r LogHeader, chunk_bytes: u64, incarnation: u64) -> Salvage<'r> {
        Salvage {
            region,
            header,
            chunk_bytes,
            incarnation,
            found: BTreeMap::new(),
            next: first_place(),
            before: (Lsn::NONE, Vec::new()),
            looks: 0,
        }
    }

    /// The records from `from` on, as far as they follow on, of a log that has these bytes just before.
    pub(crate) fn records(&mut self, from: Lsn, before: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        self.before = (from, before.to_vec());
        while let Some(record) = self.record(from.plus(all.len() as u64)) {
            all.extend_from_slice(&record);
        }
        all
    }

    /// Whether memory has other bytes than these just before `end`. Where it does not say where it has them, it is not known.
    fn has_others_before(&self, end: Lsn, bytes: &[u8]) -> bool {
        let mut there = vec![0; bytes.len()];
        self.copy(end.minus(bytes.len() as u64), &mut there).is_ok() && there != bytes
    }

    fn record(&mut self, lsn: Lsn) -> Option<Vec<u8>> {
        match self.look(lsn) {
            Look::Record(record) => Some(record),
            Look::Lost(number) => self.search(number, lsn),
            Look::Nothing => None,
        }
    }

    /// Looks for a chunk by the record at `lsn`, a part of which lies there. Where that is its end, it may be zeros, as much of the
    /// memory is: what has a record behind it, too, comes first.
    fn search(&mut self, number: u64, lsn: Lsn) -> Option<Vec<u8>> {
        let begins_there = lsn.raw() / self.chunk_bytes == number;
        let begin = self.next;
        let mut alone = None;
        // On to the end of the memory, and then from its beginning.
        for (from, to) in [(begin, u64::MAX), (first_place(), begin)] {
            let mut place = from;
            while place < to && self.region.reaches(place.saturating_add(self.chunk_bytes)) {
                self.looks += 1;
                if !begins_there || self.could_be_chunk(place, lsn) {
                    self.found.insert(number, place);
                    let record = match self.look(lsn) {
                        Look::Record(record) => Some(record),
                        // What lies before it is right; or it is longer than a chunk, as little else seems to be.
                        Look::Lost(other) if begins_there => self.search(other, lsn),
                        // The same would be said of every place.
                        Look::Lost(_) => break,
                        Look::Nothing => None,
                    };
                    if let Some(record) = record {
                        let behind = lsn.plus(record.len() as u64);
                        if begins_there || matches!(self.look(behind), Look::Record(_)) {
                            // One behind it may have been found meanwhile.
                            self.next = self.next.max(place + self.chunk_bytes);
                            return Some(record);
                        }
                        alone = alone.or(Some((place, record)));
                    }
                }
                place += ALIGNED;
            }
        }
        self.found.remove(&number);
        let (place, record) = alone?;
        self.found.insert(number, place);
        Some(record)
    }

    /// Whether the chunk in which the record at `lsn` begins could lie there: by what lies before it, or by its header.
    fn could_be_chunk(&self, place: u64, lsn: Lsn) -> bool {
        let into = usize::try_from(lsn.raw() % self.chunk_bytes).unwrap_or(usize::MAX);
        let there = |from: usize, bytes: &mut [u8]| {
            Offset::from_raw(place + from as u64).map(|at| self.region.copy_out(at, bytes)).is_some()
        };
        let known = if self.before.0 == lsn { self.before.1.as_slice() } else { &[] };
        let known = &known[known.len() - known.len().min(into)..];
        if !known.is_empty() {
            let mut bytes = [0; WITNESS_BYTES];
            let bytes = &mut bytes[..known.len()];
            return there(into - known.len(), bytes) && *bytes == *known;
        }
        let mut head = [0; RECORD_HEADER_BYTES];
        let is_whole = (into + head.len()) as u64 <= self.chunk_bytes;
        is_whole && there(into, &mut head) && RecordHeader::plausible(&head).is_ok()
    }

    /// The record at `lsn`, if its chunks are where they are said to lie.
    fn look(&self, lsn: Lsn) -> Look {
        let mut head = [0; RECORD_HEADER_BYTES];
        if let Err(missing) = self.copy(lsn, &mut head) {
            return missing;
        }
        let Ok(header) = RecordHeader::plausible(&head) else { return Look::Nothing };
        let mut bytes = vec![0; header.length()];
        if let Err(missing) = self.copy(lsn, &mut bytes) {
            return missing;
        }
        match verify(&bytes, lsn, self.incarnation) {
            Ok(_) => Look::Record(bytes),
            Err(_) => Look::Nothing,
        }
    }

    fn copy(&self, lsn: Lsn, bytes: &mut [u8]) -> std::result::Result<(), Look> {
        let (mut lsn, mut rest) = (lsn, bytes);
        while !rest.is_empty() {
            let into = lsn.raw() % self.chunk_bytes;
            let chunk = self.chunk(lsn.raw() / self.chunk_bytes)?;
            let left = usize::try_from(self.chunk_bytes - into).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            self.region.copy_out(chunk.plus(into), now);
            lsn = lsn.plus(now.len() as u64);
            rest = later;
        }
        Ok(())
    }

    fn chunk(&self, number: u64) -> std::result::Result<Offset<Bytes>, Look> {
        let place = match (self.found.get(&number), self.entry(number)) {
            (Some(&found), _) => Offset::from_raw(found),
            (None, Some(named)) => named.place(),
            (None, None) => return Err(Look::Lost(number)),
        };
        let is_inside = |place: &Offset<Bytes>| {
            place.raw() % ALIGNED == 0 && self.region.reaches(place.raw().saturating_add(self.chunk_bytes))
        };
        place.filter(is_inside).ok_or(Look::Nothing)
    }

    /// What the directory says of that chunk; none if it is nonsense.
    fn entry(&self, number: u64) -> Option<Chunk> {
        let at = usize::try_from(number % DIRECTORY_CHUNKS as u64).expect("a remainder of 1024 is small");
        self.header.directory[at].try_load()
    }
}

/// Below lies the region's own header.
fn first_place() -> u64 {
    rio::HEADER_BYTES.next_multiple_of(ALIGNED)
}
