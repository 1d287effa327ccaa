//! The indices whose functions this process has. They are data of the floor `db`, stored in the environment's handle.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use libtp_buffer::FileId;
use libtp_record::{duplicates, Order};
use rio::planted;

use crate::ground::mutex::lock;
use crate::region::open_database::OpenDatabase;
use crate::{Error, Result};

/// The program's function that computes index keys from the key and the value of a record.
pub(crate) type Function = dyn Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync;

/// The keys under which an index finds a record: none, one or several. A key added twice counts once.
#[derive(Debug, Default)]
pub struct IndexKeys {
    keys: BTreeSet<Vec<u8>>,
    refused: Option<String>,
}

impl IndexKeys {
    /// Adds a key.
    pub fn add(&mut self, key: impl AsRef<[u8]>) {
        self.keys.insert(key.as_ref().to_vec());
    }

    /// Refuses the record: it has no valid keys. The call that was to store the record fails ([`Error::Refused`]) and
    /// changes nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let people = env.btree("people")?;
    /// let by_town = people.index("people by town", |_key, value, keys| match value.split(|&byte| byte == b':').next() {
    ///     Some(town) if !town.is_empty() => keys.add(town),
    ///     _ => keys.refuse("it has no town"),
    /// })?;
    /// let refused = env.run(|txn| people.put(txn, b"ada", b": countess")).unwrap_err();
    /// assert!(matches!(refused, libtp::Error::Refused { .. }));
    /// assert_eq!(env.run(|txn| people.get(txn, b"ada"))?, None);
    /// # drop(by_town);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.refused = Some(why.into());
    }
}

/// An index whose function this process has.
pub(crate) struct Kept {
    pub(crate) tree: Arc<OpenDatabase>,
    /// The order of the database's keys: the function gets the keys as the program knows them.
    pub(crate) order: Option<Arc<dyn Order>>,
    pub(crate) function: Box<Function>,
}

impl Kept {
    /// Returns the entries of a record, in the order of the tree.
    pub(crate) fn entries(&self, stored: &[u8], value: &[u8]) -> Result<BTreeSet<Vec<u8>>> {
        let mut keys = IndexKeys::default();
        // The function is called outside of guarded calls, so the library does not catch its panic.
        match &self.order {
            None => (self.function)(stored, value, &mut keys),
            Some(order) => {
                let mut key = Vec::new();
                order.decode(stored, &mut key);
                (self.function)(&key, value, &mut keys);
            }
        }
        if let Some(what) = keys.refused.filter(|_| !planted("libtp: a record that an index refuses is stored")) {
            return Err(Error::Refused { index: self.tree.name().into(), what });
        }
        let entries: BTreeSet<Vec<u8>> = keys.keys.iter().map(|key| duplicates::sorted_entry(key, stored)).collect();
        let limit = self.tree.key_bytes_max();
        match entries.iter().find(|entry| entry.len() > limit) {
            None => Ok(entries),
            Some(long) => Err(Error::Length {
                what: "a key of an index with the key of its record",
                bytes: long.len(),
                limit: format!("up to {limit} bytes in the index `{}`", self.tree.name()),
            }),
        }
    }
}

/// The indices whose functions this process has, by their file numbers.
#[derive(Default)]
pub(crate) struct KeptIndices(Mutex<HashMap<u32, Arc<Kept>>>);

impl KeptIndices {
    /// Notes a function; returns the function that was noted earlier for that file.
    pub(crate) fn note(&self, kept: &Arc<Kept>) -> Option<Arc<Kept>> {
        lock(&self.0).insert(kept.tree.id().raw(), Arc::clone(kept))
    }

    /// Undoes [`KeptIndices::note`], because the index does not exist, or exists with another function.
    pub(crate) fn forget(&self, kept: &Arc<Kept>, before: Option<Arc<Kept>>) {
        let (mut all, file) = (lock(&self.0), kept.tree.id().raw());
        if all.get(&file).is_some_and(|now| Arc::ptr_eq(now, kept))
            && !planted("libtp: a failed index build keeps its function")
        {
            match before {
                Some(before) => all.insert(file, before),
                None => all.remove(&file),
            };
        }
    }

    pub(crate) fn of(&self, file: FileId) -> Option<Arc<Kept>> {
        lock(&self.0).get(&file.raw()).cloned()
    }
}
