//! One transaction over records and memory: both or neither, whoever dies wherever.
//!
//! | file | what |
//! |---|---|
//! | `business` | what is done: counters in two segments and a journal of records, which agree; how that is judged |
//! | `child` | a process that a test starts: this very program, which does that until it is stopped or dies |
//! | `basics` | one process: commit, abort, and what is refused |
//! | `parts` | parts of transactions are taken back, one after the other, until something is found to be wrong |
//! | `deaths` | a process dies at each failpoint of the way; who lives, who opens next, and restart find both or neither |
//! | `moments` | others come in between: a checkpoint is stopped while memory is told; the disk fails, and there is no room |
//! | `forks` | a process that has forked is killed: its child, which never calls us, keeps nobody from a segment |
//! | `doubt` | a transaction whose session died of a panic, or whose shared memory was made anew, while its process lives |
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
mod yardstick;
