//! A simulated disk for tests: its faults are worse than those of any disk in use, and the same at every run.
//!
//! For development only. A [`SimDisk`] keeps files in memory and numbers every call that changes a file or a name. From
//! a disk and the number of a call, a test can make a second disk, with the contents after a power cut at that call:
//! unsynced writes are kept, dropped, torn or reordered, and unsynced names are lost. Any chosen call can be made to
//! fail. Several simulated processes may share the disk. All its random choices follow from a seed.
//!
//! Paper: none; LIBTP reports no crash tests. The models are FoundationDB's `AsyncFileNonDurable`, SQLite's `test6.c`
//! and Pebble's crashable file system.
//!
//! | file | content |
//! |---|---|
//! | `crash_disk` | the disk, its processes and handles |
//! | `crash_images` | the disk that a crash leaves, at every call and in every loss mode |
//! | `loss` | the loss modes |
//! | `fault` | calls that fail on purpose, and the count of faults that were really active |
//! | `trace` | the record of all changes |
//! | `tree`, `node`, `content` | names, numbers and bytes, cheap to fork |
//! | `byte_locks` | the locks, which end with their process |
//! | `whole_writes` | pieces that the disk promises to write whole |
//! | `random` | numbers from a seed |
//! | `layer` | directories and files above another disk, with some changed calls |
//! | `until` | waiting for a condition |
#![forbid(unsafe_code)]

mod byte_locks;
mod content;
mod crash_disk;
mod crash_images;
mod fault;
mod layer;
mod loss;
mod node;
mod random;
mod trace;
mod tree;
mod until;
mod whole_writes;

pub use crash_disk::{SimDirectory, SimDisk, SimFile, SimProcess};
pub use crash_images::CrashImages;
pub use fault::{is_crash, Activity, Calls, Fault, Repeat, CRASHED_ERRNO};
pub use layer::{DirectoryLayer, FileLayer, LayeredDirectory, LayeredFile};
pub use loss::LossMode;
pub use node::NodeId;
pub use random::Random;
pub use trace::{Change, TraceEntry};
pub use until::until;
pub use whole_writes::{Accepted, WholeWrites};
