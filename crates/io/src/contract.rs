//! The contract: the promises of a file and a directory, and the limits of these promises.
//!
//! The comment of each method states the method's promise in one sentence and the caller's duty in another, as
//! FoundationDB's comments do. Three rules hold for all methods.
//!
//! Invariants
//! 1. *Unsynced is unpromised.* Between two syncs of a file, each unsynced write may be on the disk completely, partly
//!    (some of its 512-byte sectors) or not at all. This does not depend on what became of the other writes, nor on the
//!    order of the calls. The same holds for names between two syncs of their directory.
//! 2. *A failed sync is final.* After an error from [`File::sync`] the state of the unsynced bytes is unknown, and a
//!    later successful sync says nothing about them: the kernel has marked them clean. The caller poisons itself and
//!    recovers from the state that an earlier sync covered.
//! 3. *No call is retried after an error*, except a call that a signal interrupted. A short read or write is continued.
//!
//! Threads may share a handle. If two threads write the same bytes at the same time, the file then has the bytes of one
//! of the two writes.

mod directory;
mod file;
mod plain;

pub use directory::{Directory, OpenMode};
pub use file::{is_foreign, File, Identity, LockMode, MayBegin};
pub(crate) use plain::split;
pub use plain::{PlainFiles, PlainKind, PlainStatus};
