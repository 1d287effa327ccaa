//! Snapshots from the log: they show the committed state of one moment, whatever happens to the pages.
//!
//! | file | what |
//! |---|---|
//! | `rules` | each rule of PROTOCOLS S1 to S4 alone |
//! | `histories` | random histories against a model, and sums among threads |
//! | `half` | a death in the middle of an update |
//! | `held` | a snapshot that a test holds |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

#[cfg(feature = "failpoints")]
mod half;
mod held;
mod histories;
mod rules;
#[path = "../../crates/record/tests/world/mod.rs"]
mod world;
libtp_tests::yardstick!(Snapshots);
