//! Iterators over the records of a list, whose numbers may change during the iteration.
//!
//! Each end of an iterator is a *gap*, a place between two records, and the records between the gaps are still to be
//! returned. A gap remembers one of its two records, and the ids around that record. If the transaction has changed
//! anything since the last step, both gaps are found again by these records. The remembered record is the record that
//! the end would return next. So a record that is inserted at the place of the last returned record is not returned.

use std::iter::FusedIterator;
use std::ops::RangeBounds;

use libtp_record::list::{Now, Seen};
use libtp_record::Stretch;

use super::debug;
use super::numbered::{bounds, Record};
use crate::db::list::{List, ListCursor};
use crate::{Reader, Result};

/// When a gap moves to the next leaf of the list, it keeps at most this number of ids of the leaf that it leaves.
const IDS_KEPT: usize = 64;

/// The end of an iterator to which a gap belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

/// A place between two records, which stays between them when their numbers change.
struct Gap {
    side: Side,
    /// The number of the record after the gap. With `u64::MAX`, the gap is after all records.
    at: u64,
    /// The record by which the gap is found again. In an empty list there is no such record.
    seen: Seen,
}

impl Gap {
    fn new(side: Side, at: u64) -> Gap {
        Gap { side, at, seen: Seen { number: 0, stretch: Stretch::default() } }
    }

    /// Reads the ids around a number, unless they are known. Returns the id of the number.
    fn see(&mut self, list: &List, reader: &impl Reader, number: u64) -> Result<Option<u64>> {
        let known = &mut self.seen.stretch;
        if known.id_of(number).is_none() {
            let Some(found) = reader.list_stretch(list.tree(), number)? else { return Ok(None) };
            *known = beside(std::mem::take(known), found);
        }
        Ok(known.id_of(number))
    }

    /// Chooses the record by which the gap is found again. The gap's number `at` must be right at this moment.
    fn settle(&mut self, list: &List, reader: &impl Reader) -> Result<()> {
        if self.at == u64::MAX {
            return Ok(());
        }
        let mut has_before = self.see(list, reader, self.at - 1)?.is_some();
        let has_after = self.see(list, reader, self.at)?.is_some();
        if !has_before && !has_after {
            // A range that ends beyond the list ends after the list's last record.
            self.at = list.count(reader)? + 1;
            has_before = self.see(list, reader, self.at - 1)?.is_some();
        }
        let (before, after) = (self.at - 1, self.at);
        let is_by_after = has_after && (self.side == Side::Front || !has_before);
        self.seen.number = if is_by_after { after } else { before };
        Ok(())
    }

    /// Finds the gap again after the numbers of the records may have changed.
    fn find_again(&mut self, list: &List, reader: &impl Reader) -> Result<()> {
        if self.seen.stretch.id_of(self.seen.number).is_some() {
            let is_after_it = self.seen.number < self.at;
            self.at = match reader.list_now(list.tree(), &self.seen)? {
                Now::At(number) => number + u64::from(is_after_it),
                Now::GoneBefore(number) => number,
            };
        }
        self.seen.stretch = Stretch::default();
        self.settle(list, reader)
    }
}

/// Returns the ids that were found, and some of the known ids if these are next to the found ids.
fn beside(mut known: Stretch, mut found: Stretch) -> Stretch {
    if known.first + known.ids.len() as u64 == found.first {
        let mut ids = known.ids.split_off(known.ids.len().saturating_sub(IDS_KEPT));
        found.first -= ids.len() as u64;
        ids.append(&mut found.ids);
        return Stretch { ids, ..found };
    }
    if found.first + found.ids.len() as u64 == known.first {
        known.ids.truncate(IDS_KEPT);
        found.ids.append(&mut known.ids);
    }
    found
}

