//! Who has which task of the lock table, for the tools.

use libtp_process::SessionId;

use crate::LockManager;

impl LockManager {
    /// The tasks and who has each at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 2] {
        let header = &self.table.header;
        [("searches for deadlocks", header.detector.load()), ("splits a lock bucket", header.splitter.load())]
    }
}
