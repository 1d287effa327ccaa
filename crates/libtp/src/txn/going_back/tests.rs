//! Savepoints in transactions over records and memory.

use std::time::Duration;

use crate::{Db, Env, Error, Segment, Txn};

/// An environment with records and two segments.
struct House {
    env: Env,
    tree: Db,
    left: Segment,
    right: Segment,
    _dir: tempfile::TempDir,
}

impl House {
    fn new() -> House {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::builder().lock_timeout(Duration::from_millis(100)).open(dir.path()).unwrap();
        let open = |name: &str| env.segment_at(dir.path().join(name), &vista::Options::new(4096).anywhere()).unwrap();
        let (left, right, tree) = (open("left"), open("right"), env.btree("tree").unwrap());
        House { tree, left, right, env, _dir: dir }
    }

    /// Puts one value into a record and into segments.
    fn put(&self, txn: &Txn<'_>, segments: &[&Segment], value: u8) {
        self.tree.put(txn, b"key", &[value]).unwrap();
        for segment in segments {
            let mut memory = txn.join(segment).unwrap();
            memory.set_range(0, 8).unwrap().fill(value);
            memory.set_range(2000, 100).unwrap().fill(value);
        }
    }

    /// Returns the values of the record, the left and the right segment.
    fn seen(&self, txn: &Txn<'_>) -> [u8; 3] {
        let of_one = |segment: &Segment| {
            let memory = txn.join(segment).unwrap();
            let (value, bytes) = (memory.bytes()[0], memory.bytes());
            assert!(bytes[..8].iter().chain(&bytes[2000..2100]).all(|&byte| byte == value), "torn");
            value
        };
        let record = self.tree.get(txn, b"key").unwrap().map_or(0, |value| value[0]);
        [record, of_one(&self.left), of_one(&self.right)]
    }

    fn kept(&self) -> [u8; 3] {
        self.env.run(|txn| Ok(self.seen(txn))).unwrap()
    }
}

#[test]
fn a_rollback_to_a_savepoint_undoes_records_and_memory_and_the_transaction_continues() {
    let house = House::new();
    for is_committed in [true, false] {
        let before = house.kept();
        let txn = house.env.begin().unwrap();
        house.put(&txn, &[&house.left, &house.right], 1);
        let outer = txn.savepoint();
        house.put(&txn, &[&house.left], 2);
        let inner = txn.savepoint();
        house.put(&txn, &[&house.left, &house.right], 3);
        inner.roll_back().unwrap();
        assert_eq!(house.seen(&txn), [2, 2, 1]);
        let again = txn.savepoint();
        house.put(&txn, &[&house.right], 4);
        again.keep();
        assert_eq!(house.seen(&txn), [4, 2, 4]);
        outer.roll_back().unwrap();
        assert_eq!(house.seen(&txn), [1, 1, 1]);
        house.put(&txn, &[&house.right], 5);
        match is_committed {
            true => txn.commit().unwrap(),
            false => txn.abort().unwrap(),
        }
        let expected = if is_committed { [5, 1, 5] } else { before };
        assert_eq!(house.kept(), expected, "committed: {is_committed}");
    }
}

#[test]
fn memory_joined_after_a_savepoint_is_rolled_back_and_stays_joined() {
    let house = House::new();
    let txn = house.env.begin().unwrap();
    house.put(&txn, &[&house.left, &house.right], 1);
    txn.commit().unwrap();
    let txn = house.env.begin().unwrap();
    house.put(&txn, &[&house.left], 2);
    let part = txn.savepoint();
    house.put(&txn, &[&house.right], 3);
    part.roll_back().unwrap();
    let other = house.env.begin().unwrap();
    house.put(&txn, &[&house.right], 4);
    drop(other);
    let part = txn.savepoint();
    house.put(&txn, &[&house.left, &house.right], 5);
    // Dropping a savepoint rolls back.
    drop(part);
    assert_eq!(house.seen(&txn), [4, 2, 4]);
    txn.abort().unwrap();
    assert_eq!(house.kept(), [1, 1, 1]);
    // The transaction joins no segment before the savepoint: all its stores are undone.
    let txn = house.env.begin().unwrap();
    let part = txn.savepoint();
    house.put(&txn, &[&house.left, &house.right], 6);
    part.roll_back().unwrap();
    txn.commit().unwrap();
    assert_eq!(house.kept(), [1, 1, 1]);
}

