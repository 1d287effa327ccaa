//! The one list of log-record types a program knows: the library's, and later the application's own.
//!
//! Recovery and `tp printlog` read only this. Codes are never reused; a new type goes at the end of its owner's range.

use libtp_txn::RecordType;

/// Every built-in type of the access methods; the transaction manager adds its own.
pub(crate) fn all() -> Vec<RecordType> {
    libtp_record::record_types()
}

/// A number that differs between builds whose shared memory differs: two such builds refuse each other (PROTOCOLS F1).
pub(crate) fn layout_hash() -> u64 {
    const TEXT: &str = concat!("libtp ", env!("CARGO_PKG_VERSION"), " layout 3");
    let sizes = [
        size_of::<rio::RegionHeader>(),
        size_of::<rio::SlabHeader>(),
        size_of::<libtp_txn::slot::TxnHeader>(),
        size_of::<libtp_txn::slot::TxnSlot>(),
    ];
    let bytes = TEXT.bytes().chain(sizes.into_iter().flat_map(usize::to_le_bytes));
    // FNV-1a.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
