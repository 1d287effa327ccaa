//! Checks a segment's own structures: its heap's table, read from one end to the other.
//!
//! Each unit begins a run, holds blocks, or is inside a run. Each list must have exactly the units that belong to it
//! according to the table. The program's data are not checked, because the library does not know their meaning.

use std::collections::BTreeSet;

use crate::heap::{bytes_of, log2, Heap, Unit, FREE, FREE_TAIL, LARGE, SMALL, UNIT};
use crate::{Error, Result, Segment};

/// The usage of a segment's heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Blocks that are taken.
    pub blocks: u64,
    /// The bytes of these blocks, each block with its full length.
    pub bytes: u64,
    /// Bytes of the file that the heap can still allocate.
    pub free_bytes: u64,
}

type Found<T> = std::result::Result<T, String>;

impl Segment {
    /// Reads all of the heap's structures as they are now, an open transaction's changes included.
    ///
    /// # Errors
    /// `Damaged`, with the first defect found.
    pub fn verify(&self) -> Result<Usage> {
        let checked = Checked::of(&self.heap, self.region().used() / UNIT).and_then(|checked| {
            checked.lists(&self.heap)?;
            Ok(checked.usage)
        });
        checked.map_err(|what| Error::Damaged { path: self.path().to_path_buf(), what })
    }

    /// As [`Segment::verify`], for a segment that was not closed in good order. Its structures have no seal, and
    /// without this check damage would show only in the middle of a later call. Segments of an environment are left
    /// out: the environment rolls them back later.
    pub(crate) fn verify_unsealed(&self) -> Result<()> {
        // A heap that was never used is not read: the read would load empty pages of a new file.
        if !self.kept.was_sealed() && self.own_undo().is_some() && self.heap.end() != 0 {
            self.verify().inspect_err(|_| self.kept.leave_unsealed())?;
        }
        Ok(())
    }
}

/// The usage and the units that the lists must hold, both according to the table.
#[derive(Default)]
struct Checked {
    usage: Usage,
    runs: BTreeSet<(usize, u64)>,
    partial: BTreeSet<(usize, u64)>,
}

impl Checked {
    fn of(heap: &Heap, units: u64) -> Found<Checked> {
        let mut checked = Checked::default();
        let [from, to] = heap.header.fresh.each_ref().map(|word| word.get());
        if from > to || to > units {
            return Err(format!("the units that were never used are {from} to {to} of {units}"));
        }
        checked.usage.free_bytes = (to - from) * UNIT;
        let mut at = 1;
        while let Some(unit) = heap.unit(at).filter(|_| at < units) {
            let length = checked.count(heap, at, unit)?;
            let end = at.checked_add(length).filter(|end| *end <= units);
            let end = end.ok_or_else(|| format!("the run of {length} units at {at} ends beyond the heap"))?;
            let inside = (at + 1)..end;
            let is_inside = |nth: u64| heap.unit(nth).is_some_and(|unit| nth == end - 1 || unit.kind.get() == 0);
            if let Some(wrong) = inside.clone().find(|nth| !is_inside(*nth)) {
                return Err(format!(
                    "unit {wrong} is marked as the beginning of a block, inside the block that begins at {at}"
                ));
            }
            let last = heap.unit(end - 1).map_or(0, |unit| unit.kind.get());
            let is_free = unit.kind.get() == FREE;
            if length > 1 && last != if is_free { FREE_TAIL } else { 0 } {
                return Err(format!("the last unit of the run at {at} is not marked as its end"));
            }
            if is_free && heap.unit(end - 1).is_none_or(|tail| tail.count.get() != length) {
                return Err(format!("the last unit of the free run at {at} has another length"));
            }
            at = end;
        }
        // The bits of a unit without blocks must be clear: they would count once the unit has blocks.
        let has_blocks = |unit: &Unit| unit.kind.get() < SMALL && unit.taken.iter().any(|word| word.get() != 0);
        let wrong = (1..).map_while(|nth| Some((nth, heap.unit(nth)?))).find(|(_, unit)| has_blocks(unit));
        wrong.map_or(Ok(checked), |(nth, _)| Err(format!("unit {nth} has no blocks, but marks of taken blocks")))
    }

