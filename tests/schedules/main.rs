//! R9, R10: the lock manager, the trees and the repair of the dead under random schedules.
//!
//! The threads of a run are shuttle's: one thread runs at a time, and at each access to memory that other threads can
//! reach (`rio::schedule`) a random choice picks the next thread. The memory, the latches and the sections are the
//! real ones. The disk and the processes are simulated: each handle of the environment is one process.
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
