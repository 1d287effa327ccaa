//! A log record: a fixed header, and a body that the log does not interpret.
//!
//! Paper: LIBTP section 3.2.1, "a header structure, a log record type, and a character buffer". Byte table:
//! `docs/formats/log.md`. Departure: a checksum, which covers the record's own LSN and the log's incarnation, so bytes
//! that remain in a recycled segment, or beyond a torn tail, never pass for a record (PROTOCOLS L1).
//!
//! Invariants
//! 1. `length == round_up(32 + body_bytes, 8)`; the bytes after the body are zero.
//! 2. A record that does not verify at its LSN does not exist.
//!
//! The checksum of everything but LSN and incarnation is computed before the append latch is taken; under the latch
//! only LSN and incarnation are mixed in ([`seal`]).

use std::fmt;

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Lsn;

/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 32;
/// The largest body, in bytes.
pub const BODY_BYTES_MAX: usize = (1 << 20) - RECORD_HEADER_BYTES;
/// The largest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// The kind of a flush mark: its body is the durable end as it was when the flush began (PROTOCOLS L2).
pub const KIND_FLUSH_MARK: u16 = 1;
/// The kind of a filler: a record without meaning.
pub const KIND_FILLER: u16 = 2;

/// A transaction's number, never used twice. Zero: the record belongs to no transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TxnId(u64);

rio::bits!(TxnId: u64);

impl TxnId {
    /// No transaction.
    pub const NONE: TxnId = TxnId(0);

    /// Makes an id from a transaction's number.
    #[inline]
    pub const fn new(number: u64) -> TxnId {
        TxnId(number)
    }

    /// Returns the transaction's number.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns whether this is no transaction.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The header of a record, as it lies in the log.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHeader {
    length: U32,     // 00-03  of the whole record, a multiple of eight
    crc: U32,        // 04-07  CRC-32C of bytes 8.., mixed with LSN and incarnation: see `seal`
    kind: U16,       // 08-09
    flags: U16,      // 10-11  meaning given by whoever owns the kind
    body_bytes: U32, // 12-15
    txn: U64,        // 16-23
    prev: U64,       // 24-31  LSN of the transaction's previous record
}

const _: () = {
    assert!(size_of::<RecordHeader>() == RECORD_HEADER_BYTES);
    assert!(std::mem::offset_of!(RecordHeader, crc) == 4);
    assert!(std::mem::offset_of!(RecordHeader, kind) == 8);
    assert!(std::mem::offset_of!(RecordHeader, body_bytes) == 12);
    assert!(std::mem::offset_of!(RecordHeader, txn) == 16);
    assert!(std::mem::offset_of!(RecordHeader, prev) == 24);
};

impl RecordHeader {
    /// Makes a header for a body of `body_bytes`, without its checksum.
    ///
    /// # Panics
    /// If the body is longer than [`BODY_BYTES_MAX`].
    #[inline]
    pub(crate) fn new(kind: u16, flags: u16, txn: TxnId, prev: Lsn, body_bytes: usize) -> RecordHeader {
        assert!(body_bytes <= BODY_BYTES_MAX, "a record's body is at most 1 MiB less its header");
        let whole = |bytes: usize| U32::new(u32::try_from(bytes).expect("checked: a record is at most 1 MiB"));
        RecordHeader {
            length: whole(record_bytes(body_bytes)),
            crc: U32::ZERO,
            kind: U16::new(kind),
            flags: U16::new(flags),
            body_bytes: whole(body_bytes),
            txn: U64::new(txn.raw()),
            prev: U64::new(prev.raw()),
        }
    }

    /// Returns the bytes of the whole record, header and padding included.
    #[inline]
    pub fn length(&self) -> usize {
        self.length.get() as usize
    }

    /// Returns the record's kind; the crate that owns the number defines it.
    #[inline]
    pub fn kind(&self) -> u16 {
        self.kind.get()
    }

    /// Returns bits whose meaning the owner of the kind defines. Bit 0: a compensation record (CLR).
    #[inline]
    pub fn flags(&self) -> u16 {
        self.flags.get()
    }

    /// Returns the bytes of the body.
    #[inline]
    pub fn body_bytes(&self) -> usize {
        self.body_bytes.get() as usize
    }

