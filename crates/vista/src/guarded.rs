//! A guarded segment: its pages become writable as a transaction declares ranges, and are closed at the transaction's
//! end.

use rio::Right;

use crate::guard::{Guard, Guarded};
use crate::{Result, Segment};

impl Segment {
    /// Returns whether and how stores outside of declared ranges are stopped.
    pub fn guard(&self) -> Guard {
        match (&self.guarded, self.view.key()) {
            (Some(guarded), None) if guarded.watch.is_some() => Guard::Pages,
            (_, None) => Guard::Off,
            (_, Some(_)) => Guard::Keys,
        }
    }

    /// Lets the transaction store into a range.
    pub(crate) fn open_range(&mut self, at: u64, bytes: usize) -> Result<()> {
        self.open_flat()?;
        let Some(guarded) = &mut self.guarded else { return Ok(()) };
        if let Some(key) = self.view.key() {
            key.allow(Right::Write);
            return Ok(());
        }
        let page = rustix::param::page_size() as u64;
        let from = (at + self.from) / page * page;
        let to = (at + self.from + bytes as u64).next_multiple_of(page);
        // Only the last few open ranges are compared: a range is usually in the pages of the previous range.
        if bytes == 0 || guarded.open.iter().rev().take(8).any(|open| open.0 <= from && to <= open.1) {
            return Ok(());
        }
        self.view.set_writable_part(from, to, true)?;
        guarded.open.push((from, to));
        Ok(())
    }

    /// Closes the flat part, so that the first store to each of its pages faults.
    pub(crate) fn close_flat(&mut self) -> Result<()> {
        self.check_process()?;
        if self.view.key().is_some() {
            self.view.set_writable_part(self.from, self.flat_end(), false)?;
            return self.open_range(0, 0);
        }
        if self.guarded.is_none() {
            self.view.set_writable_part(self.from, self.flat_end(), false)?;
            self.undo.set_quick(false);
        }
        let new = || Box::new(Guarded { open: Vec::new(), watch: None, is_automatic: true, apart: None });
        self.guarded.get_or_insert_with(new).is_automatic = true;
        Ok(())
    }

    /// Ends a transaction with automatic ranges. The flat part stays closed for the next such transaction.
    pub(crate) fn end_automatic(&mut self) {
        // The caller has an error already, so this error is ignored.
        let _ = self.refuse_if_apart();
        if self.view.key().is_some() {
            let is_open = self.view.set_writable_part(self.from, self.flat_end(), true);
            is_open.expect("pages of this process's own mapping can be made writable, as they were");
        }
        if let Some(guarded) = &mut self.guarded {
            guarded.is_automatic = false;
        }
    }

    /// Opens the flat part if it is closed only because an earlier transaction with automatic ranges left it closed.
    pub(crate) fn open_flat(&mut self) -> Result<()> {
        if self.guarded.as_ref().is_some_and(|guarded| guarded.watch.is_none() && !guarded.is_automatic) {
            self.view.set_writable_part(self.from, self.flat_end(), true)?;
            self.guarded = None;
            // A transaction that has freed blocks must return them to the heap at its end, so its end is not quick.
            self.undo.set_quick(self.freed.is_empty());
        }
        Ok(())
    }

    /// Ends a transaction that has freed blocks, a guarded transaction, or a transaction whose stores have to be
    /// written back.
    #[inline(never)]
    pub(crate) fn end_slowly(&mut self) -> Result<()> {
        self.check_process()?;
        self.release_all()?;
        self.undo.discard();
        self.close_ranges();
        Ok(())
    }

    /// Closes the ranges of a transaction that is over: no store is allowed any more. The next transaction may take the
    /// quick end, unless the segment is guarded.
    #[cold]
    pub(crate) fn close_ranges(&mut self) {
        self.undo.set_quick(self.guarded.is_none());
        let Some(guarded) = &mut self.guarded else { return };
        if let Some(key) = self.view.key() {
            key.allow(Right::Read);
        }
        for (from, to) in guarded.open.drain(..) {
            let is_closed = self.view.set_writable_part(from, to, false);
            is_closed.expect("pages of this process's own mapping can be made readable only, as they were");
        }
    }
}
