//! Record Manager: records in files of pages, by key (B-tree, hash) or by number (recno), under transactions.
//!
//! Paper: LIBTP 3.2.6 and 4.4: the access routines of db(3), which call the log, lock and buffer managers. They define
//! the log-record types with their redo and undo ([`record_types`]). The transaction manager knows nothing else of this
//! crate.
//!
//! | file | contents |
//! |---|---|
//! | `open`, `file_header`, `found_files` | makes and opens files; their headers; the files of an environment |
//! | `database`, `pages`, `locking` | a database as one process knows it; its pages; its locks for a transaction |
//! | `access` | the calls on records by key, over all access methods |
//! | `btree`, `recno`, `hash` | the access methods |
//! | `cursor` | the calls of cursors, over the walks of all access methods |
//! | `paged` | pages by number with contents of the program, and log records that the program defines |
//! | `list` | records of any length by number, in a tree |
//! | `link` | links, which find a record again by its page and slot |
//! | `snapshot` | reads without locks, with old versions from the log |
//! | `shortcuts` | the old versions that writers leave in memory for such reads |
//! | `page` | the layout of pages |
//! | `changed` | the bodies of the log records of a change of one record |
//! | `log_body` | the bodies of all other log records |
//! | `duplicates` | keys with several values |
//! | `indices` | which files are indices of which file |
//! | `order` | keys in another order than the order of their bytes |
//! | `key_range` | a lower and an upper bound of keys |
//! | `key_hash`, `lock_names` | the names of locks |
#![forbid(unsafe_code)]

mod access;
pub mod btree;
pub mod changed;
mod copied_file;
pub mod copies;
mod cursor;
pub mod database;
pub mod duplicates;
mod error;
mod file_header;
mod found_files;
pub mod hash;
pub mod indices;
pub mod key_hash;
pub mod key_range;
pub mod link;
pub mod list;
pub mod lock_names;
mod locking;
pub mod log_body;
mod many;
pub mod open;
pub mod order;
pub mod page;
mod page_header;
pub mod paged;
mod pages;
pub mod part;
#[cfg(test)]
mod prefix_tests;
pub mod recno;
mod salvage;
mod shortcuts;
pub mod snapshot;

use libtp_txn::RecordType;

pub use access::verify;
pub use btree::merge::Compacted;
pub use btree::verify::{Finding, Verified};
pub use btree::BtreeCursor;
pub use copied_file::give_to;
pub use cursor::{BothWays, Cursor, Walk};
pub use database::{Database, Duplicates, Granularity, KeyFormat, Method};
pub use error::{Error, Result};
pub use file_header::FoundFile;
pub use found_files::{drop_missing, entered_files, find_file, find_files, make_registry, restore_torn};
pub use hash::HashCursor;
pub use indices::Listed;
pub use key_range::{KeyRange, ShortKey};
pub use link::Link;
pub use list::Stretch;
pub use locking::Access;
pub use open::{after_restart, check_name, open, OpenSettings};
pub use order::{Order, OrderName};
pub use page::free_pages;
pub use paged::{PageCopy, PageLock};
pub use part::Part;
pub use recno::NumberCursor;
pub use salvage::{DamagedFile, SalvagedRecord};
pub use snapshot::{Snapshot, SnapshotAccess, SnapshotCursor, SnapshotHashCursor, SnapshotNumberCursor};

/// Every log-record type of the record manager, for the table that recovery reads (LIBTP 3.2.6).
pub fn record_types() -> Vec<RecordType> {
    [
        btree::record_types::record_types(),
        recno::record_types::record_types(),
        pages::record_types::record_types(),
        indices::record_types(),
        hash::record_types::record_types(),
        paged::record_types::record_types(),
    ]
    .concat()
}
