//! A savepoint's marks in joined memory, and the rollback to them.
//!
//! Paper: a departure, like all code that combines records and memory in one transaction. The undo log of each segment
//! has a mark (`vista::Mark`). A rollback returns a segment that was joined after the savepoint to its state at the
//! join.
//!
//! The undo log misses a store that the program makes after the savepoint through a range that was declared before the
//! savepoint. In C the program must declare the range again; in Rust such a store could happen while the
//! [`Joined`](crate::Joined) that lent the range lives. A rollback is therefore refused, before any undo, if a `Joined`
//! was alive when the savepoint was made, or is alive at the rollback.
//!
//! If we die here: some segments were rolled back and some were not. The repair undoes the rest of their undo logs, as
//! it does for any transaction that dies while running.

use std::cell::RefMut;

use rio::{failpoint, planted};
use vista::{Mark, Member};

use super::parts::{Part, Parts};
use crate::{Error, Result};

/// The transaction's mark in each segment that it had joined before the savepoint, in the order of joining; `None` for
/// a segment with a living `Joined`.
pub(crate) struct MemoryMark(Vec<Option<Mark>>);

/// The joined segments of a transaction that is about to roll back, each with its mark. No `Joined` of these segments
/// is alive.
pub(crate) struct GoingBack<'t>(Vec<(RefMut<'t, Option<Box<Member>>>, Mark)>);

impl Parts {
    pub(crate) fn mark(&self) -> MemoryMark {
        let of_one = |part: &Part| {
            let member = part.member.try_borrow().ok()?;
            member.as_ref().map(|member| member.mark())
        };
        MemoryMark(self.all().map(of_one).collect())
    }

    /// Borrows all segments that are joined now, each with the mark to which it is rolled back.
    ///
    /// # Errors
    /// `Segment` if a `Joined` of a segment is alive, or was alive when the mark was made.
    pub(crate) fn take_to_go_back(&self, to: &MemoryMark) -> Result<GoingBack<'_>> {
        let mut all = Vec::new();
        for (part, mark) in self.all().zip(to.0.iter().copied().chain(std::iter::repeat(Some(Mark::default())))) {
            let mark = mark.ok_or_else(|| part.refuse("was using the segment when the savepoint was made"))?;
            all.push((part.member.try_borrow_mut().map_err(|_| part.refuse("is using the segment"))?, mark));
        }
        Ok(GoingBack(all))
    }
}

impl Part {
    fn refuse(&self, because: &str) -> Error {
        let what = format!(
            "the transaction {because}, so the segment's changes since the savepoint cannot be undone; nothing was undone. Drop the handle that `join` returned before you make a savepoint, and before you go back to it"
        );
        Error::Segment { path: self.segment.path.clone(), what }
    }
}

impl GoingBack<'_> {
    /// Undoes the stores made since the mark.
    ///
    /// # Errors
    /// `Memory` in a forked child: nothing was undone.
    pub(crate) fn go_back(self) -> Result<()> {
        for (mut member, mark) in self.0 {
            if mark == Mark::default() && planted("libtp: a segment joined after a savepoint is not rolled back") {
                continue;
            }
            if let Some(member) = member.as_deref_mut() {
                member.go_back(&mark)?;
            }
            failpoint("savepoint: a segment rolled back");
        }
        failpoint("savepoint: segments rolled back, records not");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
