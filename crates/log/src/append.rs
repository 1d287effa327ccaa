//! `log`: appends a record to the log.
//!
//! Paper: LIBTP section 3.2.1. The record is built and its checksum computed before the latch is taken. Only the LSN,
//! the LSN's share of the checksum, one copy into the ring and two stores are done under the latch. An append never
//! waits for the disk and never fails: [`LogManager::reserve`](crate::LogManager::reserve) came first (PROTOCOLS D11).
//!
//! Invariants
//! 1. The session's note has the LSN of a record before the tail publishes that record (D3).
//! 2. The tail is published with one release store, after the record's bytes.
//!
//! Latch: `append` (rank 80), then nothing.
//! If we die here: before the store of the tail the record does not exist; after the store the record exists, and the
//! session's note has its LSN.

use libtp_process::{wall_micros, Rank, Session};
use rio::{failpoint, planted};

use crate::record::{assemble, crc, put_crc, seal};
use crate::record_buffer::{Place, RecordBuffer};
use crate::restart::{mark_at, MARK_BYTES};
use crate::{LogManager, Lsn, RecordHeader, TxnId, RECORD_HEADER_BYTES};

/// The fields of a record other than its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The record's kind; the crate that owns the number defines it.
    pub kind: u16,
    /// Bits whose meaning the owner of the kind defines.
    pub flags: u16,
    /// The transaction that the record belongs to, or [`TxnId::NONE`].
    pub txn: TxnId,
    /// The LSN of the transaction's previous record, or [`Lsn::NONE`].
    pub prev: Lsn,
}

const NOT_RESERVED: &str = "a record was logged without reserving room for it";

impl LogManager {
    /// Appends a record and returns its LSN: the paper's `log`. The body may come in several parts.
    ///
    /// Sets the session's note of the append. The caller clears the note when it has changed all pages as the record
    /// describes (PROTOCOLS D3). Room must have been reserved.
    ///
    /// # Panics
    /// If nothing was reserved and the log is full, or the body is longer than
    /// [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX).
    #[inline]
    pub fn log(&self, session: &Session, kind: u16, txn: TxnId, prev: Lsn, body: &[&[u8]]) -> Lsn {
        self.log_entry(session, &Entry { kind, flags: 0, txn, prev }, body)
    }

    /// As [`LogManager::log`], with flags.
    ///
    /// # Panics
    /// As [`LogManager::log`].
    #[inline]
    pub fn log_entry(&self, session: &Session, entry: &Entry, body: &[&[u8]]) -> Lsn {
        let body_bytes = body.iter().map(|part| part.len()).sum();
        let header = RecordHeader::new(entry.kind, entry.flags, entry.txn, entry.prev, body_bytes);
        let length = header.length();
        if length <= 128 {
            self.append_small::<128>(session, &header, body)
        } else if length <= 192 {
            self.append_small::<192>(session, &header, body)
        } else if length <= 512 {
            self.append_small::<512>(session, &header, body)
        } else {
            self.append_large(session, &header, body)
        }
    }

    /// As [`LogManager::log_entry`], for a record whose body is already in a buffer: the record is copied once.
    ///
    /// # Panics
    /// As [`LogManager::log`].
    #[inline]
    pub fn log_buffer(&self, session: &Session, entry: &Entry, buffer: &mut RecordBuffer) -> Lsn {
        let header = RecordHeader::new(entry.kind, entry.flags, entry.txn, entry.prev, buffer.body().len());
        let record = buffer.seal(&header);
        let crc = crc(0, record);
        let lsn = self.append_assembled(session, entry.txn, record, crc);
        buffer.open(&header);
        lsn
    }

    #[inline(always)]
    fn append_small<const N: usize>(&self, session: &Session, header: &RecordHeader, body: &[&[u8]]) -> Lsn {
        let mut place = Place([0; N]);
        let record = &mut place.0[..header.length()];
        let crc = assemble(record, header, body);
        self.append_assembled(session, header.txn(), record, crc)
    }

    #[inline]
    fn append_assembled(&self, session: &Session, txn: TxnId, record: &mut [u8], crc: u32) -> Lsn {
        session.log_room().take(record.len() as u64);
        let latch = self.header.append.exclusive(session, Rank::LOG_APPEND);
        // Relaxed: only the latch's holder moves the tail.
        let lsn = self.header.tail.get();
        let end = lsn.plus(record.len() as u64);
        put_crc(record, seal(crc, lsn, self.incarnation));
        failpoint("log: latched, nothing copied");
        // Without room, the record would overwrite bytes that are not durable.
        assert!(self.ring.copy_in(lsn, end, record), "{NOT_RESERVED}");
        failpoint("log: copied, append not noted");
        self.publish(session, txn, lsn, end);
        failpoint("log: tail published, latch held");
        drop(latch);
        failpoint("log: tail published");
        lsn
    }

