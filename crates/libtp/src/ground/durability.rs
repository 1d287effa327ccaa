//! The durability of commits.

/// The moment when a commit returns, and the events that it survives then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the commit is on disk.
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
