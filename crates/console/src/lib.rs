//! The output of the commands `tp` and `tp-bench`.
//!
//! Only [`output`] writes to standard output, only [`progress`] draws on standard error, [`failure`] has the exit codes,
//! and [`numbers`] spells numbers and times for people.
#![forbid(unsafe_code)]

pub mod failure;
pub mod numbers;
pub mod output;
pub mod progress;
