//! The work of several threads with a segment, and its check. The segment has cells whose sum never changes. Each
//! thread has a list of blocks from the heap, with its length and the sum of its values.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use vista::{Error, Segment, ThreadTxn, Threads, Worker};

use crate::business::{judge_cells, word, Draw};

/// Threads that change the segment.
pub const WORKERS: u64 = 2;
/// Bytes of a stripe: few, so that the threads contend for locks.
pub const STRIPE: u64 = 64;
const CELLS: u64 = 256;

/// Returns the address of a thread's words: the number of ended transactions, the list's first block, its length, the
/// sum of its values.
fn own(worker: u64) -> u64 {
    (CELLS + worker * 32) * 8
}

type Done<T> = Result<T, Error>;

fn get(txn: &mut ThreadTxn<'_, '_>, at: u64) -> Done<u64> {
    txn.get(at, 8).map(word)
}

fn set(txn: &mut ThreadTxn<'_, '_>, at: u64, value: u64) -> Done<()> {
    txn.set_range(at, 8)?.copy_from_slice(&value.to_ne_bytes());
    Ok(())
}

fn transfer(txn: &mut ThreadTxn<'_, '_>, draw: &mut Draw, cells: &Range<u64>) -> Done<()> {
    let cell = |draw: &mut Draw| (cells.start + draw.below(cells.end - cells.start)) * 8;
    for _ in 0..=draw.below(4) {
        let (from, to, amount) = (cell(draw), cell(draw), draw.below(1000));
        let value = get(txn, from)?.wrapping_sub(amount);
        set(txn, from, value)?;
        let value = get(txn, to)?.wrapping_add(amount);
        set(txn, to, value)?;
    }
    Ok(())
}

fn push_or_pop(txn: &mut ThreadTxn<'_, '_>, draw: &mut Draw, worker: u64, longest: u64) -> Done<()> {
    let own = own(worker);
    let [first, length, sum] = [get(txn, own + 8)?, get(txn, own + 16)?, get(txn, own + 24)?];
    let (first, length, sum) = if draw.below(2) == 0 || first == 0 {
        let bytes = 32 + draw.below(longest);
        let block = txn.malloc(bytes)?;
        set(txn, block, first)?;
        set(txn, block + 8, bytes)?;
        txn.set_range(block + 16, usize::try_from(bytes - 16).unwrap())?.fill(5);
        (block, length + 1, sum + bytes)
    } else {
        let (next, bytes) = (get(txn, first)?, get(txn, first + 8)?);
        txn.free(first)?;
        (next, length - 1, sum - bytes)
    };
    for (at, value) in [(own + 8, first), (own + 16, length), (own + 24, sum)] {
        set(txn, at, value)?;
    }
    Ok(())
}

fn count(txn: &mut ThreadTxn<'_, '_>, worker: u64) -> Done<()> {
    let ended = get(txn, own(worker))?;
    set(txn, own(worker), ended + 1)
}

