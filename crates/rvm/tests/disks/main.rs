//! Recoverable memory on disks that crash, and on disks whose calls fail.
//!
//! | file | content |
//! |---|---|
//! | `workload` | the transactions on the memory |
//! | `crashes` | the machine crashes between any two calls |
//! | `failing` | any call fails, once or from then on |
//! | `file_cache` | nothing is synced where the file cache is safe |
//! | `growth` | growth in an aborted transaction |
//! | `late` | a late opener finds the memory that another process has made |
//! | `planted` | bugs that the other tests notice |
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod crashes;
mod failing;
mod file_cache;
mod growth;
mod late;
#[cfg(feature = "planted")]
mod planted;
mod workload;
