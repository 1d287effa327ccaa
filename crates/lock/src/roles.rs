//! The sessions that hold the lock table's tasks, for tools.

use libtp_process::SessionId;

use crate::LockManager;

impl LockManager {
    /// Returns each task and the session that holds it at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        let header = &self.table.header;
        [("searches for deadlocks", header.detector.load()), ("splits a lock bucket", header.splitter.load())]
    }
}
