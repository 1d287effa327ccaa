//! Linear hashing: keys and values without an order. hash/README.md explains the design.
//!
//! | file | contents |
//! |---|---|
//! | `page` | the pages of a bucket and the file's header |
//! | `bucket`, `chain` | a latched bucket and a search in it; its chain of further pages |
//! | `get`, `put`, `scan` | reads a record, changes a record, reads record after record |
//! | `room`, `chain_changes` | makes room in a bucket; changes of the chain |
//! | `split` | adds a bucket and moves records to it |
//! | `log_records`, `redo`, `undo`, `record_types` | the log records, their redo and undo, their table |
//! | `verify` | checks the whole file |

pub(crate) mod bucket;
mod chain;
mod chain_changes;

mod get;
pub mod log_records;
pub mod page;
pub(crate) mod put;
pub mod record_types;
pub mod redo;
mod room;
pub(crate) mod scan;
mod split;
pub mod undo;
pub mod verify;

pub use scan::HashCursor;
