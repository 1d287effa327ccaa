//! A transaction of one of several threads. It is like [`Txn`](crate::Txn), and also locks the bytes that it accesses.

use std::time::Duration;

use super::{Threads, Worker};
use crate::{Error, Result, Segment};

/// The number of times that a transaction is run again without a pause.
const TIMES_QUICK: u32 = 20;
/// The pause before each later repetition.
const PAUSE: Duration = Duration::from_millis(1);

/// A transaction of one of several threads. Dropped without [`ThreadTxn::end`], it is aborted.
#[must_use = "a transaction that is dropped is aborted"]
pub struct ThreadTxn<'w, 't> {
    pub(super) worker: &'w mut Worker<'t>,
    /// Where the undo log ends.
    pub(super) top: usize,
}

impl<'t> Worker<'t> {
    /// Begins a transaction.
    #[inline(always)]
    pub fn begin(&mut self) -> ThreadTxn<'_, 't> {
        if (!self.undo.is_at_rest() && self.undo.has_images()) || !self.taken.is_empty() {
            // A caller has forgotten a transaction.
            self.take_back();
        }
        ThreadTxn { worker: self, top: 0 }
    }

    /// Does `work` in a transaction and ends it. Repeats both as long as other transactions hold a lock that it needs.
    /// Does not wait for a stripe that another worker keeps, because the end of that wait is not known.
    ///
    /// # Errors
    /// The errors of `work`, except `Contended`: all changes are then undone. Also the errors of [`ThreadTxn::end`].
    pub fn run<R>(&mut self, mut work: impl FnMut(&mut ThreadTxn<'_, 't>) -> Result<R>) -> Result<R> {
        let mut times = 0;
        loop {
            let mut txn = self.begin();
            match work(&mut txn) {
                Ok(done) => return txn.end().map(|()| done),
                Err(Error::Contended { .. }) => txn.abort(),
                Err(other) => return Err(other),
            }
            times += 1;
            match times {
                ..TIMES_QUICK => std::thread::yield_now(),
                // The conflict lasts for longer than a moment.
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Worker<'_> {
    #[inline(always)]
    fn save_range(&mut self, at: u64, bytes: usize, top: usize) -> Result<(&mut [u8], usize)> {
        match self.threads.flat.look(at, bytes) {
            Some(shown) => Ok(shown.range(&mut self.hold, &self.undo, top)),
            None => Err(self.threads.out_of_range(at, bytes as u64)),
        }
    }

    #[inline(never)]
    fn save_range_slowly(&mut self, at: u64, bytes: usize, top: usize) -> Result<(&mut [u8], usize)> {
        self.threads.check_process()?;
        self.lock_range(at, bytes)?;
        self.undo.set_top(top);
        let has_room = match self.undo.has_room(bytes) {
            true => Ok(()),
            false => self.with_segment(|segment| segment.reserve_undo(bytes)),
        };
        self.undo.take_top();
        has_room?;
        let shown = self.threads.look(at, bytes)?;
        Ok(shown.range(&mut self.hold, &self.undo, top))
    }
}

impl ThreadTxn<'_, '_> {
    pub(crate) fn threads(&self) -> &Threads {
        self.worker.threads
    }

    /// Declares that the transaction may change `bytes` bytes from `at` on, and returns them. No other thread can
    /// access these bytes until the transaction ends.
    ///
    /// # Errors
    /// `Contended`: abort the transaction and run it again; `Kept`; `OutOfRange`; `Memory` if the undo log had to grow
    /// and could not.
    #[inline(always)]
    pub fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        let (worker, top) = (&mut *self.worker, self.top);
        // The check is here, before the inlined `save_range`, so that the compiler knows what the lookups there find:
        // nothing changes in between.
        let threads = worker.threads;
        let is_quick = threads.flat.has(at, bytes)
            && worker.undo.has_quick_room(top, bytes)
            && threads.stripes.is_owned(at, bytes, worker.number);
        let saved = match is_quick {
            true => worker.save_range(at, bytes, top),
            false => worker.save_range_slowly(at, bytes, top),
        };
        let (range, top) = saved?;
        self.top = top;
        Ok(range)
    }

    /// Does `work` with the segment. Old bytes that the work saves go to this worker's log.
    fn in_log<R>(&mut self, work: impl FnOnce(&mut Segment) -> R) -> R {
        self.worker.undo.set_top(self.top);
        let done = self.worker.with_segment(work);
        self.top = self.worker.undo.take_top();
        done
    }

    /// Returns the current contents of the `bytes` bytes from `at` on. No other thread can access these bytes until the
    /// transaction ends.
    ///
    /// # Errors
    /// `Contended`: abort the transaction and run it again; `Kept`; `OutOfRange`.
    pub fn get(&mut self, at: u64, bytes: usize) -> Result<&[u8]> {
        let worker = &mut *self.worker;
        worker.lock_range(at, bytes)?;
        Ok(worker.threads.look(at, bytes)?.bytes(&worker.hold))
    }

    /// As [`Txn::malloc`](crate::Txn::malloc). No other thread allocates or frees until the transaction ends.
    ///
    /// # Errors
    /// `Contended`: abort the transaction and run it again; `Memory` if the segment had to grow and could not.
    pub fn malloc(&mut self, bytes: u64) -> Result<u64> {
        self.worker.threads.check_process()?;
        self.worker.lock_heap()?;
        self.in_log(|segment| {
            let place = segment.allocate(bytes)?;
            Ok(place - segment.from)
        })
    }

    /// As [`Txn::free`](crate::Txn::free).
    ///
    /// # Errors
    /// `Contended`: abort the transaction and run it again; `NotAllocated`; `Memory`.
    pub fn free(&mut self, at: u64) -> Result<()> {
        self.worker.threads.check_process()?;
        self.worker.lock_heap()?;
        let is_there = self.worker.with_segment(|segment| segment.is_block(at));
        if !is_there || self.worker.freed.contains_key(&at) {
            return Err(Error::NotAllocated { path: self.worker.threads.path.clone(), at });
        }
        if self.top == 0 {
            // A transaction that a caller has forgotten is recognized by its saved bytes, so every transaction must
            // save some bytes.
            self.set_range(at, 8)?;
        } else {
            // This locks the block's first bytes, so no other thread uses them now.
            self.worker.lock_range(at, 8)?;
        }
        self.worker.freed.insert(at, self.worker.freed.len());
        self.worker.undo.set_quick(false);
        Ok(())
    }

    /// Ends the transaction: its stores are kept, and other threads can access its bytes. The end is one store.
    ///
    /// # Errors
    /// `Memory` if blocks were freed and the undo log had to grow for that and could not: the transaction is aborted
    /// then.
    #[inline(always)]
    pub fn end(self) -> Result<()> {
        if !self.worker.undo.discard_quickly() {
            self.worker.undo.set_top(self.top);
            self.worker.end_slowly()?;
        }
        self.worker.unlock();
        // The destructor has nothing left to undo.
        std::mem::forget(self);
        Ok(())
    }

    /// Undoes all stores.
    pub fn abort(self) {}
}

impl Worker<'_> {
    /// Ends a transaction that has freed blocks, or whose stores have to be written back.
    #[inline(never)]
    fn end_slowly(&mut self) -> Result<()> {
        self.threads.check_process()?;
        if !self.freed.is_empty() {
            self.with_segment(|segment| segment.release_all())?;
        }
        self.undo.discard();
        self.undo.set_quick(true);
        Ok(())
    }
}

impl Drop for ThreadTxn<'_, '_> {
    fn drop(&mut self) {
        self.worker.take_back();
    }
}
