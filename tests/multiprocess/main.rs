//! Real processes in one environment: what one commits the others see at once; they leave, and they die, all of them.
//!
//! | file | what |
//! |---|---|
//! | `child` | a process that a test starts: this very program, told what to do over a pipe |
//! | `crew` | the test's end of the pipes |
//! | `bank` | transfers whose sums tell whether a transaction was cut in two |
//! | `together` | at work at the same time |
//! | `leaving` | leaving in either order, opening twice, opening all at once |
//! | `death` | all processes die; then their shared memory is repaired, or it is gone too |
//! | `survivors` | one of several dies; the others repair what it left and go on |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod bank;
mod child;
mod crew;
mod death;
mod leaving;
mod survivors;
mod together;
