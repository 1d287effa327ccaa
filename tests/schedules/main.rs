//! R9, R10: the lock manager, the trees and the repair of the dead under random schedules.
//!
//! The threads of a run are shuttle's: one goes on at a time, and at each access to shared memory that others can meet
//! (`rio::schedule`) a random choice says which. The memory, the latches and the sections are the real ones. The disk is
//! simulated, and so are the processes: each handle of the environment is one.
//!
//! | file | what |
//! |---|---|
//! | `world` | an environment, its tasks, and who is killed where |
//! | `runs` | what the tasks do, and what must be there at the end |
//!
//! `LIBTP_TEST_SCHEDULES` says how many, `LIBTP_TEST_SEED` where the seeds begin.
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod runs;
mod world;