#[test]
fn a_rollback_frees_the_blocks_of_the_part_and_restores_the_blocks_that_the_part_freed() {
    let house = House::new();
    let blocks = |txn: &Txn<'_>| txn.join(&house.left).unwrap().segment().verify().unwrap().blocks;
    let txn = house.env.begin().unwrap();
    let old = txn.join(&house.left).unwrap().malloc(100).unwrap();
    txn.commit().unwrap();
    let txn = house.env.begin().unwrap();
    let failed = txn.nested(|part| {
        let mut memory = part.join(&house.left)?;
        memory.free(old)?;
        let new = memory.malloc(5000)?;
        memory.set_range(new, 5000)?.fill(7);
        Err::<(), Error>(Error::Exists)
    });
    assert!(matches!(failed, Err(Error::Exists)));
    assert_eq!(blocks(&txn), 1);
    txn.commit().unwrap();
    let txn = house.env.begin().unwrap();
    assert_eq!(blocks(&txn), 1, "the block was not freed");
    txn.join(&house.left).unwrap().free(old).unwrap();
    txn.commit().unwrap();
    assert_eq!(house.env.run(|txn| Ok(blocks(txn))).unwrap(), 0);
}

/// The refusal comes before any undo. The program may ignore the refusal, so the commit is refused, too.
#[test]
fn a_rollback_while_a_joined_handle_lives_is_refused_and_so_is_the_commit() {
    let house = House::new();
    for was_at_work in [true, false] {
        let txn = house.env.begin().unwrap();
        house.put(&txn, &[&house.left], 1);
        let memory = was_at_work.then(|| txn.join(&house.left).unwrap());
        let part = txn.savepoint();
        drop(memory);
        house.put(&txn, &[&house.left], 2);
        let memory = (!was_at_work).then(|| txn.join(&house.left).unwrap());
        let error = part.roll_back().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Segment { .. }) && text.contains("left"), "{error}");
        assert!(text.contains(if was_at_work { "was using" } else { "is using" }), "{text}");
        drop(memory);
        assert_eq!(house.seen(&txn), [2, 2, 0], "nothing was undone");
        let error = txn.commit().unwrap_err();
        assert!(matches!(error, Error::RollbackFailed { .. }), "{error}");
        assert_eq!(house.kept(), [0, 0, 0]);
    }
}

/// The put uses a savepoint of the library's own, after which no store to memory is made: the record is put, but the
/// entry of its index cannot be put.
#[test]
fn a_failed_change_of_records_is_undone_while_a_joined_handle_lives() {
    let house = House::new();
    let index = house.tree.index("index", |_, value, keys| keys.add([value[0]])).unwrap();
    let other = house.env.begin().unwrap();
    assert!(index.get(&other, &[7]).unwrap().is_empty());
    let txn = house.env.begin().unwrap();
    let mut memory = txn.join(&house.left).unwrap();
    let error = house.tree.put(&txn, b"key", &[7]).unwrap_err();
    assert!(matches!(error, Error::LockTimeout(_)), "{error}");
    memory.set_range(0, 8).unwrap().fill(1);
    memory.set_range(2000, 100).unwrap().fill(1);
    drop(memory);
    txn.commit().unwrap();
    other.commit().unwrap();
    assert_eq!(house.kept(), [0, 1, 0]);
    assert!(index.verify(&house.env.snapshot().unwrap()).unwrap().is_empty());
}

#[test]
fn a_nested_part_that_panics_undoes_its_stores_to_memory() {
    let house = House::new();
    let txn = house.env.begin().unwrap();
    house.put(&txn, &[&house.left], 1);
    let part = std::panic::AssertUnwindSafe(|| {
        txn.nested(|part| {
            house.put(part, &[&house.left, &house.right], 2);
            let mut memory = part.join(&house.right)?;
            memory.set_range(0, 8)?.fill(3);
            panic!("of the program")
        })
    });
    let ended: std::thread::Result<crate::Result<()>> = std::panic::catch_unwind(part);
    assert!(ended.is_err());
    assert_eq!(house.seen(&txn), [1, 1, 0]);
    txn.commit().unwrap();
    assert_eq!(house.kept(), [1, 1, 0]);
}

#[test]
fn many_rollbacks_take_no_more_memory_than_one() {
    let house = House::new();
    let path = house.left.path().to_path_buf();
    let txn = house.env.begin().unwrap();
    house.put(&txn, &[&house.left], 1);
    let mut lengths = Vec::new();
    for _ in 0..300 {
        let part = txn.savepoint();
        let mut memory = txn.join(&house.left).unwrap();
        let block = memory.malloc(200_000).unwrap();
        memory.set_range(block, 200_000).unwrap().fill(1);
        drop(memory);
        part.roll_back().unwrap();
        lengths.push(std::fs::metadata(&path).unwrap().len());
    }
    assert_eq!(lengths[1], lengths[299], "the file has grown");
    txn.commit().unwrap();
    assert_eq!(house.kept(), [1, 1, 0]);
}
