//! The body of a log record that changes one record: an insertion, an update, a deletion, in every access method.
//!
//! Most bytes of the log are in such bodies, so they are as short as possible. A number has only as many bytes as it
//! needs. A zero, and a length that follows from other lengths, have no bytes. Byte table: docs/formats/log.md.
//!
//! The session that makes a change builds the [`Changed`] and applies it. Recovery, undo and snapshots read it from the
//! body. In debug builds each body that is written is read back and compared.

use libtp_buffer::PageId;
use libtp_log::{Lsn, RecordBuffer, SHORT_BODY_BYTES, SHORT_ROOM_BYTES};
use libtp_txn::{Damage, PageList};

use crate::log_body::{name_page, take, UNREADABLE};
use crate::page::record_lsn::{lsn_of_eighth, RecordFlags};

/// A change of one record. The values are stored values, which include references to chains. The removed bytes are
/// usually borrowed from the page, so they have a shorter lifetime than the other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed<'c, 'b> {
    /// The packed identifier of the record's page.
    pub page: u64,
    /// The record's slot; for an insertion, its index in the slot array.
    pub slot: usize,
    /// The whole key; empty in a file of records by number.
    pub key: &'b [u8],
    /// The offset in the value at which the change begins.
    pub offset: usize,
    /// The bytes that are removed at `offset`.
    pub cut: &'c [u8],
    /// The bytes that are inserted at `offset`.
    pub put: &'b [u8],
    /// The flags before the change.
    pub flags_before: RecordFlags,
    /// The flags after the change.
    pub flags_after: RecordFlags,
    /// The LSN that the record had, which leads to its older versions; `Lsn::NONE` if there was no record.
    pub lsn_before: Lsn,
}

/// A change in the middle of a value.
#[derive(Clone, Copy)]
pub(crate) struct Edit<'e> {
    /// The offset at which the change begins.
    pub(crate) offset: usize,
    /// The number of bytes that are removed at `offset`.
    pub(crate) cut: usize,
    /// The bytes that are inserted at `offset`.
    pub(crate) put: &'e [u8],
}

/// The largest number of bytes of a body without key, cut and put.
pub const BODY_HEAD_MAX: usize = 32;

// format: begin

/// Bits of the first byte: the number of bytes of `lsn_before / 8`.
const LSN_BYTES: u8 = 7;
/// Bits of the first byte: which of the body's last bytes are the cut and which are the put.
const PARTS: u8 = 3 << 3;
/// All last bytes are the put.
const PUT_ONLY: u8 = 0 << 3;
/// All last bytes are the cut.
const CUT_ONLY: u8 = 1 << 3;
/// The first half is the cut, the second half is the put.
const HALVES: u8 = 2 << 3;
/// The body states the number of the cut's bytes.
const COUNTED: u8 = 3 << 3;
/// Bit of the first byte: the body has a byte of flags.
const FLAGS: u8 = 1 << 5;
/// Bit of the first byte: the key is empty, the offset is zero, and the body has neither.
const BARE: u8 = 1 << 6;
/// Bit of the first byte: a number needs more than its usual bytes.
const WIDE: u8 = 1 << 7;

/// The usual bytes of a page's number.
const PAGE_BYTES: usize = 3;
/// The usual number of bytes of the first byte, the file, the page and the slot together. [`HEAD_BYTES`] also includes
/// the usual bytes of the key's length and the offset.
const BARE_BYTES: usize = 3 + PAGE_BYTES;
const HEAD_BYTES: usize = BARE_BYTES + 2;

