//! Saving a log in memory whose header words a wild store has damaged: its records are found by their checksums.
//!
//! No word of the header is trusted. The search begins at the end of the log in the files, and finds one record after
//! the other in the ring. Each record is recognised by its checksum, which covers the record's LSN and the log's
//! incarnation. If the directory does not state the place of a chunk, the whole memory is searched. A search for a
//! chunk begins after the chunk that was found last: most chunks of the ring are in the order of their numbers, so all
//! searches together cost about one pass.
//!
//! The end of the log is unknown: nothing after a damaged record is found. A chunk that the directory does not name is
//! not found if one record fills the chunk and reaches beyond both its ends.
//!
//! The search may also find a record that was copied into the ring and never published. No caller got an answer for
//! this record. If a session can still publish the record, it checks before that where the next incarnation begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Bytes, Offset, Region};

use crate::agree::good_up_to;
use crate::in_order::Rescued;
use crate::record::verify;
use crate::tail::{Chunk, LogHeader, DIRECTORY_CHUNKS};
use crate::{Control, Error, LogFiles, Lsn, RecordHeader, Result, RECORD_HEADER_BYTES};

/// The alignment of chunks.
const ALIGNED: u64 = 64;
/// The number of bytes just below the end of the files that must be equal in the ring and the files, if the beginning
/// of the ring's log is unknown.
const WITNESS_BYTES: usize = 64;

/// Writes the rest of a log with damaged words to the log files and syncs them. Just below the files' end, or below
/// `sure` if that is earlier, memory and files must have the same bytes. Otherwise they are probably of two histories
/// (PROTOCOLS F1), and nothing is saved.
pub(crate) fn salvage(
    region: &Region,
    header: &LogHeader,
    chunk_bytes: u64,
    directory: &Arc<dyn Directory>,
    control: &Control,
    sure: Lsn,
) -> Result<Option<Rescued>> {
    if planted("log: a damaged log in memory is not salvaged") {
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
    // The records are searched for first, because the search may find the chunk that the check below needs.
    let bytes = found.records(from, &witness(from)?);
    tracing::debug!(%from, bytes = bytes.len(), chunks = found.found.len(), looks = found.looks, "the log was searched for by its records");
    let end = from.min(sure);
    if found.has_others_before(end, &witness(end)?) {
        tracing::error!(%from, "the log in the damaged memory does not continue where the files end: records that were only in memory are lost");
        return Ok(None);
    }
    files.write(from, &bytes, control.incarnation())?;
    Ok(Some(Rescued { from, to: from.plus(bytes.len() as u64), tail: None }))
}

/// A reader of the log in damaged memory.
pub(crate) struct Salvage<'r> {
    region: &'r Region,
    header: &'r LogHeader,
    chunk_bytes: u64,
    incarnation: u64,
    /// The places of chunks that the directory does not name, by chunk number.
    found: BTreeMap<u64, u64>,
    /// The place where the next search begins.
    next: u64,
    /// The LSN of the first record, and the bytes before it, which identify its chunk.
    before: (Lsn, Vec<u8>),
    /// The number of searched places.
    pub(crate) looks: u64,
}

/// The result of a search at one LSN.
enum Look {
    Record(Vec<u8>),
    /// The record cannot be read before the chunk with this number is found.
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

    /// Returns the consecutive records from `from` on. The log has the bytes `before` just before `from`.
    pub(crate) fn records(&mut self, from: Lsn, before: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        self.before = (from, before.to_vec());
        while let Some(record) = self.record(from.plus(all.len() as u64)) {
            all.extend_from_slice(&record);
        }
        all
    }

    /// Returns whether the memory has other bytes than `bytes` just before `end`. False if the chunk is not found.
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

    /// Searches for chunk `number` by the record at `lsn`, a part of which is in the chunk. Prefers a place where a
    /// further record follows that record. Without a further record, the place may be wrong: the end of the record may
    /// be zeros, which are in much of the memory, or a checksum may agree by chance.
    fn search(&mut self, number: u64, lsn: Lsn) -> Option<Vec<u8>> {
        let begins_there = lsn.raw() / self.chunk_bytes == number;
        let begin = self.next;
        let mut alone = None;
        // The search goes to the end of the memory, then from its start.
        for (from, to) in [(begin, u64::MAX), (first_place(), begin)] {
            let mut place = from;
            while place < to && self.region.reaches(place.saturating_add(self.chunk_bytes)) {
                self.looks += 1;
                if !begins_there || self.could_be_chunk(place, lsn) {
                    self.found.insert(number, place);
                    let record = match self.look(lsn) {
                        Look::Record(record) => Some(record),
                        // The place is probably right: either the bytes before the record agree, or the place has the
                        // header of a record that extends beyond the chunk, and other bytes rarely look like such a
                        // header.
                        Look::Lost(other) if begins_there => self.search(other, lsn),
                        // Every other place would give the same result.
                        Look::Lost(_) => break,
                        Look::Nothing => None,
                    };
                    if let Some(record) = record {
                        let is_followed = match self.look(lsn.plus(record.len() as u64)) {
                            Look::Record(_) => true,
                            Look::Lost(_) => begins_there,
                            Look::Nothing => false,
                        };
                        if is_followed {
                            // The inner search may have found a later chunk.
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

    /// Returns whether the chunk in which the record at `lsn` begins could be at `place`, according to the bytes before
    /// the record, or to the record's header.
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
        is_whole && there(into, &mut head) && may_be_at(&head, lsn).is_some()
    }

    /// Returns the record at `lsn`, if the directory or a search has the places of its chunks.
    fn look(&self, lsn: Lsn) -> Look {
        let mut head = [0; RECORD_HEADER_BYTES];
        if let Err(missing) = self.copy(lsn, &mut head) {
            return missing;
        }
        let Some(header) = may_be_at(&head, lsn) else { return Look::Nothing };
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

    /// Returns the directory's entry for that chunk; `None` if the entry is damaged.
    fn entry(&self, number: u64) -> Option<Chunk> {
        let at = usize::try_from(number % DIRECTORY_CHUNKS as u64).expect("a remainder of 1024 is small");
        self.header.directory[at].try_load()
    }
}

/// Returns the header, if it may be the header of the record at `lsn`: its previous record has a smaller LSN.
fn may_be_at(head: &[u8], lsn: Lsn) -> Option<RecordHeader> {
    RecordHeader::plausible(head).ok().filter(|header| header.prev() < lsn)
}

/// Returns the first place after the region's header.
fn first_place() -> u64 {
    rio::HEADER_BYTES.next_multiple_of(ALIGNED)
}
