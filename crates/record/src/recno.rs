//! Fixed-length records by number. recno/README.md explains the design.
//!
//! | file | contents |
//! |---|---|
//! | `get`, `put`, `part`, `append` | reads a record; changes a record, or a part of a record; appends a record |
//! | `scan` | reads record after record |
//! | `log_records`, `redo`, `undo`, `record_types` | the log records, their redo and undo, their table |
//! | `verify` | checks the whole file |

mod append;
mod get;
pub mod log_records;
mod part;
mod put;
pub mod record_types;
pub mod redo;
mod scan;
pub mod undo;
pub mod verify;

pub use scan::NumberCursor;