impl<'b> Changed<'_, 'b> {
    /// Returns whether the record changes at all.
    #[inline]
    pub fn is_any(&self) -> bool {
        !(self.cut.is_empty() && self.put.is_empty()) || self.flags_before != self.flags_after
    }

    /// Returns a readable description of the change of the value.
    pub(crate) fn describe(&self) -> String {
        let Changed { offset, cut, put, flags_before: before, flags_after: after, lsn_before: lsn, .. } = self;
        let (cut, put) = (cut.len(), put.len());
        format!("at {offset}: {cut} bytes removed, {put} inserted, {before:?} to {after:?}, was LSN {lsn}")
    }

    /// Puts the body into an empty buffer.
    #[inline]
    pub fn write(&self, record: &mut RecordBuffer) {
        if self.bytes_max() <= SHORT_BODY_BYTES {
            record.put_short(|room| {
                let mut body = ShortBody { at: 0, room };
                self.write_head(&mut body);
                body.bytes(self.key);
                body.bytes(self.cut);
                body.bytes(self.put);
                body.at
            });
        } else {
            self.write_long(record.writer());
        }
        debug_assert_eq!(
            Changed::read(record.body()).as_ref(),
            Ok(self),
            "the body has the change that it was written for"
        );
    }

    /// Returns an upper bound of the body's length.
    #[inline]
    pub fn bytes_max(&self) -> usize {
        BODY_HEAD_MAX + self.key.len() + self.cut.len() + self.put.len()
    }

    #[cold]
    fn write_long(&self, body: &mut Vec<u8>) {
        let mut room = [0; SHORT_ROOM_BYTES];
        let mut head = ShortBody { at: 0, room: &mut room };
        self.write_head(&mut head);
        let head_bytes = head.at;
        body.extend_from_slice(&room[..head_bytes]);
        [self.key, self.cut, self.put].iter().for_each(|part| body.extend_from_slice(part));
    }

    #[inline(always)]
    fn write_head(&self, body: &mut ShortBody<'_>) {
        let (file, page) = (self.page >> 32, self.page & u64::from(u32::MAX));
        let (slot, key_bytes, offset) = (self.slot as u64, self.key.len() as u64, self.offset as u64);
        let is_wide = (file | slot | key_bytes | offset) >> 8 != 0 || page >> (8 * PAGE_BYTES) != 0;
        let is_bare = key_bytes | offset == 0;
        let parts = match (self.cut.len(), self.put.len()) {
            (0, _) => PUT_ONLY,
            (_, 0) => CUT_ONLY,
            (cut, put) if cut == put => HALVES,
            _ => COUNTED,
        };
        let flags = self.flags_before.0 | self.flags_after.0 << 4;
        let eighth = self.lsn_before.raw() / 8;
        let lsn_bytes = (u64::BITS - eighth.leading_zeros()).div_ceil(8);
        let first = u64::from(lsn_bytes)
            | u64::from(parts)
            | u64::from(if flags != 0 { FLAGS } else { 0 })
            | u64::from(if is_bare { BARE } else { 0 });
        if is_wide {
            self.write_wide(first, body);
        } else {
            let word = first | file << 8 | page << 16 | slot << 40 | key_bytes << 48 | offset << 56;
            body.number(word, if is_bare { BARE_BYTES } else { HEAD_BYTES });
        }
        body.number(eighth, lsn_bytes as usize);
        if parts == COUNTED {
            body.number(self.cut.len() as u64, 2);
        }
        if flags != 0 {
            body.number(u64::from(flags), 1);
        }
    }

    #[cold]
    fn write_wide(&self, first: u64, body: &mut ShortBody<'_>) {
        body.number(first | u64::from(WIDE), 1);
        body.number(self.page >> 32, 4);
        body.number(self.page, 4);
        body.number(self.slot as u64, 2);
        if self.key.len() | self.offset != 0 {
            body.number(self.key.len() as u64, 2);
            body.number(self.offset as u64, 2);
        }
    }

    // format: end

    /// Returns the change of the value.
    #[inline]
    pub(crate) fn edit(&self) -> Edit<'b> {
        Edit { offset: self.offset, cut: self.cut.len(), put: self.put }
    }
}

#[cfg(test)]
impl Changed<'_, '_> {
    /// Returns the body.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut record = RecordBuffer::default();
        self.write(&mut record);
        record.body().to_vec()
    }
}

