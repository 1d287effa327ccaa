//! Where a record stands now, whose number others may have changed: for cursors that outlive transactions.
//!
//! Nothing leads from a record's id up to its number: a way up would be one more entry to change in each insertion. So the
//! record is looked for from its old number to both sides, a leaf at a time. That costs nothing where nothing was renumbered, and as
//! many leaves as the record has moved over otherwise.

use super::entries::record_key;
use super::find::{damaged, head, stretch, Entries, Stretch};
use crate::access::Access;
use crate::Result;

/// A number, and who had it and the numbers around it when that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number.
    pub number: u64,
    /// Where it stands.
    pub stretch: Stretch,
}

/// Where a record that was seen is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// It has this number.
    At(u64),
    /// It is gone; it would stand before the one with this number.
    GoneBefore(u64),
}

impl Seen {
    /// The ids of those seen before it, the record's own, and those behind it.
    fn ids(&self) -> Option<(&[u64], u64, &[u64])> {
        let at = usize::try_from(self.number.checked_sub(self.stretch.first)?).ok()?;
        let (before, rest) = self.stretch.ids.split_at_checked(at)?;
        let (id, behind) = rest.split_first()?;
        Some((before, *id, behind))
    }
}

/// The number of a record now; none if it is gone.
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
    let behind = |found: &Stretch| found.first + found.ids.len() as u64;
    let (mut low, mut high) = (here.first, behind(&here));
    while low > 1 || high <= count {
        if let Some(found) = stretch(entries, high)? {
            if let Some(number) = of(&found) {
                return Ok(Some(number));
            }
            high = behind(&found);
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
    /// Where a record is that was seen. One that is gone leaves its place behind the nearest that was seen before it and is still
    /// there, so that what is put in there later comes next; without one it is before those that were seen behind it, and where
    /// none of them is left either, it is its old number.
    ///
    /// # Errors
    /// As [`Access::list_count`].
    pub fn list_now(&self, seen: &Seen) -> Result<Now> {
        let count = self.list_count()?;
        let Some((before, id, behind)) = seen.ids() else {
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
        for id in behind {
            if let Some(number) = number_of(self, *id, seen.number)? {
                return Ok(Now::GoneBefore(number));
            }
        }
        Ok(Now::GoneBefore(seen.number.clamp(1, count + 1)))
    }
}
