//! A log record: a fixed header, and a body that the log does not interpret.
//!
//! Paper: LIBTP section 3.2.1, "a header structure, a log record type, and a character buffer". Byte table:
//! `docs/formats/log.md`. Departure: a checksum, which covers the record's own LSN and the log's incarnation, so bytes
//! that remain in a recycled segment, or beyond a torn tail, are never taken for a record (PROTOCOLS L1).
//!
//! Invariants
//! 1. A record has `round_up(24 + body_bytes, 8)` bytes; the bytes after the body are zero.
//! 2. Bytes that do not verify at their LSN are not a record.
//!
//! The checksum of everything but LSN and incarnation is computed before the append latch is taken; under the latch
//! only LSN and incarnation are mixed in ([`seal`]).

use std::fmt;

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Lsn;

/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 24;
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

/// The header of a record, as it is stored in the log.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHeader {
    crc: U32,      // 00-03  CRC-32C of the record with zeros here, mixed with LSN and incarnation: see `seal`
    kind: U16,     // 04-05  never zero
    body_low: U16, // 06-07  the low 16 bits of the body's length
    txn: U64,      // 08-15  in a flush mark: the time
    link: U64,     // 16-23  bits 0 to 2: flags; 3 to 54: the previous record's LSN; 56 to 63: the length's next 8 bits
}

/// The bits of the previous record's LSN in [`RecordHeader::link`].
const PREV_BITS: u64 = ((1 << 55) - 1) & !FLAG_BITS;
const FLAG_BITS: u64 = 7;
const BODY_SHIFT: u32 = 56;
/// A bit that is always zero.
const SPARE_BIT: u64 = 1 << 55;

const _: () = {
    assert!(size_of::<RecordHeader>() == RECORD_HEADER_BYTES);
    assert!(std::mem::offset_of!(RecordHeader, kind) == 4);
    assert!(std::mem::offset_of!(RecordHeader, body_low) == 6);
    assert!(std::mem::offset_of!(RecordHeader, txn) == 8);
    assert!(std::mem::offset_of!(RecordHeader, link) == 16);
    assert!(<Lsn as rio::Checkable>::FREE & PREV_BITS == 0);
};

impl RecordHeader {
    /// Makes a header for a body of `body_bytes`, without its checksum.
    ///
    /// # Panics
    /// If the body is longer than [`BODY_BYTES_MAX`], `kind` is zero, or `flags` has more than three bits.
    #[inline]
    pub(crate) fn new(kind: u16, flags: u16, txn: TxnId, prev: Lsn, body_bytes: usize) -> RecordHeader {
        assert!(body_bytes <= BODY_BYTES_MAX, "a record's body is at most 1 MiB less its header");
        assert!(kind != 0 && u64::from(flags) <= FLAG_BITS, "a record has a kind, and three flags at most");
        debug_assert_eq!(prev.raw() & !PREV_BITS, 0, "the previous record has an LSN");
        let [low, high] = [body_bytes & 0xFFFF, body_bytes >> 16];
        RecordHeader {
            crc: U32::ZERO,
            kind: U16::new(kind),
            body_low: U16::new(u16::try_from(low).expect("sixteen bits")),
            txn: U64::new(txn.raw()),
            link: U64::new((high as u64) << BODY_SHIFT | prev.raw() & PREV_BITS | u64::from(flags)),
        }
    }

    /// Makes the header of a flush mark that is logged at `time`, in microseconds since 1970.
    pub(crate) fn mark(time: u64, body_bytes: usize) -> RecordHeader {
        RecordHeader::new(KIND_FLUSH_MARK, 0, TxnId::new(time), Lsn::NONE, body_bytes)
    }

    /// Returns the bytes of the whole record, header and padding included.
    #[inline]
    pub fn length(&self) -> usize {
        record_bytes(self.body_bytes())
    }

    /// Returns the number of the record's kind. The crate that owns the number defines its meaning.
    #[inline]
    pub fn kind(&self) -> u16 {
        self.kind.get()
    }

    /// Returns three bits whose meaning the owner of the kind defines. Bit 0: a compensation record (CLR).
    #[inline]
    pub fn flags(&self) -> u16 {
        u16::try_from(self.link.get() & FLAG_BITS).unwrap_or(0)
    }

    /// Returns the bytes of the body.
    #[inline]
    pub fn body_bytes(&self) -> usize {
        let [.., high] = self.link.get().to_le_bytes();
        usize::from(high) << 16 | usize::from(self.body_low.get())
    }

    /// Returns the record's transaction, or [`TxnId::NONE`].
    #[inline]
    pub fn txn(&self) -> TxnId {
        if self.kind() == KIND_FLUSH_MARK {
            return TxnId::NONE;
        }
        TxnId(self.txn.get())
    }

