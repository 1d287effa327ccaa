//! Pages by number with contents of the program: the primitive calls of LIBTP 4.4 (docs/design/0019).
//!
//! | file | contents |
//! |---|---|
//! | `change` | locks, copies and stores a page |
//! | `log_records`, `redo`, `undo`, `record_types` | the log records, their redo and undo, their table |
//! | `verify` | checks the whole file |
//!
//! The program's page `n`, from 0, is page `n + 2` of the file. All bytes after the common header belong to the
//! program. Pages are added in the order of their numbers, and never freed.

pub mod change;
pub mod log_records;
pub mod record_types;
pub mod redo;
pub mod undo;
pub mod verify;

pub use change::{PageCopy, PageLock};
