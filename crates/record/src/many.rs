//! Reads of several records whose waits for memory overlap.
//!
//! Paper: none. On the way to a record lie places that are probably not in the processor's cache: the leaf's frame, its
//! header and slots, the record's cell. Single gets meet them one after the other. Here the session first asks for each
//! of these places for several keys, and then reads each record as a single get does.
//!
//! The rounds before the gets are hints. They take no lock, wait for nothing, and leave out pages that are latched or
//! not in memory.
//!
//! Records are locked in the order of their keys, whatever the order in the call (PROTOCOLS K7).

use rio::planted;

use crate::btree::get::CELL_PREFETCH_BYTES;
use crate::locking::Access;
use crate::page::node::Node;
use crate::snapshot::SnapshotAccess;
use crate::Result;

/// Number of keys whose places are asked for at once: about as many lines as a processor waits for at a time.
const AT_ONCE: usize = 8;

impl Access<'_> {
    /// As [`Access::get`] for each of several keys. `read` gets the key's index with the value.
    ///
    /// # Errors
    /// As [`Access::get`]. Some of the values may have been read.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, &[u8])) -> Result<()> {
        in_rounds(self, keys, |nth| self.get(keys[nth], |value| read(nth, value)).map(drop))
    }

    /// Asks the processor for the page of a key that will be read or changed soon. A hint: takes no lock.
    pub fn prefetch(&self, key: &[u8]) {
        let _visit = self.pages.visit();
        if let Some(page) = self.page_of(key) {
            self.pages.bring_near(page);
        }
    }

    fn bring_near(&self, keys: &[&[u8]], nths: &[usize]) {
        // No session waits in the visit.
        let _visit = self.pages.visit();
        let mut found = [None; AT_ONCE];
        for (page, &nth) in found.iter_mut().zip(nths) {
            *page = self.page_of(keys[nth]);
            page.inspect(|&page| self.pages.bring_near(page));
        }
        for (number, &nth) in found.iter().zip(nths) {
            let Some(page) = number.and_then(|number| self.pages.shared_now(number, 0, false)) else { continue };
            let Some(node) = Node::over_records(&page) else { continue };
            if let (slot, true) = node.find(keys[nth]) {
                page.prefetch(node.cell_at(slot), CELL_PREFETCH_BYTES);
            }
        }
    }
}

impl SnapshotAccess<'_> {
    /// As [`Access::get_many`].
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`]. Some of the values may have been read.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, &[u8])) -> Result<()> {
        in_rounds(&self.access, keys, |nth| self.get(keys[nth], |value| read(nth, value)).map(drop))
    }

    /// As [`Access::prefetch`].
    pub fn prefetch(&self, key: &[u8]) {
        self.access.prefetch(key);
    }
}

/// Calls `get` with the index of each key, in the order of the keys.
fn in_rounds(access: &Access<'_>, keys: &[&[u8]], mut get: impl FnMut(usize) -> Result<()>) -> Result<()> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if !planted("record: several records are locked in the order of the call") {
        order.sort_unstable_by_key(|&nth| keys[nth]);
    }
    for nths in order.chunks(AT_ONCE) {
        access.bring_near(keys, nths);
        nths.iter().try_for_each(|&nth| get(nth))?;
    }
    Ok(())
}
