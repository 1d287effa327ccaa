//! Transactions are strictly serializable: the result is as if each transaction ran alone, at a moment between its
//! beginning and its end.
//!
//! | file | what |
//! |---|---|
//! | `history` | the steps and observations of transactions |
//! | `graph` | dependencies, and the search for cycles among them |
//! | `checker` | computes the dependencies and anomalies of a history |
//! | `workload` | random transactions of eight threads |
//! | `serializable` | histories of eight threads have no cycle; histories of controls without isolation have cycles |
//! | `appended` | appends without reads: values of a key, lists, records by number, and entries of an index |
//! | `killed` | histories of eight processes that are killed have no cycle |
//! | `process`, `step_lines`, `killed_commits` | a process of `killed`, its reports, and transactions without a report |
//! | `session`, `anomalies` | the known anomalies as schedules, step by step |
//! | `serial`, `hermitage` | hermitage's cases; each outcome must equal the outcome of a serial order |
//! | `deadlocks` | victims get an error, and `Env::run` repeats them |
//! | `session_order` | a session never sees an older state than it saw before, or than another process reported to it |
//! | `waits`, `cancelled` | how long a session waits for a lock, and events that end a wait |
//! | `whole` | no other transaction works in a database that a transaction has locked as a whole |
//! | `yardstick` | planted bugs, each of which one of these tests must notice |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod anomalies;
mod appended;
mod cancelled;
mod checker;
mod deadlocks;
mod graph;
mod hermitage;
mod history;
mod killed;
mod killed_commits;
mod process;
mod serial;
mod serializable;
mod session;
mod session_order;
mod step_lines;
mod waits;
mod whole;
mod workload;
#[cfg(feature = "planted")]
libtp_tests::yardstick!(Isolation);
