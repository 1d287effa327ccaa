//! Backups of an environment in use, and the restored environments (docs/design/0016-backup.md, PROTOCOLS L10).
//!
//! | file | what |
//! |---|---|
//! | `shop` | databases of every kind, transactions that change them, and their contents at each LSN |
//! | `clocks` | a wall clock that jumps |
//! | `deaths` | a process that copies or restores is killed |
//! | `harm` | damaged backups, full disks, and directories without a backup |
//! | `refused` | refused openings change nothing; an unfinished restore is refused |
//! | `filling` | a load into a new environment, which is cut off or abandoned |
//! | `rules` | the rules of L10 that the other files do not test |
//! | `salvage` | the records salvaged from damaged files |
//! | `dropped` | databases that are dropped, renamed, emptied and listed |
//! | `dropped_simulated` | databases that are dropped and renamed on a simulated disk, with power cuts |
//! | `missing` | databases whose files are missing, empty or foreign |
//! | `missing_simulated` | a file that is missing at a restart and returns, on a simulated disk with power cuts |
//! | `yardstick` | planted bugs, each of which one of these tests must notice |
//! | `simulated` | a simulated disk: torn pages, and power cuts |
//! | `load` | backups while other processes write, restored to their end and to random LSNs |
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
