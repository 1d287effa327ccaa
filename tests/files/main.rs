//! Plain files in transactions: whichever process dies at whatever place, files and records are all new or all old
//! (docs/design/0020-plain-files.md).
//!
//! | file | what |
//! |---|---|
//! | `business` | transactions over three files and a record, and their possible results |
//! | `deaths` | a process that commits, finishes or sweeps is killed at each place between two states |
//! | `kills` | several processes are killed at any moment, beside others that read |
//! | `rules` | rules that the other files do not meet |
//! | `simulated` | a simulated disk that loses unsynced bytes, and unsynced names of files |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod business;
#[cfg(feature = "failpoints")]
mod deaths;
mod kills;
mod rules;
mod simulated;
#[cfg(feature = "planted")]
libtp_tests::yardstick!(Files);
