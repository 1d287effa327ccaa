//! Pages by number, whose bytes are the program's: the primitive calls of LIBTP 4.4 (docs/design/0019).
//!
//! | file | what |
//! |---|---|
//! | `change` | a page locked, copied, and stored again |
//! | `log_records`, `redo`, `undo`, `record_types` | what is logged, done again, taken back; the list |
//! | `verify` | everything looked at |
//!
//! Page `n` of the program, from 0, is page `n + 2` of the file; behind the common header all of it is the program's. Pages are
//! added one behind the other, and never become free.

pub mod change;
pub mod log_records;
pub mod record_types;
pub mod redo;
pub mod undo;
pub mod verify;

pub use change::{PageCopy, PageLock};
