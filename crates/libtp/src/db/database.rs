//! The calls of [`Db`], a B-tree or a hash file, and of [`Recno`], records by number.

use libtp_record::copies::copy_of;
use libtp_record::{Access, KeyRange};

use crate::db::cursor::{Cursor, RecnoCursor};
use crate::db::handle::{Db, Recno};
use crate::db::reader::Reader;
use crate::region::panics::callers;
use crate::{Error, Keys, Link, PageLock, Result, Txn};

impl Db {
    /// Returns the value of a key, or `None`. In a transaction the key stays locked for reading until the transaction
    /// ends.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Length`, `Corrupt`, `Io`.
    pub fn get(&self, reader: &impl Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(reader.read(self, self.stored(key, &mut Vec::new()), copy_of)?.transpose()?)
    }

    /// Calls `read` with the value of a key, in memory that is lent for the call. Returns `None` if the key is missing.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_with<T>(&self, reader: &impl Reader, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        reader.read_copied(self, self.stored(key, &mut Vec::new()), read)
    }

    /// Works as [`Db::get`], but locks the key for writing at once. So a later `put` of the same key causes no
    /// deadlock.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_for_update(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        txn.guarded(|| Ok(self.access(txn).get_for_update(key, copy_of)?.transpose()?))
            .map_err(|error| self.about(error, key))
    }

    /// Calls `change` to change the value of a key, whose length stays the same. Returns `None` if the key is missing.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn update_with<R>(&self, txn: &Txn<'_>, key: &[u8], change: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
        let mut room = Vec::new();
        let stored = self.stored(key, &mut room);
        let mut change = Some(change);
        let done = self.written(txn, |access| {
            access.update(stored, |value| change.take().map(|change| callers(|| change(value))))
        });
        let done = done.map_err(|error| self.about(error, stored))?;
        match (done, change) {
            (Some(found), _) => Ok(found.flatten()),
            (None, Some(change)) => self.update_indexed(txn, stored, change),
            (None, None) => Ok(None),
        }
    }

    /// Stores a value under a key, and replaces any earlier value.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Length` when the key is too long; `Full` with nothing changed; `Failed`, `Corrupt`,
    /// `Io`.
    pub fn put(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        match self.written(txn, |access| access.put(key, value)).map_err(|error| self.about(error, key))? {
            Some(()) => Ok(()),
            None => self.put_indexed(txn, key, value),
        }
    }

    /// Stores a value under a key that does not exist yet.
    ///
    /// # Errors
    /// `Exists` if the key exists, with nothing changed; else as [`Db::put`].
    pub fn put_new(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        let written = self.written(txn, |access| access.put_new(key, value)).map_err(|error| self.about(error, key));
        let is_new = match written? {
            Some(is_new) => is_new,
            None => self.put_new_indexed(txn, key, value)?,
        };
        match is_new {
            true => Ok(()),
            false => Err(Error::Exists),
        }
    }

    /// Removes a key and its value; returns false if the key was missing. A page that becomes empty is returned to the
    /// file after the transaction has committed, unless a snapshot needs it; the commit returns when this is done.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, key: &[u8]) -> Result<bool> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        match self.written(txn, |access| access.delete(key)).map_err(|error| self.about(error, key))? {
            Some(was_there) => Ok(was_there),
            None => self.delete_indexed(txn, key),
        }
    }

    /// Returns a link to the record of a key: its address, which another record can store and [`Db::get_at`] follows.
    /// Returns `None` if the key is missing. Locks the key for reading.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let parts = env.hash("parts")?;
    /// env.run(|txn| {
    ///     parts.put(txn, b"screw", b"steel")?;
    ///     let link = parts.link_of(txn, b"screw")?.expect("it was just put");
    ///     parts.put(txn, b"hinge", &link.to_bytes())?;
    ///     let found = match parts.get_at(txn, link)? {
    ///         Some((_, value)) => Some(value),
    ///         // The record was moved or deleted: search for its key.
    ///         None => parts.get(txn, b"screw")?,
    ///     };
    ///     assert_eq!(found.as_deref(), Some(&b"steel"[..]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn link_of(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Link>> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        txn.guarded(|| Ok(self.access(txn).link_of(key)?.map(Link)))
    }

    /// Returns the key and value of the record that a link leads to, without a search, and locks the record for
    /// reading. Returns `None` if the record is no longer there: it was deleted, or it was moved because it grew or
    /// because its page was split. In this case search by the key of the record, and take a new link. The call returns
    /// a wrong record only if the hashes of the two keys are equal. The hashes of one in 2^64 pairs of keys are equal,
    /// but a user may choose keys with equal hashes. So compare the returned key.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_at(&self, txn: &Txn<'_>, link: Link) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let copied = |key: &[u8], value: &[u8]| copy_of(value).map(|value| (key.to_vec(), value));
        let found = txn.guarded(|| Ok(self.access(txn).get_linked(link.0, copied)?.transpose()?))?;
        // The program's own function decodes the key here, where no page is latched.
        Ok(found.map(|(stored, value)| (self.known(&stored), value)))
    }

    /// Returns a cursor over the keys in order. In a transaction the cursor takes read locks on the records that it
    /// passes and on the gaps between these records. The cursor of a hash file has no order and moves forward only; it
    /// meets each record that exists during the whole walk exactly once.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> Cursor<'t> {
        reader.cursor(self, KeyRange::default()).in_order(&self.order)
    }

    /// Returns a cursor over some of the keys, which a `for` loop takes too. In a transaction the cursor locks these
    /// keys and the gaps between them, and no other key.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let stock = env.btree("stock")?;
    /// env.run(|txn| {
    ///     stock.put(txn, b"apples", b"3")?;
    ///     stock.put(txn, b"pears", b"7")?;
    ///     for pair in stock.range(txn, b"a"..b"c")? {
    ///         let (key, value) = pair?;
    ///         assert_eq!((&key[..], &value[..]), (&b"apples"[..], &b"3"[..]));
    ///     }
    ///     let last = stock.range(txn, ..)?.into_iter().next_back().transpose()?;
    ///     assert_eq!(last, Some((b"pears".to_vec(), b"7".to_vec())));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Database` when `keys` is a prefix and the database has an order of its own.
    pub fn range<'t>(&'t self, reader: &'t impl Reader, keys: impl Into<Keys>) -> Result<Cursor<'t>> {
        Ok(reader.cursor(self, self.range_of(keys.into())?).in_order(&self.order))
    }

    /// Returns a cursor over the keys that begin with the given bytes.
    ///
    /// # Errors
    /// As [`Db::range`].
    pub fn prefix<'t>(&'t self, reader: &'t impl Reader, beginning: &[u8]) -> Result<Cursor<'t>> {
        // In byte order these keys are adjacent, and nothing needs copying first.
        let range = match self.order.is_none() && !self.is_hash() {
            true => KeyRange::with_prefix(beginning),
            false => self.range_of(Keys::prefix(beginning))?,
        };
        Ok(reader.cursor(self, range).in_order(&self.order))
    }

    /// Returns the number of keys within `keys`. In a transaction the call locks the keys as a cursor does, so the
    /// number does not change until the transaction ends.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn count(&self, reader: &impl Reader, keys: impl Into<Keys>) -> Result<u64> {
        reader.count(self, self.range_of(keys.into())?)
    }

    /// Removes all keys within `keys`; returns their number. No other transaction can insert a key within `keys` until
    /// this transaction ends.
    ///
    /// Each key is locked for writing, and the gap below it for reading: some hundred bytes of shared memory for each
    /// key. From a hundred thousand locks on, the transaction tries to lock the whole database instead, and then needs
    /// no further locks. Each removal is logged with its value. After the commit, empty pages are returned to the file
    /// for reuse, unless a snapshot needs them; the commit returns when this is done.
    ///
    /// # Errors
    /// As [`Db::put`]. Some of the keys may have been removed before the error: abort the transaction, or roll back to
    /// a savepoint.
    pub fn delete_range(&self, txn: &Txn<'_>, keys: impl Into<Keys>) -> Result<u64> {
        self.delete_raw_range(txn, self.range_of(keys.into())?)
    }

    /// Locks all keys until the transaction ends, also those that do not exist yet. Snapshots can still read.
    ///
    /// With [`PageLock::Write`] no other transaction reads or changes the database, and this transaction's changes take
    /// no further locks: many changes are faster.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, `Full`.
    pub fn lock_all(&self, txn: &Txn<'_>, lock: PageLock) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).lock_database(lock.mode())?))
    }

    pub(crate) fn delete_raw_range(&self, txn: &Txn<'_>, range: KeyRange) -> Result<u64> {
        txn.note_emptied(&self.open, &range);
        match self.written(txn, |access| access.delete_range(range.clone()))? {
            Some(count) => Ok(count),
            None => self.delete_range_indexed(txn, range),
        }
    }

    /// Changes records of a database without indices. Returns `None`, with nothing changed, if it has indices.
    #[inline]
    pub(super) fn written<T>(
        &self,
        txn: &Txn<'_>,
        change: impl FnOnce(&Access<'_>) -> libtp_record::Result<T>,
    ) -> Result<Option<T>> {
        txn.guarded(|| {
            let access = self.access(txn);
            Ok(if access.has_indices()? { None } else { Some(change(&access)?) })
        })
    }

    /// Returns a cursor over keys as the tree stores them.
    pub(crate) fn raw_cursor<'t>(&'t self, reader: &'t impl Reader, range: KeyRange) -> Cursor<'t> {
        reader.cursor(self, range)
    }
}

