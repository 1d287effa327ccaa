//! The reasons why a lock was not granted. Each text states what to do.

use std::time::Duration;

use crate::{LockName, LockerId, Mode};

/// A failed lock call. Locks that the locker held before are still held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another locker holds a conflicting lock, or waits for one, and the caller did not want to wait.
    #[error("other transactions hold {name}, so the lock in mode {mode} cannot be granted at once; nothing was changed. Ask again with a call that waits")]
    WouldBlock {
        /// The object.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
    },
    /// Lockers waited for each other in a circle, and the search for deadlocks chose this locker as the victim.
    #[error("the wait for {name} in mode {mode} closed a circle of waiting transactions (a deadlock), and this transaction was chosen as the victim. Abort it and run it again")]
    Deadlock {
        /// The object waited for.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
    },
    /// The wait was longer than the caller allowed.
    #[error("the lock on {name} in mode {mode} was not granted within {limit:?}; nothing was changed. Allow a longer wait, or abort the transaction and run it again later")]
    Timeout {
        /// The object waited for.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
        /// How long the caller allowed.
        limit: Duration,
    },
    /// The program ended its waits ([`libtp_process::cancel_waits`]).
    #[error(
        "the wait for {name} in mode {mode} was cancelled by this program; nothing was changed. Abort the transaction"
    )]
    Cancelled {
        /// The object waited for.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
    },
    /// The lock can be granted only after another transaction of the same thread ends, and the thread cannot end that
    /// transaction while it waits.
    #[error("the lock on {name} in mode {mode} cannot be granted: another transaction of this thread ({holder}) is in the way, and the thread cannot end that transaction while it waits; nothing was changed. End the other transaction first, or do both in one transaction")]
    OwnThread {
        /// The object waited for.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
        /// The other transaction's locker.
        holder: LockerId,
    },
    /// The holder's transaction cannot be undone any more: its session has died or its undo failed, and the log has
    /// failed.
    #[error("the lock on {name} in mode {mode} cannot be granted: a transaction that holds locks cannot be undone any more, because a write or a sync of the log failed; committed changes are safe in the log. Close the environment in every process, check the disk, and open it again")]
    HeldForGood {
        /// The object.
        name: LockName,
        /// The mode asked for.
        mode: Mode,
    },
    /// The lock to be converted or released is not held.
    #[error(
        "this transaction does not hold {name} in a mode that allows the call; nothing was changed. Lock it first"
    )]
    NotHeld {
        /// The object.
        name: LockName,
    },
    /// The region has no room for one more lock. Nothing was changed.
    #[error("{0}. So the lock table could not grow, and no lock was taken")]
    Full(#[source] rio::Error),
    /// The lock table is so large that further slots could not be named.
    #[error("the lock table must be in the first {limit} bytes of shared memory, and these are full; no lock was taken. End transactions that hold very many locks")]
    OutOfReach {
        /// The last byte that a slot may occupy.
        limit: u64,
    },
    /// The region has no lock manager.
    #[error("the shared memory {path} has no lock table: it was not made completely, or it does not belong to an environment. Nothing was changed; open the environment again")]
    NotInitialised {
        /// The region's file.
        path: std::path::PathBuf,
    },
}

/// The result of lock manager calls.
pub type Result<T> = std::result::Result<T, Error>;
