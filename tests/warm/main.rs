//! Commits that are answered from memory that outlives the system, and their state after the system went down.
//!
//! | file | what |
//! |---|---|
//! | `basics` | where such commits are refused, and the report when the memory is gone |
//! | `simulated` | a simulated machine goes down: its disk loses unsynced bytes, its cache unwritten lines |
//! | `ring` | the same for the log alone, with a small ring that moves |
//! | `killed` | processes are killed at random moments, and their files lose unsynced bytes |
//! | `hit` | a wild store hits the log's words in such memory |
//! | `deaths` | a process dies while it finds the commits that were answered from memory |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod basics;
#[cfg(feature = "failpoints")]
mod deaths;
mod hit;
mod killed;
mod ring;
mod simulated;
libtp_tests::yardstick!(Warm);
