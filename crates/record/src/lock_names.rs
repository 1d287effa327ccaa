//! What the objects of the lock manager are called: databases, pages, records, and the gaps below them.
//!
//! Paper: LIBTP 3.2.3, where an object is a file and a page. PROTOCOLS K1 and K2: a key names two objects, itself and the
//! gap below it; one more gap lies above the last key. Keys are named by their hash, which is part of the file format.

use libtp_buffer::FileId;
use libtp_lock::LockName;

use crate::key_hash::key_hash;

/// [`LockName::kind`] of a whole database.
pub const KIND_DATABASE: u32 = 1;
/// [`LockName::kind`] of a page.
pub const KIND_PAGE: u32 = 2;
/// [`LockName::kind`] of a record, by the hash of its key or by its number.
pub const KIND_RECORD: u32 = 3;
/// [`LockName::kind`] of the gap below a key.
pub const KIND_GAP: u32 = 4;

/// [`LockName::kind`] of an object that the program names, by the hash of its name. 5 is a segment of memory.
pub const KIND_APPLICATION: u32 = 6;

/// [`LockName::kind`] of what is held by who puts plain files in their places. There is one.
pub const KIND_PLAIN_FILES: u32 = 7;

/// [`LockName::kind`] of the name of a database, by its hash: who drops or renames a database has it, and who opens one that nobody uses
/// yet, for a moment.
pub const KIND_NAME: u32 = 8;

/// [`LockName::kind`] of which files are databases. There is one: who copies the files shares it, and who carries out a drop or a
/// new name has it alone.
pub const KIND_FILES: u32 = 9;

/// The hash of the gap above the last key. A key that happens to have it only waits more often.
const END: u64 = u64::MAX;

/// The database.
#[inline]
pub fn database(file: FileId) -> LockName {
    LockName { space: file.raw(), kind: KIND_DATABASE, hash: 0 }
}

/// The name of a database.
pub fn name(name: &str) -> LockName {
    LockName { space: 0, kind: KIND_NAME, hash: key_hash(name.as_bytes()) }
}

/// Which files are databases.
pub fn files() -> LockName {
    LockName { space: 0, kind: KIND_FILES, hash: 0 }
}

/// A leaf, where pages are locked instead of records.
#[inline]
pub fn page(file: FileId, page: u32) -> LockName {
    LockName { space: file.raw(), kind: KIND_PAGE, hash: u64::from(page) }
}

/// A record.
#[inline]
pub fn record(file: FileId, hash: u64) -> LockName {
    LockName { space: file.raw(), kind: KIND_RECORD, hash }
}

/// The gap below a key.
#[inline]
pub fn gap(file: FileId, hash: u64) -> LockName {
    LockName { space: file.raw(), kind: KIND_GAP, hash }
}

/// The gap above the last key.
#[inline]
pub fn end_gap(file: FileId) -> LockName {
    gap(file, END)
}
