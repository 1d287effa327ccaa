//! Method dispatch: the calls on records by key, each for a B-tree and for a hash file.
//!
//! Paper: LIBTP 4.4: db(3) has one interface for its access methods. The database's method decides which code a call on
//! one record runs; this file makes that choice. The method also decides which first pages a new file gets (`open.rs`),
//! how several keys are read at once (`many.rs`), and which walk a cursor of `libtp` gets. An access method only refuses
//! files of another method ([`Access::check_btree`] and similar checks).

use crate::btree::get::LeafPlace;
use libtp_buffer::ExclusivePage;

use crate::btree::change::{Outcome, Policy};
use crate::btree::verify::Verified;
use crate::copies::append_copy;
use crate::database::{Granularity, Method};
use crate::hash::bucket::ChangedBucket;
use crate::link::Link;
use crate::locking::{Access, Purpose};
use crate::part::Part;
use crate::snapshot::SnapshotAccess;
use crate::{btree, hash, list, paged, recno, Result};

impl<'a> Access<'a> {
    /// Reads the value of `key` under a shared lock, and passes it to `read`. Returns `None` if there is no such
    /// record.
    ///
    /// The page is latched while `read` runs: `read` may copy or inspect the value, and calls no other function of the
    /// library (PROTOCOLS D12).
    ///
    /// # Errors
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::Corrupt`](crate::Error::Corrupt), and errors of locks
    /// and pages.
    #[inline]
    pub fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let entered = self.enter_for(key, Purpose::Read)?;
        match self.database.method() {
            Method::Hash => self.hash_get(key, entered, read),
            _ => self.btree_get(key, entered, |_, _, _| {}, read),
        }
    }

    /// Like [`Access::get`], but `read` gets a copy and may call any function: the session holds no latch while `read`
    /// runs.
    ///
    /// # Errors
    /// As [`Access::get`].
    #[inline]
    pub fn get_copied<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let txn = self.pages.change.txn;
        let mut value = txn.take_spare();
        let found = self.get(key, |stored| append_copy(&mut value, stored))?.transpose()?;
        let result = found.map(|()| read(&value));
        txn.give_spare(value);
        Ok(result)
    }

    /// Like [`Access::get`], but locks the record for writing, because the caller will change the value.
    ///
    /// # Errors
    /// As [`Access::get`].
    #[inline]
    pub fn get_for_update<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_to_change(key, &mut None, read)
    }

    /// Like [`Access::get_for_update`]. If the whole record is on a leaf of a B-tree, the call also stores the record's
    /// place in `place`.
    #[inline]
    fn get_to_change<R>(
        &self,
        key: &[u8],
        place: &mut Option<LeafPlace>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let entered = self.enter_for(key, Purpose::Write)?;
        match self.database.method() {
            Method::Hash => self.hash_get(key, entered, read),
            _ => self.btree_get_to_change(key, entered, place, read),
        }
    }

    /// Returns the first page of a search for `key`, if that page is known without a wait.
    #[inline]
    pub(crate) fn page_of(&self, key: &[u8]) -> Option<u32> {
        match self.database.method() {
            Method::Btree => btree::search::leaf_number_now(&self.pages, key),
            Method::Hash => self.hash_page_now(key),
            Method::Recno { .. } | Method::Pages => None,
        }
    }

    /// Checks that the file can store `key`, and locks the database. Returns the granularity of further locks.
    #[inline]
    fn enter_for(&self, key: &[u8], purpose: Purpose) -> Result<(Purpose, Option<Granularity>)> {
        self.check_keyed()?;
        self.check_key(key)?;
        Ok((purpose, self.enter(purpose)?))
    }

    /// Lets `change` change the value of `key`, but not its length. Returns the result of `change`; `None` if there is
    /// no such record. While `change` runs the session holds the record's lock for writing, but no latch.
    ///
    /// # Errors
    /// As [`Access::put`].
    #[inline]
    pub fn update<R>(&self, key: &[u8], change: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
        let txn = self.pages.change.txn;
        let mut value = txn.take_spare();
        let mut place = None;
        let found = self.get_to_change(key, &mut place, |stored| append_copy(&mut value, stored))?.transpose()?;
        let result = match found {
            None => None,
            Some(()) => {
                let result = change(&mut value);
                let is_done = match place {
                    Some(place) => self.change_at(key, &value, place)?,
                    None => false,
                };
                if !is_done {
                    self.put(key, &value)?;
                }
                Some(result)
            }
        };
        txn.give_spare(value);
        Ok(result)
    }

    /// Changes the part of the value of `key` that begins at `offset`. Returns the answer of `part`; `None` if there is
    /// no such record.
    ///
    /// # Errors
    /// [`Error::PartOutside`](crate::Error::PartOutside), and the errors of [`Access::put`].
    #[inline]
    pub fn change_part<P: Part>(&self, key: &[u8], offset: usize, part: P) -> Result<Option<P::Told>> {
        self.check_keyed()?;
        self.check_key(key)?;
        match self.database.method() {
            Method::Hash => self.change_part_of::<ChangedBucket<'a>, P>(key, offset, part),
            _ => self.change_part_of::<ExclusivePage<'a>, P>(key, offset, part),
        }
    }

    /// Stores a record, and replaces an older record of the key. A caller that needs to know whether a record existed
    /// reads the key first.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::ValueTooLong`](crate::Error::ValueTooLong), and errors
    /// of locks, log and pages. Nothing was changed then.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change_record(key, Outcome::Value(value), Policy::Always).map(|_| ())
    }

    /// Stores a record if the key has no record. Returns whether the record was stored.
    ///
    /// # Errors
    /// As [`Access::put`].
    pub fn put_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change_record(key, Outcome::Value(value), Policy::New)
    }

    /// Deletes a record. Returns whether the record existed.
    ///
    /// # Errors
    /// As [`Access::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let _freeing = self.pages.session().begin_freeing();
        self.change_record(key, Outcome::Ghost, Policy::Always)
    }

    #[inline]
    fn change_record(&self, key: &[u8], outcome: Outcome<'_>, policy: Policy) -> Result<bool> {
        self.check_keyed()?;
        self.check_key(key)?;
        match self.database.method() {
            Method::Hash => self.change::<ChangedBucket<'a>>(key, outcome, policy),
            _ => self.change::<ExclusivePage<'a>>(key, outcome, policy),
        }
    }

    /// Locks a key for reading, and returns a link to its record; `None` if there is no such record.
    ///
    /// # Errors
    /// As [`Access::get`].
    pub fn link_of(&self, key: &[u8]) -> Result<Option<Link>> {
        if self.get(key, |_| ())?.is_none() {
            return Ok(None);
        }
        let place = match self.database.method() {
            Method::Hash => self.hash_place(key)?,
            _ => self.btree_place(key)?,
        };
        Ok(place.map(|(page, slot)| Link::new(page, slot, key)))
    }
}

impl SnapshotAccess<'_> {
    /// Passes the value of `key` to `read`; `None` if there was no such record.
    ///
    /// A page may be latched while `read` runs: `read` may copy or inspect the value, and calls no other function of
    /// the library (PROTOCOLS D12).
    ///
    /// # Errors
    /// `SnapshotTooOld`, `KeyTooLong`, and errors of pages and the log.
    #[inline]
    pub fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self.database().method() {
            Method::Hash => self.hash_get(key, read),
            _ => self.btree_get(key, read),
        }
    }
}

/// Checks the whole structure of a database: everything that a page states about another page, such as links.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is a finding in the result, not an error.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    match access.database().method() {
        Method::Btree if access.database().key_format().is_list => list::verify::verify(access),
        Method::Btree => btree::verify::verify(access),
        Method::Recno { .. } => recno::verify::verify(access),
        Method::Hash => hash::verify::verify(access),
        Method::Pages => paged::verify::verify(access),
    }
}
