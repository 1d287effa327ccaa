//! Bad input. The library must report every fault in a sentence that names the file or the value. No commit may be
//! lost, and no process may panic or die of SIGBUS.
//!
//! | file | bad input |
//! |---|---|
//! | `lengths` | keys, values, records, numbers, names and sizes at their limits and beyond |
//! | `settings` | settings that make no sense |
//! | `foreign` | other programs' files, and files of other versions and other environments |
//! | `places` | paths that are no directories, and directories that are read-only or on a network |
//! | `damage` | pages, log segments and control files that are cut, zeroed or flipped |
//! | `full_disk` | a disk that is really full |
//! | `full_memory` | a directory of shared memory that is full |
//! | `frugality` | the memory and disk that a new environment takes, and many locks and records without a setting |
//! | `segments` | segments of recoverable memory on a full disk |
//! | `child`, `error_texts` | shared parts: a process that dies, and the checks of errors |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod child;
mod damage;
mod error_texts;
mod foreign;
mod frugality;
mod full_disk;
mod full_memory;
mod lengths;
mod places;
mod segments;
mod settings;
