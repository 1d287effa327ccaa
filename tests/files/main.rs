//! Plain files in transactions: whoever dies wherever, they and the records are all new or all old (docs/design/0020-plain-files.md).
//!
//! | file | what |
//! |---|---|
//! | `business` | transactions over three files and a record, and what may be found of them |
//! | `deaths` | who commits, finishes or sweeps is killed at each place between two states |
//! | `kills` | many at work are killed at any moment, beside others that read |
//! | `rules` | rules that the others do not meet |
//! | `simulated` | a simulated disk that loses what was not synced, names of files too |
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
mod yardstick;
