//! Who has which task of the log, for the tools: while a stopped process has one, others wait for it.

use libtp_process::SessionId;
use rio::Checked;

use crate::LogManager;

impl LogManager {
    /// The tasks and who has each at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        let who = |word: &Checked<SessionId>| word.try_load().unwrap_or(SessionId::NONE);
        [("writes the log", who(&self.header.leader)), ("prepares log segments", who(&self.header.preparer))]
    }
}
