//! Fixed-length records by number. See recno/README.md.
pub mod log_records;
pub mod page;
pub mod redo;
