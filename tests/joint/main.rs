//! One transaction over records and memory: both change or neither does, at whatever place a process dies.
//!
//! | file | what |
//! |---|---|
//! | `business` | the work: counters in two segments and a journal of records, which agree; and the check |
//! | `child` | a process that a test starts: this program, which does that work until it is stopped or dies |
//! | `basics` | one process: commit, abort, and refused calls |
//! | `parts` | parts of transactions are rolled back, one after the other |
//! | `deaths` | a process dies at each failpoint; survivors, the next opener, and restart find both or neither |
//! | `moments` | a checkpoint is stopped while segments commit; the disk fails, and there is no room |
//! | `forks` | a process that has forked is killed: its child, which never calls the library, blocks no segment |
//! | `doubt` | a transaction whose session panicked, or whose shared memory was rebuilt, in a living process |
//! | `queue` | the example of a message queue: killed producers and consumers, each message delivered once |
//! | `token` | the example of a token: killed stations, one token |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
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
