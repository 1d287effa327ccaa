//! The errors of the process manager, in sentences that state what to do.

/// A session could not join, or the process manager could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The region could not grow, or is not usable. Nothing was changed.
    #[error("a session needs room in shared memory: {0}")]
    Region(#[from] rio::Error),
    /// There are as many sessions as a latch word can name.
    #[error("the environment already has {limit} sessions, as many as a latch can name; nothing was changed. End some threads or processes that use it")]
    TooManySessions {
        /// The greatest number allowed.
        limit: u32,
    },
    /// There are as many attached processes as a slot's name can tell apart.
    #[error("the environment is already open {limit} times, as often as can be told apart; nothing was changed. Close it in some processes")]
    TooManyProcesses {
        /// The greatest number allowed.
        limit: u32,
    },
    /// The lock by which others learn of this process's death cannot be taken.
    #[error("the lock by which other processes would learn of this one's death cannot be taken: {0}")]
    Seat(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The environment was opened only to look.
    #[error("it was opened to look at what others do, and can do nothing itself: open it as others do")]
    OnlyLooks,
    /// The region has no process manager.
    #[error("the region {path} has no process manager: its creation was not finished, or it is not an environment's")]
    NotInitialised {
        /// The region's file.
        path: std::path::PathBuf,
    },
}

/// The result of process manager calls.
pub type Result<T> = std::result::Result<T, Error>;
