//! A page that a load fills from left to right: its cells, and whether another cell fits. The page gets its number
//! later.
//!
//! The capacity of a page depends on its fences: the prefix that both share is stored once. The high fence is known
//! only when the next key is known. So a cell is added only when the next cell is known. At each moment all cells of
//! the page fit with the high fence that the page would get if it ended there.

use zerocopy::little_endian::U16;
use zerocopy::IntoBytes;

use crate::btree::log_records::Load;
use crate::log_body::short;
use crate::page::node::{LeafCell, INNER_CELL_HEAD, LEAF_CELL_HEAD};
use crate::page::rebuild::Frame;
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use crate::page::slotted::SLOT_BYTES;
use libtp_log::Lsn;

/// A cell that is not yet on a page: a record, or the entry of a page of the level below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loading {
    pub(crate) key: Vec<u8>,
    /// The stored value, or the child's number.
    pub(crate) payload: Vec<u8>,
    pub(crate) flags: RecordFlags,
}

/// A cell of the page.
#[derive(Clone, Copy, Debug)]
struct Filled {
    at: usize,
    key_bytes: usize,
    payload_bytes: usize,
    flags: RecordFlags,
}

/// A page that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) level: u8,
    page_bytes: usize,
    /// Percentage of a page's room that the load fills.
    fill_percent: usize,
    /// Inclusive lower bound of the page's keys.
    pub(crate) low: Vec<u8>,
    cells: Vec<Filled>,
    /// Keys and payloads, cell after cell.
    bytes: Vec<u8>,
    /// Bytes of the stored keys. The first child of a page above the leaves has no stored key.
    key_bytes: usize,
    payload_bytes: usize,
}

impl Filling {
    pub(crate) fn new(level: u8, page_bytes: usize, fill_percent: u8) -> Filling {
        Filling {
            level,
            page_bytes,
            fill_percent: fill_percent.into(),
            low: Vec::new(),
            cells: Vec::new(),
            bytes: Vec::new(),
            key_bytes: 0,
            payload_bytes: 0,
        }
    }

    /// Returns whether the page stores the next cell's key.
    fn stores_next_key(&self) -> bool {
        self.level == 0 || !self.cells.is_empty()
    }

    /// Returns whether another cell fits if the page ends after this cell, at `high`. The first cell always fits. Above
    /// the leaves the second cell also fits, however small the fill percentage is: otherwise each level would have as
    /// many pages as the level below.
    pub(crate) fn fits(&self, cell: &Loading, high: &[u8]) -> bool {
        if self.cells.is_empty() {
            return true;
        }
        let count = self.cells.len() + 1;
        let (head, keyed) = if self.level == 0 { (LEAF_CELL_HEAD, count) } else { (INNER_CELL_HEAD, count - 1) };
        let prefix = Frame::prefix_bytes(&self.low, high, self.page_bytes);
        let keys = self.key_bytes + cell.key.len() - prefix * keyed;
        let used = count * (SLOT_BYTES + head) + keys + self.payload_bytes + cell.payload.len();
        let fill_percent = if self.level != 0 && count == 2 { 100 } else { self.fill_percent };
        100 * used <= fill_percent * Frame::room(&self.low, high, self.page_bytes)
    }

    /// Adds a cell that fits.
    pub(crate) fn add(&mut self, cell: &Loading) {
        self.key_bytes += if self.stores_next_key() { cell.key.len() } else { 0 };
        self.payload_bytes += cell.payload.len();
        let (at, flags) = (self.bytes.len(), cell.flags);
        self.bytes.extend_from_slice(&cell.key);
        self.bytes.extend_from_slice(&cell.payload);
        self.cells.push(Filled { at, key_bytes: cell.key.len(), payload_bytes: cell.payload.len(), flags });
    }

