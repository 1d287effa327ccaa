//! The one list of log-record types a program knows: the library's, and later the application's own.
//!
//! Recovery and `tp printlog` read only this. Codes are never reused; a new type goes at the end of its owner's range.

use libtp_txn::RecordType;

/// Every built-in type of the access methods; the transaction manager adds its own.
pub(crate) fn all() -> Vec<RecordType> {
    libtp_record::record_types()
}

/// A number that differs between builds of which one could not take the log out of the other's shared memory. No version is
/// in it: a new one that leaves this alone takes over what was answered and not yet synced. Raise the number in the text when
/// the meaning of a word's bits changes, or where records lie in the ring, or what a record is.
pub(crate) const fn log_layout_hash() -> u64 {
    const TEXT: &str = "the log in memory, meaning 1";
    rio::LayoutHash::new().text(TEXT).number(rio::LAYOUT).number(libtp_log::LogManager::LAYOUT).get()
}

/// A number that differs between builds whose shared memory differs: two such builds refuse each other (PROTOCOLS F1). How
/// types are laid out is in it by itself (`rio::LayoutHash`). What is not seen there, the meaning of a word's bits, is in
/// the text: raise its number when that changes without a new version of the library.
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
