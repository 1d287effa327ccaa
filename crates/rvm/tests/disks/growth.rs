//! Growth outside of transactions gets to the database as a whole, or not at all.

use std::sync::Arc;

use libtp_sim::{LossMode, SimDisk};

use crate::workload::{options, transact, word, Draw};

/// The size of a block that is freed, and of the block for which the heap then grows. The sizes decide whether the
/// words that record the heap's units are in one line with other changed words.
const SIZES: [(u64, u64); 6] = [
    (200_000, 1_000_000),
    (200_000, 3_000_000),
    (60_000, 400_000),
    (700_000, 1_500_000),
    (30_000, 100_000),
    (10_000, 9_000_000),
];

/// Truncates the log. Then frees a block, which changes words of the heap's header, but not the words that record the
/// heap's units. Then lets the heap grow in a transaction that aborts.
fn until_it_grows(memory: &mut rvm::Rvm, (freed, grown): (u64, u64)) {
    transact(memory, &mut Draw(1), 1).unwrap();
    let mut txn = memory.begin().unwrap();
    let block = txn.malloc(freed).unwrap();
    txn.end().unwrap();
    memory.truncate().unwrap();
    let mut txn = memory.begin().unwrap();
    txn.free(block).unwrap();
    txn.end().unwrap();
    // The heap keeps its growth, although no log has recorded it.
    let mut txn = memory.begin().unwrap();
    let _ = txn.malloc(grown).unwrap();
    txn.abort();
}

fn check(disk: &SimDisk) {
    let mut memory = options(1).open_in(Arc::new(disk.clone())).unwrap();
    memory.segment().verify().unwrap();
    assert_eq!(word(memory.segment(), 0), 1);
    let mut txn = memory.begin().unwrap();
    let _ = txn.malloc(1_000_000).unwrap();
    txn.end().unwrap();
    memory.segment().verify().unwrap();
    memory.close().unwrap();
    options(1).open_in(Arc::new(disk.clone())).unwrap().segment().verify().unwrap();
}

#[test]
fn a_memory_that_an_aborted_transaction_has_made_larger_is_truncated_completely() {
    for (sizes, is_closed) in SIZES.into_iter().flat_map(|sizes| [(sizes, true), (sizes, false)]) {
        println!("{sizes:?}, closed {is_closed}");
        let disk = SimDisk::new(3);
        let mut memory = options(1).open_in(Arc::new(disk.clone())).unwrap();
        until_it_grows(&mut memory, sizes);
        if is_closed {
            memory.close().unwrap();
        } else {
            // The process dies after a truncation, before the next commit.
            memory.truncate().unwrap();
            drop(memory);
        }
        check(&disk);
    }
}

#[test]
fn the_machine_crashes_while_a_grown_memory_is_truncated() {
    let disk = SimDisk::new(4);
    let mut memory = options(1).open_in(Arc::new(disk.clone())).unwrap();
    until_it_grows(&mut memory, SIZES[0]);
    let begun = disk.io_index();
    memory.close().unwrap();
    let (mut images, mut tried) = (disk.crash_images(), 0);
    loop {
        if images.position() >= begun {
            for mode in LossMode::ALL {
                check(&images.image(mode, images.position() as u64));
                tried += 1;
            }
        }
        if images.advance().is_none() {
            break;
        }
    }
    assert!(tried > 20, "{tried} crashes");
}
