//! The machine crashes between any two calls to the disk. The memory, opened again, has the state after some
//! transaction: an acknowledged transaction, or the transaction that was being written.

use std::sync::Arc;

use libtp_sim::{LossMode, SimDisk};

use crate::workload::{options, state, transact, word, Draw};

fn crash_everywhere(group: u32, transactions: u64, seed: u64) {
    let disk = SimDisk::new(seed);
    let (mut draw, mut states, mut ends, mut safe) = (Draw(seed), vec![vec![0; 4096]], Vec::new(), Vec::new());
    let mut truncations = 0;
    let mut memory = options(group).open_in(Arc::new(disk.clone())).unwrap();
    let made = disk.io_index();
    for number in 1..=transactions {
        truncations += u64::from(memory.wants_truncation());
        transact(&mut memory, &mut draw, number).unwrap();
        states.push(state(memory.segment()));
        ends.push(disk.io_index());
        // Transactions of a group that is not full yet are not promised to survive.
        safe.push((disk.io_index(), (number + 1).saturating_sub(u64::from(group))));
    }
    let (mut images, mut tried) = (disk.crash_images(), 0);
    loop {
        let position = images.position();
        let modes = if images.unsynced() == 0 { &LossMode::ALL[6..] } else { &LossMode::ALL[..] };
        for mode in modes {
            let left = images.image(*mode, seed + position as u64);
            let mut memory = options(group).open_in(Arc::new(left.clone())).unwrap();
            let found = word(memory.segment(), 0);
            let least = safe.iter().rev().find(|(end, _)| *end <= position).map_or(0, |(_, number)| *number);
            // The transaction that is being written may have survived, and so may the other transactions of its group.
            let most = ends.iter().filter(|end| **end <= position).count() as u64 + u64::from(group);
            assert!(
                (least..=most).contains(&found),
                "{mode:?} at {position}: transaction {found} was found, {least} transactions were on disk"
            );
            assert_eq!(state(memory.segment()), states[usize::try_from(found).unwrap()], "{mode:?} at {position}");
            transact(&mut memory, &mut Draw(seed), found + 1).unwrap();
            memory.flush().unwrap();
            let expected = state(memory.segment());
            drop(memory);
            let again = options(group).open_in(Arc::new(left)).unwrap();
            assert_eq!(state(again.segment()), expected, "{mode:?} at {position}, used and opened again");
            tried += 1;
        }
        if images.advance().is_none() {
            break;
        }
    }
    assert!(images.position() > made + 100, "the workload made too few calls");
    assert!(truncations > 0, "the log was never truncated");
    println!(
        "figures: groups of {group}: {transactions} transactions, {truncations} truncations, {} calls, {tried} crashes, 0 torn, 0 lost",
        images.position()
    );
}

#[test]
fn the_machine_crashes_between_any_two_calls() {
    crash_everywhere(1, 60, 1);
}

#[test]
fn the_machine_crashes_while_groups_are_written() {
    crash_everywhere(4, 160, 2);
}
