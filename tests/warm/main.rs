//! Commits that are answered from memory which outlives the system, and what is there after it went down.
//!
//! | file | what |
//! |---|---|
//! | `basics` | where such commits are refused, and what is told when the memory is gone |
//! | `simulated` | a simulated machine goes down: its disk loses what was not synced, its cache what was not written back |
//! | `ring` | the same for the log alone, whose ring is small and moves |
//! | `killed` | processes are killed at random moments, and their files lose what was not synced |
//! | `hit` | a wild store hits the log's words in such memory |
//! | `deaths` | a process dies as it finds what was answered from memory |
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
mod yardstick;
