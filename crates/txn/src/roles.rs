//! The roles that one session has at a time, for the tools.

use libtp_process::SessionId;

use crate::Managers;

impl Managers {
    /// Returns every role that a session has at this moment, with the session.
    pub fn roles(&self) -> Vec<(&'static str, SessionId)> {
        let header = &self.txns.header;
        let own =
            [("takes a checkpoint", header.checkpointer.load()), ("changes the control file", header.changer.load())];
        let all = own
            .into_iter()
            .chain(self.log.roles())
            .chain(self.buffers.roles())
            .chain(self.locks.roles())
            .chain(self.processes.roles());
        all.filter(|(_, session)| *session != SessionId::NONE).collect()
    }
}
