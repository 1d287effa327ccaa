//! Iterators over the records of a record-number database.

use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

use super::{debug, End, Ends};
use crate::db::cursor::RecnoCursor;
use crate::db::handle::Recno;
use crate::{Reader, Result};

/// A number and its record.
pub(super) type Record = (u64, Vec<u8>);

/// Returns the lowest and the highest of some numbers. If the highest is below the lowest, there are no numbers.
pub(super) fn bounds(numbers: &impl RangeBounds<u64>) -> (u64, u64) {
    // Numbers begin with 1, so 0 is below all numbers.
    let low = match numbers.start_bound() {
        Bound::Included(&low) => Some(low.max(1)),
        Bound::Excluded(&below) => below.checked_add(1),
        Bound::Unbounded => Some(1),
    };
    let high = match numbers.end_bound() {
        Bound::Included(&high) => high,
        Bound::Excluded(&after) => after.saturating_sub(1),
        Bound::Unbounded => u64::MAX,
    };
    low.map_or((1, 0), |low| (low, high))
}

impl End for RecnoCursor<'_> {
    type Item = Record;
    type Place<'p>
        = u64
    where
        Self: 'p;

    fn step_up(&mut self) -> Result<Option<Record>> {
        self.next()
    }

    fn step_down(&mut self) -> Result<Option<Record>> {
        self.prev()
    }

    fn place(&self) -> Option<u64> {
        self.number()
    }

    fn another(&self) -> Self {
        RecnoCursor::another(self)
    }
}

/// An iterator over the records of a record-number database, from both ends: [`Recno::range`], or a [`RecnoCursor`] in
/// a `for` loop. In a transaction the iterator locks the numbers that it passes, and no numbers outside of its range.
/// After an error the iterator ends.
pub struct Records<'t>(Ends<RecnoCursor<'t>>);

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.0.next()
    }
}

impl DoubleEndedIterator for Records<'_> {
    fn next_back(&mut self) -> Option<Result<Record>> {
        self.0.next_back()
    }
}

impl FusedIterator for Records<'_> {}

impl<'t> IntoIterator for RecnoCursor<'t> {
    type Item = Result<Record>;
    type IntoIter = Records<'t>;

    /// Returns an iterator over all records, wherever the cursor is.
    fn into_iter(self) -> Records<'t> {
        Records(Ends::of(self.another()))
    }
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug(f, "Records", self.0.cursor().database_name(), self.0.has_ended())
    }
}

impl Recno {
    /// Returns an iterator over the records whose numbers are in `numbers`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let history = env.recno("history", 1)?;
    /// env.run(|txn| [b"a", b"b", b"c"].iter().try_for_each(|record| history.append(txn, *record).map(|_| ())))?;
    /// let snapshot = env.snapshot()?;
    /// for record in history.range(&snapshot, 2..).rev() {
    ///     let (number, record) = record?;
    ///     println!("{number}: {record:?}");
    /// }
    /// # drop(snapshot);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'t>(&'t self, reader: &'t impl Reader, numbers: impl RangeBounds<u64>) -> Records<'t> {
        let (low, high) = bounds(&numbers);
        Records(Ends::of(self.cursor(reader).within(low..=high)))
    }
}
