//! Whether a process runs, as far as this process can see.

use serde::Serialize;

/// Whether a session's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessState {
    /// The process runs, as far as can be seen from here.
    Alive,
    /// A signal or a debugger stopped the process: sessions that need its locks or latches wait until it continues.
    Stopped,
    /// The process ended, or the session panicked in the middle of a change. The session is not repaired yet.
    Dead,
}
