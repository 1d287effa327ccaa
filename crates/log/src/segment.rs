//! Log segments: the files that hold the endless log, and the arithmetic that finds the place of a byte.
//!
//! Byte table: `docs/formats/log.md`. Segment `n`, from 1, is the file `log.%08u`. Its size is a function of `n` alone:
//! the first segment is small, and each next segment is twice as large, up to the largest size. So arithmetic gives the
//! place of an LSN, and there is no table of segments that could be wrong.
//!
//! Invariants
//! 1. A file with a segment's name has that segment's header, synced, before any record of it (PROTOCOLS L1): the file
//!    is prepared under another name and renamed when it is ready.
//! 2. Readers learn nothing from a header: they compute its expected contents, and refuse a file with another header
//!    (F3).

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Lsn;

/// Bytes of the block that holds a segment's header; the log's bytes begin after it.
pub const SEGMENT_HEADER_BYTES: u64 = 4096;
/// The version of the log's format.
pub const LOG_VERSION: u32 = 6;
/// The offset of a segment's note in the first block: in another sector than the header, so that writing the note
/// cannot tear the header.
pub(crate) const NOTE_AT: usize = 512;
const NOTE_BYTES: usize = 16;
const MAGIC: [u8; 8] = *b"libtplog";
/// The name of a segment's file while it is prepared.
pub const NAME_PREPARING: &str = "log.preparing";

/// Returns the name of segment `number`'s file.
pub fn segment_name(number: u32) -> String {
    format!("log.{number:08}")
}

/// Returns the number of the segment whose file is `name`, if `name` is a segment's name.
pub fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("log.")?;
    let all_digits = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&number| all_digits && number > 0)
}

/// The place of a byte of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment's number.
    pub segment: u32,
    /// The byte's offset in the segment's file.
    pub offset: u64,
    /// Bytes of the log from `offset` to the file's end.
    pub left: u64,
}

/// The sizes of an environment's segments. They determine the place of every LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    first: u64,
    /// How many times the size doubles.
    doublings: u32,
}

impl Geometry {
    /// Makes the geometry from the sizes of the first and the largest file. Returns `None` if a size is not a power of
    /// two from 16 KiB to 1 TiB, or if `first` is larger than `max`.
    pub fn new(first: u64, max: u64) -> Option<Geometry> {
        let good = first.is_power_of_two() && max.is_power_of_two();
        if !good || first < 16 << 10 || max < first || max > 1 << 40 {
            return None;
        }
        Some(Geometry { first, doublings: (max / first).trailing_zeros() })
    }

    /// Returns the length of segment `number`'s file in bytes.
    pub fn file_bytes(&self, number: u32) -> u64 {
        self.first << number.saturating_sub(1).min(self.doublings)
    }

    /// Returns the length of the largest file in bytes.
    pub fn file_bytes_max(&self) -> u64 {
        self.first << self.doublings
    }

    /// Returns the number of bytes of the log that segment `number` holds.
    pub fn payload_bytes(&self, number: u32) -> u64 {
        self.file_bytes(number) - SEGMENT_HEADER_BYTES
    }

    /// Returns the position of segment `number`'s first byte.
    pub fn start(&self, number: u32) -> Lsn {
        let before = u64::from(number.saturating_sub(1));
        let growing = before.min(u64::from(self.doublings));
        let files = self.first * ((1 << growing) - 1) + (before - growing) * self.file_bytes_max();
        Lsn::new(files - before * SEGMENT_HEADER_BYTES)
    }

    /// Returns the position after segment `number`'s last byte.
    pub fn end(&self, number: u32) -> Lsn {
        self.start(number).plus(self.payload_bytes(number))
    }

    /// Returns whether a log may have a record at `lsn`, or end there: `lsn` is a multiple of eight, below 2^55 (a
    /// record's LSN has 55 bits), and far below the end of the segment numbers.
    pub fn may_reach(&self, lsn: Lsn) -> bool {
        let least_bytes = self.payload_bytes(1);
        lsn.raw() % 8 == 0 && lsn.raw() >> 55 == 0 && lsn.raw() / least_bytes < u64::from(u32::MAX / 2)
    }

