//! The persistent heap: malloc and free, undone by abort, recovered after a crash.
//!
//! Paper: Rio Vista, section 4. Departure: the paper logs the calls. Here the transaction changes the heap's words and
//! saves them in its undo log like any other bytes, so abort and recovery need no code for the heap. A block that a
//! transaction frees returns to the heap when the transaction ends.
//!
//! The file is cut into units of 64 KiB. The table has an entry for each unit, and is far from the program's data. A
//! unit holds blocks of one size, with a bit for each taken block; or it begins a run of units that is one large block
//! or free. Free runs are listed by the logarithm of their length, and are joined with their neighbours. At the end of
//! the file is the *fresh* part, which has never been used.

use rio::{Held, Link, Offset, Region, Slab, SlabHeader, Word};

use crate::change::Change;
use crate::Result;

/// Bytes of a unit.
pub(crate) const UNIT: u64 = 64 << 10;
/// Length of the longest block that shares a unit with other blocks.
pub(crate) const SMALL_MAX: u64 = 32 << 10;
/// An upper bound of the old bytes that one call saves.
pub(crate) const UNDO_OF_A_CALL: usize = 4096;
/// Entries of the table's first part.
const FIRST_ENTRIES: u32 = 128;

/// The kind of a unit: zero if the unit is not the heap's or is inside a run; otherwise one of these numbers, or
/// `SMALL` plus the class.
pub(crate) const FREE: u64 = 1;
pub(crate) const FREE_TAIL: u64 = 2;
pub(crate) const LARGE: u64 = 3;
pub(crate) const SMALL: u64 = 4;

rio::shared! {
    /// The heap's header.
    pub struct HeapHeader {
        /// The table of units.
        pub table: Link<SlabHeader>,
        /// The units that were never used: from, to.
        pub fresh: [Word<u64>; 2],
        /// Free runs, by the logarithm of their length.
        pub runs: [Word<u64>; 24],
        /// Units with room, by class.
        pub partial: [Word<u64>; 40],
        /// The units that were taken from the file last: from, to. The taken units after the fresh units are not in use
        /// yet.
        pub taken: [Word<u64>; 2],
        /// Zero, kept for later.
        pub spare: [Word<u64>; 3],
    } size 576
}

rio::shared! {
    /// The table's entry for a unit.
    pub struct Unit {
        /// The kind of the unit.
        pub kind: Word<u64>,
        /// The number of taken blocks; for a run, the number of its units.
        pub count: Word<u64>,
        /// The next unit in its list.
        pub next: Word<u64>,
        /// The previous unit in its list.
        pub previous: Word<u64>,
        /// A hint where a free block may be: an index into `taken`.
        pub hint: Word<u64>,
        /// Zero, kept for later.
        pub spare: [Word<u64>; 3],
        /// A bit for each block.
        pub taken: [Word<u64>; 64],
    } size 576
}

/// A handle to a segment's heap.
pub(crate) struct Heap {
    pub(crate) header: Held<HeapHeader>,
    pub(crate) table: Slab<Unit>,
}

impl Heap {
    pub(crate) fn create(region: &Region) -> Result<Offset<HeapHeader>> {
        let header = region.allocate::<HeapHeader>(1)?;
        let table = Slab::<Unit>::init(region, FIRST_ENTRIES)?;
        Slab::<Unit>::attach(region, table).grow()?;
        region.at(header).table.init(Some(table));
        Ok(header)
    }

    pub(crate) fn open(region: &Region, header: Offset<HeapHeader>) -> Option<Heap> {
        region.try_at(header)?;
        let header = region.hold(header);
        // The file grows before any word records the new units as the heap's, so each recorded unit is in the file.
        let is_there = |unit: &Word<u64>| unit.get() <= region.used() / UNIT;
        header.fresh.iter().chain(&header.taken).all(is_there).then_some(())?;
        Some(Heap { table: Slab::try_attach(region, header.table.load()?)?, header })
    }

