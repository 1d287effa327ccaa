//! The present number of a record that other transactions may have renumbered: for cursors that outlive transactions.
//!
//! No entry leads from a record's id to its number: each insertion would have to change such entries. So the search
//! starts at the record's old number and reads the leaves on both sides, one after the other. If the record was not
//! renumbered, the search costs nothing extra. Otherwise the cost is the number of leaves between the old and the new
//! number.

use super::entries::record_key;
use super::find::{damaged, head, stretch, Entries, Stretch};
use crate::locking::Access;
use crate::Result;

/// A number, with the ids that were at and around this number at an earlier moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number.
    pub number: u64,
    /// The leaf that had the number.
    pub stretch: Stretch,
}

/// The present place of a record seen earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// The record has this number.
    At(u64),
    /// The record was deleted. Its place is before the record with this number.
    GoneBefore(u64),
}

impl Seen {
    /// Returns the leaf's ids before the record, the record's own id, and the leaf's ids after the record.
    fn ids(&self) -> Option<(&[u64], u64, &[u64])> {
        let at = usize::try_from(self.number.checked_sub(self.stretch.first)?).ok()?;
        let (before, rest) = self.stretch.ids.split_at_checked(at)?;
        let (id, after) = rest.split_first()?;
        Some((before, *id, after))
    }
}

/// Returns the present number of a record; `None` if the record was deleted.
fn number_of(entries: &impl Entries, id: u64, near: u64) -> Result<Option<u64>> {
    let count = head(entries)?.count.get();
    let of = |found: &Stretch| {
        let at = found.ids.iter().position(|other| *other == id)?;
        Some(found.first + at as u64)
    };
    let Some(here) = stretch(entries, near.clamp(1, count.max(1)))? else { return Ok(None) };
    if let Some(number) = of(&here) {
        return Ok(Some(number));
    }
    if entries.inner(&record_key(id))?.is_none() {
        return Ok(None);
    }
    let after = |found: &Stretch| found.first + found.ids.len() as u64;
    let (mut low, mut high) = (here.first, after(&here));
    while low > 1 || high <= count {
        if let Some(found) = stretch(entries, high)? {
            if let Some(number) = of(&found) {
                return Ok(Some(number));
            }
            high = after(&found);
        }
        if let Some(found) = stretch(entries, low - 1)? {
            if let Some(number) = of(&found) {
                return Ok(Some(number));
            }
            low = found.first;
        }
    }
    Err(damaged(entries.list(), format!("the record with id {id} has no number")))
}

impl Access<'_> {
    /// Returns the present place of a record seen earlier. If the record was deleted, other records of its old leaf
    /// give the place. The place is after the nearest existing record with a lower old number, so that, if a record is
    /// inserted at this place, the cursor's next step returns it. If no record with a lower old number exists any more:
    /// in the first leaf, the place is the list's beginning; in any other leaf, it is before the nearest existing
    /// record with a higher old number. If all records of such a leaf were deleted, the place is the old number.
    ///
    /// # Errors
    /// As [`Access::list_count`].
    pub fn list_now(&self, seen: &Seen) -> Result<Now> {
        let count = self.list_count()?;
        let Some((before, id, after)) = seen.ids() else {
            return Ok(Now::GoneBefore(seen.number.clamp(1, count + 1)));
        };
        if let Some(number) = number_of(self, id, seen.number)? {
            return Ok(Now::At(number));
        }
        for (gone, id) in before.iter().rev().enumerate() {
            if let Some(number) = number_of(self, *id, seen.number - 1 - gone as u64)? {
                return Ok(Now::GoneBefore(number + 1));
            }
        }
        if seen.stretch.first == 1 {
            return Ok(Now::GoneBefore(1));
        }
        for id in after {
            if let Some(number) = number_of(self, *id, seen.number)? {
                return Ok(Now::GoneBefore(number));
            }
        }
        Ok(Now::GoneBefore(seen.number.clamp(1, count + 1)))
    }
}