    /// Counts the run or the blocks that begin at a unit. Returns their length in units.
    fn count(&mut self, heap: &Heap, at: u64, unit: &Unit) -> Found<u64> {
        let (kind, count) = (unit.kind.get(), unit.count.get());
        match kind {
            0 => Ok(1),
            FREE | LARGE if count == 0 => Err(format!("the run at unit {at} has no units")),
            FREE => {
                self.runs.insert((log2(count), at));
                self.usage.free_bytes = count.saturating_mul(UNIT).saturating_add(self.usage.free_bytes);
                Ok(count)
            }
            LARGE => {
                self.usage.blocks += 1;
                self.usage.bytes = count.saturating_mul(UNIT).saturating_add(self.usage.bytes);
                Ok(count)
            }
            FREE_TAIL => Err(format!("unit {at} ends a free run that nothing begins")),
            kind => {
                let class = usize::try_from(kind - SMALL).unwrap_or(usize::MAX);
                if class >= heap.header.partial.len() {
                    return Err(format!("unit {at} is of the unknown kind {kind}"));
                }
                let blocks = UNIT / bytes_of(class);
                let taken: u64 = unit.taken.iter().map(|word| u64::from(word.get().count_ones())).sum();
                let beyond = unit.taken.iter().zip(0_u64..).any(|(word, nth)| {
                    let left = blocks.saturating_sub(nth * 64);
                    left < 64 && word.get() >> left != 0
                });
                if taken != count || beyond {
                    return Err(format!("unit {at} marks {taken} of {blocks} blocks as taken, and counts {count}"));
                }
                if count < blocks {
                    self.partial.insert((class, at));
                }
                self.usage.blocks += count;
                self.usage.bytes += count * bytes_of(class);
                self.usage.free_bytes += (blocks - count) * bytes_of(class);
                Ok(1)
            }
        }
    }

