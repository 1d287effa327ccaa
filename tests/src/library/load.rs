//! Bulk loads of records.

use libtp::{Bytes, Error, Load, Pair};

use super::{Answer, Process, Trouble};
use crate::oracle::Value;

/// Trees that are made and loaded in the middle of the workload.
pub const LOADED: [&str; 4] = ["load-a", "load-b", "load-c", "load-d"];

/// The reason that a load did not finish.
enum Stopped {
    Broken,
    Library(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Library(error)
    }
}

impl Process {
    /// Compacts a tree: two neighbouring leaves whose records fit on one page are merged.
    ///
    /// # Errors
    /// The errors of compacting.
    pub fn compact(&self, tree: &'static str) -> Answer<()> {
        Ok(self.tree(tree)?.compact(100).map(|_| ())?)
    }

    /// Loads records into an empty tree, sorted or in any order; stops before the record at `broken_at`, if one is
    /// given. Returns whether the load finished.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn load(
        &self,
        tree: &'static str,
        records: &[(Vec<u8>, Value)],
        is_sorted: bool,
        broken_at: Option<usize>,
    ) -> Answer<bool> {
        let how = if is_sorted { Load::sorted() } else { Load::unsorted().memory(Bytes::kib(16)) };
        let pair = |(key, value): &(Vec<u8>, Value)| -> Pair { (key.clone(), value.to_vec()) };
        let pairs = records.iter().enumerate().map(|(at, record)| match broken_at == Some(at) {
            true => Err(Stopped::Broken),
            false => Ok(pair(record)),
        });
        match self.tree(tree)?.try_load(&how, pairs, &mut |_| {}) {
            Ok(_) => Ok(true),
            Err(Stopped::Broken) => Ok(false),
            Err(Stopped::Library(error)) => Err(Trouble::from(error)),
        }
    }
}
