//! The sessions that have the lock table's roles, for tools.

use libtp_process::SessionId;

use crate::LockManager;

impl LockManager {
    /// Returns each role and the session that has the role at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        let header = &self.table.header;
        [("searches for deadlocks", header.detector.load()), ("splits a lock bucket", header.splitter.load())]
    }
}