    /// Returns the record's transaction, or [`TxnId::NONE`].
    #[inline]
    pub fn txn(&self) -> TxnId {
        TxnId(self.txn.get())
    }

    /// Returns the previous record of the same transaction, or [`Lsn::NONE`].
    #[inline]
    pub fn prev(&self) -> Lsn {
        Lsn::new(self.prev.get())
    }

    /// Reads a header that could be a record's: its lengths agree. Nothing else is checked yet.
    #[inline]
    pub(crate) fn plausible(bytes: &[u8]) -> Result<RecordHeader, Bad> {
        let (header, _) = RecordHeader::read_from_prefix(bytes).map_err(|_| Bad::Short)?;
        let body = header.body_bytes();
        if header.length() == 0 {
            return Err(Bad::Empty);
        }
        if body > BODY_BYTES_MAX || header.length() != record_bytes(body) {
            return Err(Bad::Lengths);
        }
        Ok(header)
    }
}

impl fmt::Debug for RecordHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordHeader")
            .field("kind", &self.kind())
            .field("flags", &self.flags())
            .field("txn", &self.txn())
            .field("prev", &self.prev())
            .field("body_bytes", &self.body_bytes())
            .finish_non_exhaustive()
    }
}

/// Returns the bytes in the log of a record whose body has `body_bytes`.
#[inline]
pub const fn record_bytes(body_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + body_bytes + 7) & !7
}

/// Folds the LSN and the incarnation into the checksum of everything else.
#[inline]
pub(crate) fn seal(crc: u32, lsn: Lsn, incarnation: u64) -> u32 {
    let [lsn_low, lsn_high] = halves(lsn.raw() / 8);
    let [incarnation_low, incarnation_high] = halves(incarnation);
    // Odd factors: two LSNs within 32 GiB, or two incarnations at one LSN, never give the same checksum; other pairs do
    // as seldom as two records.
    crc ^ lsn_low.wrapping_mul(0x9e37_79b1)
        ^ lsn_high.wrapping_mul(0x85eb_ca77)
        ^ incarnation_low.wrapping_mul(0xc2b2_ae3d)
        ^ incarnation_high
}

/// Returns the low and the high half.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the halves are wanted
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The log's bytes end here.
    Short,
    /// Zeros: nothing was ever written here.
    Empty,
    /// The lengths contradict each other.
    Lengths,
    /// The checksum is wrong for these bytes, this LSN and this incarnation.
    Checksum,
}

impl Bad {
    /// Returns the reason, half a sentence.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Bad::Short => "the file ends, or is missing",
            Bad::Empty => "there are zeros where a record should begin",
            Bad::Lengths => "the record's lengths contradict each other",
            Bad::Checksum => "the record's checksum is wrong",
        }
    }
}

/// Checks that `bytes` begin with a record that was logged at `lsn` in `incarnation`.
#[inline]
pub(crate) fn verify(bytes: &[u8], lsn: Lsn, incarnation: u64) -> Result<RecordHeader, Bad> {
    let header = RecordHeader::plausible(bytes)?;
    let rest = bytes.get(8..header.length()).ok_or(Bad::Short)?;
    if seal(crc(0, rest), lsn, incarnation) != header.crc.get() {
        return Err(Bad::Checksum);
    }
    Ok(header)
}