    /// Returns the place of the byte at `lsn`.
    ///
    /// # Panics
    /// If the segment's number passes 2^32, after some 10^17 bytes of log.
    pub fn locate(&self, lsn: Lsn) -> Place {
        let mut number = 1;
        while number <= self.doublings && lsn >= self.end(number) {
            number += 1;
        }
        let whole = lsn.since(self.start(number)) / self.payload_bytes(number);
        let segment = u64::from(number) + whole;
        let segment = u32::try_from(segment).expect("a log has fewer than 2^32 segments");
        let into = lsn.since(self.start(segment));
        Place { segment, offset: SEGMENT_HEADER_BYTES + into, left: self.payload_bytes(segment) - into }
    }
}

/// The header of a segment file; the rest of its block is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SegmentHeader {
    magic: [u8; 8],        // 00-07  "libtplog"
    version: U32,          // 08-11
    crc: U32,              // 12-15  CRC-32C of bytes 16..4096, with zeros for the note
    number: U32,           // 16-19
    spare: U32,            // 20-23  zero
    first: U64,            // 24-31  position of the segment's first byte in the log
    bytes: U64,            // 32-39  length of the whole file
    incarnation: U64,      // 40-47  the log's incarnation when the segment was prepared
    environment: [u8; 16], // 48-63
}

const _: () = assert!(size_of::<SegmentHeader>() == 64);

/// A segment's note that log was written into the next segment. Zeros until then.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct SegmentNote {
    durable: U64, // 00-07  the log was durable up to here when the next segment was begun
    crc: U32,     // 08-11  CRC-32C of `durable`, the segment's number and the environment's id
    spare: U32,   // 12-15  zero
}

const _: () = assert!(size_of::<SegmentNote>() == NOTE_BYTES);

fn note_crc(durable: U64, number: u32, environment: [u8; 16]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(durable.as_bytes()), &number.to_le_bytes());
    crc32c::crc32c_append(crc, &environment)
}

/// Returns the note of segment `number`, which states that the next segment has log, and that the log is durable up
/// to `durable`.
pub(crate) fn note(number: u32, environment: [u8; 16], durable: Lsn) -> [u8; NOTE_BYTES] {
    let durable = U64::new(durable.raw());
    let crc = U32::new(note_crc(durable, number, environment));
    let note = SegmentNote { durable, crc, spare: U32::ZERO };
    note.as_bytes().try_into().expect("a note has sixteen bytes")
}

/// Returns the durable end in the note in the first block of segment `number`, if the note is valid.
pub(crate) fn noted(block: &[u8], number: u32, environment: [u8; 16]) -> Option<Lsn> {
    let (note, _) = SegmentNote::read_from_prefix(block.get(NOTE_AT..)?).ok()?;
    let is_good = note.durable != U64::ZERO && note.crc.get() == note_crc(note.durable, number, environment);
    is_good.then(|| Lsn::new(note.durable.get()))
}

/// Returns the checksum of a first block, computed as if the note were zeros.
fn header_crc(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&block[16..NOTE_AT]), &[0; NOTE_BYTES]);
    crc32c::crc32c_append(crc, &block[NOTE_AT + NOTE_BYTES..])
}

/// The reason why a header is wrong, as half a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongHeader(pub(crate) String);

/// Returns the block that begins segment `number`'s file.
pub(crate) fn header_block(geometry: &Geometry, number: u32, incarnation: u64, environment: [u8; 16]) -> Vec<u8> {
    let mut header = SegmentHeader {
        magic: MAGIC,
        version: U32::new(LOG_VERSION),
        crc: U32::ZERO,
        number: U32::new(number),
        spare: U32::ZERO,
        first: U64::new(geometry.start(number).raw()),
        bytes: U64::new(geometry.file_bytes(number)),
        incarnation: U64::new(incarnation),
        environment,
    };
    let mut block = vec![0; 4096];
    block[..64].copy_from_slice(header.as_bytes());
    header.crc = U32::new(header_crc(&block));
    block[..64].copy_from_slice(header.as_bytes());
    block
}

