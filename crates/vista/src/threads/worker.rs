//! A worker: a thread's means to change a shared segment.
//!
//! `unsafe` makes a promise to rio: the worker that has the stripes of a range has exclusive access to the range's
//! bytes.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use super::stripes::{Nth, Refused};
use super::Threads;
use crate::{Error, Result, Segment};
use rio::{ExclusiveHold, SharedHold, Undo};

/// Proof of having the stripes of a range. Only a worker uses this value, and only for ranges whose locks it has
/// checked.
pub(super) struct Hold(());
// SAFETY: a hold is shown only for ranges whose stripes its worker has, and no other worker has these stripes at that
// time.
unsafe impl SharedHold for Hold {}
// SAFETY: as above; a mutable borrow of the hold needs a mutable borrow of the worker.
unsafe impl ExclusiveHold for Hold {}

/// One thread's access to a shared segment: the thread's own undo log, and the locks that the thread has.
pub struct Worker<'t> {
    pub(super) threads: &'t Threads,
    pub(super) undo: Undo,
    pub(super) hold: Hold,
    pub(super) number: u32,
    /// The locks that are released when the transaction ends.
    pub(super) taken: Vec<Nth>,
    highest: Nth,
    /// The locks that are released when the worker is dropped.
    kept: Vec<Nth>,
    pub(super) freed: BTreeMap<u64, usize>,
}

impl<'t> Worker<'t> {
    pub(super) fn new(threads: &'t Threads, undo: Undo, number: u32) -> Worker<'t> {
        let (taken, kept, freed) = (Vec::new(), Vec::new(), BTreeMap::new());
        Worker { threads, undo, hold: Hold(()), number, taken, highest: 0, kept, freed }
    }

    /// Keeps a part of the flat part for this worker until the worker is dropped. The part is widened to whole stripes.
    /// This worker's transactions need not lock these stripes any more, and other workers cannot lock them.
    ///
    /// # Errors
    /// `OutOfRange`; `Kept` or `Contended` if another worker keeps or has any of these stripes: nothing is kept then.
    pub fn keep(&mut self, at: u64, bytes: u64) -> Result<()> {
        if bytes == 0 || at.checked_add(bytes).is_none_or(|end| end > self.threads.bytes) {
            return Err(self.threads.out_of_range(at, bytes));
        }
        // A transaction that a caller has forgotten must not hold locks that this call needs.
        self.take_back();
        let before = self.kept.len();
        for nth in self.threads.stripes.of_range(at, bytes) {
            if self.threads.stripes.has(nth, self.number) {
                continue;
            }
            if let Err(refused) = self.threads.stripes.keep(nth, self.number) {
                self.kept.drain(before..).for_each(|nth| self.threads.stripes.give(nth));
                return Err(self.refused(refused, at));
            }
            self.kept.push(nth);
        }
        Ok(())
    }

    /// Takes the locks of a range, if it is not empty.
    pub(super) fn lock_range(&mut self, at: u64, bytes: usize) -> Result<()> {
        let threads = self.threads;
        threads.look(at, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        threads.stripes.of_range(at, bytes as u64).try_for_each(|nth| self.lock(nth, at))
    }

    /// Takes the heap's lock.
    pub(super) fn lock_heap(&mut self) -> Result<()> {
        self.lock(self.threads.stripes.of_heap(), 0)
    }

    fn lock(&mut self, nth: Nth, at: u64) -> Result<()> {
        let stripes = &self.threads.stripes;
        if stripes.has(nth, self.number) {
            return Ok(());
        }
        // A transaction that waits only for locks after all locks that it has is never a part of a circle.
        let is_in_order = self.taken.is_empty() || nth > self.highest;
        stripes.take(nth, self.number, is_in_order).map_err(|refused| self.refused(refused, at))?;
        self.highest = if self.taken.is_empty() { nth } else { self.highest.max(nth) };
        self.taken.push(nth);
        Ok(())
    }

    #[cold]
    fn refused(&self, refused: Refused, at: u64) -> Error {
        let path = self.threads.path.clone();
        match refused {
            Refused::TimedOut => Error::Contended { path, at },
            Refused::Kept => Error::Kept { path, at },
        }
    }

    /// Does `work` with the segment, on this worker's undo log.
    pub(super) fn with_segment<R>(&mut self, work: impl FnOnce(&mut Segment) -> R) -> R {
        let threads = self.threads;
        let mut inner = threads.inner();
        let mut lent = Lent { worker: self, segment: &mut inner.segment };
        lent.swap();
        work(&mut *lent.segment)
    }

    /// Releases the locks of a transaction that is over.
    #[inline(always)]
    pub(super) fn unlock(&mut self) {
        if !self.taken.is_empty() {
            self.unlock_taken();
        }
    }

    #[inline(never)]
    fn unlock_taken(&mut self) {
        self.taken.drain(..).for_each(|nth| self.threads.stripes.give(nth));
    }

    /// Undoes the changes of the transaction.
    #[cold]
    pub(super) fn take_back(&mut self) {
        if self.threads.mark.is_current() {
            self.freed.clear();
            self.undo.roll_back();
            self.undo.set_quick(true);
            self.unlock();
        }
    }
}

/// The segment with a worker's log in place of the segment's own log, until this value is dropped.
struct Lent<'l, 't> {
    worker: &'l mut Worker<'t>,
    segment: &'l mut Segment,
}

impl Lent<'_, '_> {
    fn swap(&mut self) {
        std::mem::swap(&mut self.segment.undo, &mut self.worker.undo);
        std::mem::swap(&mut self.segment.freed, &mut self.worker.freed);
    }
}

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        self.swap();
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if !self.threads.mark.is_current() {
            return;
        }
        self.take_back();
        self.kept.drain(..).for_each(|nth| self.threads.stripes.give(nth));
        // The next worker gets this worker's log.
        let mut inner = self.threads.inner();
        let log = self.undo.reopen();
        inner.logs.push((log, self.number));
    }
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({} of {})", self.number, self.threads.path.display())
    }
}