/// Writes a whole record into `place`, which has exactly its length: a small record on the stack, before the latch is
/// taken. Returns the checksum, not yet sealed.
#[inline(always)]
pub(crate) fn assemble(place: &mut [u8], header: &RecordHeader, body: &[&[u8]]) -> u32 {
    place[..RECORD_HEADER_BYTES].copy_from_slice(header.as_bytes());
    let mut at = RECORD_HEADER_BYTES;
    for part in body {
        place[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    place[at..].fill(0);
    crc(0, &place[8..])
}

/// Returns the CRC-32C of bytes that have the checksum `crc`, and of `bytes` after them.
#[inline]
pub(crate) fn crc(crc: u32, bytes: &[u8]) -> u32 {
    rio::short_crc32c(crc, bytes).unwrap_or_else(|| crc32c::crc32c_append(crc, bytes))
}

/// Puts the sealed checksum into a record's first bytes.
#[inline]
pub(crate) fn put_crc(place: &mut [u8], crc: u32) {
    place[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A record read from the log, with a body of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub lsn: Lsn,
    /// Its header.
    pub header: RecordHeader,
    /// Its body.
    pub body: Vec<u8>,
}

impl Record {
    /// Returns the same record, borrowed.
    pub fn borrow(&self) -> RecordRef<'_> {
        RecordRef { lsn: self.lsn, header: self.header, body: &self.body }
    }

    /// The position after it: where the next record begins.
    pub fn end(&self) -> Lsn {
        self.lsn.plus(self.header.length() as u64)
    }
}

/// A record read from the log, in a buffer that the next record will reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'b> {
    /// Where it lies.
    pub lsn: Lsn,
    /// Its header.
    pub header: RecordHeader,
    /// Its body.
    pub body: &'b [u8],
}

impl RecordRef<'_> {
    /// Returns when a flush mark was logged, in microseconds since 1970, never earlier than the mark before. `None` for
    /// other records, and for marks of builds that recorded no time.
    pub fn time(&self) -> Option<u64> {
        let is_said = self.header.kind() == KIND_FLUSH_MARK && self.header.prev() != Lsn::NONE;
        is_said.then(|| self.header.prev().raw())
    }

    /// Returns a copy that owns its body.
    pub fn to_record(&self) -> Record {
        Record { lsn: self.lsn, header: self.header, body: self.body.to_vec() }
    }

    /// The position after it: where the next record begins.
    #[inline]
    pub fn end(&self) -> Lsn {
        self.lsn.plus(self.header.length() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(lsn: Lsn, incarnation: u64, body: &[u8]) -> Vec<u8> {
        let header = RecordHeader::new(40, 1, TxnId::new(7), Lsn::new(64), body.len());
        let mut bytes = vec![0xAA; header.length()];
        let crc = assemble(&mut bytes, &header, &[&body[..body.len() / 2], &body[body.len() / 2..]]);
        put_crc(&mut bytes, seal(crc, lsn, incarnation));
        bytes
    }

    #[test]
    fn a_record_verifies_where_it_was_logged_and_nowhere_else() {
        let bytes = whole(Lsn::new(128), 3, b"thirteen byte");
        assert_eq!(bytes.len(), 48);
        let header = verify(&bytes, Lsn::new(128), 3).expect("it was logged there");
        assert_eq!((header.kind(), header.flags(), header.body_bytes()), (40, 1, 13));
        assert_eq!((header.txn(), header.prev()), (TxnId::new(7), Lsn::new(64)));
        assert_eq!(verify(&bytes, Lsn::new(136), 3), Err(Bad::Checksum), "another LSN");
        assert_eq!(verify(&bytes, Lsn::new(128), 4), Err(Bad::Checksum), "another incarnation");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = whole(Lsn::new(128), 3, b"some body");
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&bytes, Lsn::new(128), 3).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(verify(&good[..cut], Lsn::new(128), 3).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn both_ways_to_sum_a_record_agree_for_all_lengths() {
        let mut state = 1_u64;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let bytes: Vec<u8> = bytes.take(1200).collect();
        let mut short = 0;
        for length in 0..bytes.len() - 8 {
            for from in 0..8 {
                let part = &bytes[from..from + length];
                let sum = crc32c::crc32c_append(from as u32, part);
                assert_eq!(crc(from as u32, part), sum, "{length} bytes from {from} on");
                short += usize::from(rio::short_crc32c(from as u32, part).is_some_and(|it| it == sum));
            }
        }
        let has_instruction = rio::short_crc32c(0, &[]).is_some();
        assert_eq!(short, if has_instruction { 8 * 129 } else { 0 }, "whole words up to a kilobyte");
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(verify(&[0; 64], Lsn::new(8), 1), Err(Bad::Empty));
    }

    #[test]
    fn lengths_are_whole_words() {
        assert_eq!(record_bytes(0), 32);
        assert_eq!(record_bytes(1), 40);
        assert_eq!(record_bytes(8), 40);
        assert_eq!(record_bytes(BODY_BYTES_MAX), RECORD_BYTES_MAX);
    }
}