/// Checks that `block` is the header of segment `number` of this environment.
pub(crate) fn check_header(
    block: &[u8],
    geometry: &Geometry,
    number: u32,
    environment: [u8; 16],
) -> Result<(), WrongHeader> {
    let wrong = |what: &str| Err(WrongHeader(what.to_string()));
    let Ok((header, _)) = SegmentHeader::read_from_prefix(block) else {
        return wrong("its header is cut off");
    };
    if block.len() < 4096 {
        return wrong("its header is cut off");
    }
    if header.magic != MAGIC {
        return wrong("its header is not that of a log segment");
    }
    if header.version.get() != LOG_VERSION {
        let found = header.version.get();
        return wrong(&format!("its format has version {found}, and this build reads version {LOG_VERSION}"));
    }
    if header.crc.get() != header_crc(&block[..4096]) {
        return wrong("its header's checksum is wrong");
    }
    if header.environment != environment {
        return wrong("it belongs to another environment");
    }
    let expected = (number, geometry.start(number).raw(), geometry.file_bytes(number));
    let found = (header.number.get(), header.first.get(), header.bytes.get());
    if found != expected {
        return wrong(&format!("its header is the header of segment {}", header.number.get()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Geometry {
        Geometry::new(16 << 10, 64 << 10).expect("good sizes")
    }

    #[test]
    fn segment_sizes_double_up_to_the_largest_size() {
        let sizes: Vec<u64> = (1..=5).map(|number| small().file_bytes(number) >> 10).collect();
        assert_eq!(sizes, [16, 32, 64, 64, 64]);
        let fixed = Geometry::new(1 << 20, 1 << 20).expect("good sizes");
        assert_eq!((fixed.file_bytes(1), fixed.file_bytes(9)), (1 << 20, 1 << 20));
    }

    #[test]
    fn bad_sizes_are_refused() {
        for (first, max) in [(1000, 1 << 20), (1 << 20, 3 << 20), (8 << 10, 1 << 20), (2 << 20, 1 << 20), (0, 0)] {
            assert!(Geometry::new(first, max).is_none(), "{first} {max}");
        }
    }

    #[test]
    fn a_log_reaches_as_far_as_the_lsn_of_a_record() {
        let geometry = Geometry::new(1 << 30, 1 << 30).expect("good sizes");
        assert!(geometry.may_reach(Lsn::new((1 << 55) - 8)));
        assert!(!geometry.may_reach(Lsn::new(1 << 55)));
    }

    #[test]
    fn every_byte_of_the_log_has_exactly_one_place() {
        let geometry = small();
        let mut next = Lsn::NONE;
        for number in 1..=40 {
            assert_eq!(geometry.start(number), next, "segment {number} begins where the last one ended");
            for into in [0, 8, geometry.payload_bytes(number) - 8] {
                let place = geometry.locate(next.plus(into));
                let left = geometry.payload_bytes(number) - into;
                assert_eq!(place, Place { segment: number, offset: 4096 + into, left });
            }
            next = geometry.end(number);
        }
    }

    #[test]
    fn only_the_name_of_a_segment_has_a_segment_number() {
        assert_eq!(segment_number(&segment_name(1)), Some(1));
        assert_eq!(segment_number(&segment_name(12_345_678)), Some(12_345_678));
        for name in ["log.00000000", "log.1", "log.preparing", "log.000000001", "bank.tp", "log.+0000001"] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }

    #[test]
    fn a_note_leaves_the_header_valid_and_counts_for_its_own_segment_only() {
        let geometry = small();
        let mut block = header_block(&geometry, 3, 7, [9; 16]);
        assert_eq!(noted(&block, 3, [9; 16]), None);
        block[NOTE_AT..NOTE_AT + NOTE_BYTES].copy_from_slice(&note(3, [9; 16], Lsn::new(4711)));
        assert_eq!(check_header(&block, &geometry, 3, [9; 16]), Ok(()));
        assert_eq!(noted(&block, 3, [9; 16]), Some(Lsn::new(4711)));
        assert_eq!((noted(&block, 2, [9; 16]), noted(&block, 3, [8; 16])), (None, None));
        block[NOTE_AT] ^= 1;
        assert_eq!(noted(&block, 3, [9; 16]), None);
        assert_eq!(check_header(&block, &geometry, 3, [9; 16]), Ok(()));
    }

    #[test]
    fn a_header_with_any_wrong_field_is_refused() {
        let geometry = small();
        let block = header_block(&geometry, 3, 7, [9; 16]);
        assert_eq!(check_header(&block, &geometry, 3, [9; 16]), Ok(()));
        let reason = |block: &[u8], number, environment| {
            check_header(block, &geometry, number, environment).expect_err("the header is wrong").0
        };
        assert!(reason(&block, 4, [9; 16]).contains("segment 3"));
        assert!(reason(&block, 3, [8; 16]).contains("another environment"));
        assert!(reason(&block[..100], 3, [9; 16]).contains("cut off"));
        for byte in [0, 9, 13, 20, 60, 4000] {
            let mut bad = block.clone();
            bad[byte] ^= 1;
            reason(&bad, 3, [9; 16]);
        }
    }
}
