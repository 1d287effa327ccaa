//! Saving a log in memory whose own words a wild store has damaged, by the records themselves.
//!
//! Nothing in the header is trusted. The files state up to where they have the log. The search finds the next record in
//! the ring, then the record behind it, and so on; each is recognised by its checksum, which covers its LSN and the
//! log's life. If the directory does not state where a chunk lies, the search goes through all of the memory. It begins
//! behind the chunk that was found last: most of the ring's chunks lie in the order of their numbers, so all searches
//! together cost about one pass.
//!
//! The log's end is not known: nothing is found behind a damaged record. A chunk that the directory does not name is
//! not found if one record fills it and reaches over both its ends.
//!
//! A record that was copied into the ring and never published may be found, too. No caller got an answer for it, and a
//! session that would still publish it first checks where the next life begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Bytes, Offset, Region};

use crate::agree::good_up_to;
use crate::in_order::Rescued;
use crate::record::verify;
use crate::tail::{Chunk, LogHeader, DIRECTORY_CHUNKS};
use crate::{Control, Error, LogFiles, Lsn, RecordHeader, Result, RECORD_HEADER_BYTES};

/// Chunks are aligned to this.
const ALIGNED: u64 = 64;
/// How many bytes below the end of the files the ring and the files must have in common, when it is unknown where the
/// ring's log begins.
const WITNESS_BYTES: usize = 64;

/// Writes the rest of a log with damaged words to the log files and syncs them. Just below the files' end, but at most
/// below `sure`, memory and files must have the same bytes. Otherwise they are of two histories (PROTOCOLS F1), as far
/// as few bytes can show, and nothing is saved.
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
    // First: this may find the chunk that the check below needs.
    let bytes = found.records(from, &witness(from)?);
    tracing::debug!(%from, bytes = bytes.len(), chunks = found.found.len(), looks = found.looks, "the log was looked for by its records");
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
    /// Where the next search begins.
    next: u64,
    /// The LSN of the first record, and the bytes before it, which identify its chunk.
    before: (Lsn, Vec<u8>),
    /// The number of searched places.
    pub(crate) looks: u64,
}

/// The result of a look at one LSN.
enum Look {
    Record(Vec<u8>),
    /// Unknown before the chunk with this number is found.
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

    /// Returns whether memory has other bytes than these just before `end`. False if their chunk is not found.
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

    /// Looks for chunk `number` by the record at `lsn`, a part of which lies in the chunk. Prefers a place with a
    /// further record behind that record: a part at the record's end may be zeros, as much of the memory is, and a
    /// checksum may agree by chance.
    fn search(&mut self, number: u64, lsn: Lsn) -> Option<Vec<u8>> {
        let begins_there = lsn.raw() / self.chunk_bytes == number;
        let begin = self.next;
        let mut alone = None;
        // To the end of the memory, then from its start.
        for (from, to) in [(begin, u64::MAX), (first_place(), begin)] {
            let mut place = from;
            while place < to && self.region.reaches(place.saturating_add(self.chunk_bytes)) {
                self.looks += 1;
                if !begins_there || self.could_be_chunk(place, lsn) {
                    self.found.insert(number, place);
                    let record = match self.look(lsn) {
                        Look::Record(record) => Some(record),
                        // The bytes before the record agree; or its header is of a record that reaches beyond the
                        // chunk, and few other bytes look like that.
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

    /// Returns whether the chunk in which the record at `lsn` begins could lie at `place`: by the bytes before the
    /// record, or by the record's header.
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

    /// Returns the record at `lsn`, if its chunks lie where the directory or a search states.
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

/// Returns the header, if it may be that of the record at `lsn`: the previous record is an earlier one.
fn may_be_at(head: &[u8], lsn: Lsn) -> Option<RecordHeader> {
    RecordHeader::plausible(head).ok().filter(|header| header.prev() < lsn)
}

/// Returns the first place behind the region's own header.
fn first_place() -> u64 {
    rio::HEADER_BYTES.next_multiple_of(ALIGNED)
}
