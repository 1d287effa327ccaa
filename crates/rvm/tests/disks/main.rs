//! Recoverable memory on disks that crash, and on disks that refuse.
//!
//! | file | what |
//! |---|---|
//! | `workload` | what is done to the memory |
//! | `crashes` | the machine crashes between any two calls |
//! | `failing` | any call fails, once or from then on |
//! | `planted` | bugs that the other two notice |
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod crashes;
mod failing;
#[cfg(feature = "planted")]
mod planted;
mod workload;
