//! Roles: at most one session has a role at a time.

use libtp_process::{leaves_roles, SessionId};
use rio::{Region, Word};

use crate::Managers;

/// A session's hold on a role. At most one session has the role at a time. Released when this value is dropped.
pub(crate) struct Role<'m> {
    pub(crate) region: &'m Region,
    pub(crate) word: &'m Word<SessionId>,
    pub(crate) me: SessionId,
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        if leaves_roles(self.region) {
            return;
        }
        // A failure means that another session considered this session dead and took the role over.
        let _ = self.word.compare_exchange(self.me, SessionId::NONE);
    }
}

impl Managers {
    /// Returns every role that a session has at this moment, with the session. For the tools.
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
