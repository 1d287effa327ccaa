//! Fresh units for the heap. They come from the file, which grows on demand.
//!
//! Paper: a departure; the paper's segments have a fixed size. Units are recorded as taken before they are used, and
//! outside of any transaction. So the next transaction uses the units that an aborted or dead transaction took. A heap
//! that has no room on the disk loses no units.
//!
//! If we die here: the file is larger, and the next transaction uses the taken units first. If the death comes between
//! the growth of the file and the record, the new units are never used.

use std::ops::Range;

use crate::change::Change;
use crate::heap::{own_units, UNIT};
use crate::{Error, Result, Segment};

impl Segment {
    /// Makes sure that there are `units` fresh units.
    pub(crate) fn add_fresh(&mut self, units: u64) -> Result<()> {
        let [from, to] = &self.heap.header.fresh;
        let (from, to) = (from.get(), to.get());
        let Some(have) = to.checked_sub(from) else {
            let what = format!("the unused part of its heap begins at {from}, and ends before that, at {to}");
            return Err(Error::Damaged { path: self.path().to_path_buf(), what });
        };
        if have >= units {
            return Ok(());
        }
        let new = self.take_units(to, units - have, units)?;
        // The words stored here belong to no transaction, but the last transaction may have stored to them.
        self.undo.confirm();
        if new.start == to {
            // The units stay fresh if the transaction aborts.
            self.heap.header.fresh[1].publish(new.end);
        } else {
            // Data of vista are between the old fresh units and the new units. So the old units become a free run, and
            // only the new units count as fresh.
            let mut change = Change::of(&self.undo);
            if have != 0 {
                self.heap.free_run(&mut change, from, have);
            }
            let [from, to] = &self.heap.header.fresh;
            change.set(from, new.start);
            change.set(to, new.end);
            change.join_outer();
        }
        self.region().write_back_front(self.from);
        Ok(())
    }

    /// Takes units that were never used. Takes `more` units if they can begin at `end`, where the fresh units end;
    /// otherwise takes `all` units at a later place. Makes the table long enough for the units.
    fn take_units(&mut self, end: u64, more: u64, all: u64) -> Result<Range<u64>> {
        let region = self.region().clone();
        region.check_room(all.saturating_mul(UNIT))?;
        let taken = &self.heap.header.taken;
        let missing = |from: u64| if from == end { more } else { all };
        let mut left = taken[0].get().max(end)..taken[1].get();
        if left.start.saturating_add(missing(left.start)) > left.end {
            let next = region.used().div_ceil(UNIT);
            // The units left over from a transaction that did not end are lost if they are too few and cannot be
            // extended. At most the units of one transaction are lost each time that the table or the undo log has
            // grown.
            if left.is_empty() || left.end != next {
                left = next..next;
            }
            let count = missing(left.start) - (left.end - left.start);
            region.allocate_bytes(count * UNIT, UNIT)?;
            left.end += count;
            if taken[1].get() != next {
                // The old end is cleared first, so that no mixture of the old range and the new range is ever valid.
                taken[1].publish(0);
                taken[0].publish(left.start);
            }
            taken[1].publish(left.end);
            region.write_back_and_fence((region.offset_of(&taken[0]).raw(), 16));
        }
        while u64::from(self.heap.table.capacity()) < region.used() / UNIT + 2 {
            own_units(&region, || Ok(self.heap.table.grow()?))?;
        }
        // This call also hides metadata that could not be hidden when the table grew. Units for which the table has
        // entries are used only after that.
        self.hide_metadata()?;
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::Place;
    use crate::{Changes, Redo};

    /// The contents of RVM's log, by words.
    #[derive(Default)]
    struct Log {
        growth: [u64; 5],
        words: BTreeMap<u64, u64>,
    }

    impl Redo for Log {
        type Error = Error;

        fn commit(&mut self, changes: &Changes<'_>) -> Result<()> {
            let mut put = |place: u64, image: &[u8]| {
                for (word, at) in image.chunks_exact(8).zip((place..).step_by(8)) {
                    self.words.insert(at, u64::from_ne_bytes(*word.first_chunk().unwrap()));
                }
            };
            changes.for_each(&mut put);
            if changes.growth() != self.growth {
                changes.for_each_header(&mut put);
            }
            self.growth = changes.growth();
            Ok(())
        }
    }

    #[test]
    fn the_redo_log_gets_the_places_of_fresh_units_that_an_earlier_transaction_took() {
        let place = Place::new("fresh");
        let mut segment = place.open(4096);
        let mut log = Log::default();
        let mut transact = |segment: &mut Segment, bytes: u64| {
            let mut txn = segment.begin();
            let _ = txn.malloc(bytes).unwrap();
            txn.end_with(&mut log).unwrap();
            let [from, to] = segment.heap.header.fresh.each_ref();
            for word in [from, to] {
                let place = segment.region().offset_of(word).raw();
                assert_eq!(log.words.get(&place), Some(&word.get()), "after {bytes} bytes");
            }
        };
        transact(&mut segment, 100);
        // The test acts as if the system had refused to hide the heap's table: units are recorded as taken, and not yet
        // as fresh.
        let fresh = segment.heap.header.fresh[1].get();
        let taken = segment.take_units(fresh, 4, 4).unwrap();
        assert_eq!(taken.start, fresh, "the taken units begin where the fresh units end");
        // This transaction needs no unit, but it gets the range of taken units into the log.
        transact(&mut segment, 100);
        let used = segment.file_used();
        transact(&mut segment, 3 * UNIT);
        assert_eq!(segment.file_used(), used, "the file has not grown");
    }
}
