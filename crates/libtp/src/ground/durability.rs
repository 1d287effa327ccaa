//! The durability of commits.

/// The moment when a commit returns, and the events that it survives then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the commit is on disk.
    ///
    /// One process writes the log for all. If it is stopped at that moment (`kill -STOP`, Ctrl-Z, a debugger), the
    /// commits of all processes wait until it continues or is killed: without limit, unless the environment, the call or
    /// the transaction has a lock timeout, or the program calls [`cancel_waits`](crate::cancel_waits). Then the commit
    /// ends with [`OutcomeUnknown`](crate::Error::OutcomeUnknown), which names the stopped process: the transaction is
    /// committed in memory, its locks are free, and it is lost only with the memory. A process that runs is waited for
    /// without limit, however slow the disk is. A transaction that has read such a commit waits in the same way.
    #[default]
    Sync,
    /// At once: the commit survives the death of any process now, and is on disk within the set time (PROTOCOLS L5).
    Relaxed,
    /// At once, if the environment's memory outlives a crash of the system, or the loss of power: the commit survives
    /// such a crash now, without a system call (PROTOCOLS L9), and is on disk within the set time. Refused if the
    /// memory does not outlive the system.
    Rio,
}

same_variants!(libtp_txn, Durability: Sync Relaxed Rio);