impl<'b> Changed<'b, 'b> {
    /// Reads a body.
    ///
    /// # Errors
    /// The body is shorter than its lengths state, or contradicts itself.
    pub fn read(mut body: &'b [u8]) -> Result<Changed<'b, 'b>, Damage> {
        let rest = &mut body;
        let (first, page) = read_page(rest)?;
        let length_bytes = if first & WIDE == 0 { 1 } else { 2 };
        let slot = length(rest, length_bytes)?;
        let (key_bytes, offset) = match first & BARE {
            0 => (length(rest, length_bytes)?, length(rest, length_bytes)?),
            _ => (0, 0),
        };
        let eighth = number(rest, usize::from(first & LSN_BYTES))?;
        let counted = if first & PARTS == COUNTED { length(rest, 2)? } else { 0 };
        let flags = if first & FLAGS == 0 { 0 } else { number(rest, 1)?.to_le_bytes()[0] };
        let key = take(rest, key_bytes)?;
        let cut_bytes = match first & PARTS {
            PUT_ONLY => 0,
            CUT_ONLY => rest.len(),
            HALVES if rest.len() % 2 == 0 => rest.len() / 2,
            HALVES => return Err(Damage("the log record has halves of unequal length".into())),
            _ => counted,
        };
        let cut = take(rest, cut_bytes)?;
        if cut.len().max(rest.len()) > usize::from(u16::MAX) {
            return Err(Damage("the log record changes more bytes than a page has".into()));
        }
        Ok(Changed {
            page,
            slot,
            key,
            offset,
            cut,
            put: rest,
            flags_before: RecordFlags(flags & 0xF),
            flags_after: RecordFlags(flags >> 4),
            lsn_before: lsn_of_eighth(eighth)?,
        })
    }
}

/// Returns a readable description of a body. `say` gets the change and the name of its page.
pub(crate) fn describe(body: &[u8], say: impl FnOnce(&Changed<'_, '_>, &str) -> String) -> String {
    Changed::read(body).map_or_else(|_| UNREADABLE.into(), |change| say(&change, &name_page(change.page)))
}

/// Returns the page of a body.
pub(crate) fn page_list(mut body: &[u8]) -> PageList {
    read_page(&mut body).map_or(PageList::NONE, |(_, page)| PageList::one(PageId::from_u64(page)))
}

/// Takes the first byte and the page off the front of a body.
fn read_page(rest: &mut &[u8]) -> Result<(u8, u64), Damage> {
    let [first] = take(rest, 1)? else { return Err(Damage("the log record is empty".into())) };
    let (file_bytes, page_bytes) = if first & WIDE == 0 { (1, PAGE_BYTES) } else { (4, 4) };
    Ok((*first, number(rest, file_bytes)? << 32 | number(rest, page_bytes)?))
}

/// Takes a number of up to eight bytes off the front.
fn number(rest: &mut &[u8], bytes: usize) -> Result<u64, Damage> {
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(take(rest, bytes)?);
    Ok(u64::from_le_bytes(word))
}

fn length(rest: &mut &[u8], bytes: usize) -> Result<usize, Damage> {
    usize::try_from(number(rest, bytes)?).map_err(|_| Damage("a length in the log record is too large".into()))
}

/// A body that is being written, with room after its end.
struct ShortBody<'r> {
    room: &'r mut [u8; SHORT_ROOM_BYTES],
    at: usize,
}

