//! Recoverable memory on disks that crash, and on disks that refuse.
//!
//! | file | what |
//! |---|---|
//! | `workload` | what is done to the memory |
//! | `crashes` | the machine crashes between any two calls |
//! | `failing` | any call fails, once or from then on |
//! | `file_cache` | nothing is synced where the file cache is safe |
//! | `growth` | what an aborted transaction has made grow |
//! | `late` | who comes late finds what another has made |
//! | `planted` | bugs that the others notice |
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod crashes;
mod failing;
mod file_cache;
mod growth;
mod late;
#[cfg(feature = "planted")]
mod planted;
mod workload;
