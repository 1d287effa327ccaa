//! A segment that cannot grow any more: one transaction can free all blocks allocated in it.
#![allow(clippy::unwrap_used)]

use vista::{Decision, Error, Holder, Member, Membership, Options, Segment};

/// The greatest length of the segment's file.
const ROOM: u64 = 32 << 20;

/// Allocates blocks of `bytes` bytes, `each` of them in a transaction, until the segment is full. Returns the blocks.
fn fill(segment: &mut Segment, bytes: u64, each: usize) -> Vec<u64> {
    let mut blocks = Vec::new();
    loop {
        let mut txn = segment.begin();
        let taken: Result<Vec<u64>, Error> = (0..each).map(|_| txn.malloc(bytes)).collect();
        match taken {
            Ok(taken) => {
                txn.end().unwrap();
                blocks.extend(taken);
            }
            Err(Error::Memory(_)) if each == 1 => return blocks,
            Err(Error::Memory(_)) => {
                txn.abort();
                blocks.extend(fill(segment, bytes, 1));
                return blocks;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Returns the blocks in an order that is not the order of their addresses.
fn mixed(blocks: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|nth| nth.wrapping_mul(0x9e37_79b9) % 65_521);
    order.into_iter().map(|nth| blocks[nth]).collect()
}

#[test]
fn all_that_a_full_segment_has_allocated_is_freed_in_one_transaction() {
    for (bytes, each) in [(16, 500), (100, 500), (1000, 200), (4096, 100), (30_000, 20), (200_000, 2)] {
        let directory = tempfile::tempdir().unwrap();
        let mut segment = Options::new(4096).reserve(ROOM).anywhere().open(&directory.path().join("segment")).unwrap();
        let blocks = fill(&mut segment, bytes, each);
        assert!(blocks.len() as u64 * bytes > ROOM / 3, "{bytes}: {} blocks", blocks.len());
        let free_all = |segment: &mut Segment, is_kept: bool| {
            let mut txn = segment.begin();
            for at in mixed(&blocks) {
                txn.free(at).unwrap_or_else(|error| panic!("{bytes}: {error}"));
            }
            match is_kept {
                true => txn.end().unwrap_or_else(|error| panic!("{bytes}, {} blocks: {error}", blocks.len())),
                false => txn.abort(),
            }
        };
        free_all(&mut segment, false);
        assert_eq!(segment.verify().unwrap().blocks, blocks.len() as u64, "{bytes}: an abort restores the blocks");
        free_all(&mut segment, true);
        assert_eq!(segment.verify().unwrap().blocks, 0, "{bytes}");
        let again = fill(&mut segment, bytes, each);
        assert!(again.len() >= blocks.len(), "{bytes}: {} blocks, then {}", blocks.len(), again.len());
    }
}

#[test]
fn a_transaction_with_a_full_undo_log_can_still_free_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = Options::new(1 << 20).reserve(ROOM).anywhere().open(&directory.path().join("segment")).unwrap();
    let blocks = fill(&mut segment, 4096, 500);
    let mut txn = segment.begin();
    // Ranges are declared until the undo log is full.
    let refused = (0..1 << 20).step_by(64).chain(blocks.iter().copied()).map(|at| txn.set_range(at, 64).map(drop));
    assert!(refused.into_iter().any(|declared| declared.is_err()), "the undo log cannot grow");
    blocks.iter().try_for_each(|at| txn.free(*at)).unwrap();
    txn.end().unwrap();
    assert_eq!(segment.verify().unwrap().blocks, 0);
}

/// Freed blocks return to the heap before the environment decides about the transaction.
#[test]
fn freed_blocks_are_allocated_again_if_the_environment_does_not_commit() {
    let directory = tempfile::tempdir().unwrap();
    let membership = Membership { environment: [7; 16], number: 1 };
    let options = Options::new(4096).reserve(ROOM).anywhere();
    let mut member = options.open_member(&directory.path().join("segment"), membership).unwrap();
    let begin = |member: &mut Member, txn: u64| member.begin(txn, Holder { handle: 1, process: 1 }).unwrap();
    begin(&mut member, 1);
    // The blocks have many sizes, so that runs of units become free and are joined.
    let blocks: Vec<u64> = (0..3000_u64).map(|nth| member.malloc(1 + nth * nth % 9_000).unwrap()).collect();
    member.prepare().unwrap();
    member.end(Decision { incarnation: 1, lsn: 1 });
    for (txn, is_committed) in (2..).zip([false, true]) {
        begin(&mut member, txn);
        mixed(&blocks).iter().for_each(|at| member.free(*at).unwrap());
        member.prepare().unwrap();
        match is_committed {
            true => member.end(Decision { incarnation: 1, lsn: txn }),
            false => member.abort(),
        }
        let left = if is_committed { 0 } else { blocks.len() as u64 };
        assert_eq!(member.segment().verify().unwrap().blocks, left);
    }
}
