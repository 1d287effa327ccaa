//! Pages by number, whose bytes are the program's: the primitive calls of LIBTP 4.4 (docs/design/0019).
//!
//! | file | what |
//! |---|---|
//! | `change` | locks, copies and stores a page |
//! | `log_records`, `redo`, `undo`, `record_types` | the log records, their redo and undo, their table |
//! | `verify` | checks the whole file |
//!
//! The program's page `n`, from 0, is page `n + 2` of the file. Behind the common header all bytes are the program's.
//! Pages are added one behind the other, and never freed.

pub mod change;
pub mod log_records;
pub mod record_types;
pub mod redo;
pub mod undo;
pub mod verify;

pub use change::{PageCopy, PageLock};
