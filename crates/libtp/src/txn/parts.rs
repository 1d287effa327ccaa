//! The segments of memory that a transaction has joined, and the outcome for each (PROTOCOLS F2; `joined.rs`).

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use libtp_log::Lsn;
use libtp_txn::{Committed, Managers, TxnSession};
use rio::{failpoint, planted};
use vista::{Decision, Member};

use crate::region::open_segment::OpenSegment;
use crate::{Durability, Result};

/// The joined segments, as a linked list. Its nodes never move, so a [`Joined`](crate::Joined) can borrow from them.
#[derive(Default)]
pub(crate) struct Parts(OnceCell<Box<Part>>);

/// A joined segment.
pub(super) struct Part {
    pub(super) segment: Arc<OpenSegment>,
    /// The member (vista's handle of the segment), borrowed while a [`Joined`](crate::Joined) has it. A `Joined` that
    /// the program forgets keeps the borrow for ever, so the transaction's end ignores the borrow. `None` after the
    /// member was returned.
    pub(super) member: RefCell<Option<Box<Member>>>,
    /// Whether the segment's header has the transaction that works on the segment.
    pub(super) has_begun: bool,
    pub(super) next: OnceCell<Box<Part>>,
}

impl Parts {
    /// Returns whether the transaction has joined no memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    /// Returns the parts in the order in which they were joined.
    pub(super) fn all(&self) -> impl Iterator<Item = &Part> {
        std::iter::successors(self.0.get(), |part| part.next.get()).map(Box::as_ref)
    }

    pub(super) fn known(&self, segment: &Arc<OpenSegment>) -> Option<&Part> {
        self.all().find(|part| Arc::ptr_eq(&part.segment, segment))
    }

    pub(super) fn add(&self, part: Part) -> &Part {
        let mut place = &self.0;
        while let Some(there) = place.get() {
            place = &there.next;
        }
        place.get_or_init(|| Box::new(part))
    }

    /// Takes all parts, in the order in which they were joined. No part is in use, though a `Joined` may have been
    /// forgotten.
    fn take(&mut self) -> Vec<Part> {
        let mut all = Vec::new();
        let mut next = self.0.take();
        while let Some(mut part) = next {
            next = part.next.take();
            all.push(*part);
        }
        all
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.leave_to_log();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(mut member) = self.member.get_mut().take() {
            if self.has_begun {
                member.leave_to_log();
            }
            self.segment.give_back(member);
        }
    }
}

impl Parts {
    /// Commits the session's transaction with its records and its memory.
    pub(crate) fn commit(
        &mut self,
        managers: &Managers,
        session: &TxnSession,
        durability: Durability,
    ) -> Result<Committed> {
        if self.is_empty() {
            return Ok(session.commit_now(managers)?);
        }
        let on_disk = self.prepare()? || durability == Durability::Sync;
        failpoint("joined: prepared, still running");
        let incarnation = managers.log.incarnation();
        if planted("libtp: segments commit before the commit record") {
            self.end(|member| member.end(Decision::default()));
        }
        let committed = session.commit_joined(managers, on_disk, |decision| {
            self.end(|member| match decision {
                Some(Lsn::NONE) => member.end(member.followed()),
                Some(lsn) => member.end(Decision { incarnation, lsn: lsn.raw() }),
                None => member.leave_to_log(),
            });
        })?;
        Ok(committed)
    }

    /// Does the steps of a commit that may fail; returns whether any of the memory survives more than the death of
    /// processes.
    fn prepare(&mut self) -> Result<bool> {
        let (mut is_lasting, mut next) = (false, self.0.get_mut());
        while let Some(part) = next {
            part.member.get_mut().as_mut().map_or(Ok(()), |member| member.prepare())?;
            is_lasting |= part.segment.is_lasting();
            next = part.next.get_mut();
        }
        Ok(is_lasting)
    }

    /// Undoes all stores.
    pub(crate) fn abort(&mut self) {
        self.end(Member::abort);
    }

    /// Leaves the outcome of the stores to the log.
    #[inline]
    pub(crate) fn leave_to_log(&mut self) {
        if !self.is_empty() {
            // Drops the parts in a loop: dropping the list would recurse along it.
            drop(self.take());
        }
    }

    fn end(&mut self, mut how: impl FnMut(&mut Member)) {
        for mut part in self.take() {
            if let Some(member) = part.member.get_mut() {
                how(member);
                part.has_begun = false;
                failpoint("joined: a segment committed");
            }
        }
    }
}
