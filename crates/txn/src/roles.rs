//! Who has which task that one session has at a time, for the tools.

use libtp_process::SessionId;

use crate::Managers;

impl Managers {
    /// Every task that somebody has at this moment.
    pub fn roles(&self) -> Vec<(&'static str, SessionId)> {
        let checkpointer = [("takes a checkpoint", self.txns.header.checkpointer.load())];
        let all =
            checkpointer.into_iter().chain(self.log.roles()).chain(self.buffers.roles()).chain(self.locks.roles());
        all.filter(|(_, session)| *session != SessionId::NONE).collect()
    }
}
