//! The operations that a workload needs, for each kind of memory: Vista, RVM, Vista with several threads, bare memory.

use std::sync::atomic::{compiler_fence, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Memory that is changed in transactions.
pub(crate) trait Memory {
    /// A transaction.
    type Txn<'m>: Change
    where
        Self: 'm;
    /// Begins a transaction.
    fn begin(&mut self) -> Result<Self::Txn<'_>>;
    /// Does the work that the engine has postponed for many transactions, such as RVM's truncation.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    /// Makes every ended transaction safe, if the engine writes transactions in groups.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// Returns the number of calls of [`Memory::settle`] so far, and their total time: RVM's truncations.
    fn truncations(&self) -> (u64, Duration) {
        (0, Duration::ZERO)
    }
    /// Returns whether the engine makes use of announced ranges.
    fn announces(&self) -> bool {
        false
    }
    /// Returns the bytes written to a log so far.
    fn logged(&self) -> u64 {
        0
    }
}

/// A transaction.
pub(crate) trait Change {
    /// Declares a range and returns it.
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]>;
    /// Announces the ranges that will be declared, in this order.
    fn announce(&mut self, _: &[(u64, usize)]) -> Result<()> {
        Ok(())
    }
    /// Declares a range whose length the compiler does not know, and returns it.
    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]>;
    /// Returns the current bytes at an offset.
    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]>;
    /// Ends the transaction.
    fn end(self) -> Result<()>;
}

/// Adds `amount` to the number at an offset of the memory. Returns the sum.
#[inline(always)]
pub(crate) fn add(txn: &mut impl Change, at: u64, amount: i64) -> Result<i64> {
    let place = txn.range::<8>(at)?;
    let value = i64::from_ne_bytes(*place).wrapping_add(amount);
    *place = value.to_ne_bytes();
    Ok(value)
}

/// Bare memory: its transactions only store bytes.
pub(crate) struct Bare<'m>(pub(crate) &'m mut [u8]);

impl Memory for Bare<'_> {
    type Txn<'m>
        = Bare<'m>
    where
        Self: 'm;
    #[inline(always)]
    fn begin(&mut self) -> Result<Bare<'_>> {
        Ok(Bare(self.0))
    }
}

impl Change for Bare<'_> {
    #[inline(always)]
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]> {
        let range =
            usize::try_from(at).ok().and_then(|at| self.0.get_mut(at..)).and_then(|rest| rest.first_chunk_mut());
        range.ok_or_else(|| Error::Settings(format!("no range of {N} bytes at {at}")))
    }

    #[inline(always)]
    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        let range = usize::try_from(at).ok().and_then(|at| self.0.get_mut(at..)).and_then(|rest| rest.get_mut(..bytes));
        range.ok_or_else(|| Error::Settings(format!("no range of {bytes} bytes at {at}")))
    }

    #[inline(always)]
    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        self.range::<N>(at).copied()
    }

    #[inline(always)]
    fn end(self) -> Result<()> {
        // The compiler must not move stores of this transaction to a place after its end. The end of an engine's
        // transaction keeps the compiler from that, too.
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }
}

#[inline(always)]
fn whole<const N: usize>(range: &mut [u8]) -> &mut [u8; N] {
    range.try_into().expect("the range has the declared length")
}

#[inline(always)]
fn copy<const N: usize>(range: &[u8]) -> [u8; N] {
    range.try_into().expect("the range has the requested length")
}

#[cold]
fn refused<E: std::fmt::Display>(engine: &'static str, why: E) -> Error {
    Error::engine(engine, "changing")(why)
}

impl Memory for vista::Segment {
    type Txn<'m> = vista::Txn<'m>;
    #[inline(always)]
    fn begin(&mut self) -> Result<vista::Txn<'_>> {
        Ok(vista::Segment::begin(self))
    }

    fn announces(&self) -> bool {
        self.is_written_back()
    }
}

impl Change for vista::Txn<'_> {
    #[inline(always)]
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]> {
        self.set_range(at, N).map(whole).map_err(|why| refused("vista", why))
    }

    fn announce(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        vista::Txn::announce(self, ranges).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.set_range(at, bytes).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        self.get(at, N).map(copy).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn end(self) -> Result<()> {
        vista::Txn::end(self).map_err(|why| refused("vista", why))
    }
}

/// RVM, with the number and the total time of its truncations.
pub(crate) struct Journaled {
    memory: rvm::Rvm,
    count: u64,
    took: Duration,
}

impl Journaled {
    pub(crate) fn new(memory: rvm::Rvm) -> Journaled {
        Journaled { memory, count: 0, took: Duration::ZERO }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.segment().bytes()
    }
}

impl Memory for Journaled {
    type Txn<'m> = rvm::Txn<'m>;
    fn begin(&mut self) -> Result<rvm::Txn<'_>> {
        if self.memory.wants_truncation() {
            self.settle()?;
        }
        self.memory.begin().map_err(|why| refused("rvm", why))
    }

    fn settle(&mut self) -> Result<()> {
        let start = Instant::now();
        self.memory.truncate().map_err(|why| refused("rvm", why))?;
        (self.count, self.took) = (self.count + 1, self.took + start.elapsed());
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.memory.flush().map_err(|why| refused("rvm", why))
    }

    fn truncations(&self) -> (u64, Duration) {
        (self.count, self.took)
    }

    fn logged(&self) -> u64 {
        self.memory.logged()
    }
}

impl Change for rvm::Txn<'_> {
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]> {
        self.set_range(at, N).map(whole).map_err(|why| refused("rvm", why))
    }

    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.set_range(at, bytes).map_err(|why| refused("rvm", why))
    }

    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        self.get(at, N).map(copy).map_err(|why| refused("rvm", why))
    }

    fn end(self) -> Result<()> {
        rvm::Txn::end(self).map_err(|why| refused("rvm", why))
    }
}

/// The memory of one of several threads. The thread's database begins at offset `from` of the segment.
pub(crate) struct OfThread<'w, 't> {
    pub(crate) worker: &'w mut vista::Worker<'t>,
    pub(crate) from: u64,
}

pub(crate) struct ThreadChange<'w, 't> {
    txn: vista::ThreadTxn<'w, 't>,
    from: u64,
}

impl<'t> Memory for OfThread<'_, 't> {
    type Txn<'m>
        = ThreadChange<'m, 't>
    where
        Self: 'm;
    #[inline(always)]
    fn begin(&mut self) -> Result<ThreadChange<'_, 't>> {
        Ok(ThreadChange { txn: self.worker.begin(), from: self.from })
    }
}

impl Change for ThreadChange<'_, '_> {
    #[inline(always)]
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]> {
        self.txn.set_range(self.from + at, N).map(whole).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.txn.set_range(self.from + at, bytes).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        self.txn.get(self.from + at, N).map(copy).map_err(|why| refused("vista", why))
    }

    #[inline(always)]
    fn end(self) -> Result<()> {
        self.txn.end().map_err(|why| refused("vista", why))
    }
}
