//! `log_roll`: reads the records of the log one after the other, forwards.
//!
//! Paper: LIBTP section 3.2.1. Reads many records at a time. The source is either segment files alone, or a log in use,
//! whose newest bytes are in the ring.
//!
//! Invariants
//! 1. Every returned record has verified at its LSN, with the incarnation of that part of the log.
//! 2. A roll never stops silently before its end: bytes that do not verify cause [`Error::Corrupt`], or
//!    [`Error::TooOld`] when they were recycled meanwhile.

use std::ops::Range;

use crate::record::{verify, BadRecord};
use crate::{Error, Incarnations, Lsn, Record, RecordHeader, RecordRef, Result, RECORD_BYTES_MAX, RECORD_HEADER_BYTES};

/// Bytes read at a time: few enough to be still in the processor's cache when their records are used.
const READ_BYTES: usize = 256 << 10;

/// A source of a log's bytes.
pub(crate) trait Source {
    /// Copies the log's bytes from `from` on; returns their number, which is less than the buffer's length at the log's
    /// end.
    fn fill(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize>;
    /// Returns the incarnations that sealed the parts of the log.
    fn incarnations(&self) -> &Incarnations;
    /// Returns the error for bytes at `lsn` that should have been a record.
    fn damage(&self, lsn: Lsn, what: &str) -> Error;
}

impl Source for crate::LogFiles {
    fn fill(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize> {
        self.copy_out(from, buffer)
    }
    fn incarnations(&self) -> &Incarnations {
        self.incarnations()
    }
    fn damage(&self, lsn: Lsn, what: &str) -> Error {
        crate::LogFiles::damage(self, lsn, what)
    }
}

/// A forward scan. [`Roll::next_record`] lends each record; the [`Iterator`] returns copies.
pub struct Roll<'l> {
    source: &'l dyn Source,
    buffer: Vec<u8>,
    /// The LSN of the buffer's first byte.
    buffer_at: Lsn,
    filled: usize,
    next: Lsn,
    end: Lsn,
    /// The incarnation at `next`; it changes at `incarnation_ends`.
    incarnation: u64,
    incarnation_ends: Lsn,
    done: bool,
}

impl<'l> Roll<'l> {
    /// Begins a scan of the records that begin in `from .. end`. A record begins at `from`.
    pub(crate) fn new(source: &'l dyn Source, from: Lsn, end: Lsn) -> Roll<'l> {
        let bytes = usize::try_from(end.since(from)).unwrap_or(READ_BYTES).clamp(4096, READ_BYTES);
        Roll {
            source,
            buffer: vec![0; bytes],
            buffer_at: from,
            filled: 0,
            next: from,
            end,
            incarnation: 0,
            incarnation_ends: Lsn::NONE,
            done: false,
        }
    }

    /// Returns the next record, lent until the next call; `None` at the end. After an error there is no next record.
    pub fn next_record(&mut self) -> Option<Result<RecordRef<'_>>> {
        if self.done || self.next >= self.end {
            return None;
        }
        let lsn = self.next;
        match self.step() {
            Ok(Ok((header, body))) => Some(Ok(RecordRef { lsn, header, body: &self.buffer[body] })),
            Ok(Err(bad)) => {
                self.done = true;
                Some(Err(self.source.damage(lsn, bad.what())))
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }

    /// Returns the LSN where the next record begins, or where the scan ended.
    pub fn position(&self) -> Lsn {
        self.next
    }

    /// Returns the body of the record that [`Roll::step`] has just taken.
    pub(crate) fn bytes(&self, body: Range<usize>) -> &[u8] {
        &self.buffer[body]
    }

    /// Takes the record at `next`, or returns the reason why it is not valid.
    pub(crate) fn step(&mut self) -> Result<std::result::Result<(RecordHeader, Range<usize>), BadRecord>> {
        if self.next >= self.incarnation_ends {
            self.incarnation = self.source.incarnations().at(self.next);
            self.incarnation_ends = self.source.incarnations().next_change(self.next);
        }
        // Bytes that do not verify are read again, for two reasons. The buffer may end inside the record. Or the ring's
        // chunk may have been reused during the copy, and then the files have the record.
        for fresh in 0..3 {
            if fresh > 0 {
                self.buffer_at = self.next;
                self.filled = self.source.fill(self.next, &mut self.buffer)?;
            }
            let into = usize::try_from(self.next.since(self.buffer_at)).unwrap_or(usize::MAX).min(self.filled);
            match verify(&self.buffer[into..self.filled], self.next, self.incarnation) {
                Ok(header) => {
                    self.next = self.next.plus(header.length() as u64);
                    let body = into + RECORD_HEADER_BYTES;
                    return Ok(Ok((header, body..body + header.body_bytes())));
                }
                Err(bad) if fresh == 2 => return Ok(Err(bad)),
                Err(BadRecord::Short) if self.buffer.len() < RECORD_BYTES_MAX && fresh > 0 => {
                    self.buffer.resize(RECORD_BYTES_MAX, 0);
                }
                Err(_) => {}
            }
        }
        unreachable!("the third attempt returns")
    }
}

impl Iterator for Roll<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.next_record().map(|record| record.map(|record| record.to_record()))
    }
}
