//! Transactions: begin, commit and abort, savepoints, joined memory, and snapshots.

pub(crate) mod commit;
pub(crate) mod decisions;
pub(crate) mod emptied;
pub(crate) mod failure;
pub(crate) mod going_back;
pub(crate) mod joined;
pub(crate) mod log_reading;
pub(crate) mod object_lock;
pub(crate) mod parts;
pub(crate) mod passing;
pub(crate) mod run;
pub(crate) mod savepoint;
pub(crate) mod savepoints;
pub(crate) mod segment;
pub(crate) mod snapshot;
pub(crate) mod transaction;
