//! Who has which task of the log, for the tools: while a stopped process has one, others wait for it.

use libtp_process::SessionId;

use crate::LogManager;

impl LogManager {
    /// The tasks and who has each at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        [("writes the log", self.header.leader.load()), ("prepares log segments", self.header.preparer.load())]
    }
}
