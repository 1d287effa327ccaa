//! What grows outside of transactions: it gets to the database whole, or not at all.

use std::sync::Arc;

use libtp_sim::{LossMode, SimDisk};

use crate::workload::{options, transact, word, Draw};

/// A truncation, and a transaction that frees what is the heap's beside what says how much of the file is the heap's.
fn until_it_grows(memory: &mut rvm::Rvm) {
    transact(memory, &mut Draw(1), 1).unwrap();
    let mut txn = memory.begin().unwrap();
    let block = txn.malloc(200_000).unwrap();
    txn.end().unwrap();
    memory.truncate().unwrap();
    let mut txn = memory.begin().unwrap();
    txn.free(block).unwrap();
    txn.end().unwrap();
    // It is the heap's from now on, and no log has heard of it.
    let mut txn = memory.begin().unwrap();
    let _ = txn.malloc(1_000_000).unwrap();
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
fn what_an_aborted_transaction_has_made_grow_is_truncated_whole() {
    for is_closed in [true, false] {
        let disk = SimDisk::new(3);
        let mut memory = options(1).open_in(Arc::new(disk.clone())).unwrap();
        until_it_grows(&mut memory);
        if is_closed {
            memory.close().unwrap();
        } else {
            // It dies behind a truncation, before the next commit.
            memory.truncate().unwrap();
            drop(memory);
        }
        check(&disk);
    }
}

#[test]
fn the_machine_crashes_while_that_is_truncated() {
    let disk = SimDisk::new(4);
    let mut memory = options(1).open_in(Arc::new(disk.clone())).unwrap();
    until_it_grows(&mut memory);
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
