//! The children's work with values in boxes, by one thread or by several threads. The values are cells whose sum never
//! changes, and two lists of boxes. Each list has its length and the sum of its values.

use vista::{Persist, Ptr, Result, Segment, ThreadTxn, Threads, Txn};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::business::Draw;

const CELLS: usize = 64;
const LISTS: u64 = 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Node {
    next: Ptr<Node>,
    value: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct List {
    ended: u64,
    first: Ptr<Node>,
    length: u64,
    sum: u64,
    /// Padding, so that no two lists share a stripe.
    room: [u64; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    cells: [u64; CELLS],
    lists: [List; 2],
}

/// Pointers to the cells and the lists.
struct Places {
    cells: Vec<Ptr<u64>>,
    lists: [Ptr<List>; 2],
}

impl Places {
    fn of(segment: &Segment) -> Places {
        let root = segment.root::<Root>();
        let cells = (0..CELLS).map(|nth| root.part(|root| &root.cells[nth], segment).unwrap()).collect();
        Places { cells, lists: [0, 1].map(|nth| root.part(|root: &Root| &root.lists[nth], segment).unwrap()) }
    }
}

/// The calls that a transaction of one thread and a transaction of several threads have in common.
trait Boxes {
    fn look<T: Persist + Copy>(&mut self, place: Ptr<T>) -> Result<T>;
    fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T>;
    fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>>;
    fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()>;
}

impl Boxes for Txn<'_> {
    fn look<T: Persist + Copy>(&mut self, place: Ptr<T>) -> Result<T> {
        place.look(self).copied()
    }

    fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T> {
        Txn::write(self, place)
    }

    fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>> {
        Txn::create(self, value)
    }

    fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()> {
        Txn::delete(self, place)
    }
}

impl Boxes for ThreadTxn<'_, '_> {
    fn look<T: Persist + Copy>(&mut self, place: Ptr<T>) -> Result<T> {
        ThreadTxn::look(self, place).copied()
    }

    fn write<T: Persist>(&mut self, place: Ptr<T>) -> Result<&mut T> {
        ThreadTxn::write(self, place)
    }

    fn create<T: Persist>(&mut self, value: T) -> Result<Ptr<T>> {
        ThreadTxn::create(self, value)
    }

    fn delete<T: Persist>(&mut self, place: Ptr<T>) -> Result<()> {
        ThreadTxn::delete(self, place)
    }
}

/// Makes the changes of a transaction, and does not end it.
fn change(txn: &mut impl Boxes, places: &Places, draw: &mut Draw, nth: u64) -> Result<()> {
    let list = places.lists[usize::try_from(nth).unwrap()];
    for _ in 0..=draw.below(4) {
        let mut cell = || places.cells[usize::try_from(draw.below(CELLS as u64)).unwrap()];
        let (from, to) = (cell(), cell());
        let amount = draw.below(1000);
        let value = txn.write(from)?;
        *value = value.wrapping_sub(amount);
        let value = txn.write(to)?;
        *value = value.wrapping_add(amount);
    }
    for _ in 0..draw.below(4) {
        let List { first, .. } = txn.look(list)?;
        if draw.below(2) == 0 || first.is_none() {
            let value = draw.below(1 << 30);
            let made = txn.create(Node { next: first, value })?;
            let list = txn.write(list)?;
            (list.first, list.length, list.sum) = (made, list.length + 1, list.sum + value);
        } else {
            let Node { next, value } = txn.look(first)?;
            txn.delete(first)?;
            let list = txn.write(list)?;
            (list.first, list.length, list.sum) = (next, list.length - 1, list.sum - value);
        }
    }
    txn.write(list)?.ended += 1;
    Ok(())
}

/// Runs transactions of one thread. Calls `report` after each transaction that ended.
pub fn change_alone(segment: &mut Segment, seed: u64, report: &dyn Fn()) {
    let (places, mut draw) = (Places::of(segment), Draw(seed));
    loop {
        let mut txn = segment.begin();
        let nth = draw.below(LISTS);
        change(&mut txn, &places, &mut draw, nth).unwrap();
        if draw.below(8) == 0 {
            txn.abort();
        } else {
            txn.end().unwrap();
            report();
        }
    }
}

/// Runs transactions of two threads. Calls `report` after each transaction that ended.
pub fn change_together(segment: Segment, stripe: u64, seed: u64, report: &(dyn Fn() + Sync)) {
    let places = Places::of(&segment);
    let threads: Threads = segment.share_by(stripe).unwrap();
    std::thread::scope(|scope| {
        for nth in 0..LISTS {
            let (places, threads) = (&places, &threads);
            scope.spawn(move || {
                let (mut worker, mut draw) = (threads.worker().unwrap(), Draw(seed * LISTS + nth));
                loop {
                    worker.run(|txn| change(txn, places, &mut draw, nth)).unwrap();
                    report();
                }
            });
        }
    });
}

/// Returns the number of ended transactions, or a description of the torn part.
pub fn judge(segment: &Segment) -> std::result::Result<u64, String> {
    let text = |error: vista::Error| error.to_string();
    segment.verify().map_err(text)?;
    let root = segment.root::<Root>().look(segment).map_err(text)?;
    let total = root.cells.iter().fold(0_u64, |sum, cell| sum.wrapping_add(*cell));
    if total != 0 {
        return Err(format!("the cells' sum is {total:#x}"));
    }
    for list in &root.lists {
        let (mut place, mut length, mut sum) = (list.first, 0, 0);
        while !place.is_none() && length <= list.length {
            let node = place.look(segment).map_err(text)?;
            (place, length, sum) = (node.next, length + 1, sum + node.value);
        }
        if (length, sum) != (list.length, list.sum) {
            return Err(format!("a list has {length} boxes, sum {sum}; wanted {}, sum {}", list.length, list.sum));
        }
    }
    Ok(root.lists.iter().map(|list| list.ended).sum())
}
