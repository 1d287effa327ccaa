//! The names of the lock manager's objects: databases, pages, records, and the gaps below them.
//!
//! Paper: LIBTP 3.2.3, where an object is a file and a page. PROTOCOLS K1 and K2: a key names two objects, its record
//! and the gap below it. There is one more gap, above the last key. The name of a key's lock contains the key's hash.
//! The hash function is part of the file format.

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

/// [`LockName::kind`] of an object that the program names, by the hash of its name. 5 is the kind of a segment of
/// memory.
pub const KIND_APPLICATION: u32 = 6;

/// [`LockName::kind`] of the lock of the session that puts the plain files of committed transactions in their places.
/// There is one such lock.
pub const KIND_PLAIN_FILES: u32 = 7;

/// [`LockName::kind`] of the name of a database, by its hash. A session holds this lock while it drops or renames the
/// database. A session that opens a database which no session uses yet holds the lock for a short time.
pub const KIND_NAME: u32 = 8;

/// [`LockName::kind`] of the set of database files. There is one such lock. A session that copies the files holds it
/// shared. A session that drops or renames a file holds it exclusively.
pub const KIND_FILES: u32 = 9;

/// The hash of the gap above the last key. If a key has the same hash, the transactions that lock the key wait more
/// often, and nothing else goes wrong.
const END: u64 = u64::MAX;

/// Returns the name of a database's lock.
#[inline]
pub fn database(file: FileId) -> LockName {
    LockName { space: file.raw(), kind: KIND_DATABASE, hash: 0 }
}

/// Returns the name of the lock on a database's name.
pub fn name(name: &str) -> LockName {
    LockName { space: 0, kind: KIND_NAME, hash: key_hash(name.as_bytes()) }
}

/// Returns the name of the lock on the set of database files.
pub fn files() -> LockName {
    LockName { space: 0, kind: KIND_FILES, hash: 0 }
}

/// Returns the name of a leaf's lock, for databases in which pages are locked instead of records.
#[inline]
pub fn page(file: FileId, page: u32) -> LockName {
    LockName { space: file.raw(), kind: KIND_PAGE, hash: u64::from(page) }
}

/// Returns the name of a record's lock.
#[inline]
pub fn record(file: FileId, hash: u64) -> LockName {
    LockName { space: file.raw(), kind: KIND_RECORD, hash }
}

/// Returns the name of the gap below a key.
#[inline]
pub fn gap(file: FileId, hash: u64) -> LockName {
    LockName { space: file.raw(), kind: KIND_GAP, hash }
}

/// Returns the name of the gap above the last key.
#[inline]
pub fn end_gap(file: FileId) -> LockName {
    gap(file, END)
}
