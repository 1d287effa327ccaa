//! One transaction over records and memory: both change or neither changes, wherever a process dies.
//!
//! | file | what |
//! |---|---|
//! | `business` | the work with counters in two segments and a journal of records, and the check that these agree |
//! | `child` | a process that a test starts; it does the work of `business` until it is stopped or dies |
//! | `basics` | one process: commit, abort, and refused calls |
//! | `parts` | one process whose transactions roll back parts of themselves |
//! | `deaths` | a process dies at each failpoint; survivors, the next opener and a restart find both or neither |
//! | `moments` | a checkpoint is stopped while segments commit; the disk fails while the shared memory is full |
//! | `forks` | a process that has forked is killed; its child, which never calls the library, blocks no segment |
//! | `doubt` | a transaction whose session panicked, or whose shared memory was rebuilt, in a living process |
//! | `queue` | the example of a message queue: killed producers and consumers, each message delivered once |
//! | `token` | the example of a token: killed stations, one token |
//! | `yardstick` | planted bugs, of which each must be noticed by one of these tests |
//! | `killed` | several processes share the segments, and are killed at random moments |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod basics;
mod business;
mod child;
mod deaths;
mod doubt;
mod forks;
mod killed;
mod moments;
mod parts;
mod queue;
mod token;
#[cfg(feature = "planted")]
libtp_tests::yardstick!(Joint);
