//! The output of the commands `tp`, `tp-bench` and `tp-sql`.
//!
//! Only [`output`] writes to standard output, and only [`progress`] draws on standard error. [`failure`] has the exit
//! codes, and [`numbers`] writes numbers and times for people.
#![forbid(unsafe_code)]

pub mod failure;
pub mod numbers;
pub mod output;
pub mod progress;
