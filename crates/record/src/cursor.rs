//! Cursors: one set of calls over the walks of all access methods, in transactions and in snapshots.
//!
//! A [`Walk`] goes from record to record. The [`Cursor`] that has the walk notes its position: no position yet, on a
//! record, below all records, or above all records. A call that fails or finds no record does not move the cursor, with
//! two exceptions: if they find no record, [`Cursor::next`] moves the cursor above all records, and [`Cursor::prev`]
//! moves it below all records.

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

/// The position of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Nowhere,
    /// On the walk's record.
    On,
    BelowAll,
    AboveAll,
}

/// A position to which a cursor can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand<'k> {
    /// No place yet.
    Nowhere,
    /// On the record of a key, or in the gap that its deletion has left.
    On(&'k [u8]),
    /// Below the first record.
    BelowAll,
    /// Above the last record.
    AboveAll,
}

/// A cursor.
pub struct Cursor<W> {
    pub(crate) walk: W,
    pub(crate) place: Place,
}

/// The outcome of a call that returns a record.
type Found<W> = Result<Option<(<W as Walk>::OwnedKey, Vec<u8>)>>;

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<W: Walk> Cursor<W> {
    pub(crate) fn over(walk: W) -> Cursor<W> {
        Cursor { walk, place: Place::Nowhere }
    }

    /// Returns the key and value of the cursor's record.
    #[inline]
    pub fn record(&self) -> Option<(W::Key<'_>, &[u8])> {
        (self.place == Place::On).then(|| self.walk.record())
    }

    fn found(&self, found: bool) -> Found<W> {
        let copied = |(key, value)| copy_of(value).map(|value| (W::owned(key), value));
        self.record().filter(|_| found).map(copied).transpose()
    }

    /// Notes the outcome of a search.
    #[inline]
    fn note_search(&mut self, found: bool) -> bool {
        if found {
            self.place = Place::On;
        } else if planted("record: a cursor that finds no key moves after the last key") {
            self.place = Place::AboveAll;
        }
        found
    }

    /// Notes the outcome of a step.
    #[inline]
    fn note_step(&mut self, found: bool, at_end: Place) -> bool {
        self.place = if found { Place::On } else { at_end };
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

    /// Goes to the next record, or to the first if the cursor has no place yet. Returns the record.
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
        let found = match self.place {
            Place::Nowhere | Place::BelowAll => self.walk.go_first()?,
            Place::On => self.walk.go_next()?,
            Place::AboveAll => false,
        };
        Ok(self.note_step(found, Place::AboveAll))
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

    /// Goes to the previous record, or to the last if the cursor has no place yet. Returns the record.
    ///
    /// # Errors
    /// As [`Walk::go_first`].
    pub fn prev(&mut self) -> Found<W> {
        let found = match self.place {
            Place::Nowhere | Place::AboveAll => self.walk.go_last()?,
            Place::On => self.walk.go_previous()?,
            Place::BelowAll => false,
        };
        let found = self.note_step(found, Place::BelowAll);
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
