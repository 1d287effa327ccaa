//! The one list of log-record types that the library knows.
//!
//! Recovery and `tp printlog` read only this. Codes are never reused; a new type goes at the end of its owner's range.

use libtp_txn::RecordType;

/// Returns the types of the access methods; the transaction manager adds its own.
pub(crate) fn all() -> Vec<RecordType> {
    libtp_record::record_types()
}

/// Returns a number that differs between builds that cannot take the log out of each other's shared memory. It contains
/// no version: a new version that does not change this takes over answered commits that are not synced yet. Raise the
/// number in the text when the meaning of a word's bits, the place of records in the ring, or the form of a record
/// changes.
pub(crate) const fn log_layout_hash() -> u64 {
    const TEXT: &str = "the log in memory, meaning 1";
    rio::LayoutHash::new().text(TEXT).number(rio::LAYOUT).number(libtp_log::LogManager::LAYOUT).get()
}

/// Returns a number that differs between builds whose shared memory differs: two such builds refuse each other
/// (PROTOCOLS F1). It contains the layout of types (`rio::LayoutHash`). The meaning of a word's bits is not in the
/// layout: raise the number in the text when that changes without a new version of the library.
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
