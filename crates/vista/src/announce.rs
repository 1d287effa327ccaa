//! Ranges that a transaction announces before it declares them.
//!
//! Beyond the paper, whose memory survived together with the processor's cache. Where the cache does not survive, a
//! transaction may store to a range only after the range's old bytes are in memory. One wait for the old bytes of all
//! ranges takes as long as a wait for one range.

use crate::{Result, Segment, Txn};

impl Txn<'_> {
    /// Announces the ranges (positions and lengths) that the transaction will declare, in this order. Each range must
    /// still be declared ([`Txn::set_range`]) before it is stored to. Where stores are written back from the
    /// processor's cache, this call writes the old bytes of all ranges back together, in the time that one range takes.
    /// Elsewhere this call does nothing.
    ///
    /// # Errors
    /// As [`Txn::set_range`]; nothing was announced.
    #[inline]
    pub fn announce(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        if !self.segment.is_written_back() {
            return Ok(());
        }
        self.segment.undo.set_top(self.top);
        let announced = self.segment.with(|segment| segment.announce(ranges));
        // The log's end is not read from the log: the cache line there is being written back, and a load of that line
        // has to wait.
        self.top = self.segment.undo.top();
        announced
    }
}

impl Segment {
    /// Returns whether stores are written back from the processor's cache, so that it is worth announcing ranges.
    pub fn is_written_back(&self) -> bool {
        self.undo.is_written_back()
    }

    #[inline(never)]
    fn announce(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        // Each range also takes a header, a checksum and a partly filled word.
        let bytes = ranges.iter().map(|(_, bytes)| bytes.saturating_add(24)).fold(0, usize::saturating_add);
        for &(at, bytes) in ranges {
            let shown = self.view.look(at, bytes);
            // All ranges are prefetched before the first range is used.
            shown.ok_or_else(|| self.out_of_range(at, bytes))?.prefetch();
        }
        self.reserve_undo(bytes)?;
        for &(at, bytes) in ranges {
            self.open_range(at, bytes)?;
        }
        let (view, undo, owner) = (&self.view, &self.undo, &mut self.owner);
        undo.announce(|| {
            for &(at, bytes) in ranges {
                if let Some(shown) = view.look(at, bytes) {
                    undo.set_top(shown.range(owner, undo, undo.top()).1);
                }
            }
        });
        Ok(())
    }
}
