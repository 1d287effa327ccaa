//! Commits that are acknowledged from memory that outlives the system, and the recovery of these commits after the
//! system went down.
//!
//! | file | what |
//! |---|---|
//! | `basics` | when such commits are refused, and the report if the memory was lost |
//! | `simulated` | a simulated machine goes down: its disk loses unsynced bytes, and its cache loses unwritten lines |
//! | `ring` | the log of a simulated machine that goes down, with a small ring that moves |
//! | `killed` | processes are killed at random moments, and their files lose unsynced bytes |
//! | `wild_words` | a wild store hits a word of the log in such memory |
//! | `deaths` | a process dies while it recovers the commits that were acknowledged from memory |
//! | `yardstick` | planted bugs, of which each must be noticed by one of these tests |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod basics;
#[cfg(feature = "failpoints")]
mod deaths;
mod killed;
mod ring;
mod simulated;
mod wild_words;
libtp_tests::yardstick!(Warm);
