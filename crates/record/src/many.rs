//! Reads of several records whose waits for memory overlap.
//!
//! Paper: none. A record's leaf and its frame are probably not in the processor's cache. Single gets wait for these
//! cache misses one after the other. A call for several keys works in two rounds. First the session finds the leaves of
//! the keys on the few pages above them, and prefetches these leaves. Then it reads one record after the other.
//!
//! Both rounds are in one visit of the tree (PROTOCOLS T2). The session never waits during the visit. A key that needs
//! a wait ends the visit: it is read by a single get, and the two rounds begin again with the next key.
//!
//! Records are locked in the order of their keys, whatever the order in the call (PROTOCOLS K7).

use rio::planted;

use crate::database::Method;
use crate::locking::{Access, Purpose};
use crate::snapshot::SnapshotAccess;
use crate::Result;

/// The number of keys whose leaves are prefetched at once: about the number of cache lines for which a processor can
/// wait at the same time.
const AT_ONCE: usize = 8;

impl Access<'_> {
    /// As [`Access::get`] for each of several keys. `read` gets the key's index with the value.
    ///
    /// # Errors
    /// As [`Access::get`]. Some of the values may have been read.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, &[u8])) -> Result<()> {
        self.check_keyed()?;
        // The lock is taken before the first visit, because the session may wait for it.
        let entered = (Purpose::Read, self.enter(Purpose::Read)?);
        in_rounds(self, keys, |nth, leaf| match leaf {
            Some(leaf) => self.btree_get_on(keys[nth], entered, leaf, |value| read(nth, value)),
            None => self.get(keys[nth], |value| read(nth, value)).map(|_| true),
        })
    }

    /// Prefetches the page of a key that will be read or changed soon. This is only a hint, and takes no lock.
    pub fn prefetch(&self, key: &[u8]) {
        let _visit = self.pages.visit();
        if let Some(page) = self.page_of(key) {
            self.pages.bring_near(page);
        }
    }

    /// Reads the keys with the indices `nths`, one after the other, until a key needs a wait. Returns the number of
    /// keys that it has read. `get` takes a key's index and leaf, and returns whether it has read the key. `None`
    /// instead of a leaf permits `get` to wait.
    fn read_first(
        &self,
        keys: &[&[u8]],
        nths: &[usize],
        get: &mut impl FnMut(usize, Option<u32>) -> Result<bool>,
    ) -> Result<usize> {
        let visit = self.pages.visit();
        let mut leaves = [None; AT_ONCE];
        for (leaf, &nth) in leaves.iter_mut().zip(nths) {
            *leaf = self.page_of(keys[nth]);
            leaf.inspect(|&leaf| self.pages.bring_near(leaf));
        }
        if self.database.method() == Method::Hash {
            // In a hash file a search for a key begins at the key's page, so there are no pages above.
            drop(visit);
            nths.iter().try_for_each(|&nth| get(nth, None).map(drop))?;
            return Ok(nths.len());
        }
        for (count, (leaf, &nth)) in leaves.into_iter().zip(nths).enumerate() {
            if leaf.is_none() || !get(nth, leaf)? {
                return Ok(count);
            }
        }
        Ok(nths.len())
    }
}

impl SnapshotAccess<'_> {
    /// As [`Access::get_many`].
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`]. Some of the values may have been read.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, &[u8])) -> Result<()> {
        in_rounds(&self.access, keys, |nth, leaf| match leaf {
            Some(leaf) => self.btree_get_on(keys[nth], leaf, |value| read(nth, value)),
            None => self.get(keys[nth], |value| read(nth, value)).map(|_| true),
        })
    }

    /// As [`Access::prefetch`].
    pub fn prefetch(&self, key: &[u8]) {
        self.access.prefetch(key);
    }
}

/// Calls `get`, as [`Access::read_first`] does, in the order of the keys, until each key is read.
fn in_rounds(
    access: &Access<'_>,
    keys: &[&[u8]],
    mut get: impl FnMut(usize, Option<u32>) -> Result<bool>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if !planted("record: several records are locked in the order of the call") {
        order.sort_unstable_by_key(|&nth| keys[nth]);
    }
    let mut rest = &order[..];
    while !rest.is_empty() {
        let some = &rest[..rest.len().min(AT_ONCE)];
        let count = access.read_first(keys, some, &mut get)?;
        rest = &rest[count..];
        if count < some.len() {
            get(rest[0], None)?;
            rest = &rest[1..];
        }
    }
    Ok(())
}
