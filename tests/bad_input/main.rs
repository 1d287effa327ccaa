//! Bad input. The library reports every fault in a sentence that names the file or the value. Nothing is lost, and no
//! test panics or dies of SIGBUS.
//!
//! | file | bad input |
//! |---|---|
//! | `lengths` | keys, values, records, numbers, names and sizes at their limits and beyond |
//! | `settings` | settings that make no sense |
//! | `foreign` | other files in an environment's place; other versions; other environments' files |
//! | `places` | directories that are files, read-only, or on a network |
//! | `damage` | pages, log segments and control files that are cut, zeroed or flipped |
//! | `full_disk` | a disk that is really full (R8) |
//! | `full_memory` | a directory of shared memory that is full |
//! | `frugality` | the little that a new environment takes, and the amount that it holds with default settings |
//! | `segments` | a full disk under recoverable memory |
//! | `child`, `saying` | shared parts: a process that dies, and the checks of errors |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod child;
mod damage;
mod foreign;
mod frugality;
mod full_disk;
mod full_memory;
mod lengths;
mod places;
mod saying;
mod segments;
mod settings;
