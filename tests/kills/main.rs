//! R5: processes write, and one at a time is killed at a random moment. The others continue, and no acknowledged change
//! is lost.
//!
//! | file | what |
//! |---|---|
//! | `worker` | a process that makes transfers (`bank` of this crate): this program |
//! | `crew` | the workers, and the output of each |
//! | `driver` | starts, kills and replaces workers, and checks that the others continue |
//! | `stall` | how long each kill delayed the other workers |
//! | `runs` | four processes, sixteen, and kills in pairs |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod crew;
mod driver;
mod runs;
mod stall;
mod worker;
