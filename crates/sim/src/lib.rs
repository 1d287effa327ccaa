//! The disk that tests are run on: worse than any disk we ship on, and the same at every run.
//!
//! For development only.  A [`SimDisk`] keeps files in memory, numbers every call that changes
//! something, and can say at each of them what a power cut would have left: unsynced writes kept,
//! dropped, torn or reordered, unsynced names lost.  It fails any chosen call, and several simulated
//! processes may share it.  Everything it does at random follows from a seed.
//!
//! Paper: none; LIBTP reports no crash tests.  After FoundationDB's `AsyncFileNonDurable`, SQLite's
//! `test6.c` and Pebble's crashable file system.
//!
//! | file | what |
//! |---|---|
//! | `crash_disk` | the disk, its processes and handles |
//! | `crash_images` | what a crash leaves, at every call and in every loss mode |
//! | `fault` | calls that fail on purpose, and the count of faults that were really active |
//! | `trace` | the record of all changes |
//! | `tree`, `content` | names and bytes, cheap to fork |
//! | `byte_locks` | the locks that die with their process |
//! | `random` | numbers from a seed |
#![forbid(unsafe_code)]

mod byte_locks;
mod content;
mod crash_disk;
mod crash_images;
mod fault;
mod random;
mod trace;
mod tree;

pub use crash_disk::{SimDirectory, SimDisk, SimFile, SimProcess};
pub use crash_images::{CrashImages, LossMode};
pub use fault::{is_crash, Activity, Calls, Fault, Repeat, CRASHED_ERRNO};
pub use random::Random;
pub use trace::{Change, TraceEntry};
pub use tree::NodeId;
