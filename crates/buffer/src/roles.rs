//! Who has which task of the page cache, for the tools: while a stopped process has one, others wait for it, or do without.

use libtp_process::SessionId;

use crate::BufferManager;

impl BufferManager {
    /// Each task and who has it at this moment.
    pub fn roles(&self) -> Vec<(&'static str, SessionId)> {
        let mut roles = vec![("writes pages", self.header.writer.load())];
        let shelves = self.pools.shelves();
        roles.extend(shelves.iter().map(|(_, shelf)| ("adds frames", shelf.slot.grower.load())));
        roles
    }
}
