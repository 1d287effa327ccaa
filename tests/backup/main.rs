//! Backups of an environment at work, and their restored states (docs/design/0016-backup.md, PROTOCOLS L10).
//!
//! | file | what |
//! |---|---|
//! | `shop` | databases of every kind under change, and their contents at each place of the log |
//! | `clocks` | a wall clock that jumps |
//! | `deaths` | a process that copies or restores is killed |
//! | `harm` | damaged backups, full disks, and directories without a backup |
//! | `refused` | refused openings change nothing, and an unfinished restore is no environment |
//! | `filling` | a load into a new environment that is cut off or abandoned |
//! | `rules` | rules that the other files do not meet |
//! | `salvage` | the records salvaged from damaged files |
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
libtp_tests::yardstick!(Backup);
