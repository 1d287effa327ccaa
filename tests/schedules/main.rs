//! The lock manager, the trees and the repair of dead sessions under random schedules (R9, R10).
//!
//! The threads of a run are tasks of shuttle. One task runs at a time, and at each access to memory that other tasks
//! can reach (`rio::schedule`) a random choice picks the next task. The memory, the latches and the sections are real.
//! The disk and the processes are simulated: each handle of the environment is a process.
//!
//! | file | what |
//! |---|---|
//! | `world` | an environment, its tasks, and the simulated deaths |
//! | `runs` | the tasks' work, and the state that must be there at the end |
//!
//! `LIBTP_TEST_SCHEDULES` sets the number of schedules, `LIBTP_TEST_SEED` the first seed.
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod runs;
mod world;
