//! R5: processes write, and one after the other is killed where it happens to be. The others go on, and nothing that was
//! acknowledged is lost.
//!
//! | file | what |
//! |---|---|
//! | `worker` | a process that makes transfers (`bank` of this crate): this very program |
//! | `crew` | the workers, and what each has told |
//! | `driver` | starts, kills, replaces, and watches that the work goes on |
//! | `stall` | how long the others were held up by each kill |
//! | `runs` | four processes, sixteen, and kills in pairs |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod crew;
mod driver;
mod runs;
mod stall;
mod worker;