    /// Returns the key of the last cell; empty if there is no cell.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.cells.last().map_or(&[], |cell| &self.bytes[cell.at..cell.at + cell.key_bytes])
    }

    pub(crate) fn count(&self) -> usize {
        self.cells.len()
    }

    /// Begins the page to the right of the current page. Returns the current page's lower bound.
    pub(crate) fn begin_next(&mut self, low: Vec<u8>) -> Vec<u8> {
        self.cells.clear();
        self.bytes.clear();
        (self.key_bytes, self.payload_bytes) = (0, 0);
        std::mem::replace(&mut self.low, low)
    }

    /// Returns the log record's body for a page that ends at `high`, without page numbers.
    pub(crate) fn encode(&self, high: &[u8], deleter: Lsn) -> (Load, Vec<u8>) {
        let low = Frame::low_stored(&self.low, self.page_bytes);
        let prefix = Frame::prefix_bytes(&self.low, high, self.page_bytes);
        let record = Load {
            count: short(self.cells.len()),
            low_bytes: short(low.len()),
            high_bytes: short(high.len()),
            prefix_bytes: short(prefix),
            level: self.level,
            deleter_lsn: deleter.raw().into(),
            ..Load::default()
        };
        let mut rest = Vec::with_capacity(2 * self.page_bytes);
        rest.extend_from_slice(low);
        rest.extend_from_slice(high);
        self.encode_cells(prefix, &mut rest);
        (record, rest)
    }

    /// Appends the cells in the format that `take_cell` reads. Their LSN will be the LSN of the log record, which is
    /// not known yet.
    pub(crate) fn encode_cells(&self, prefix: usize, body: &mut Vec<u8>) {
        for (index, cell) in self.cells.iter().enumerate() {
            let (key, payload) =
                self.bytes[cell.at..cell.at + cell.key_bytes + cell.payload_bytes].split_at(cell.key_bytes);
            let is_first_child = self.level != 0 && index == 0;
            let suffix = if is_first_child { &[] } else { &key[prefix..] };
            body.extend_from_slice(short(suffix.len()).as_bytes());
            if self.level == 0 {
                let stored_bytes: U16 = short(payload.len());
                let word = pack_lsn(Lsn::NONE, cell.flags).into();
                let head = LeafCell { lsn_and_flags: word, stored_bytes, room: stored_bytes };
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(suffix);
                body.extend_from_slice(payload);
            } else {
                body.extend_from_slice(payload);
                body.extend_from_slice(suffix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], bytes: usize) -> Loading {
        Loading { key: key.to_vec(), payload: vec![7; bytes], flags: RecordFlags::NONE }
    }

    #[test]
    fn the_common_prefix_of_the_fences_is_counted_once() {
        let mut page = Filling::new(0, 4096, 100);
        page.low = b"the same for all/000".to_vec();
        let mut count = 0;
        while page.fits(&record(b"the same for all/0001", 20), b"the same for all/0002") {
            page.add(&record(b"the same for all/0001", 20));
            count += 1;
        }
        // The page stores three of the 21 bytes of each key.
        assert!(count * (SLOT_BYTES + LEAF_CELL_HEAD + 2 + 20) > 4096 - 200, "{count}");
        // Without a high fence the page stores all 21 bytes.
        assert!(!page.fits(&record(b"the same for all/0001", 20), b""));
        assert!(page.count() == count);
    }

    #[test]
    fn a_page_is_filled_to_the_wanted_percentage_and_has_at_least_one_cell() {
        for percent in [10, 50, 90, 100] {
            let mut page = Filling::new(0, 8192, percent);
            assert!(page.fits(&record(b"k", 2000), b""), "the first cell always fits");
            while page.fits(&record(b"key", 100), b"") {
                page.add(&record(b"key", 100));
            }
            let used = page.count() * (SLOT_BYTES + LEAF_CELL_HEAD + 103);
            let wanted = 8192 * usize::from(percent) / 100;
            assert!(used <= wanted && used + 260 > wanted, "{percent} percent: {used} bytes");
        }
    }
}
