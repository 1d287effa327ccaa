//! A transaction on a segment: begin, set_range, end, abort.
//!
//! Paper: Rio Vista, section 4, figure 3. The declaration of a range returns the permission to store to it.
//!
//! If we die here: the undo log holds the old bytes of every range that could have been stored to, and the next
//! process that maps the segment copies them back ([`recover`](crate::recover)). One store empties the log, and is
//! the commit.

use crate::{Error, Result, Segment};
use rio::Quick;

/// A transaction. Dropped without [`Txn::end`], it is aborted.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let mut segment = vista::Options::new(4096).anywhere().open(&directory.path().join("segment"))?;
/// let mut txn = segment.begin();
/// let range = txn.set_range(8, 5)?;
/// range.copy_from_slice(b"hello");
/// txn.end()?;
/// segment.begin().end()?;
/// assert_eq!(segment.bytes()[8], b'h');
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The compiler refuses misuse. A store to bytes that were not declared, outside a transaction:
///
/// ```compile_fail,E0594
/// # let directory = tempfile::tempdir()?;
/// # let mut segment = vista::Options::new(4096).anywhere().open(&directory.path().join("segment"))?;
/// segment.bytes()[8] = b'h';
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A store to bytes that were not declared, in a transaction:
///
/// ```compile_fail,E0594
/// # let directory = tempfile::tempdir()?;
/// # let mut segment = vista::Options::new(4096).anywhere().open(&directory.path().join("segment"))?;
/// let mut txn = segment.begin();
/// txn.bytes()[8] = b'h';
/// txn.end()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A store to declared bytes after the end of the transaction:
///
/// ```compile_fail,E0505
/// # let directory = tempfile::tempdir()?;
/// # let mut segment = vista::Options::new(4096).anywhere().open(&directory.path().join("segment"))?;
/// let mut txn = segment.begin();
/// let range = txn.set_range(8, 5)?;
/// txn.end()?;
/// range.copy_from_slice(b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A second transaction while the first is open:
///
/// ```compile_fail,E0499
/// # let directory = tempfile::tempdir()?;
/// # let mut segment = vista::Options::new(4096).anywhere().open(&directory.path().join("segment"))?;
/// let txn = segment.begin();
/// let other = segment.begin();
/// txn.end()?;
/// other.end()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a transaction that is dropped is aborted"]
pub struct Txn<'s> {
    pub(crate) segment: Quick<'s, Segment>,
    /// The end of the undo log. The compiler can keep this copy in a register.
    pub(crate) top: usize,
}

impl Segment {
    /// Begins a transaction (the paper's `vista_begin_transaction`).
    #[inline(always)]
    pub fn begin(&mut self) -> Txn<'_> {
        let mut txn = Txn { segment: Quick::new(self), top: 0 };
        if !txn.segment.is_at_rest() {
            txn.segment.with(Segment::take_back_forgotten);
        }
        txn
    }

    /// Undoes a transaction that a caller has leaked (`std::mem::forget`).
    #[cold]
    fn take_back_forgotten(&mut self) {
        if self.undo.has_images() {
            self.take_back();
        }
    }

    /// Makes room in the undo log, which ends at `top`, for the `bytes` bytes at `at`, and makes those bytes writable.
    #[cold]
    fn make_ready(&mut self, at: u64, bytes: usize, top: usize) -> Result<()> {
        if self.undo.is_ready(self.undo.end_of(top), at.wrapping_add(self.from), bytes) {
            return self.get(at, bytes).map(drop);
        }
        self.undo.set_top(top);
        let is_ready = self.prepare_range(at, bytes);
        self.undo.leave_top();
        is_ready
    }

    /// Undoes the changes of the open transaction, if there is one.
    #[cold]
    pub(crate) fn take_back(&mut self) {
        // A child of a fork has no transaction.
        if self.kept.is_ours() {
            self.freed.clear();
            self.undo.roll_back();
            self.close_ranges();
        }
    }
}

impl Txn<'_> {
    /// Declares that the transaction may change `bytes` bytes from `at` on, and returns them (`vista_set_range`).
    ///
    /// # Errors
    /// `OutOfRange`; `Memory` if the undo log had to grow and could not. `Memory` also in a child of the process that
    /// has the segment ([`rio::Error::Forked`]): the transaction belongs to the parent.
    #[inline(always)]
    pub fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.segment.range(at, bytes, &mut self.top, Segment::make_ready)
    }

    /// Does `work` with the segment. Old bytes that the work saves go to the undo log.
    pub(crate) fn in_log<R>(&mut self, work: impl FnOnce(&mut Segment) -> R) -> R {
        self.segment.undo.set_top(self.top);
        let done = self.segment.with(work);
        self.top = self.segment.undo.take_top();
        done
    }

    /// Allocates `bytes` bytes from the segment's heap and returns where they begin, a multiple of 16 (`vista_malloc`).
    /// The bytes are not cleared. An abort frees them again.
    ///
    /// # Errors
    /// `Memory` if the segment had to grow and could not.
    pub fn malloc(&mut self, bytes: u64) -> Result<u64> {
        let place = self.in_log(|segment| segment.allocate(bytes))?;
        Ok(place - self.segment.from)
    }

    /// Frees the block at `at` (`vista_free`). An abort undoes the free, so the block returns to the heap only when the
    /// transaction ends. This call needs no new room in the file, so it also works on a full disk.
    ///
    /// # Errors
    /// `NotAllocated` if no block begins there, or if the block was freed already; `Memory` in a child of the process
    /// that has the segment.
    pub fn free(&mut self, at: u64) -> Result<()> {
        if !self.segment.is_block(at) || self.segment.freed.contains_key(&at) {
            return Err(Error::NotAllocated { path: self.segment.path().to_path_buf(), at });
        }
        self.segment.check_process()?;
        // A forgotten transaction is recognized by its saved bytes, so a transaction that only frees saves some bytes,
        // too.
        if self.segment.is_at_rest() {
            self.set_range(at, 8)?;
        }
        self.segment.with(|segment| {
            segment.freed.insert(at, segment.freed.len());
            // The end of the transaction must also return the block to the heap, so the quick end is not possible.
            segment.undo.set_quick(false);
        });
        Ok(())
    }

    /// Ends the transaction: its stores are kept (`vista_end_transaction`). This takes one store. Where stores are
    /// written back from the processor's cache, a commit number is written back too: either together with the stores
    /// and their sum, or after the stores.
    ///
    /// # Errors
    /// `Memory` in a child of the process that has the segment. `Memory` also if the undo log had to grow for freed
    /// blocks and could not. That happens only if several threads, or an older version of the library, made the heap
    /// larger. The transaction is then aborted.
    #[inline(always)]
    pub fn end(mut self) -> Result<()> {
        if !self.segment.discard() {
            self.segment.undo.set_top(self.top);
            self.segment.with(Segment::end_slowly)?;
        }
        // The destructor has nothing left to undo.
        std::mem::forget(self);
        Ok(())
    }

    /// Undoes all stores (`vista_abort_transaction`).
    pub fn abort(self) {}
}

impl Drop for Txn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.segment.at_last(Segment::take_back);
    }
}
