//! The inner layout of pages, and the kind byte that every page has.
//!
//! | file | contents |
//! |---|---|
//! | `slotted` | a page with slots and a heap |
//! | `node`, `rebuild` | reads the records and downlinks of such a page; writes such a page as a whole |
//! | `recno` | records of one length |
//! | `overflow` | a piece of a long value |
//! | `free_pages` | the meta page, which names the free pages |
//! | `record_lsn` | the word with each record's LSN and flags |
//! | `log_records` | the log records of files and pages, and their redo |

pub mod free_pages;
pub mod log_records;
pub mod node;
pub mod overflow;
pub mod rebuild;
pub mod recno;
pub mod record_lsn;
pub mod slotted;

/// The kind byte of the common header. It determines the layout of the rest of the page.
///
/// Zero is a page that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Page 0: the file's static header.
    FileHeader = 1,
    /// Page 1: the fields of the whole file that change.
    Meta = 2,
    /// A page of a B-tree. Its level shows whether it is a leaf.
    Btree = 3,
    /// A piece of a value too long for a leaf.
    Overflow = 4,
    /// An unused page in the free list.
    Free = 5,
    /// Fixed-length records by number.
    Recno = 6,
    /// A page of a bucket of a hash file.
    Hash = 7,
    /// A hash file's header: the number and the places of the buckets.
    HashHeader = 8,
    /// A page with contents of the program.
    Application = 9,
}

impl PageKind {
    /// Returns the kind for a byte; `None` for an unknown byte.
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
