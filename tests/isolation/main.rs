//! R11: transactions are strictly serializable: as if each ran alone, at a moment between its beginning and its end.
//!
//! | file | what |
//! |---|---|
//! | `history` | the steps and observations of transactions |
//! | `graph` | dependencies, and the search for cycles among them |
//! | `checker` | computes the dependencies and anomalies of a history |
//! | `workload` | random transactions of eight threads |
//! | `serializable` | their histories have no cycle; controls with broken isolation must have some |
//! | `appended` | appends without reads: values of a key, lists, records by number, and entries of an index |
//! | `killed` | random transactions of eight processes that are killed: their histories have no cycle |
//! | `process`, `telling`, `unheard` | such a process, its reports, and the transactions that it could not report |
//! | `session`, `anomalies` | the known anomalies as schedules, step by step |
//! | `serial`, `hermitage` | hermitage's cases by name, judged by whether a serial order explains their outcomes |
//! | `deadlocks` | victims get an error, and `Env::run` repeats them |
//! | `session_order` | a session never sees an older state than the state that it saw, or that another process reported to it |
//! | `waits`, `cancelled` | how long a session waits for a lock, and events that end a wait |
//! | `whole` | a transaction that has locked a whole database is alone in it |
//! | `yardstick` | planted bugs, each to be noticed by one of these |
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
mod whole;
mod workload;
#[cfg(feature = "planted")]
libtp_tests::yardstick!(Isolation);
