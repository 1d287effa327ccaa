//! The sessions that hold the log's tasks, for tools: while a stopped process holds a task, other sessions wait for it.

use libtp_process::SessionId;
use rio::Checked;

use crate::LogManager;

impl LogManager {
    /// Returns each task and the session that holds it at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        let holder_of = |word: &Checked<SessionId>| word.try_load().unwrap_or(SessionId::NONE);
        [
            ("writes the log", holder_of(&self.header.leader)),
            ("prepares log segments", holder_of(&self.header.preparer)),
        ]
    }
}
