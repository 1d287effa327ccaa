//! The guard: stores to bytes that no transaction has declared fault.
//!
//! Paper: Rio Vista, section 3: "Rio protects the file cache from wild stores by the virtual memory protection of the
//! machine". Here it is a setting, since it costs more than all other work of a transaction. Pages are readable only,
//! and writable while a transaction has a range in them; or, where the processor has protection keys, a thread may
//! store while its transaction has declared a range.
//!
//! A store that the guard stops ends the process, as any fault does, after a message with the store's address.

use rio::{Key, Region, Right, View, Watch};

use crate::{Error, Result, Segment};

/// Whether and how stores outside of declared ranges are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Guard {
    /// They are not stopped.
    #[default]
    Off,
    /// By keys where the processor has them, else by pages.
    On,
    /// By pages: a transaction may store only to pages in which it has a range.
    Pages,
    /// By a protection key: between a transaction's first declaration and its end its thread may store anywhere in the
    /// segment, other threads nowhere; and a thread may load only after it has itself got bytes of the segment.
    Keys,
}

/// The guard of a segment that has one.
pub(crate) struct Guarded {
    /// The pages that may be stored to: from, to.
    pub(crate) open: Vec<(u64, u64)>,
    /// `None` if the flat part is merely left closed by a transaction with automatic ranges: opening and closing all
    /// of it takes long, and the next transaction may have automatic ranges, too.
    watch: Option<Watch>,
    /// Whether the transaction has automatic ranges.
    is_automatic: bool,
    /// The reason why the transaction's stores no longer come to the file, if they do not.
    pub(crate) apart: Option<Error>,
}

impl Guard {
    /// Resolves `On` to the kind of guard that the processor allows.
    pub(crate) fn chosen(self, has_keys: bool) -> Guard {
        match (self, has_keys) {
            (Guard::On, true) => Guard::Keys,
            (Guard::On, false) => Guard::Pages,
            (said, _) => said,
        }
    }

    /// Guards the view.
    pub(crate) fn begin(self, region: &Region, view: &mut View) -> Result<Option<Box<Guarded>>> {
        let refused = |source| {
            let path = region.path().to_path_buf();
            Error::System { path, call: "guarding by protection keys or by faults", source }
        };
        match self.chosen(Key::is_possible()) {
            Guard::Off => return Ok(None),
            Guard::Keys => view.set_key(Key::take().map_err(refused)?)?,
            Guard::Pages | Guard::On => view.set_writable(false)?,
        }
        let (from, name) = (view.address(), format!("the segment {}", region.path().display()));
        let bytes = usize::try_from(region.reserved()).unwrap_or(usize::MAX);
        let watch = Watch::refuse(from..from.saturating_add(bytes), &name).map_err(refused)?;
        Ok(Some(Box::new(Guarded { open: Vec::new(), watch: Some(watch), is_automatic: false, apart: None })))
    }
}

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
        // Only the last few: a range mostly lies in the pages of the range before.
        if bytes == 0 || guarded.open.iter().rev().take(8).any(|open| open.0 <= from && to <= open.1) {
            return Ok(());
        }
        self.view.set_writable_part(from, to, true)?;
        guarded.open.push((from, to));
        Ok(())
    }

    /// Closes the flat part, so that each first store to a page of it faults.
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
        // The caller has an error already.
        let _ = self.refuse_if_apart();
        if self.view.key().is_some() {
            let is_open = self.view.set_writable_part(self.from, self.flat_end(), true);
            is_open.expect("pages of this process's own mapping can be made writable, as they were");
        }
        if let Some(guarded) = &mut self.guarded {
            guarded.is_automatic = false;
        }
    }

    /// Opens the flat part if it was merely left closed.
    pub(crate) fn open_flat(&mut self) -> Result<()> {
        if self.guarded.as_ref().is_some_and(|guarded| guarded.watch.is_none() && !guarded.is_automatic) {
            self.view.set_writable_part(self.from, self.flat_end(), true)?;
            self.guarded = None;
            // Freed blocks must go back at the end, so that end is not quick.
            self.undo.set_quick(self.freed.is_empty());
        }
        Ok(())
    }

    /// Ends a transaction that has freed blocks, or is guarded, or whose stores have to be written back.
    #[inline(never)]
    pub(crate) fn end_slowly(&mut self) -> Result<()> {
        self.check_process()?;
        self.release_all()?;
        self.undo.discard();
        self.close_ranges();
        Ok(())
    }

    /// Closes the ranges of a transaction that is over: no store is allowed, and the next one is quick unless it is
    /// guarded.
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

#[cfg(test)]
mod tests {
    use super::Guard;

    #[test]
    fn keys_are_chosen_where_the_processor_has_them() {
        assert_eq!([true, false].map(|has| Guard::On.chosen(has)), [Guard::Keys, Guard::Pages]);
        for said in [Guard::Off, Guard::Pages, Guard::Keys] {
            assert_eq!([true, false].map(|has| said.chosen(has)), [said, said]);
        }
    }
}
