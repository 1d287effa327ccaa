//! Fixed-length records by number. recno/README.md tells how it works.
//!
//! | file | what |
//! |---|---|
//! | `page` | a page: slots of one length; where a number stands |
//! | `get`, `put`, `append`, `scan` | one record; changed; a new one at the end; one after the other |
//! | `log_records`, `redo`, `undo`, `record_types` | what is logged, done again, taken back; the list |
//! | `verify` | everything looked at |

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
