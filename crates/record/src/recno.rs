//! Fixed-length records by number. recno/README.md explains the design.
//!
//! | file | what |
//! |---|---|
//! | `page` | a page: slots of one length; from a number to its slot |
//! | `get`, `put`, `append`, `scan` | reads, changes, appends, goes through records |
//! | `log_records`, `redo`, `undo`, `record_types` | the log records, their redo and undo, their table |
//! | `verify` | checks the whole file |

mod append;
mod get;
pub mod log_records;
pub mod page;
mod put;
pub mod record_types;
pub mod redo;
mod scan;
pub mod undo;
pub mod verify;

pub use scan::NumberCursor;
