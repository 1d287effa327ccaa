//! Transactions: begin, commit and abort, savepoints, joined memory, and snapshots.

pub(crate) mod emptied;
pub(crate) mod joined;
pub(crate) mod log_reading;
pub(crate) mod object_lock;
pub(crate) mod passing;
pub(crate) mod run;
pub(crate) mod savepoint;
pub(crate) mod segment;
pub(crate) mod snapshot;
pub(crate) mod transaction;
