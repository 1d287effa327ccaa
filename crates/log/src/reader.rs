//! `log_read`: reads one record by its LSN, from the ring or the segment files.
//!
//! Paper: LIBTP section 3.2.1. Every record is checked by LSN, incarnation and checksum before the caller gets it. An
//! LSN at which no record begins looks like a damaged record. Only a caller that knows whether a record begins at the
//! LSN can distinguish the two cases.

use crate::record::{verify, BadRecord};
use crate::roll::Source;
use crate::unroll::ReadRecord;
use crate::{
    Error, Incarnations, LogFiles, LogManager, Lsn, Record, RecordHeader, Result, Roll, Unroll, RECORD_HEADER_BYTES,
};

/// Bytes read at first; most records are shorter, and need only one call.
const FIRST_LOOK_BYTES: usize = 512;
/// The number of attempts to read a record that must be there.
const LOOKS: u32 = 100;

/// Reads the record at `lsn` through `copy_out` into `buffer`, which then begins with the whole record.
#[inline]
pub(crate) fn read_through(
    lsn: Lsn,
    incarnation: u64,
    buffer: &mut Vec<u8>,
    mut copy_out: impl FnMut(Lsn, &mut [u8]) -> Result<usize>,
) -> Result<std::result::Result<RecordHeader, BadRecord>> {
    buffer.resize(FIRST_LOOK_BYTES, 0);
    let mut read = copy_out(lsn, buffer)?;
    match RecordHeader::plausible(&buffer[..read]) {
        Ok(header) if header.length() > read => {
            buffer.resize(header.length(), 0);
            read = copy_out(lsn, buffer)?;
        }
        Ok(_) => {}
        Err(bad) => return Ok(Err(bad)),
    }
    Ok(verify(&buffer[..read], lsn, incarnation))
}

/// Makes a record from a buffer that begins with it.
pub(crate) fn to_record(lsn: Lsn, header: RecordHeader, buffer: &[u8]) -> Record {
    let body = &buffer[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.body_bytes()];
    Record { lsn, header, body: body.to_vec() }
}

impl LogFiles {
    /// Reads the record at `lsn` into `buffer`, or returns the reason why it is not valid.
    pub(crate) fn try_read(
        &self,
        lsn: Lsn,
        buffer: &mut Vec<u8>,
    ) -> Result<std::result::Result<RecordHeader, BadRecord>> {
        read_through(lsn, self.incarnations().at(lsn), buffer, |from, place| self.copy_out(from, place))
    }

    /// Reads the record at `lsn`, which must be there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no good record begins there, [`Error::Io`].
    pub fn read(&self, lsn: Lsn) -> Result<Record> {
        if lsn < Lsn::FIRST || lsn.raw() % 8 != 0 {
            return Err(Error::NoRecord { lsn });
        }
        let mut buffer = Vec::new();
        match self.try_read(lsn, &mut buffer)? {
            Ok(header) => Ok(to_record(lsn, header, &buffer)),
            Err(bad) => Err(self.damage(lsn, bad.what())),
        }
    }
}

impl LogManager {
    /// Reads the record at `lsn`: the paper's `log_read`. Reads from the ring if the record is there, otherwise from
    /// the files.
    ///
    /// # Errors
    /// [`Error::TooOld`] when the record was recycled, [`Error::PastEnd`], [`Error::Corrupt`] when no good record
    /// begins there, [`Error::Io`].
    pub fn read(&self, lsn: Lsn) -> Result<Record> {
        let mut buffer = Vec::new();
        let header = self.read_into(lsn, &mut buffer)?;
        Ok(to_record(lsn, header, &buffer))
    }

    /// As [`LogManager::read`], into a reused buffer: the buffer then begins with the whole record, header first.
    ///
    /// # Errors
    /// As [`LogManager::read`].
    pub fn read_into(&self, lsn: Lsn, buffer: &mut Vec<u8>) -> Result<RecordHeader> {
        if lsn < Lsn::FIRST || lsn.raw() % 8 != 0 {
            return Err(Error::NoRecord { lsn });
        }
        let end = self.tail();
        if lsn >= end {
            return Err(Error::PastEnd { lsn, end });
        }
        let mut last = BadRecord::Short;
        // A published record is in the ring, or it is durable and in the files. On a machine that reorders loads, this
        // thread may see a reused chunk before it sees `durable` beyond the record; then it reads again.
        for attempt in 0..LOOKS {
            match self.read_ring(lsn, end, buffer)? {
                Ok(header) => return Ok(header),
                Err(bad) => last = bad,
            }
            let is_durable = lsn < self.durable();
            if is_durable {
                match self.files.try_read(lsn, buffer)? {
                    Ok(header) => return Ok(header),
                    Err(bad) => last = bad,
                }
            }
            let oldest = self.oldest();
            if lsn < oldest {
                return Err(Error::TooOld { lsn, oldest });
            }
            if is_durable && attempt > 0 {
                break;
            }
            std::thread::yield_now();
        }
        Err(self.files.damage(lsn, last.what()))
    }

    fn read_ring(
        &self,
        lsn: Lsn,
        end: Lsn,
        buffer: &mut Vec<u8>,
    ) -> Result<std::result::Result<RecordHeader, BadRecord>> {
        read_through(lsn, self.files.incarnations().at(lsn), buffer, |from, place| {
            let bytes = usize::try_from(end.since(from)).unwrap_or(usize::MAX).min(place.len());
            let copied = self.ring.copy_out(from, &mut place[..bytes]);
            Ok(if copied { bytes } else { 0 })
        })
    }

    /// Reads the records from `from`, where a record begins, to the present tail, forwards: the paper's `log_roll`.
    pub fn roll(&self, from: Lsn) -> Roll<'_> {
        Roll::new(self, from.max(Lsn::FIRST), self.tail())
    }

    /// Reads the transaction's records from the record at `last` backwards: the paper's `log_unroll`.
    pub fn unroll(&self, last: Lsn) -> Unroll<'_> {
        Unroll::new(self, last)
    }
}

impl Source for LogManager {
    fn fill(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize> {
        let (tail, durable) = (self.tail(), self.durable());
        let end = if from < durable { durable } else { tail };
        let bytes = usize::try_from(end.since(from)).unwrap_or(usize::MAX).min(buffer.len());
        let place = &mut buffer[..bytes];
        if from < durable {
            return self.files.copy_out(from, place);
        }
        // If the chunk was reused meanwhile, the copied bytes do not verify. The record is durable now, so the caller
        // reads it again, from the files.
        Ok(if self.ring.copy_out(from, place) { bytes } else { 0 })
    }
    fn incarnations(&self) -> &Incarnations {
        self.files.incarnations()
    }
    fn damage(&self, lsn: Lsn, what: &str) -> Error {
        let oldest = self.oldest();
        if lsn < oldest {
            return Error::TooOld { lsn, oldest };
        }
        self.files.damage(lsn, what)
    }
}

impl ReadRecord for LogManager {
    fn record(&self, lsn: Lsn) -> Result<Record> {
        self.read(lsn)
    }
    fn damage(&self, lsn: Lsn, what: &str) -> Error {
        self.files.damage(lsn, what)
    }
}

impl LogFiles {
    /// Reads the records from `from`, where a record begins, to `end`, forwards, only from the files.
    pub fn roll(&self, from: Lsn, end: Lsn) -> Roll<'_> {
        Roll::new(self, from, end)
    }

    /// Reads a transaction's records from the record at `last` backwards, only from the files.
    pub fn unroll(&self, last: Lsn) -> Unroll<'_> {
        Unroll::new(self, last)
    }
}
