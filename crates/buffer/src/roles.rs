//! The roles of the page cache and the sessions that have them, for the tools. While a stopped process has a role,
//! other sessions wait for this process, or continue without the work of the role.

use libtp_process::SessionId;

use crate::BufferManager;

impl BufferManager {
    /// Returns each role and the session that has it at this moment.
    pub fn roles(&self) -> Vec<(&'static str, SessionId)> {
        let mut roles = vec![("writes pages", self.header.writer.load())];
        let parts = self.pools.parts();
        roles.extend(parts.iter().map(|(_, part)| ("adds frames", part.slot.grower.load())));
        roles
    }
}