    /// Checks that each list holds exactly the units that belong to it according to the table, and that each unit is
    /// linked in both directions.
    fn lists(&self, heap: &Heap) -> Found<()> {
        let lists =
            [("free runs", &heap.header.runs[..], &self.runs), ("units", &heap.header.partial[..], &self.partial)];
        for (what, heads, expected) in lists {
            let mut found = BTreeSet::new();
            for (nth, head) in heads.iter().enumerate() {
                let (mut before, mut at) = (0, head.get());
                while at != 0 {
                    let unit =
                        heap.unit(at).ok_or_else(|| format!("list {nth} of {what} links to the unknown unit {at}"))?;
                    if unit.previous.get() != before || !found.insert((nth, at)) {
                        return Err(format!("list {nth} of {what} is not linked back at unit {at}"));
                    }
                    (before, at) = (at, unit.next.get());
                }
            }
            if let Some((nth, unit)) = found.symmetric_difference(expected).next() {
                return Err(format!("list {nth} of {what} and the table do not agree about unit {unit}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Place;
    use crate::Options;

    #[test]
    fn a_heap_in_use_is_whole_and_any_changed_word_of_it_is_noticed() {
        let place = Place::new("verify");
        let mut segment = place.open(100);
        assert_eq!(
            segment.verify().unwrap(),
            Usage { free_bytes: segment.verify().unwrap().free_bytes, ..Usage::default() }
        );
        let mut txn = segment.begin();
        let all: Vec<u64> = (1..60).map(|nth| txn.malloc(nth * nth * 100).unwrap()).collect();
        txn.end().unwrap();
        let full = segment.verify().unwrap();
        assert_eq!(full.blocks, 59);
        let mut txn = segment.begin();
        for at in all.iter().skip(1).step_by(3).chain(all.iter().skip(2).step_by(6)) {
            txn.free(*at).unwrap();
        }
        txn.end().unwrap();
        let usage = segment.verify().unwrap();
        assert!(usage.blocks < full.blocks && usage.free_bytes > full.free_bytes, "{usage:?}");
        let twice = segment.begin().free(all[58 - 58 % 3 - 2]);
        assert!(
            matches!(twice, Err(Error::NotAllocated { .. })),
            "the block was freed already, and is inside a free run now"
        );

        let (mut changed, heap) = (0, &segment.heap);
        let fields = |unit: u64| {
            let unit = heap.unit(unit).unwrap();
            let mut words = vec![&unit.kind];
            // A large block whose entry states a greater length may end in units that belong to nothing.
            if unit.kind.get() != 0 && unit.kind.get() != LARGE {
                words.push(&unit.count);
            }
            if unit.kind.get() == FREE {
                words.extend([&unit.next, &unit.previous]);
            }
            words.push(&unit.taken[0]);
            words
        };
        for unit in 1..heap.end() / UNIT {
            for word in fields(unit) {
                let was = word.get();
                for wrong in [was ^ 1, was ^ 1 << 40] {
                    word.init(wrong);
                    let found = segment.verify();
                    assert!(found.is_err(), "unit {unit}: {was} became {wrong}: {found:?}");
                    changed += 1;
                }
                word.init(was);
            }
        }
        assert!(changed > 100, "{changed}");
        assert_eq!(segment.verify().unwrap(), usage);
    }

    #[test]
    fn a_change_of_a_closed_segment_is_noticed_at_open() {
        let place = Place::new("seal");
        let file = &place.0;
        let mut segment = place.open(100);
        let mut txn = segment.begin();
        // By growing, the table and the undo log get parts in several places.
        let all: Vec<u64> = (0..40).map(|_| txn.malloc(1 << 20).unwrap()).collect();
        all.iter().for_each(|at| txn.set_range(*at, 1 << 20).unwrap().fill(7));
        txn.end().unwrap();
        segment.close().unwrap();
        let segment = Segment::open(file, 100).unwrap();
        let (table, undo) = (segment.heap.table.parts().collect::<Vec<_>>(), segment.undo.area_range());
        assert!(segment.metadata().len() >= 3 && undo.0 > segment.from);
        segment.close().unwrap();
        let places = table.iter().flat_map(|(at, bytes)| [*at, at + bytes - 8]).chain([undo.0 + 16, 4096]);
        for place in places {
            use std::os::unix::fs::FileExt;
            let on_disk = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
            let mut byte = [0];
            on_disk.read_exact_at(&mut byte, place).unwrap();
            on_disk.write_all_at(&[byte[0] ^ 4], place).unwrap();
            for time in ["once", "twice"] {
                let refused = Segment::open(file, 100).unwrap_err().to_string();
                // A wrong word of the front may be noticed before the seal is checked.
                let is_named = refused.contains("were changed after it was closed")
                    || (place == 4096 && refused.contains("segment"));
                assert!(is_named, "a byte at {place} has changed, opened {time}: {refused}");
            }
            on_disk.write_all_at(&byte, place).unwrap();
        }
        drop(Segment::open(file, 100).unwrap());
    }

    #[test]
    fn damage_in_the_heap_of_a_segment_that_was_not_closed_is_noticed_at_open() {
        let (place, copy) = (Place::new("unsealed"), Place::new("unsealed-copy"));
        let (file, copy) = (&place.0, &copy.0);
        let mut segment = place.open(100);
        let mut txn = segment.begin();
        let all: Vec<u64> = (1..60).map(|nth| txn.malloc(nth * nth * 100).unwrap()).collect();
        txn.end().unwrap();
        let mut txn = segment.begin();
        all.iter().step_by(2).for_each(|at| txn.free(*at).unwrap());
        txn.end().unwrap();
        // In the middle of a transaction the heap's changes are unfinished: they are rolled back before the heap is
        // checked.
        let mut txn = segment.begin();
        let _ = txn.malloc(5000).unwrap();
        txn.free(all[1]).unwrap();
        txn.suspend();
        let table = segment.heap.table.parts().next().unwrap().0;
        std::fs::copy(file, copy).unwrap();
        let _ = Options::new(100).anywhere().open(copy).unwrap();
        let mut refused = 0;
        for unit in (1..segment.heap.end() / UNIT).step_by(3) {
            // The unit's kind, and its count.
            for word in [0, 8] {
                use std::os::unix::fs::FileExt;
                std::fs::copy(file, copy).unwrap();
                let at = table + (unit - 1) * 576 + word;
                let changed = std::fs::OpenOptions::new().write(true).read(true).open(copy).unwrap();
                changed.write_all_at(&[0x77; 8], at).unwrap();
                for time in ["once", "twice"] {
                    match Options::new(100).anywhere().open(copy) {
                        Err(Error::Damaged { .. }) => refused += 1,
                        // The count of a unit that begins neither a run nor blocks has no meaning.
                        Ok(mut opened) => {
                            let mut txn = opened.begin();
                            (1..40).for_each(|nth| drop(txn.malloc(nth * 997)));
                            all.iter().for_each(|at| drop(txn.free(*at)));
                            txn.abort();
                        }
                        Err(other) => panic!("unit {unit}, {time}: {other}"),
                    }
                }
            }
        }
        assert!(refused > 30, "{refused}");
    }

    #[test]
    fn a_wrong_word_in_the_front_is_an_error_and_does_not_end_the_process() {
        use std::os::unix::fs::FileExt;
        let place = Place::new("front");
        let file = &place.0;
        let mut segment = place.open(100);
        let mut txn = segment.begin();
        let _ = txn.malloc(100).unwrap();
        txn.end().unwrap();
        let (undo, table) = (segment.undo.header_place().0, segment.heap.table.parts().next().unwrap().0);
        let whole = segment.path().to_path_buf();
        segment.close().unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        // The headers of the segment, of the undo log, of the heap, and of the heap's table. The table's header is
        // before the table's first entry.
        let heads = (4096..4096 + 128).chain(undo..undo + 64).chain(table - 512..table + 64).step_by(8);
        for place in heads {
            for wrong in [u64::MAX, 8, 1 << 36] {
                std::fs::write(file, &bytes).unwrap();
                let changed = std::fs::OpenOptions::new().write(true).open(file).unwrap();
                changed.write_all_at(&wrong.to_ne_bytes(), place).unwrap();
                for time in ["once", "twice"] {
                    let refused = Segment::open(file, 100).unwrap_err().to_string();
                    assert!(refused.contains("segment") || refused.contains("memory file"), "{time}: {refused}");
                }
            }
        }
    }
}
