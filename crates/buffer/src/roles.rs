//! Who has which task of the page cache, for the tools: while a stopped process has one, others wait for it.

use libtp_process::SessionId;

use crate::BufferManager;

impl BufferManager {
    /// The task and who has it at this moment.
    pub fn roles(&self) -> [(&'static str, SessionId); 1] {
        [("writes pages", self.header.writer.load())]
    }
}