    /// Appends a record that is too large for the stack: copies it in pieces.
    fn append_large(&self, session: &Session, header: &RecordHeader, body: &[&[u8]]) -> Lsn {
        let padding = header.length() - RECORD_HEADER_BYTES - header.body_bytes();
        let mut head = Place([0; RECORD_HEADER_BYTES]);
        let mut crc = assemble(&mut head.0, header, &[]);
        for part in body {
            crc = crc32c::crc32c_append(crc, part);
        }
        crc = crc32c::crc32c_append(crc, &[0; 8][..padding]);

        session.log_room().take(header.length() as u64);
        let latch = self.header.append.exclusive(session, Rank::LOG_APPEND);
        // Relaxed: only the latch's holder moves the tail.
        let lsn = self.header.tail.get();
        put_crc(&mut head.0, seal(crc, lsn, self.incarnation));
        let end = lsn.plus(header.length() as u64);
        assert!(end <= self.header.ring_end.load(), "{NOT_RESERVED}");
        let mut copy = Pieces { log: self, at: lsn, place: Place([0; 1024]), filled: 0 };
        copy.push(&head.0);
        body.iter().for_each(|part| copy.push(part));
        copy.push(&[0; 8][..padding]);
        failpoint("log: large record half copied");
        copy.end();
        failpoint("log: large record copied");
        self.publish(session, header.txn(), lsn, end);
        failpoint("log: large record published");
        drop(latch);
        lsn
    }

    #[inline]
    fn publish(&self, session: &Session, txn: TxnId, lsn: Lsn, end: Lsn) {
        if planted("log: the tail is published before the session notes its append") {
            self.header.tail.publish(end);
        }
        if !planted("log: sessions do not note their appends") {
            session.note_append(lsn.raw(), txn.raw());
        }
        // Release: publishes the record's bytes to a thread that loads the tail with acquire.
        failpoint("log: append noted, tail not published");
        self.header.tail.publish(end);
    }

    /// Appends a flush mark, a record that has the log's durable end, if there is room (PROTOCOLS L2). A mark changes
    /// no page, so the session notes no append. A mark belongs to no transaction: the header's field for the
    /// transaction has the mark's time. If a record was reported durable before a time T, its LSN is below the last
    /// mark with a time before T. If an unfinished flush has left its mark, the next flush adds no second mark with the
    /// same durable end, because marks take room that other sessions have reserved. Returns the durable end and the
    /// tail after the mark.
    pub(crate) fn append_mark(&self, session: &Session) -> (Lsn, Lsn) {
        let wall = wall_micros();
        let latch = self.header.append.exclusive(session, Rank::LOG_APPEND);
        let durable = self.header.durable.load();
        // Relaxed: only the latch's holder moves the tail.
        let lsn = self.header.tail.get();
        if lsn <= durable {
            return (durable, durable);
        }
        let body = durable.raw().to_le_bytes();
        let (last, time) = (self.header.mark_time.get(), self.next_mark_time(wall));
        let header = RecordHeader::mark(time, body.len());
        let end = lsn.plus(header.length() as u64);
        let is_in_the_way = end > self.header.ring_end.load() || end > self.header.file_end.load();
        if is_in_the_way || self.ends_with_mark(lsn, durable) || planted("log: no flush marks are written") {
            return (durable, lsn);
        }
        let mut place = Place([0; MARK_BYTES]);
        let crc = assemble(&mut place.0, &header, &[&body]);
        put_crc(&mut place.0, seal(crc, lsn, self.incarnation));
        failpoint("log: flush mark not copied");
        assert!(self.ring.copy_in(lsn, end, &place.0), "the end of the ring was just checked");
        self.header.mark_time.init(time);
        // Release: as in `publish`.
        failpoint("log: flush mark copied");
        self.header.tail.publish(end);
        failpoint("log: flush mark published");
        drop(latch);
        self.warn_of_jumps(wall, last);
        (durable, end)
    }

    /// Returns whether the record before the tail is a flush mark that states this durable end.
    fn ends_with_mark(&self, tail: Lsn, durable: Lsn) -> bool {
        let mut place = [0; MARK_BYTES];
        if tail.since(durable) < MARK_BYTES as u64 {
            return false;
        }
        let lsn = tail.minus(MARK_BYTES as u64);
        self.ring.copy_out(lsn, &mut place) && mark_at(&place, lsn, self.incarnation) == Some(durable)
    }
}

/// A copier of parts of any length into the ring, in whole words.
struct Pieces<'l> {
    log: &'l LogManager,
    at: Lsn,
    place: Place<1024>,
    filled: usize,
}

impl Pieces<'_> {
    fn push(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            let room = self.place.0.len() - self.filled;
            let (now, later) = part.split_at(part.len().min(room));
            self.place.0[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            part = later;
            if self.filled == self.place.0.len() {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let end = self.at.plus(self.filled as u64);
        assert!(self.log.ring.copy_in(self.at, end, &self.place.0[..self.filled]), "{NOT_RESERVED}");
        self.at = end;
        self.filled = 0;
    }
}
