//! vista: recoverable memory. Map a file, store into it in transactions, and find it whole after any crash.
//!
//! Paper: Rio Vista, section 4. A transaction saves the old bytes of each range that it declares in an undo log in the
//! same surviving memory, and then stores directly. Commit is one store that empties the log; abort and recovery copy
//! the old bytes back. There is no redo log, no system call, and one copy of each range.
//!
//! | the paper's | here |
//! |---|---|
//! | `vista_init`, `vista_map` | [`Segment::open`] |
//! | `vista_begin_transaction` | [`Segment::begin`] |
//! | `vista_set_range` | [`Txn::set_range`], which returns the permission to store |
//! | the option of ranges found by the virtual memory system | [`Segment::automatically`] |
//! | `vista_end_transaction` | [`Txn::end`] |
//! | `vista_abort_transaction` | [`Txn::abort`], or dropping the transaction |
//! | `vista_malloc`, `vista_free` | [`Txn::malloc`], [`Txn::free`] |
//!
//! Beyond the paper there is typed memory: [`Ptr`], [`Txn::write`], [`Vector`], [`Map`], [`HashMap`]; and several
//! threads can change one segment: [`Segment::share`].
//!
//! vista knows of no environment, no log and no pages.
//!
//! # Example
//! ```
//! # let file = std::env::temp_dir().join(format!("vista-example-{}", std::process::id()));
//! # let _ = std::fs::remove_file(&file);
//! let mut segment = vista::Segment::open(&file, 1 << 20)?;
//! let mut txn = segment.begin();
//! txn.set_range(0, 5)?.copy_from_slice(b"hello");
//! txn.set_range(4096, 5)?.copy_from_slice(b"world");
//! txn.end()?;
//! assert_eq!(&segment.bytes()[..5], b"hello");
//! # std::fs::remove_file(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod about;
mod address;
mod allocate;
mod announce;
mod apart;
mod auto_range;
mod change;
mod checkpoint;
mod error;
mod fresh;
mod grow;
mod guard;
mod guarded;
mod heap;
mod member;
mod membership;
mod open;
mod options;
mod recover;
mod redo;
mod release;
mod segment;
mod suspended;
mod threads;
mod txn;
mod typed;
mod verify;

pub use error::{Error, Result};
pub use guard::Guard;
pub use member::{Decision, Holder, Judge, Mark, Member};
pub use membership::Membership;
pub use options::Options;
pub use redo::{Changes, Redo};
#[doc(hidden)]
pub use rio::above_standard;
pub use rio::Survives;
pub use segment::Segment;
pub use threads::{ThreadTxn, Threads, Worker};
pub use txn::Txn;
pub use typed::{HashMap, Map, Memory, Persist, Ptr, Stores, Vector};
pub use verify::Usage;

#[cfg(test)]
mod tests;