    /// Returns the previous record of the same transaction, or [`Lsn::NONE`].
    #[inline]
    pub fn prev(&self) -> Lsn {
        Lsn::new(self.link.get() & PREV_BITS)
    }

    /// Returns when a flush mark was logged, in microseconds since 1970. The time is never earlier than that of the
    /// previous mark. `None` for other records.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        (self.kind() == KIND_FLUSH_MARK).then(|| self.txn.get())
    }

    /// Reads a header that could be a record's: it has a kind, and the length is possible. Nothing else is checked yet.
    #[inline]
    pub(crate) fn plausible(bytes: &[u8]) -> Result<RecordHeader, BadRecord> {
        let (header, _) = RecordHeader::read_from_prefix(bytes).map_err(|_| BadRecord::Short)?;
        if header.kind() == 0 {
            return Err(BadRecord::Empty);
        }
        let is_spare_used = header.link.get() & SPARE_BIT != 0;
        if header.body_bytes() > BODY_BYTES_MAX || is_spare_used {
            return Err(BadRecord::Header);
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

/// Returns the number of bytes that a record takes in the log if its body has `body_bytes`.
#[inline]
pub const fn record_bytes(body_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + body_bytes + 7) & !7
}

/// Folds the LSN and the incarnation into the checksum of everything else.
#[inline]
pub(crate) fn seal(crc: u32, lsn: Lsn, incarnation: u64) -> u32 {
    let [lsn_low, lsn_high] = halves(lsn.raw() / 8);
    let [incarnation_low, incarnation_high] = halves(incarnation);
    // The factors are odd. So for one record, two LSNs within 32 GiB never give the same checksum, and neither do two
    // incarnations at one LSN. Other pairs of an LSN and an incarnation have equal checksums as rarely as two different
    // records.
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

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRecord {
    /// The log's bytes end here.
    Short,
    /// Zeros: nothing was ever written here.
    Empty,
    /// The header states an impossible length.
    Header,
    /// The checksum is wrong for these bytes, this LSN and this incarnation.
    Checksum,
}

impl BadRecord {
    /// Returns the reason, as half a sentence.
    pub(crate) fn what(self) -> &'static str {
        match self {
            BadRecord::Short => "no more of the log can be read there",
            BadRecord::Empty => "there are zeros where a record should begin",
            BadRecord::Header => "no record has such a header",
            BadRecord::Checksum => "the record's checksum is wrong",
        }
    }
}

/// Checks that `bytes` begin with a record that was logged at `lsn` in `incarnation`.
#[inline]
pub(crate) fn verify(bytes: &[u8], lsn: Lsn, incarnation: u64) -> Result<RecordHeader, BadRecord> {
    let header = RecordHeader::plausible(bytes)?;
    let record = bytes.get(..header.length()).ok_or(BadRecord::Short)?;
    if seal(stored_crc(record), lsn, incarnation) != header.crc.get() {
        return Err(BadRecord::Checksum);
    }
    Ok(header)
}

/// Writes a whole record into `place`, which has exactly the record's length and is all zeros. Used for a small record,
/// on the stack, before the latch is taken. Returns the checksum, not yet sealed.
#[inline(always)]
pub(crate) fn assemble(place: &mut [u8], header: &RecordHeader, body: &[&[u8]]) -> u32 {
    place[..RECORD_HEADER_BYTES].copy_from_slice(header.as_bytes());
    let mut at = RECORD_HEADER_BYTES;
    for part in body {
        place[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    crc(0, place)
}

/// Continues the CRC-32C `crc` of earlier bytes over `bytes`. The bytes of a record's checksum count as zeros.
#[inline]
pub(crate) fn crc(crc: u32, bytes: &[u8]) -> u32 {
    rio::short_crc32c(crc, bytes).unwrap_or_else(|| crc32c::crc32c_append(crc, bytes))
}

/// Returns the CRC-32C of a stored record. The bytes of its checksum count as zeros.
#[inline]
pub(crate) fn stored_crc(record: &[u8]) -> u32 {
    let (head, rest) = record.split_at(8);
    let [_, _, _, _, kind_low, kind_high, low, high] = head.try_into().unwrap_or([0; 8]);
    crc(crc(0, &[0, 0, 0, 0, kind_low, kind_high, low, high]), rest)
}

/// Puts the sealed checksum into a record's first bytes.
#[inline]
pub(crate) fn put_crc(place: &mut [u8], crc: u32) {
    place[..4].copy_from_slice(&crc.to_le_bytes());
}

/// A record read from the log, which owns its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its LSN.
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

    /// Returns the position after the record, where the next record begins.
    pub fn end(&self) -> Lsn {
        self.lsn.plus(self.header.length() as u64)
    }
}

/// A record read from the log, in a buffer that the next record will reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'b> {
    /// Its LSN.
    pub lsn: Lsn,
    /// Its header.
    pub header: RecordHeader,
    /// Its body.
    pub body: &'b [u8],
}

impl RecordRef<'_> {
    /// Returns a copy that owns its body.
    pub fn to_record(&self) -> Record {
        Record { lsn: self.lsn, header: self.header, body: self.body.to_vec() }
    }

    /// Returns the position after the record, where the next record begins.
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
        let mut bytes = vec![0; header.length()];
        let crc = assemble(&mut bytes, &header, &[&body[..body.len() / 2], &body[body.len() / 2..]]);
        put_crc(&mut bytes, seal(crc, lsn, incarnation));
        bytes
    }

    #[test]
    fn a_record_verifies_where_it_was_logged_and_nowhere_else() {
        let bytes = whole(Lsn::new(128), 3, b"thirteen byte");
        assert_eq!(bytes.len(), 40);
        let header = verify(&bytes, Lsn::new(128), 3).expect("the record was logged there");
        assert_eq!((header.kind(), header.flags(), header.body_bytes()), (40, 1, 13));
        assert_eq!((header.txn(), header.prev()), (TxnId::new(7), Lsn::new(64)));
        assert_eq!(verify(&bytes, Lsn::new(136), 3), Err(BadRecord::Checksum), "another LSN");
        assert_eq!(verify(&bytes, Lsn::new(128), 4), Err(BadRecord::Checksum), "another incarnation");
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
    fn a_header_returns_the_values_that_it_was_made_from_at_every_bound() {
        let last = Lsn::new((1 << 55) - 8);
        for body_bytes in [0, 1, 0xFFFF, 0x1_0000, 0x1_0001, 0xA_5A5A, BODY_BYTES_MAX] {
            for (prev, flags, kind) in [(Lsn::NONE, 0, 2), (Lsn::FIRST, 7, u16::MAX), (last, 1, 1024)] {
                let txn = TxnId::new(u64::MAX - 1);
                let header = RecordHeader::new(kind, flags, txn, prev, body_bytes);
                let read = RecordHeader::plausible(header.as_bytes()).expect("the bytes are a header");
                assert_eq!((read.kind(), read.flags(), read.txn(), read.prev()), (kind, flags, txn, prev));
                assert_eq!((read.body_bytes(), read.length()), (body_bytes, record_bytes(body_bytes)));
                assert_eq!(read.time(), None);
            }
        }
        let mark = RecordHeader::mark(1 << 63, 8);
        assert_eq!((mark.time(), mark.txn(), mark.prev()), (Some(1 << 63), TxnId::NONE, Lsn::NONE));
    }

    #[test]
    fn a_header_with_one_wrong_field_is_refused() {
        let good = RecordHeader::new(40, 1, TxnId::new(7), Lsn::new(64), 100);
        let read = |header: RecordHeader| RecordHeader::plausible(header.as_bytes());
        assert_eq!(read(good), Ok(good));
        let wrong = [
            (RecordHeader { kind: U16::ZERO, ..good }, BadRecord::Empty),
            (RecordHeader { link: U64::new(good.link.get() | SPARE_BIT), ..good }, BadRecord::Header),
            (RecordHeader { link: U64::new(good.link.get() | 16 << BODY_SHIFT), ..good }, BadRecord::Header),
            (RecordHeader { body_low: U16::new(0xFFE9), link: U64::new(15 << BODY_SHIFT), ..good }, BadRecord::Header),
        ];
        for (header, bad) in wrong {
            assert_eq!(read(header), Err(bad));
        }
        assert_eq!(RecordHeader::plausible(&good.as_bytes()[..23]), Err(BadRecord::Short));
    }

    #[test]
    fn both_ways_to_compute_a_checksum_agree_for_all_lengths() {
        let mut state = 1_u64;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let bytes: Vec<u8> = bytes.take(1200).collect();
        let mut short = 0;
        for length in 0..bytes.len() - 8 {
            for from in 0..8_u8 {
                let (before, from) = (u32::from(from), usize::from(from));
                let part = &bytes[from..from + length];
                let sum = crc32c::crc32c_append(before, part);
                assert_eq!(crc(before, part), sum, "{length} bytes from {from} on");
                short += usize::from(rio::short_crc32c(before, part).is_some_and(|it| it == sum));
            }
        }
        let has_instruction = rio::short_crc32c(0, &[]).is_some();
        assert_eq!(short, if has_instruction { 8 * 129 } else { 0 }, "whole words up to a kilobyte");
    }

    #[test]
    fn zeros_are_not_a_record() {
        assert_eq!(verify(&[0; 64], Lsn::new(8), 1), Err(BadRecord::Empty));
    }

    #[test]
    fn lengths_are_whole_words() {
        assert_eq!(record_bytes(0), 24);
        assert_eq!(record_bytes(1), 32);
        assert_eq!(record_bytes(8), 32);
        assert_eq!(record_bytes(BODY_BYTES_MAX), RECORD_BYTES_MAX);
    }
}
