//! Iterators over records by number, of a record-number database or a list.

use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

use super::{debug, End, Ends};
use crate::db::cursor::RecnoCursor;
use crate::db::handle::Recno;
use crate::db::list::{List, ListCursor};
use crate::{Reader, Result};

/// A number and its record.
type Record = (u64, Vec<u8>);

/// A cursor over numbered records.
trait Numbered: Sized {
    fn to_first_from(&mut self, number: u64) -> Result<Option<Record>>;
    fn to_last(&mut self) -> Result<Option<Record>>;
    fn up(&mut self) -> Result<Option<Record>>;
    fn down(&mut self) -> Result<Option<Record>>;
    fn another(&self) -> Self;
}

/// The cursors over numbered records have the same calls.
macro_rules! numbered {
    ([$($of:tt)*] $cursor:ty) => {
        impl<$($of)*> Numbered for $cursor {
            fn to_first_from(&mut self, number: u64) -> Result<Option<Record>> {
                self.seek(number)
            }

            fn to_last(&mut self) -> Result<Option<Record>> {
                self.last()
            }

            fn up(&mut self) -> Result<Option<Record>> {
                self.next()
            }

            fn down(&mut self) -> Result<Option<Record>> {
                self.prev()
            }

            fn another(&self) -> Self {
                <$cursor>::another(self)
            }
        }
    };
}

numbered!([] RecnoCursor<'_>);
numbered!([R: Reader] ListCursor<'_, R>);

/// A cursor over the records with some of the numbers.
struct NumberEnd<C> {
    cursor: C,
    low: u64,
    /// Inclusive. Below `low` if there are no such numbers.
    high: u64,
    /// The number of the record under the cursor.
    number: Option<u64>,
}

impl<C> NumberEnd<C> {
    fn new(cursor: C, numbers: &impl RangeBounds<u64>) -> NumberEnd<C> {
        // Numbers begin with 1, and the number 0 stands below all.
        let low = match numbers.start_bound() {
            Bound::Included(&low) => Some(low.max(1)),
            Bound::Excluded(&below) => below.checked_add(1),
            Bound::Unbounded => Some(1),
        };
        let high = match numbers.end_bound() {
            Bound::Included(&high) => high,
            Bound::Excluded(&behind) => behind.saturating_sub(1),
            Bound::Unbounded => u64::MAX,
        };
        let (low, high) = low.map_or((1, 0), |low| (low, high));
        NumberEnd { cursor, low, high, number: None }
    }

    /// Returns the record if it is one of these, and notes its number.
    fn arrive(&mut self, found: Option<Record>) -> Option<Record> {
        let found = found.filter(|&(number, _)| (self.low..=self.high).contains(&number))?;
        self.number = Some(found.0);
        Some(found)
    }
}

impl<C: Numbered> End for NumberEnd<C> {
    type Item = Record;
    type Place<'p>
        = u64
    where
        Self: 'p;

    fn forth(&mut self) -> Result<Option<Record>> {
        let found = match self.number {
            _ if self.low > self.high => None,
            None => self.cursor.to_first_from(self.low)?,
            Some(number) if number == self.high => None,
            Some(_) => self.cursor.up()?,
        };
        Ok(self.arrive(found))
    }

    fn back(&mut self) -> Result<Option<Record>> {
        let found = match self.number {
            _ if self.low > self.high => None,
            None if self.high == u64::MAX => self.cursor.to_last()?,
            None => match self.cursor.to_first_from(self.high)? {
                Some((number, record)) if number == self.high => Some((number, record)),
                Some(_) => self.cursor.down()?,
                None => self.cursor.to_last()?,
            },
            Some(number) if number == self.low => None,
            Some(_) => self.cursor.down()?,
        };
        Ok(self.arrive(found))
    }

    fn place(&self) -> Option<u64> {
        self.number
    }

    fn another(&self) -> Self {
        NumberEnd { cursor: self.cursor.another(), low: self.low, high: self.high, number: None }
    }
}

/// An iterator over the records of a record-number database, from both ends: [`Recno::range`], or a [`RecnoCursor`] in a
/// `for` loop. After an error it ends.
pub struct Records<'t>(Ends<NumberEnd<RecnoCursor<'t>>>);

/// An iterator over the records of a list, from both ends: [`List::range`], or a [`ListCursor`] in a `for` loop. An
/// insertion or a removal by the same transaction renumbers the records that are still to come, as it does under a
/// cursor. After an error the iterator ends.
pub struct ListRecords<'t, R: Reader>(Ends<NumberEnd<ListCursor<'t, R>>>);

/// Makes an iterator of both ends, and of its cursor.
macro_rules! iterates {
    ([$($of:tt)*] $iterator:ty, $name:literal, $cursor:ty, $database:expr) => {
        impl<$($of)*> Iterator for $iterator {
            type Item = Result<Record>;

            fn next(&mut self) -> Option<Result<Record>> {
                self.0.next()
            }
        }

        impl<$($of)*> DoubleEndedIterator for $iterator {
            fn next_back(&mut self) -> Option<Result<Record>> {
                self.0.next_back()
            }
        }

        impl<$($of)*> FusedIterator for $iterator {}

        impl<$($of)*> IntoIterator for $cursor {
            type Item = Result<Record>;
            type IntoIter = $iterator;

            /// Returns an iterator over all records, wherever the cursor stands.
            fn into_iter(self) -> $iterator {
                <$iterator>::of(self.another(), &(..))
            }
        }

        impl<$($of)*> std::fmt::Debug for $iterator {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                debug(f, $name, $database(&self.0.cursor().cursor), self.0.has_ended())
            }
        }
    };
}

iterates!(['t] Records<'t>, "Records", RecnoCursor<'t>, RecnoCursor::database_name);
iterates!(['t, R: Reader] ListRecords<'t, R>, "ListRecords", ListCursor<'t, R>, |cursor: &ListCursor<'t, R>| {
    cursor.list().name()
});

impl<'t> Records<'t> {
    fn of(cursor: RecnoCursor<'t>, numbers: &impl RangeBounds<u64>) -> Records<'t> {
        Records(Ends::of(NumberEnd::new(cursor, numbers)))
    }
}

impl<'t, R: Reader> ListRecords<'t, R> {
    fn of(cursor: ListCursor<'t, R>, numbers: &impl RangeBounds<u64>) -> ListRecords<'t, R> {
        ListRecords(Ends::of(NumberEnd::new(cursor, numbers)))
    }
}

impl Recno {
    /// Returns an iterator over the records with some of the numbers.
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
        Records::of(self.cursor(reader), &numbers)
    }
}

impl List {
    /// Returns an iterator over the records with some of the numbers.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let lines = env.list("lines")?;
    /// env.run(|txn| {
    ///     ["one", "two", "three"].iter().try_for_each(|line| lines.append(txn, line.as_bytes()).map(|_| ()))?;
    ///     let mut shown = Vec::new();
    ///     for line in lines.range(txn, 2..) {
    ///         shown.push(line?.1);
    ///     }
    ///     assert_eq!(shown, [&b"two"[..], b"three"]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'t, R: Reader>(&'t self, reader: &'t R, numbers: impl RangeBounds<u64>) -> ListRecords<'t, R> {
        ListRecords::of(self.cursor(reader), &numbers)
    }
}