    pub(crate) fn unit(&self, unit: u64) -> Option<&Unit> {
        let number = u32::try_from(unit).ok().filter(|&it| it != 0 && it <= self.table.capacity())?;
        Some(self.table.at(number))
    }

    fn known(&self, unit: u64) -> &Unit {
        self.unit(unit).expect("the heap lists units of its table only")
    }

    fn push(&self, change: &mut Change<'_>, head: &Word<u64>, unit: u64) {
        let (entry, next) = (self.known(unit), head.get());
        change.set(&entry.next, next);
        change.set(&entry.previous, 0);
        if next != 0 {
            change.set(&self.known(next).previous, unit);
        }
        change.set(head, unit);
    }

    fn remove(&self, change: &mut Change<'_>, head: &Word<u64>, unit: u64) {
        let entry = self.known(unit);
        let (next, previous) = (entry.next.get(), entry.previous.get());
        if previous == 0 {
            change.set(head, next);
        } else {
            change.set(&self.known(previous).next, next);
        }
        if next != 0 {
            change.set(&self.known(next).previous, previous);
        }
    }

    /// Takes `units` adjacent units of a free run, or returns `None` if no run is long enough.
    pub(crate) fn find_run(&self, change: &mut Change<'_>, units: u64) -> Option<u64> {
        for list in &self.header.runs[log2(units)..] {
            let mut run = list.get();
            while run != 0 {
                let (found, next) = (self.known(run).count.get(), self.known(run).next.get());
                if found >= units {
                    self.unlist_run(change, run, found);
                    if found > units {
                        self.mark_free(change, run + units, found - units);
                    }
                    return Some(run);
                }
                run = next;
            }
        }
        None
    }

    /// Makes a run of units one large block, or makes one unit a unit of small blocks.
    pub(crate) fn begin_run(&self, change: &mut Change<'_>, run: u64, units: u64, kind: u64) {
        let entry = self.known(run);
        change.set(&entry.kind, kind);
        change.set(&entry.count, if kind == LARGE { units } else { 0 });
        if kind >= SMALL {
            self.push(change, &self.header.partial[usize::try_from(kind - SMALL).expect("a class")], run);
        }
    }

    /// Frees a run. Joins the run with the free runs directly before and after it.
    pub(crate) fn free_run(&self, change: &mut Change<'_>, mut run: u64, mut units: u64) {
        // From now on the unit may be inside a run.
        change.set(&self.known(run).kind, 0);
        let before = self.unit(run - 1).map_or(0, |tail| match tail.kind.get() {
            FREE_TAIL | FREE => tail.count.get(),
            _ => 0,
        });
        if before != 0 {
            run -= before;
            units += before;
            self.unlist_run(change, run, before);
        }
        let after = self.unit(run + units).filter(|next| next.kind.get() == FREE).map_or(0, |next| next.count.get());
        if after != 0 {
            self.unlist_run(change, run + units, after);
            units += after;
        }
        self.mark_free(change, run, units);
    }

    /// Takes a free run off its list. The entries of its first and last unit no longer mark a free run.
    fn unlist_run(&self, change: &mut Change<'_>, run: u64, units: u64) {
        self.remove(change, &self.header.runs[log2(units)], run);
        for unit in [run, run + units - 1] {
            change.set(&self.known(unit).kind, 0);
        }
    }

    fn mark_free(&self, change: &mut Change<'_>, run: u64, units: u64) {
        for (unit, kind) in [(run + units - 1, FREE_TAIL), (run, FREE)] {
            change.set(&self.known(unit).kind, kind);
            change.set(&self.known(unit).count, units);
        }
        self.push(change, &self.header.runs[log2(units)], run);
    }

