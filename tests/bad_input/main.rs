//! Bad input: whatever is wrong with what the library is given, it says so in a sentence that names the file or the value;
//! nothing is lost, nothing panics, nothing dies of SIGBUS.
//!
//! | file | what is bad |
//! |---|---|
//! | `lengths` | keys, values, records, numbers, names and sizes at their limits and beyond |
//! | `settings` | settings that cannot be meant |
//! | `foreign` | something else in an environment's place; other versions; other environments' files |
//! | `places` | directories that are files, read-only, or on a network |
//! | `damage` | pages, log segments and control files that are cut, zeroed or flipped |
//! | `full_disk` | a disk that is really full (R8) |
//! | `full_memory` | a directory of shared memory that is |
//! | `frugality` | how little a new environment takes, and how much it holds without a setting |
//! | `segments` | a full disk under recoverable memory |
//! | `child`, `saying` | what these share: a process that dies, what errors must say |
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
