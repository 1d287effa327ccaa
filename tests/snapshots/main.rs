//! Snapshots from the log. They must show the committed state of one moment, whatever happens to the pages later.
//!
//! | file | what |
//! |---|---|
//! | `rules` | the rules S1 to S4 of PROTOCOLS, one at a time |
//! | `histories` | random histories compared with a model, and sums while threads make transfers |
//! | `half` | a death in the middle of an update |
//! | `held` | a snapshot that a test holds |
//! | `yardstick` | planted bugs, each of which one of these tests must notice |
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
