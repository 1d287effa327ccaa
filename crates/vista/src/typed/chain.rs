//! Follows chains of links that may be damaged: a chain with more links than its collection has pairs is a circle.

use crate::{Error, Memory, Result};

/// The number of links that may still be followed.
pub(super) struct Links(u64);

impl Links {
    /// Makes the limit for a collection whose header states `count` nodes of at least `bytes` bytes each.
    ///
    /// # Errors
    /// `Damaged` if the segment has no room for that number of nodes.
    pub(super) fn of(memory: &impl Memory, count: u64, bytes: u64) -> Result<Links> {
        let links = Links(count);
        if count.checked_mul(bytes).is_none_or(|all| all > memory.segment().file_used()) {
            return Err(links.damaged(memory, "states more pairs than the segment has room for"));
        }
        Ok(links)
    }

    /// Counts one more link as followed.
    ///
    /// # Errors
    /// `Damaged` if the limit is used up.
    pub(super) fn follow(&mut self, memory: &impl Memory) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| {
            self.damaged(memory, "has more links than pairs, so the links lead in a circle or into another map")
        })?;
        Ok(())
    }

    #[cold]
    fn damaged(&self, memory: &impl Memory, what: &str) -> Error {
        let path = memory.segment().path().to_path_buf();
        Error::Damaged { path, what: format!("a map in it {what}") }
    }
}
