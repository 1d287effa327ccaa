//! A call to the disk fails, once or from then on. The transaction is refused with an error and is gone from memory.
//! After a failed write or sync the log takes no more records. The memory has all acknowledged transactions when it is
//! opened again on the repaired disk, or after a power cut.

use std::sync::Arc;

use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};
use rvm::Error;

use crate::workload::{options, state, transact, word, Draw, BYTES};

const KINDS: [(Fault, Repeat); 6] = [
    (Fault::Eio, Repeat::Once),
    (Fault::Eio, Repeat::Forever),
    (Fault::Enospc, Repeat::Once),
    (Fault::Enospc, Repeat::Forever),
    (Fault::ShortWrite, Repeat::Once),
    (Fault::ShortWrite, Repeat::Forever),
];
const TRANSACTIONS: u64 = 40;

/// Returns the memory's state after each transaction, and the number of calls that all transactions make.
fn without_failure(group: u32, seed: u64) -> (Vec<Vec<u8>>, u64) {
    let disk = SimDisk::new(seed);
    let mut states = vec![vec![0; usize::try_from(BYTES).unwrap()]];
    let mut memory = options(group).open_in(Arc::new(disk.clone())).unwrap();
    let mut draw = Draw(seed);
    for number in 1..=TRANSACTIONS {
        transact(&mut memory, &mut draw, number).unwrap();
        states.push(state(memory.segment()));
    }
    memory.flush().unwrap();
    (states, disk.calls(&Calls::Any))
}

/// The outcome of one run.
#[derive(Default)]
struct Came {
    /// Transactions that ended.
    ended: u64,
    is_refused: bool,
    is_poisoned: bool,
}

/// Runs transactions until one is refused, and a few more after it.
fn run(disk: &SimDisk, group: u32, seed: u64, states: &[Vec<u8>]) -> Came {
    let mut came = Came::default();
    let mut memory = match options(group).open_in(Arc::new(disk.clone())) {
        Ok(memory) => memory,
        Err(error) => {
            assert!(matches!(error, Error::Disk(_)), "{error}");
            return Came { is_refused: true, ..came };
        }
    };
    let mut draw = Draw(seed);
    for number in 1..=TRANSACTIONS {
        match transact(&mut memory, &mut draw, number) {
            Ok(()) => {
                assert!(!came.is_refused, "transaction {number} was accepted after the state of the disk was unknown");
                came.ended = number;
            }
            Err(error) => {
                assert!(matches!(error, Error::Disk(_) | Error::Poisoned { .. }), "{error}");
                assert!(!came.is_poisoned || matches!(error, Error::Poisoned { .. }), "{error}");
                came.is_poisoned |= matches!(error, Error::Poisoned { .. });
                came.is_refused = true;
                let there = &states[usize::try_from(came.ended).unwrap()];
                assert!(state(memory.segment()) == *there, "the refused transaction's stores are still in memory");
            }
        }
        if came.is_refused && number > came.ended + 4 {
            break;
        }
    }
    came.is_refused |= memory.flush().is_err();
    came
}

/// Checks that the memory has the state after some transaction, at least transaction number `least`.
fn look(disk: SimDisk, group: u32, states: &[Vec<u8>], least: u64, how: &str) {
    let memory = options(group).open_in(Arc::new(disk));
    let memory = memory.unwrap_or_else(|error| panic!("{how}: the memory cannot be opened: {error}"));
    let found = word(memory.segment(), 0);
    assert!(found >= least, "{how}: transaction {found} was found, transaction {least} was on disk");
    assert!(state(memory.segment()) == states[usize::try_from(found).unwrap()], "{how}: transaction {found} is torn");
}

/// Every call whose number is a multiple of this number is made to fail. With `LIBTP_TEST_EVERY` set to 1, these are
/// all calls.
fn every() -> usize {
    std::env::var("LIBTP_TEST_EVERY").map_or(3, |text| text.parse().unwrap())
}

fn each_call_fails(group: u32, seed: u64) {
    let (states, calls) = without_failure(group, seed);
    let (mut tried, mut refused, mut poisoned) = (0, 0, 0);
    for call in (0..calls).step_by(every()) {
        for (fault, repeat) in KINDS {
            let how = format!("call {call} of {calls}, {fault:?} {repeat:?}");
            let disk = SimDisk::new(seed);
            disk.fail_call(Calls::Any, call, fault, repeat);
            let came = run(&disk, group, seed, &states);
            let least = came.ended.saturating_sub(u64::from(group) - 1);
            for mode in [LossMode::DropAll, LossMode::Torn512] {
                let left = disk.crash_image(mode, seed + call);
                left.clear_faults();
                look(left, group, &states, least, &format!("{how}, after a power cut ({mode:?})"));
            }
            disk.clear_faults();
            look(disk, group, &states, least, &format!("{how}, on the repaired disk"));
            tried += 1;
            refused += u64::from(came.is_refused);
            poisoned += u64::from(came.is_poisoned);
        }
    }
    println!(
        "figures: groups of {group}: {tried} failing calls, {refused} runs refused a transaction, {poisoned} poisoned the log, 0 lost"
    );
    assert!(poisoned * 3 > tried, "the log hardly ever failed");
}

#[test]
fn any_call_fails() {
    each_call_fails(1, 3);
}

#[test]
fn any_call_fails_while_groups_are_written() {
    each_call_fails(4, 4);
}
