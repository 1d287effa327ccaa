//! Plain files in transactions: wherever a process dies, files and records are all new or all old
//! (docs/design/0020-plain-files.md).
//!
//! | file | what |
//! |---|---|
//! | `business` | transactions over three files and a record, and their possible results |
//! | `deaths` | a process that commits, finishes or sweeps is killed at each failpoint |
//! | `kills` | several processes are killed at random moments, while others read |
//! | `rules` | single rules that the other files do not test |
//! | `simulated` | a simulated disk that loses unsynced bytes and unsynced file names |
//! | `yardstick` | planted bugs, of which each must be noticed by one of these tests |
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
