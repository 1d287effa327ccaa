//! The buffer in which a record is built before it is copied into the ring.
//!
//! A short body is written into an array of fixed length. Each store has a constant length and may write beyond the
//! body's end. The array is never cleared. Other bodies are appended to a vector.

use zerocopy::IntoBytes;

use crate::{RecordHeader, RECORD_HEADER_BYTES};

/// The longest body that [`RecordBuffer::put_short`] takes.
pub const SHORT_BODY_BYTES: usize = 232;
/// The length of the room for a short body: stores may go beyond the body's end.
pub const SHORT_ROOM_BYTES: usize = SHORT_BODY_BYTES + 16;

const PLACE_BYTES: usize = RECORD_HEADER_BYTES + SHORT_ROOM_BYTES;

/// Room for a record, aligned so that checksum and copy work on whole words.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Place<const N: usize>(pub(crate) [u8; N]);

/// A buffer in which a record is built: room for the header, then the body.
#[derive(Clone, Debug)]
pub struct RecordBuffer {
    short: Place<PLACE_BYTES>,
    /// The bytes of the body in `short`; zero if the body is in `bytes`.
    short_bytes: usize,
    /// Either empty, or room for the header and then the body.
    bytes: Vec<u8>,
}

impl Default for RecordBuffer {
    fn default() -> RecordBuffer {
        RecordBuffer { short: Place([0; PLACE_BYTES]), short_bytes: 0, bytes: Vec::new() }
    }
}

impl RecordBuffer {
    /// Empties the buffer.
    #[inline]
    pub fn clear(&mut self) {
        self.short_bytes = 0;
        // The header's room stays.
        self.bytes.truncate(RECORD_HEADER_BYTES);
    }

    /// Returns the empty buffer for writing the body. The caller appends to it, and does not change its present bytes.
    #[inline]
    pub fn writer(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        }
        &mut self.bytes
    }

    /// Makes the empty buffer hold a short body. `write` writes the body at the front of the room, and returns the
    /// number of its bytes. The room has bytes of earlier records, also after the body.
    ///
    /// # Panics
    /// If the body is empty or longer than [`SHORT_BODY_BYTES`].
    #[inline(always)]
    pub fn put_short(&mut self, write: impl FnOnce(&mut [u8; SHORT_ROOM_BYTES]) -> usize) {
        let Some((_, room)) = self.short.0.split_first_chunk_mut::<RECORD_HEADER_BYTES>() else { return };
        let Some(room) = room.first_chunk_mut() else { return };
        let bytes = write(room);
        assert!(bytes != 0 && bytes <= SHORT_BODY_BYTES, "a short body has at most {SHORT_BODY_BYTES} bytes");
        self.short_bytes = bytes;
    }

    /// Returns the body.
    #[inline]
    pub fn body(&self) -> &[u8] {
        match self.short_bytes {
            0 => self.bytes.get(RECORD_HEADER_BYTES..).unwrap_or_default(),
            bytes => &self.short.0[RECORD_HEADER_BYTES..][..bytes],
        }
    }

    /// Returns the whole record, without its checksum; the body stays unchanged until [`RecordBuffer::open`].
    #[inline(always)]
    pub(crate) fn seal(&mut self, header: &RecordHeader) -> &mut [u8] {
        if self.short_bytes != 0 {
            let end = RECORD_HEADER_BYTES + self.short_bytes;
            self.short.0[..RECORD_HEADER_BYTES].copy_from_slice(header.as_bytes());
            self.short.0[end..end + 8].copy_from_slice(&[0; 8]);
            return &mut self.short.0[..header.length()];
        }
        let bytes = self.writer();
        bytes[..RECORD_HEADER_BYTES].copy_from_slice(header.as_bytes());
        // Eight bytes are appended and then truncated, so that the copy has a constant length.
        bytes.extend_from_slice(&[0; 8]);
        bytes.truncate(header.length());
        bytes
    }

    /// Removes the padding.
    #[inline(always)]
    pub(crate) fn open(&mut self, header: &RecordHeader) {
        if self.short_bytes == 0 {
            self.bytes.truncate(RECORD_HEADER_BYTES + header.body_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lsn, TxnId};

    #[test]
    fn a_short_body_is_sealed_like_a_body_in_the_vector() {
        let (mut short, mut long) = (RecordBuffer::default(), RecordBuffer::default());
        for bytes in (1..=SHORT_BODY_BYTES).rev() {
            let body: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap() + 1).collect();
            short.clear();
            short.put_short(|room| {
                room.fill(0xEE);
                room[..bytes].copy_from_slice(&body);
                bytes
            });
            long.clear();
            long.writer().extend_from_slice(&body);
            let header = RecordHeader::new(40, 0, TxnId::new(7), Lsn::new(64), bytes);
            assert_eq!(short.seal(&header), long.seal(&header), "{bytes} bytes");
            short.open(&header);
            long.open(&header);
            assert_eq!((short.body(), long.body()), (&body[..], &body[..]));
        }
        short.clear();
        assert_eq!(short.body(), b"");
    }
}