impl Recno {
    /// Returns the record with that number, or `None`.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, reader: &impl Reader, number: u64) -> Result<Option<Vec<u8>>> {
        reader.read_number(self, number, <[u8]>::to_vec)
    }

    /// Stores a record under a number, and replaces any earlier record.
    ///
    /// # Errors
    /// `Length` when the record has another length; else as [`Db::put`].
    pub fn put(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).recno_put(number, record)?))
    }

    /// Stores a record under the next free number and returns that number. Numbers of aborted transactions stay empty.
    ///
    /// The number is chosen without a lock, so appending transactions do not wait for each other, and the numbers follow
    /// no serial order: a transaction with a lower number may commit later, and of two concurrent transactions that
    /// append to two databases, each may have the lower number in one of them. Where the order matters, use
    /// [`Recno::append_in_order`].
    ///
    /// # Errors
    /// As [`Recno::put`].
    pub fn append(&self, txn: &Txn<'_>, record: &[u8]) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).recno_append(record)?))
    }

    /// Does as [`Recno::append`], with numbers in the order of the commits: the transaction locks the end of the numbers
    /// until it ends. Other transactions that append, in order or not, or that read to the end, wait for it. The order
    /// holds among appends in order: a transaction that has called [`Recno::append`] before may commit later.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let journal = env.recno("journal", 8)?;
    /// env.run(|txn| journal.append_in_order(txn, b"transfer"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recno::put`].
    pub fn append_in_order(&self, txn: &Txn<'_>, record: &[u8]) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).recno_append_in_order(record)?))
    }

    /// Removes a record; returns false if there was no record.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, number: u64) -> Result<bool> {
        txn.guarded(|| Ok(self.access(txn).recno_delete(number)?))
    }

    /// Returns a cursor over the records in the order of their numbers.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> RecnoCursor<'t> {
        reader.number_cursor(self)
    }
}

#[cfg(test)]
mod tests;