/// An iterator over the records of a list, from both ends: [`List::range`], or a [`ListCursor`] in a `for` loop.
///
/// The loop may change the list. The iterator returns each record at most once, with the number that the record has at
/// that time. It returns every record of the range, except records that are removed before the iterator comes to them.
/// The range has the records that have its numbers at the first step. Later the range keeps these records, even if
/// their numbers change. An inserted record is returned if its neighbours are still to be returned. After an error the
/// iterator ends.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let lines = env.list("lines")?;
/// env.run(|txn| {
///     ["one", "two", "three", "four"].iter().try_for_each(|line| lines.append(txn, line.as_bytes()).map(|_| ()))?;
///     for line in lines.range(txn, 2..=3) {
///         lines.delete(txn, line?.0)?;
///     }
///     assert_eq!(lines.get(txn, 2)?.as_deref(), Some(&b"four"[..]));
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ListRecords<'t, R: Reader> {
    list: &'t List,
    reader: &'t R,
    front: Gap,
    back: Gap,
    /// The reader's stamp when the gaps were found last; `None` before the first step.
    stamp: Option<u64>,
    has_ended: bool,
}

impl<'t, R: Reader> ListRecords<'t, R> {
    fn of(list: &'t List, reader: &'t R, numbers: &impl RangeBounds<u64>) -> ListRecords<'t, R> {
        let (low, high) = bounds(numbers);
        let (front, back) = (Gap::new(Side::Front, low), Gap::new(Side::Back, high.saturating_add(1)));
        ListRecords { list, reader, front, back, stamp: None, has_ended: low > high }
    }

    /// Finds the gaps, if they may have moved.
    fn catch_up(&mut self) -> Result<()> {
        let stamp = self.reader.stamp();
        if self.stamp != Some(stamp) {
            self.front.find_again(self.list, self.reader)?;
            self.back.find_again(self.list, self.reader)?;
            self.stamp = Some(stamp);
        }
        Ok(())
    }

    fn step_up(&mut self) -> Result<Option<Record>> {
        self.catch_up()?;
        let number = self.front.at;
        if number >= self.back.at {
            return Ok(None);
        }
        let Some(id) = self.front.see(self.list, self.reader, number)? else { return Ok(None) };
        let record = self.reader.list_record(self.list.tree(), id)?;
        self.front.at = number + 1;
        self.front.settle(self.list, self.reader)?;
        // After the last record the iterator ends. If it also returned the records that the loop appends afterwards,
        // the loop might never end.
        self.has_ended = self.front.seen.number == number;
        Ok(Some((number, record)))
    }

    fn step_down(&mut self) -> Result<Option<Record>> {
        self.catch_up()?;
        let mut number = self.back.at - 1;
        if self.back.see(self.list, self.reader, number)?.is_none() {
            number = number.min(self.list.count(self.reader)?);
        }
        if number < self.front.at {
            return Ok(None);
        }
        let Some(id) = self.back.see(self.list, self.reader, number)? else { return Ok(None) };
        let record = self.reader.list_record(self.list.tree(), id)?;
        self.back.at = number;
        self.back.settle(self.list, self.reader)?;
        Ok(Some((number, record)))
    }

    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<Option<Record>>) -> Option<Result<Record>> {
        if self.has_ended {
            return None;
        }
        let found = step(self).transpose();
        self.has_ended |= !matches!(found, Some(Ok(_)));
        found
    }
}

impl<R: Reader> Iterator for ListRecords<'_, R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.step(Self::step_up)
    }
}

impl<R: Reader> DoubleEndedIterator for ListRecords<'_, R> {
    fn next_back(&mut self) -> Option<Result<Record>> {
        self.step(Self::step_down)
    }
}

impl<R: Reader> FusedIterator for ListRecords<'_, R> {}

impl<'t, R: Reader> IntoIterator for ListCursor<'t, R> {
    type Item = Result<Record>;
    type IntoIter = ListRecords<'t, R>;

    /// Returns an iterator over all records, wherever the cursor is.
    fn into_iter(self) -> ListRecords<'t, R> {
        let (list, reader) = self.into_parts();
        ListRecords::of(list, reader, &(..))
    }
}

impl<R: Reader> std::fmt::Debug for ListRecords<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug(f, "ListRecords", self.list.name(), self.has_ended)
    }
}

impl List {
    /// Returns an iterator over the records whose numbers are in `numbers`.
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
        ListRecords::of(self, reader, &numbers)
    }
}

#[cfg(test)]
mod tests;
