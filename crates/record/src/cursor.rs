//! Cursors: one set of calls over the walks of all access methods, in transactions and in snapshots.
//!
//! A [`Walk`] goes from record to record. The [`Cursor`] that has the walk notes whether it has a position: a new cursor
//! has no position, and a cursor that has found a record is on the walk's record. A call that fails or finds no record
//! does not move the cursor, also at the first and at the last record.
//!
//! The cursor of a list (`libtp::ListCursor`) is not a [`Cursor`], because it goes by number and may also insert.

use rio::planted;

use crate::copies::copy_of;
use crate::Result;

/// A cursor's walk through the records of one access method. If a call fails or finds no record, the walk stays on its
/// record.
pub trait Walk {
    /// The key of a record, or its number.
    type Key<'k>;
    /// The owned form of [`Walk::Key`].
    type OwnedKey;

    /// Goes to the first record. Returns false if there is no record.
    ///
    /// # Errors
    /// Locks or pages failed; in a snapshot `SnapshotTooOld`.
    fn go_first(&mut self) -> Result<bool>;

    /// Goes from the walk's record to the next record. Returns false if there is no next record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    fn go_next(&mut self) -> Result<bool>;

    /// Goes to the first record after a key; the key need not exist. Returns false if there is no such record.
    ///
    /// # Errors
    /// As [`Walk::go_first`], and `KeyTooLong`.
    fn move_after(&mut self, key: Self::Key<'_>) -> Result<bool>;

    /// Returns the key and value of the walk's record.
    fn record(&self) -> (Self::Key<'_>, &[u8]);

    /// Copies a key.
    fn owned(key: Self::Key<'_>) -> Self::OwnedKey;
}

/// A walk that also goes backwards, where the records have an order.
pub trait BothWays: Walk {
    /// Goes to the last record. Returns false if there is no record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    fn go_last(&mut self) -> Result<bool>;

    /// Goes from the walk's record to the previous record. Returns false if there is no previous record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    fn go_previous(&mut self) -> Result<bool>;

    /// Goes to the first record whose key is not below `key`. Returns false if there is no such record.
    ///
    /// # Errors
    /// As [`Walk::move_after`].
    fn go_to(&mut self, key: Self::Key<'_>) -> Result<bool>;
}

/// A cursor.
pub struct Cursor<W> {
    pub(crate) walk: W,
    /// Whether the cursor is on the walk's record. A cursor that is not has no place yet.
    pub(crate) is_placed: bool,
}

/// The outcome of a call that returns a record.
type Found<W> = Result<Option<(<W as Walk>::OwnedKey, Vec<u8>)>>;

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<W: Walk> Cursor<W> {
    pub(crate) fn over(walk: W) -> Cursor<W> {
        Cursor { walk, is_placed: false }
    }

    /// Returns the key and value of the cursor's record; `None` if the cursor has no place yet.
    #[inline]
    pub fn record(&self) -> Option<(W::Key<'_>, &[u8])> {
        self.is_placed.then(|| self.walk.record())
    }

    fn found(&self, found: bool) -> Found<W> {
        let copied = |(key, value)| copy_of(value).map(|value| (W::owned(key), value));
        Ok(self.record().filter(|_| found).map(copied).transpose()?)
    }

    /// Notes the outcome of a search.
    #[inline]
    fn note_search(&mut self, found: bool) -> bool {
        if found || planted("record: a cursor that finds no key loses its place") {
            self.is_placed = found;
        }
        found
    }

    /// Notes the outcome of a step.
    #[inline]
    fn note_step(&mut self, found: bool) -> bool {
        if found || planted("record: a cursor loses its place at the end") {
            self.is_placed = found;
        }
        found
    }

    /// Goes to the first record and returns it.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn first(&mut self) -> Found<W> {
        let found = self.move_first()?;
        self.found(found)
    }

    /// Goes to the next record, or to the first if the cursor has no place yet. Returns the record. Stays if there is
    /// no such record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn next(&mut self) -> Found<W> {
        let found = self.move_next()?;
        self.found(found)
    }

    /// Goes to the first record after a key, and returns it. The key need not exist.
    ///
    /// # Errors
    /// As [`Walk::move_after`].
    pub fn seek_after(&mut self, key: W::Key<'_>) -> Found<W> {
        let found = self.walk.move_after(key)?;
        let found = self.note_search(found);
        self.found(found)
    }

    /// Goes to the first record, for [`Cursor::record`]. Returns false if there is no record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn move_first(&mut self) -> Result<bool> {
        let found = self.walk.go_first()?;
        Ok(self.note_search(found))
    }

    /// Goes to the next record, or to the first if the cursor has no place yet. Returns false if there is no such
    /// record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    #[inline]
    pub fn move_next(&mut self) -> Result<bool> {
        let found = if self.is_placed { self.walk.go_next()? } else { self.walk.go_first()? };
        Ok(self.note_step(found))
    }
}

impl<W: BothWays> Cursor<W> {
    /// Goes to the last record and returns it.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn last(&mut self) -> Found<W> {
        let found = self.walk.go_last()?;
        let found = self.note_search(found);
        self.found(found)
    }

    /// Goes to the first record whose key is not below `key`, and returns it.
    ///
    /// # Errors
    /// As [`Walk::move_after`].
    pub fn seek(&mut self, key: W::Key<'_>) -> Found<W> {
        let found = self.move_to(key)?;
        self.found(found)
    }

    /// Goes to the previous record, or to the last if the cursor has no place yet. Returns the record. Stays if there
    /// is no such record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn prev(&mut self) -> Found<W> {
        let found = if self.is_placed { self.walk.go_previous()? } else { self.walk.go_last()? };
        let found = self.note_step(found);
        self.found(found)
    }

    /// Goes to the first record whose key is not below `key`. Returns false if there is no such record.
    ///
    /// # Errors
    /// As [`Walk::move_after`].
    pub fn move_to(&mut self, key: W::Key<'_>) -> Result<bool> {
        let found = self.walk.go_to(key)?;
        Ok(self.note_search(found))
    }
}
