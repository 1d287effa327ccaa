//! What a savepoint notes of joined memory, and how that goes back to it.
//!
//! Paper: a departure, as all of the two in one transaction. The undo log of each segment has a mark (`vista::Mark`); what was joined
//! since goes back to how it was then.
//!
//! What nobody sees is a store through a range that was declared before the savepoint. In C it is the program's to declare it again;
//! here the compiler would let it happen while the [`Joined`](super::Joined) that lent the range lives. So to go back is refused where
//! one lived when the savepoint was made, as where one does now; before anything of the part is taken back.
//!
//! If we die here: some segments went back and some did not, and what they have left in their undo logs is put back as of any
//! transaction that dies running.

use std::cell::RefMut;

use rio::{failpoint, planted};
use vista::{Mark, Member};

use super::{Part, Parts};
use crate::{Error, Result};

/// How far a transaction was in each segment that it had joined, in the order in which it had; none where it was at work.
pub(crate) struct MemoryMark(Vec<Option<Mark>>);

/// The memory of a transaction that is about to go back, which nobody is at work in, and how far each goes.
pub(crate) struct GoingBack<'t>(Vec<(RefMut<'t, Option<Box<Member>>>, Mark)>);

impl Parts {
    pub(crate) fn mark(&self) -> MemoryMark {
        let of_one = |part: &Part| {
            let member = part.member.try_borrow().ok()?;
            member.as_ref().map(|member| member.mark())
        };
        MemoryMark(self.all().map(of_one).collect())
    }

    /// Takes all that is joined now, to go back.
    ///
    /// # Errors
    /// `Segment` if the transaction is at work in one, or was when the mark was made.
    pub(crate) fn take_to_go_back(&self, to: &MemoryMark) -> Result<GoingBack<'_>> {
        let mut all = Vec::new();
        for (part, mark) in self.all().zip(to.0.iter().copied().chain(std::iter::repeat(Some(Mark::default())))) {
            let mark = mark.ok_or_else(|| part.refuse("was at work in it when the savepoint was made"))?;
            all.push((part.member.try_borrow_mut().map_err(|_| part.refuse("is at work in it"))?, mark));
        }
        Ok(GoingBack(all))
    }
}

impl Part {
    fn refuse(&self, because: &str) -> Error {
        let what = format!(
            "the transaction {because}, so what was done in a part of it cannot be taken back here, and nothing of that was: let go of \
             what `join` gave before a savepoint is made, and before it is gone back to"
        );
        Error::Segment { path: self.segment.path.clone(), what }
    }
}

impl GoingBack<'_> {
    /// Puts back what was stored since.
    ///
    /// # Errors
    /// `Memory` in a child of the process: nothing was put back.
    pub(crate) fn go_back(self) -> Result<()> {
        for (mut member, mark) in self.0 {
            if mark == Mark::default() && planted("libtp: memory that was joined in a part keeps what that stored") {
                continue;
            }
            if let Some(member) = member.as_deref_mut() {
                member.go_back(&mark)?;
            }
            failpoint("savepoint: one segment has gone back");
        }
        failpoint("savepoint: memory has gone back, records have not");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