impl ShortBody<'_> {
    /// Appends the low `bytes` bytes of a number by one store of eight bytes.
    #[inline(always)]
    fn number(&mut self, value: u64, bytes: usize) {
        self.store(self.at, &value.to_le_bytes());
        self.at += bytes;
    }

    /// Appends bytes. Lengths from four to sixteen are fast: most keys and most changes of a value have such lengths.
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        if !(bytes.is_empty() || self.has_ends::<8>(bytes) || self.has_ends::<4>(bytes)) {
            self.rare_bytes(bytes);
        }
        self.at += bytes.len();
    }

    /// Appends bytes of an unusual length.
    fn rare_bytes(&mut self, bytes: &[u8]) {
        if !(self.has_ends::<32>(bytes) || self.has_ends::<16>(bytes)) {
            self.room[self.at..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Stores from `N` to `2 * N` bytes by two stores, of the first `N` and of the last `N` bytes. Returns false, and
    /// stores nothing, for other lengths.
    #[inline(always)]
    fn has_ends<const N: usize>(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > 2 * N {
            return false;
        }
        let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else { return false };
        self.store(self.at, first);
        self.store(self.at + bytes.len() - N, last);
        true
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, bytes: &[u8; N]) {
        self.room[at..at + N].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `check` with changes whose numbers are the smallest and largest of each size, and whose parts have many
    /// combinations of lengths.
    fn changes(check: &mut dyn FnMut(Changed<'_, '_>)) {
        let bytes: Vec<u8> = (0..600_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
        const LENGTHS: [usize; 12] = [0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 100, 300];
        let triples = (0..12 * 12 * 12).map(|nth| [LENGTHS[nth % 12], LENGTHS[nth / 12 % 12], LENGTHS[nth / 144]]);
        let numbers = [0, 1, 0xFF, 0x100, 0xFFFF];
        let pages = [0, 2, 0xFF_FFFF, 0x100_0000, 0xFFFF_FFFF, 0xFF_0000_0002, 0x100_0000_0002, u64::MAX];
        let lsns = [0, 8, 0x7F8, 0x800, (1 << 56) - 8];
        let flags = [0, 1, 2, 6, 7].map(RecordFlags);
        let mut nth = 0_usize;
        for [key, cut, put] in triples {
            for page in pages {
                // The other numbers take their values in turn. Each has five values, and five has no common divisor
                // with the counts of pages and lengths, so the combinations vary.
                nth += 1;
                check(Changed {
                    page,
                    slot: numbers[nth % 5],
                    key: &bytes[..key],
                    offset: numbers[nth / 5 % 5],
                    cut: &bytes[key..key + cut],
                    put: &bytes[600 - put..],
                    flags_before: flags[nth / 25 % 5],
                    flags_after: flags[nth / 125 % 5],
                    lsn_before: Lsn::new(lsns[nth % 7 % 5]),
                });
            }
        }
    }

    #[test]
    fn a_body_reads_back_as_the_change_that_it_was_written_for() {
        let mut record = RecordBuffer::default();
        changes(&mut |changed| {
            record.clear();
            changed.write(&mut record);
            assert_eq!(Changed::read(record.body()), Ok(changed));
            assert!(record.body().len() <= changed.bytes_max(), "{changed:?}");
            assert_eq!(page_list(record.body()), PageList::one(PageId::from_u64(changed.page)));
        });
    }

    #[test]
    fn a_body_that_is_cut_off_is_refused_or_ends_with_shorter_parts() {
        changes(&mut |changed| {
            let body = changed.to_vec();
            let lengths = (0..body.len()).filter(|length| *length < 2 * BODY_HEAD_MAX || length % 61 == 0);
            for length in lengths {
                // A body does not state the lengths of its parts if they follow from the record's length. So a shorter
                // body may be valid, too.
                if let Ok(read) = Changed::read(&body[..length]) {
                    assert!(read.cut.len() + read.put.len() < changed.cut.len() + changed.put.len(), "{changed:?}");
                    assert_eq!((read.page, read.slot, read.key), (changed.page, changed.slot, changed.key));
                }
            }
        });
    }

    #[test]
    fn a_body_of_any_bytes_is_read_or_refused() {
        let mut random = 1_u64;
        for round in 0..200_000_usize {
            let bytes: Vec<u8> = (0..round % 40)
                .map(|_| {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    random.to_be_bytes()[0]
                })
                .collect();
            if let Ok(read) = Changed::read(&bytes) {
                // The change may also have a shorter body, with the same meaning.
                assert_eq!(Changed::read(&read.to_vec()), Ok(read));
            }
        }
    }

    #[test]
    fn the_usual_bodies_are_short() {
        let (value, number) = ([7; 50], [1, 2, 3, 4]);
        let lsn_before = Lsn::new(1 << 34);
        let (flags_before, flags_after) = (RecordFlags::NONE, RecordFlags::NONE);
        let page = 3 << 32 | 70_000;
        let update = Changed {
            page,
            slot: 41,
            key: &number,
            offset: 8,
            cut: &number,
            put: &number,
            flags_before,
            flags_after,
            lsn_before,
        };
        assert_eq!(update.to_vec().len(), 24);
        let put = Changed { key: &[], offset: 0, cut: &[], put: &value, lsn_before: Lsn::NONE, ..update };
        assert_eq!(put.to_vec().len(), 56);
    }
}
