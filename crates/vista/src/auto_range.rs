//! Automatic ranges: a page is saved when the first store to it faults.
//!
//! Paper: Rio Vista, section 4: "an option to automatically generate the range of modifications on a page granularity
//! by using the virtual memory system; however this is much slower". The flat part is made readable only. The handler
//! of a fault saves the page in the undo log and makes the page writable, and the processor then repeats the store.
//!
//! The handler needs `unsafe`: for its arguments, and for the segment that it finds by the fault's address.
#![allow(unsafe_code)]

use crate::heap::UNIT;
use crate::{Error, Result, Segment};
use rio::Watch;

/// A transaction with automatic ranges, which watches the faults of its segment until it is dropped. Callers never get
/// this value, because a caller might forget it.
struct AutoTxn<'s> {
    segment: &'s mut Segment,
    _watch: Watch,
}

impl Segment {
    /// Does `work` in a transaction that may store anywhere in the flat part: page faults find the ranges, one page at
    /// a time. Slow: each page costs microseconds. If the work returns an error, all changes are undone.
    ///
    /// If a page cannot be saved because the file cannot grow, the work continues to its end, and then all changes are
    /// undone. A store by the kernel itself, such as `read` into these bytes, saves no page: the kernel returns
    /// `EFAULT` if the work has not yet stored to each of these pages. A page is saved on the stack of the storing
    /// thread, even where signals have an alternate stack.
    ///
    /// # Errors
    /// `Memory` if the undo log had to grow and could not; `System` if the kernel refuses, or if 64 such transactions
    /// of this process are open; else the error that `work` returns.
    pub fn automatically<R, E: From<Error>>(&mut self, work: impl FnOnce(&mut [u8]) -> Result<R, E>) -> Result<R, E> {
        let txn = self.begin_automatic()?;
        let done = work(txn.segment.flat_unsaved())?;
        txn.segment.refuse_if_apart()?;
        txn.segment.undo.discard();
        Ok(done)
    }

    fn begin_automatic(&mut self) -> Result<AutoTxn<'_>> {
        // A transaction that a caller has forgotten must not end with this transaction.
        self.take_back();
        let flat = self.address()..self.address() + usize::try_from(self.flat_end() - self.from).expect("it is mapped");
        let watched = std::ptr::from_mut(self).cast();
        // SAFETY: the transaction borrows the segment until the watch is dropped. The thread that stores has only the
        // flat part's bytes. That thread is at the store that faulted, which has not happened yet.
        let watch = unsafe { Watch::begin(flat, watched, on_fault) };
        let path = self.path().to_path_buf();
        let _watch = watch.map_err(|source| Error::System { path, call: "catching the faults", source })?;
        let txn = AutoTxn { segment: self, _watch };
        txn.segment.close_flat()?;
        Ok(txn)
    }
}

impl Drop for AutoTxn<'_> {
    fn drop(&mut self) {
        self.segment.take_back();
        self.segment.end_automatic();
    }
}

unsafe fn on_fault(watched: *mut (), address: usize) {
    // SAFETY: the segment was given to `Watch::begin`, and no other code uses it now.
    let segment = unsafe { &mut *watched.cast::<Segment>() };
    if let Err(why) = segment.save_page(address - segment.address()) {
        segment.privatize_flat(why);
    }
}

impl Segment {
    /// Saves the page at `at` of the flat part and makes it writable.
    fn save_page(&mut self, at: usize) -> Result<()> {
        let page = rustix::param::page_size();
        let at = at / page * page;
        if self.save_part(at, (at + page).min(self.bytes().len())).is_ok() {
            return Ok(());
        }
        // Each piece of adjacent writable pages takes a separate mapping, and the kernel limits a process's mappings
        // (vm.max_map_count). One single piece takes no extra mapping. So the flat part is first closed, which lets the
        // undo log grow, and then saved and opened as a whole.
        self.view.set_writable_part(self.from, self.flat_end(), false)?;
        self.save_part(0, self.bytes().len())
    }

    fn save_part(&mut self, at: usize, end: usize) -> Result<()> {
        let (from, to) = (self.from + at as u64, self.from + end as u64);
        let mut txn = std::mem::ManuallyDrop::new(self.resume());
        let saved = txn.set_range(at as u64, end - at).map(drop);
        txn.segment.undo.set_top(txn.top);
        saved?;
        Ok(self.view.set_writable_part(from, to.next_multiple_of(rustix::param::page_size() as u64), true)?)
    }

    /// Returns the place directly after the last unit of the flat part.
    pub(crate) fn flat_end(&self) -> u64 {
        self.from + (self.bytes().len() as u64).next_multiple_of(UNIT)
    }

    fn flat_unsaved(&mut self) -> &mut [u8] {
        let bytes = self.bytes().len();
        let flat = self.view.look(0, bytes).expect("a segment shows its flat part");
        flat.unsaved(&mut self.owner)
    }
}
