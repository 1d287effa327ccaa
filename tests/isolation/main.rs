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
//! | `deadlocks` | victims are told, and `Env::run` runs them again |
//! | `session_order` | what a session has seen, or was told, it sees ever after |
//! | `waits`, `cancelled` | how long a lock is waited for, and what ends a wait |
//! | `yardstick` | planted bugs that these notice |
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
mod process;
mod serial;
mod serializable;
mod session;
mod session_order;
mod telling;
mod unheard;
mod waits;
mod workload;
#[cfg(feature = "planted")]
mod yardstick;
