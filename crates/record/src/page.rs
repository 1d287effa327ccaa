//! What pages look like inside: slots and heap, overflow chains, and the number every kind of page bears.

pub mod log_records;
pub mod overflow;
pub mod record_lsn;
pub mod record_types;
pub mod slotted;

/// The kind byte of the common header: what the rest of the page is.
///
/// Zero is a page never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Page 0: the file's static header.
    FileHeader = 1,
    /// Page 1: what changes about the whole file.
    Meta = 2,
    /// A page of a B-tree, leaf or inner by its level.
    Btree = 3,
    /// A piece of a value too long for a leaf.
    Overflow = 4,
    /// A page nobody uses, linked into the free list.
    Free = 5,
    /// Fixed-length records by number.
    Recno = 6,
    /// A page of a bucket of a hash file.
    Hash = 7,
    /// A hash file's header: how many buckets there are, and where.
    HashHeader = 8,
    /// A page whose bytes are the program's.
    Application = 9,
}

impl PageKind {
    /// The kind a byte stands for, if it is one of ours.
    pub fn from_byte(byte: u8) -> Option<PageKind> {
        const ALL: [PageKind; 9] = [
            PageKind::FileHeader,
            PageKind::Meta,
            PageKind::Btree,
            PageKind::Overflow,
            PageKind::Free,
            PageKind::Recno,
            PageKind::Hash,
            PageKind::HashHeader,
            PageKind::Application,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}
