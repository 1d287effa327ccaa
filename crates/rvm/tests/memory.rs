//! Recoverable memory on a real directory: ended transactions survive, other transactions do not, and errors are
//! reported.
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::os::unix::fs::FileExt;

use rvm::{Error, Options};

#[test]
fn ended_transactions_survive_a_reopening_and_others_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::of(vista::Options::new(1 << 20).reserve(1 << 30)).log_bytes(256 << 10);
    let mut memory = options.open(directory.path()).unwrap();
    let address = memory.segment().address();
    assert!(matches!(options.open(directory.path()), Err(Error::InUse { .. } | Error::Segment(_))));
    let mut blocks = Vec::new();
    for round in 0..500_u64 {
        let mut txn = memory.begin().unwrap();
        txn.set_range(round * 100, 100).unwrap().fill(u8::try_from(round % 250).unwrap() + 1);
        blocks.push(txn.malloc(3000).unwrap());
        let last = *blocks.last().unwrap();
        txn.set_range(last, 3000).unwrap().fill(7);
        if round % 3 == 0 {
            txn.free(blocks.remove(0)).unwrap();
        }
        txn.end().unwrap();
    }
    let mut txn = memory.begin().unwrap();
    txn.set_range(0, 100_000).unwrap().fill(9);
    // As after a kill: the transaction is neither ended nor aborted.
    std::mem::forget(txn);
    let expected = |bytes: &[u8]| {
        bytes[..50_000].iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / 100 % 250 + 1)
            && bytes[50_000..].iter().all(|byte| *byte == 0)
    };
    drop(memory);
    let memory = options.open(directory.path()).unwrap();
    assert_eq!(memory.segment().address(), address, "pointers are still valid");
    assert!(expected(memory.segment().bytes()));
    assert!(blocks.iter().all(|at| memory.segment().get(*at, 3000).unwrap().iter().all(|byte| *byte == 7)));
    memory.segment().verify().unwrap();
    memory.close().unwrap();
    let memory = Options::new(0).open(directory.path()).unwrap();
    assert!(expected(memory.segment().bytes()));
}

#[test]
fn a_transaction_that_the_log_cannot_take_is_aborted() {
    let directory = tempfile::tempdir().unwrap();
    let mut memory =
        Options::of(vista::Options::new(1 << 20).anywhere()).log_bytes(64 << 10).open(directory.path()).unwrap();
    let mut txn = memory.begin().unwrap();
    txn.set_range(0, 100_000).unwrap().fill(1);
    let refused = txn.end().unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    assert!(memory.segment().bytes().iter().all(|byte| *byte == 0));
    let mut txn = memory.begin().unwrap();
    txn.set_range(0, 1000).unwrap().fill(1);
    txn.end().unwrap();
}

#[test]
fn a_damaged_log_is_reported_as_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::of(vista::Options::new(8192).anywhere());
    let mut memory = options.open(directory.path()).unwrap();
    for round in 0..20 {
        let mut txn = memory.begin().unwrap();
        txn.set_range(round, 1).unwrap()[0] = 1;
        txn.end().unwrap();
    }
    drop(memory);
    let log = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join("log")).unwrap();
    let mut byte = [0];
    log.read_exact_at(&mut byte, 4096 + 300).unwrap();
    log.write_all_at(&[byte[0] ^ 1], 4096 + 300).unwrap();
    let refused = options.open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }) && refused.to_string().contains("log"), "{refused}");
    log.write_all_at(&byte, 4096 + 300).unwrap();
    assert_eq!(options.open(directory.path()).unwrap().segment().bytes()[..21], [[1; 20].as_slice(), &[0]].concat());
    std::fs::remove_file(directory.path().join("log")).unwrap();
    let refused = options.open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
}

#[test]
fn records_after_an_incomplete_record_do_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::of(vista::Options::new(8192).anywhere()).group(4);
    options.open(directory.path()).unwrap().close().unwrap();
    let set = |memory: &mut rvm::Rvm, at: u64, value: u8| {
        let mut txn = memory.begin().unwrap();
        txn.set_range(at, 8).unwrap().fill(value);
        txn.end().unwrap();
    };
    let mut memory = options.open(directory.path()).unwrap();
    (0..4).for_each(|nth| set(&mut memory, nth * 8, 1));
    drop(memory);
    // The machine crashed while four records were written: the first is incomplete, the other three are complete.
    let log = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join("log")).unwrap();
    let mut byte = [0];
    log.read_exact_at(&mut byte, 4096 + 50).unwrap();
    log.write_all_at(&[byte[0] ^ 1], 4096 + 50).unwrap();
    let mut memory = options.open(directory.path()).unwrap();
    assert!(memory.segment().bytes().iter().all(|byte| *byte == 0));
    // This transaction's record is as long as the damaged record.
    set(&mut memory, 4000, 2);
    drop(memory);
    let memory = options.open(directory.path()).unwrap();
    let bytes = memory.segment().bytes();
    assert_eq!((&bytes[..32], &bytes[4000..4008]), (&[0; 32][..], &[2; 8][..]));
}

/// Opens the memory `count` times. Each opening raises the log's generation, and the record of each generation
/// overwrites the record of the generation before.
fn of_generations(directory: &std::path::Path, count: u8) {
    let options = Options::of(vista::Options::new(8192).anywhere());
    for round in 0..count {
        let mut memory = options.open(directory).unwrap();
        let mut txn = memory.begin().unwrap();
        txn.set_range(u64::from(round) * 8, 8).unwrap().fill(round + 1);
        txn.end().unwrap();
    }
}

#[test]
fn a_log_with_a_damaged_newer_header_does_not_count_as_an_older_log() {
    let directory = tempfile::tempdir().unwrap();
    of_generations(directory.path(), 3);
    let options = Options::of(vista::Options::new(8192).anywhere());
    let log = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join("log")).unwrap();
    let generation = |slot: u64| {
        let mut word = [0; 8];
        log.read_exact_at(&mut word, slot + 16).unwrap();
        u64::from_le_bytes(word)
    };
    let (newer, older) = if generation(0) > generation(2048) { (0, 2048) } else { (2048, 0) };
    let damage = |at: u64| {
        let mut byte = [0];
        log.read_exact_at(&mut byte, at).unwrap();
        log.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    damage(newer + 20);
    let refused = options.open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }) && refused.to_string().contains("generation"), "{refused}");
    damage(newer + 20);
    // The older header is not needed.
    damage(older + 20);
    let memory = options.open(directory.path()).unwrap();
    let last = memory.segment().bytes()[16..24].to_vec();
    assert_eq!(last, [3; 8], "the ended transactions are kept");
    drop(memory);
    // Without both headers the log cannot be read.
    damage(newer + 20);
    damage(older + 20);
    let refused = options.open(directory.path()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
}

#[test]
fn a_log_of_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    of_generations(directory.path(), 2);
    let options = Options::of(vista::Options::new(8192).anywhere());
    let log = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join("log")).unwrap();
    for slot in [0, 2048] {
        let mut header = [0; 44];
        log.read_exact_at(&mut header, slot).unwrap();
        let was = header;
        header[8] = 2;
        let sum = crc32c::crc32c(&header[..40]);
        header[40..].copy_from_slice(&sum.to_le_bytes());
        log.write_all_at(&header, slot).unwrap();
        let refused = options.open(directory.path()).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }) && refused.to_string().contains("version 2"), "{refused}");
        log.write_all_at(&was, slot).unwrap();
    }
    options.open(directory.path()).unwrap();
}
