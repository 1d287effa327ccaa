//! Linear hashing: keys and values, found by the key alone. hash/README.md tells how it works.
//!
//! | file | what |
//! |---|---|
//! | `page`, `geometry` | the pages of a bucket and the file's header; which bucket, and where it stands |
//! | `bucket`, `chain` | a bucket latched, and gone through; the way along its further pages |
//! | `get`, `put`, `scan` | one record; changed; one after the other |
//! | `room`, `replaced` | room made in a bucket; replaced long values freed |
//! | `split` | one bucket more, and its records on their way to it |
//! | `log_records`, `redo`, `undo`, `record_types` | what is logged, done again, taken back; the list |
//! | `verify` | everything looked at |

pub(crate) mod bucket;
mod chain;
pub(crate) mod geometry;
mod get;
pub mod log_records;
pub mod page;
mod put;
pub mod record_types;
pub mod redo;
mod replaced;
mod room;
pub(crate) mod scan;
mod split;
pub mod undo;
pub mod verify;

pub use scan::HashCursor;
