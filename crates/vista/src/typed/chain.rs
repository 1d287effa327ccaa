//! Following links that may be damaged: a chain has no more links than there are pairs, else it is a circle.

use crate::{Error, Memory, Result};

/// How many links may be followed yet.
pub(super) struct Links(u64);

impl Links {
    /// Of a collection that says that it has so many nodes, of at least `bytes` bytes each.
    ///
    /// # Errors
    /// `Damaged` if the segment has no room for so many.
    pub(super) fn of(memory: &impl Memory, count: u64, bytes: u64) -> Result<Links> {
        let links = Links(count);
        if count.checked_mul(bytes).is_none_or(|all| all > memory.segment().file_used()) {
            return Err(links.damaged(memory, "says that it has more pairs than the segment has room for"));
        }
        Ok(links)
    }

    /// One more link is followed.
    ///
    /// # Errors
    /// `Damaged` if there can be none.
    pub(super) fn follow(&mut self, memory: &impl Memory) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| {
            self.damaged(memory, "has more links than pairs: they lead in a circle, or some are another's")
        })?;
        Ok(())
    }

    #[cold]
    fn damaged(&self, memory: &impl Memory, what: &str) -> Error {
        let path = memory.segment().path().to_path_buf();
        Error::Damaged { path, what: format!("a map of it {what}") }
    }
}