/// Runs one transaction of one thread, concurrently with other threads. Returns whether the transaction ended.
fn transact(worker: &mut Worker<'_>, nth: u64, draw: &mut Draw, longest: u64) -> bool {
    loop {
        let mut txn = worker.begin();
        let done = transfer(&mut txn, draw, &(0..CELLS))
            .and_then(|()| if draw.below(3) == 0 { push_or_pop(&mut txn, draw, nth, longest) } else { Ok(()) })
            .and_then(|()| count(&mut txn, nth));
        match done {
            Ok(()) if draw.below(8) == 0 => {
                txn.abort();
                return false;
            }
            Ok(()) => {
                txn.end().unwrap();
                return true;
            }
            Err(Error::Contended { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Runs threads that change the segment, `times` times each. After each ended transaction, calls `report` with the
/// number of ended transactions.
pub fn change(threads: &Threads, seed: u64, times: u64, longest: u64, report: &(dyn Fn(u64) + Sync)) {
    let ended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for nth in 0..WORKERS {
            let ended = &ended;
            scope.spawn(move || {
                let (mut worker, mut draw) = (threads.worker().unwrap(), Draw(seed * WORKERS + nth));
                for _ in 0..times {
                    if transact(&mut worker, nth, &mut draw, longest) {
                        report(ended.fetch_add(1, Ordering::SeqCst) + 1);
                    }
                }
            });
        }
    });
}

/// Runs a transaction of one worker during a transaction of another worker. Both run on one thread, so that the steps
/// are deterministic.
pub fn interleaved(workers: &mut [Worker<'_>; 2], draw: &mut Draw, longest: u64) {
    let outer_nth = usize::try_from(draw.below(2)).unwrap();
    let [first, second] = workers;
    let (outer, inner) = if outer_nth == 0 { (first, second) } else { (second, first) };
    let cells = |nth: u64| nth * CELLS / 2..(nth + 1) * CELLS / 2;
    let (outer_nth, inner_nth) = (outer_nth as u64, 1 - outer_nth as u64);
    let mut around = outer.begin();
    transfer(&mut around, draw, &cells(outer_nth)).unwrap();
    let mut within = inner.begin();
    transfer(&mut within, draw, &cells(inner_nth)).unwrap();
    if draw.below(2) == 0 {
        push_or_pop(&mut within, draw, inner_nth, longest).unwrap();
    }
    count(&mut within, inner_nth).unwrap();
    if draw.below(6) != 0 {
        within.end().unwrap();
    } else {
        within.abort();
    }
    transfer(&mut around, draw, &cells(outer_nth)).unwrap();
    if draw.below(2) == 0 {
        push_or_pop(&mut around, draw, outer_nth, longest).unwrap();
    }
    count(&mut around, outer_nth).unwrap();
    if draw.below(6) != 0 {
        around.end().unwrap();
    }
}

/// Begins two transactions that do not end, and calls `look` while both are open.
pub fn while_under_way(workers: &mut [Worker<'_>; 2], draw: &mut Draw, longest: u64, look: impl FnOnce()) {
    let [first, second] = workers;
    let (mut one, mut other) = (first.begin(), second.begin());
    // The first transaction has locked the heap.
    push_or_pop(&mut one, draw, 0, longest).unwrap();
    for (nth, txn) in (0..).zip([&mut one, &mut other]) {
        (0..4).for_each(|_| transfer(txn, draw, &(nth * CELLS / 2..(nth + 1) * CELLS / 2)).unwrap());
        count(txn, nth).unwrap();
    }
    look();
}

/// Returns the number of ended transactions, or a description of the torn part.
pub fn judge(segment: &Segment) -> Result<u64, String> {
    let at = judge_cells(segment, CELLS)?;
    let mut ended = 0;
    for worker in 0..WORKERS {
        let own = own(worker);
        let (mut block, mut length, mut sum) = (at(own + 8)?, 0, 0);
        while block != 0 {
            let bytes = at(block + 8)?;
            let body = usize::try_from(bytes.wrapping_sub(16)).unwrap_or(usize::MAX);
            let body = segment.get(block + 16, body).map_err(|error| error.to_string())?;
            if body.iter().any(|&byte| byte != 5) {
                return Err(format!("the block at {block} differs from the stored value"));
            }
            (length, sum) = (length + 1, sum + bytes);
            if length > at(own + 16)? {
                return Err(format!("the list of {worker} has no end"));
            }
            block = at(block)?;
        }
        if (length, sum) != (at(own + 16)?, at(own + 24)?) {
            return Err(format!("the list of {worker} has {length} blocks of {sum} bytes"));
        }
        ended += at(own)?;
    }
    Ok(ended)
}

#[test]
fn threads_that_contend_for_locks_keep_every_sum() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = directory.path().join("segment");
    let threads = Segment::open(&file, 64 << 10).unwrap().share_by(STRIPE).unwrap();
    change(&threads, 1, 20_000, 3000, &|_| {});
    let ended = judge(&threads.into_segment()).unwrap();
    println!("figures: {WORKERS} threads ended {ended} transactions that contended for locks, every sum is right");
    // The segment is reopened, as another process would open it.
    assert_eq!(judge(&Segment::open(&file, 64 << 10).unwrap()), Ok(ended));
    assert!(ended > 30_000);
    // The control: the test notices locks that do not exclude each other. It is not a separate test, because a planted
    // bug affects the whole process.
    rio::planted::plant(Some("threads: two transactions hold the same lock"));
    let is_noticed = (0..50).any(|seed| !few_cells_keep_their_sum(&directory.path().join(seed.to_string()), seed));
    rio::planted::plant(None);
    assert!(is_noticed, "no test noticed two threads with one lock");
}

/// Runs threads with broken locks that change only cells, because broken lists could lead to any address.
fn few_cells_keep_their_sum(file: &Path, seed: u64) -> bool {
    let threads = Segment::open(file, 64 << 10).unwrap().share_by(STRIPE).unwrap();
    std::thread::scope(|scope| {
        for nth in 0..WORKERS {
            let threads = &threads;
            scope.spawn(move || {
                let (mut worker, mut draw) = (threads.worker().unwrap(), Draw(seed * WORKERS + nth));
                for _ in 0..5000 {
                    worker.run(|txn| transfer(txn, &mut draw, &(0..8))).unwrap();
                }
            });
        }
    });
    judge(&threads.into_segment()).is_ok()
}
