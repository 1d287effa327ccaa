//! R11: transactions are serializable, and strictly so: as if each ran alone, between its beginning and its end.
//!
//! | file | what |
//! |---|---|
//! | `history` | what transactions did and saw |
//! | `graph` | dependencies, and a finder of cycles among them |
//! | `checker` | from a history to its dependencies and anomalies |
//! | `workload` | random transactions of eight threads |
//! | `serializable` | no cycle in their histories; controls with broken isolation must have some |
//! | `appended` | appends that look at nothing: values of a key, lists, records by number, and what an index finds |
//! | `killed` | the same of eight processes that are killed |
//! | `process`, `telling`, `unheard` | such a process, how it tells what it did, and what it had no time to tell |
//! | `session`, `anomalies` | the known anomalies as schedules, step by step |
//! | `serial`, `hermitage` | hermitage's cases by name, judged by whether a serial order explains them |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
//! | `deadlocks` | victims are told, and `Env::run` runs them again |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod anomalies;
mod appended;
mod checker;
mod deadlocks;
mod graph;
mod hermitage;
mod history;
mod killed;
mod process;
mod serial;
mod serializable;
mod session;
mod telling;
mod unheard;
mod workload;
#[cfg(feature = "planted")]
mod yardstick;
