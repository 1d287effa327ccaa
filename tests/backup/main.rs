//! Backups of an environment at work, and what is restored from them (docs/design/0016-backup.md, PROTOCOLS L10).
//!
//! | file | what |
//! |---|---|
//! | `shop` | three kinds of databases under change, and what was in them at each place of the log |
//! | `clocks` | a wall clock that jumps |
//! | `deaths` | who copies or restores is killed |
//! | `harm` | damaged backups, full disks, and what is no backup |
//! | `refused` | openings that are refused change nothing, and a restore that was cut off is no environment |
//! | `filling` | a load into a new environment that is cut off or given up |
//! | `rules` | rules that the others do not meet |
//! | `salvage` | what is read of damaged files |
//! | `dropped` | databases that are dropped, renamed, emptied and listed |
//! | `dropped_simulated` | the same on a simulated disk, with power cuts |
//! | `missing` | databases whose files are missing, empty or foreign |
//! | `missing_simulated` | a file that is back after a power cut in the restart that missed it |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
//! | `simulated` | a simulated disk: torn pages, and power cuts |
//! | `load` | backups while others write, restored to their end and to random places in the log |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod clocks;
#[cfg(feature = "failpoints")]
mod deaths;
mod dropped;
mod dropped_simulated;
mod filling;
mod harm;
mod load;
mod missing;
mod missing_simulated;
mod refused;
mod rules;
mod salvage;
mod shop;
mod simulated;
#[cfg(feature = "planted")]
mod yardstick;
