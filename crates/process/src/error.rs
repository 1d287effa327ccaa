//! The errors of the process manager, in sentences that state what to do.

/// The reason why a session could not join, or why the process manager could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The region could not grow, or is not usable. Nothing was changed.
    #[error("the shared memory cannot take one more session: {0}")]
    Region(#[from] rio::Error),
    /// There are as many sessions as a latch word can name.
    #[error("the environment already has {limit} sessions (threads at work), which is the maximum; nothing was changed. End some threads or processes that use it")]
    TooManySessions {
        /// The greatest number allowed.
        limit: u32,
    },
    /// There are as many attached processes as the index of a process slot can number.
    #[error("the environment is already open {limit} times, which is the maximum; nothing was changed. Close it in some processes")]
    TooManyProcesses {
        /// The greatest number allowed.
        limit: u32,
    },
    /// The lock by which others learn of this process's death cannot be taken.
    #[error("this process cannot take the file lock by which other processes notice its death: {0}. Nothing was changed; put the environment on a filesystem with file locks, or close it in some processes")]
    AttachmentLock(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The handle observes the environment without an attachment lock, so it cannot have sessions.
    #[error("this handle was opened only to look at the other processes, and cannot read or change data. Nothing was changed; open the environment with `Env::open`")]
    ObserverOnly,
    /// The region has no process manager.
    #[error("the shared memory {path} has no table of processes: it was not made completely, or it does not belong to an environment. Nothing was changed; open the environment again")]
    NotInitialised {
        /// The region's file.
        path: std::path::PathBuf,
    },
}

/// The result of process manager calls.
pub type Result<T> = std::result::Result<T, Error>;
