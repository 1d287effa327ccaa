//! Ranges that a transaction announces before it declares them.
//!
//! Beyond the paper, whose memory survived together with the processor's cache. Where it does not, a range may be stored to
//! when its old bytes are in memory, and to wait for that once for all ranges takes as long as to wait for one.

use crate::{Result, Segment, Txn};

impl Txn<'_> {
    /// Says which ranges the transaction will declare, in this order: positions and bytes. Each of them is still to be declared
    /// ([`Txn::set_range`]) before it is stored to. Where stores are written back from the processor's cache the old bytes
    /// of all are written back together, which takes as long as for one; elsewhere nothing is done.
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
        // Not looked for in the log: the line where that ends is on its way, and to load it has to wait.
        self.top = self.segment.undo.top();
        announced
    }
}

impl Segment {
    /// Whether stores are written back from the processor's cache, so that it is worth announcing ranges.
    pub fn is_written_back(&self) -> bool {
        self.undo.is_written_back()
    }

    #[inline(never)]
    fn announce(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        // A header, a checksum and a word that is not full for each.
        let bytes = ranges.iter().map(|(_, bytes)| bytes.saturating_add(24)).fold(0, usize::saturating_add);
        for &(at, bytes) in ranges {
            let shown = self.view.look(at, bytes);
            // All are on their way before the first is waited for.
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