    pub(crate) fn take_block(&self, change: &mut Change<'_>, unit: u64, class: usize) -> u64 {
        let entry = self.known(unit);
        let blocks = UNIT / bytes_of(class);
        let words = blocks.div_ceil(64);
        let first = entry.hint.get() % words;
        let word = (first..words).chain(0..first).find(|&word| free_bit(entry, word, blocks).is_some());
        let word = word.expect("a unit on its class's list has room");
        let bit = free_bit(entry, word, blocks).expect("just seen");
        let taken = &entry.taken[usize::try_from(word).expect("one of 64")];
        change.set(taken, taken.get() | 1 << bit);
        entry.hint.init(word);
        change.set(&entry.count, entry.count.get() + 1);
        if entry.count.get() == blocks {
            self.remove(change, &self.header.partial[class], unit);
        }
        unit * UNIT + (word * 64 + bit) * bytes_of(class)
    }

    pub(crate) fn free_block(&self, change: &mut Change<'_>, unit: u64, class: usize, block: u64) {
        let (entry, list) = (self.known(unit), &self.header.partial[class]);
        let taken = &entry.taken[usize::try_from(block / 64).expect("one of 64")];
        change.set(taken, taken.get() & !(1 << (block % 64)));
        let count = entry.count.get();
        change.set(&entry.count, count - 1);
        if count == UNIT / bytes_of(class) {
            self.push(change, list, unit);
        }
        // The last unit of a class stays in the class, because the next block of the class is probably wanted soon.
        if count == 1 && (entry.next.get() != 0 || entry.previous.get() != 0) {
            self.remove(change, list, unit);
            self.free_run(change, unit, 1);
        }
    }

    /// Returns the place after the last unit that was ever used.
    pub(crate) fn end(&self) -> u64 {
        self.header.fresh[0].get() * UNIT
    }

    /// Returns the block that begins at `place`: its class and number (`None` for a large block), and its bytes.
    pub(crate) fn block_at(&self, place: u64) -> Option<(Option<(usize, u64)>, u64)> {
        let entry = self.unit(place / UNIT)?;
        let within = place % UNIT;
        match entry.kind.get() {
            LARGE if within == 0 => Some((None, entry.count.get() * UNIT)),
            kind if kind >= SMALL => {
                let class = usize::try_from(kind - SMALL).ok()?;
                let (block, bytes) = (within / bytes_of(class), bytes_of(class));
                let word = entry.taken.get(usize::try_from(block / 64).ok()?)?.get();
                (within % bytes == 0 && word >> (block % 64) & 1 == 1).then_some((Some((class, block)), bytes))
            }
            _ => None,
        }
    }
}

/// Lets `take` allocate from the region. The allocated memory shares no unit with other memory.
pub(crate) fn own_units<T>(region: &Region, take: impl FnOnce() -> Result<T>) -> Result<T> {
    region.allocate_bytes(0, UNIT)?;
    let taken = take()?;
    region.allocate_bytes(0, UNIT)?;
    Ok(taken)
}

fn free_bit(entry: &Unit, word: u64, blocks: u64) -> Option<u64> {
    let taken = entry.taken[usize::try_from(word).ok()?].get();
    let bit = u64::from(taken.trailing_ones());
    (bit < 64 && word * 64 + bit < blocks).then_some(bit)
}

/// Returns the class of a length. Classes are sixteen bytes apart up to 128; above that, each doubling of the length
/// has four classes.
pub(crate) fn class_of(bytes: u64) -> usize {
    let bytes = bytes.max(1).next_multiple_of(16);
    if bytes <= 128 {
        return usize::try_from(bytes / 16 - 1).expect("below eight");
    }
    let shift = (bytes - 1).ilog2();
    let quarter = (bytes - 1 - (1 << shift)) >> (shift - 2);
    usize::try_from(8 + u64::from(shift - 7) * 4 + quarter).expect("below forty")
}

pub(crate) fn bytes_of(class: usize) -> u64 {
    let class = class as u64;
    if class < 8 {
        return (class + 1) * 16;
    }
    let shift = 7 + (class - 8) / 4;
    (1 << shift) + (((class - 8) % 4 + 1) << (shift - 2))
}

pub(crate) fn log2(units: u64) -> usize {
    (units.ilog2() as usize).min(23)
}
