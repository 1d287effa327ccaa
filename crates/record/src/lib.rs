//! Record Manager: records in files of pages, by key (B-tree, hash) or by number (recno), under transactions.
//!
//! Paper: LIBTP 3.2.6 and 4.4: the access routines of db(3), which call the log, lock and buffer managers, and define a
//! collection of log-record types with their redo and undo. [`record_types`] is that collection; the transaction
//! manager knows nothing else of this crate.
//!
//! | file | what |
//! |---|---|
//! | `open`, `database` | makes and finds files; a database as one process knows it |
//! | `access` | a database on behalf of a transaction: pages and locks |
//! | `btree`, `recno`, `hash` | the access methods |
//! | `paged` | pages by number, whose bytes are the program's, and its own log records |
//! | `list` | records of any length by number, in a tree |
//! | `link` | a record found again by its place |
//! | `snapshot` | reads without locks, with old versions from the log |
//! | `page`, `free_pages` | the layout of pages; which pages are free |
//! | `duplicates` | keys with several values |
//! | `indices` | which files are indices of which file |
//! | `order` | keys in another order than that of their bytes |
//! | `key_range` | a lower and an upper bound of keys |
//! | `key_hash`, `lock_names` | the names of locks |
#![forbid(unsafe_code)]

pub mod access;
pub mod btree;
mod copied_file;
pub mod database;
pub mod duplicates;
mod error;
mod found_files;
pub mod free_pages;
pub mod hash;
pub mod indices;
pub mod key_hash;
pub mod key_range;
pub mod link;
pub mod list;
pub mod lock_names;
pub mod log_body;
pub mod open;
pub mod order;
pub mod page;
mod page_header;
pub mod paged;
mod pages;
pub mod recno;
mod salvage;
pub mod snapshot;

use libtp_txn::RecordType;

pub use access::Access;
pub use btree::merge::Compacted;
pub use btree::verify::{Finding, Verified};
pub use btree::{BtreeCursor, Stand};
pub use copied_file::give_to;
pub use database::{Database, Duplicates, Granularity, KeyFormat, Method};
pub use error::{Error, Result};
pub use found_files::{drop_missing, entered_files, find_file, find_files, make_registry, restore_torn, FoundFile};
pub use hash::HashCursor;
pub use indices::Listed;
pub use key_range::{KeyRange, ShortKey};
pub use link::Link;
pub use list::Stretch;
pub use open::{after_restart, check_name, open, OpenSettings};
pub use order::{Order, OrderName};
pub use paged::{PageCopy, PageLock};
pub use recno::NumberCursor;
pub use salvage::{DamagedFile, SalvagedRecord};
pub use snapshot::{Snapshot, SnapshotAccess, SnapshotCursor, SnapshotHashCursor, SnapshotNumberCursor};

/// Every log-record type of the record manager, for the table that recovery reads (LIBTP 3.2.6).
pub fn record_types() -> Vec<RecordType> {
    [
        btree::record_types::record_types(),
        recno::record_types::record_types(),
        page::record_types::record_types(),
        indices::record_types(),
        hash::record_types::record_types(),
        paged::record_types::record_types(),
    ]
    .concat()
}

/// Checks everything that a database's pages state about each other.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is a finding.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    match access.database().method() {
        Method::Btree if access.database().key_format().is_list => list::verify::verify(access),
        Method::Btree => btree::verify::verify(access),
        Method::Recno { .. } => recno::verify::verify(access),
        Method::Hash => hash::verify::verify(access),
        Method::Pages => paged::verify::verify(access),
    }
}
