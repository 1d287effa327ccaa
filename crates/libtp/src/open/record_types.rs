//! The one list of log-record types that the library knows.
//!
//! Recovery and `tp printlog` use only this list. Codes are never reused; a new type is added at the end of its owner's
//! range.

use libtp_txn::RecordType;

/// Returns the types of the access methods; the transaction manager adds its own.
pub(crate) fn all() -> Vec<RecordType> {
    libtp_record::record_types()
}

/// Returns a hash of the log's layout in shared memory: a build can read the log in another build's shared memory only
/// if their hashes are equal. The hash does not cover the library's version, so a new version can take over answered
/// commits that are not synced yet. Raise the number in `TEXT` when the meaning of a word's bits, the place of records
/// in the ring, or the form of a record changes.
pub(crate) const fn log_layout_hash() -> u64 {
    const TEXT: &str = "the log in memory, meaning 1";
    rio::LayoutHash::new().text(TEXT).number(rio::LAYOUT).number(libtp_log::LogManager::LAYOUT).get()
}

/// Returns a hash of the layout of shared memory: two builds with different hashes refuse each other's regions
/// (PROTOCOLS F1). The hash covers the layout of types (`rio::LayoutHash`), but not the meaning of a word's bits: raise
/// the number in `TEXT` when a meaning changes without a new version of the library.
pub(crate) const fn layout_hash() -> u64 {
    const TEXT: &str = concat!("libtp ", env!("CARGO_PKG_VERSION"), ", meaning 1");
    rio::LayoutHash::new()
        .text(TEXT)
        .number(rio::LAYOUT)
        .number(libtp_process::ProcessManager::LAYOUT)
        .number(libtp_log::LogManager::LAYOUT)
        .number(libtp_lock::LockManager::LAYOUT)
        .number(libtp_buffer::BufferManager::LAYOUT)
        .number(libtp_txn::Managers::LAYOUT)
        .get()
}
