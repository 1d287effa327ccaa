//! Typed memory compared with the collections of the standard library. Random transactions run, of which some abort,
//! and the segment is reopened many times.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use vista::{Error, HashMap, Map, Memory, Ptr, Segment, ThreadTxn, Vector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

type Names = Map<[u8; 6], u64>;
/// The pairs of the hash map.
type Hashed = HashMap<[u8; 6], u64>;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    numbers: Vector<u32>,
    names: Names,
    list: Ptr<Link>,
    hashed: Hashed,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Link {
    next: Ptr<Link>,
    value: u64,
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The expected contents: the vector, the map and the list.
#[derive(Clone, Default)]
struct Model {
    numbers: Vec<u32>,
    names: BTreeMap<[u8; 6], u64>,
    list: Vec<u64>,
}

fn check(segment: &Segment, model: &Model) {
    let root = segment.root::<Root>();
    let (numbers, names) = (places(segment).0, places(segment).1);
    assert_eq!(numbers.len(segment).unwrap(), model.numbers.len() as u64);
    for (index, number) in model.numbers.iter().enumerate() {
        assert_eq!(numbers.get(segment, index as u64).unwrap(), Some(number));
    }
    assert_eq!(numbers.get(segment, model.numbers.len() as u64).unwrap(), None);
    let mut pairs = Vec::new();
    names.for_each(segment, |key, value| pairs.push((*key, *value))).unwrap();
    assert_eq!(pairs, model.names.clone().into_iter().collect::<Vec<_>>());
    assert_eq!(names.len(segment).unwrap(), pairs.len() as u64);
    let (hashed, mut pairs) = (hashed(segment), BTreeMap::new());
    hashed.for_each(segment, |key, value| assert_eq!(pairs.insert(*key, *value), None)).unwrap();
    assert_eq!((&pairs, hashed.len(segment).unwrap()), (&model.names, model.names.len() as u64));
    let (mut link, mut list) = (root.look(segment).unwrap().list, Vec::new());
    while !link.is_none() {
        let value = link.look(segment).unwrap();
        list.push(value.value);
        link = value.next;
    }
    list.reverse();
    assert_eq!(list, model.list);
}

/// Returns pointers to the vector and the map in the root.
fn places(segment: &Segment) -> (Ptr<Vector<u32>>, Ptr<Names>) {
    let root = segment.root::<Root>();
    (root.part(|root| &root.numbers, segment).unwrap(), root.part(|root| &root.names, segment).unwrap())
}

fn hashed(segment: &Segment) -> Ptr<Hashed> {
    segment.root::<Root>().part(|root| &root.hashed, segment).unwrap()
}

#[test]
fn typed_memory_in_a_segment_agrees_with_a_model_in_ordinary_memory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let (mut model, mut draw) = (Model::default(), Draw(1));
    let mut segment = Segment::open(&file, 4096).unwrap();
    for round in 0..1500 {
        let before = model.clone();
        let ((numbers, names), hashed) = (places(&segment), hashed(&segment));
        let mut txn = segment.begin();
        for _ in 0..=draw.below(5) {
            let key = [0, 0, 0, 0, 0, u8::try_from(draw.below(200)).unwrap()];
            match draw.below(8) {
                0 | 1 => {
                    let number = u32::try_from(draw.below(1 << 30)).unwrap();
                    numbers.push(&mut txn, number).unwrap();
                    model.numbers.push(number);
                }
                2 => assert_eq!(numbers.pop(&mut txn).unwrap(), model.numbers.pop()),
                3..=5 => {
                    let is_new = names.insert(&mut txn, key, round).unwrap();
                    assert_eq!(hashed.insert(&mut txn, key, round).unwrap(), is_new);
                    assert_eq!(is_new, model.names.insert(key, round).is_none());
                }
                6 => {
                    let is_there = model.names.remove(&key).is_some();
                    assert_eq!(names.remove(&mut txn, &key).unwrap(), is_there);
                    assert_eq!(hashed.remove(&mut txn, &key).unwrap(), is_there);
                }
                _ => {
                    let next = txn.root::<Root>().look(&txn).unwrap().list;
                    let link = txn.create(Link { next, value: round }).unwrap();
                    txn.write(txn.root::<Root>()).unwrap().list = link;
                    model.list.push(round);
                }
            }
            let first = names.first(&txn, Some(&key)).unwrap().map(|(key, value)| (*key, *value));
            assert_eq!(first, model.names.range(key..).next().map(|(key, value)| (*key, *value)));
            assert_eq!(names.get(&txn, &key).unwrap(), model.names.get(&key));
            assert_eq!(hashed.get(&txn, &key).unwrap(), model.names.get(&key));
        }
        match draw.below(4) {
            0 => {
                txn.abort();
                model = before;
            }
            1 if draw.below(20) == 0 => {
                numbers.clear(&mut txn).unwrap();
                model.numbers.clear();
                txn.end().unwrap();
            }
            _ => txn.end().unwrap(),
        }
        if round % 50 == 0 {
            drop(segment);
            segment = Segment::open(&file, 0).unwrap();
        }
        if round % 10 == 0 {
            check(&segment, &model);
        }
    }
    check(&segment, &model);
    assert!(model.names.len() > 50 && model.list.len() > 100 && model.numbers.len() > 10, "too few changes were tried");
}

#[test]
fn a_pointer_to_nothing_is_refused_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = Segment::open(directory.path().join("segment"), 4096).unwrap();
    let none = Ptr::<u64>::NONE.look(&segment).unwrap_err();
    assert!(matches!(none, Error::OutOfRange { .. }), "{none}");
    let mut txn = segment.begin();
    let refused = txn.write(Ptr::<u64>::NONE).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
    // A pointer is plain data: a damaged pointer, or a pointer of another segment, may have any value.
    *txn.write(txn.root::<u64>()).unwrap() = (64 << 10) + (64 << 10) + 3;
    let damaged = *txn.root::<Ptr<u64>>().look(&txn).unwrap();
    let refused = txn.write(damaged).unwrap_err();
    assert!(matches!(refused, Error::Misplaced { .. } | Error::OutOfRange { .. }), "{refused}");
    let freed = txn.create(5_u64).unwrap();
    txn.delete(freed).unwrap();
    assert!(matches!(txn.delete(freed), Err(Error::NotAllocated { .. })));
}

/// The data that several threads share: accounts with a constant sum, and a list.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Shared {
    accounts: [i64; 64],
    list: Ptr<Link>,
}

/// Pointers to the parts of the data, taken before the segment is shared. So the threads need not lock the whole root.
struct Places {
    accounts: Vec<Ptr<i64>>,
    list: Ptr<Ptr<Link>>,
}

/// Moves an amount from one account to another, and removes a link from the list, or adds one. Returns the change of
/// the list's length.
fn transfer(txn: &mut ThreadTxn<'_, '_>, places: &Places, draw: u64) -> vista::Result<i64> {
    let account = |nth: u64| places.accounts[usize::try_from(nth % 64).unwrap()];
    *txn.write(account(draw))? -= 10;
    *txn.write(account(draw / 64))? += 10;
    let first = *txn.look(places.list)?;
    if draw % 3 == 0 && !first.is_none() {
        let next = txn.look(first)?.next;
        *txn.write(places.list)? = next;
        txn.delete(first)?;
        return Ok(-1);
    }
    let link = txn.create(Link { next: first, value: 7 })?;
    *txn.write(places.list)? = link;
    Ok(1)
}

#[test]
fn a_value_belongs_to_one_thread_until_its_transaction_ends() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let segment = Segment::open(&file, 1 << 20).unwrap();
    let root = segment.root::<Shared>();
    let accounts = (0..64).map(|nth| root.part(|root| &root.accounts[nth], &segment).unwrap()).collect();
    let places = Places { accounts, list: root.part(|root| &root.list, &segment).unwrap() };
    let threads = segment.share_by(256).unwrap();
    let work = |nth: u64| {
        let (mut worker, mut draw, mut ended, mut longer) = (threads.worker().unwrap(), Draw(nth), 0, 0);
        while ended < 2000 {
            let drawn = draw.below(1 << 30);
            let done = worker.run(|txn| {
                let by = transfer(txn, &places, drawn)?;
                // The test makes some transfers fail.
                if drawn % 5 == 0 {
                    txn.look(Ptr::<u64>::NONE)?;
                }
                Ok(by)
            });
            match done {
                Ok(by) => (ended, longer) = (ended + 1, longer + by),
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }) && drawn % 5 == 0, "{error}"),
            }
        }
        longer
    };
    let longer: i64 = std::thread::scope(|scope| {
        let work = &work;
        [1, 2].map(|nth| scope.spawn(move || work(nth))).into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let segment = threads.into_segment();
    let root = segment.root::<Shared>().look(&segment).unwrap();
    assert_eq!(root.accounts.iter().sum::<i64>(), 0);
    assert!(root.accounts.iter().any(|account| *account != 0));
    let (mut link, mut length) = (root.list, 0);
    while !link.is_none() {
        let found = link.look(&segment).unwrap();
        assert_eq!(found.value, 7);
        (link, length) = (found.next, length + 1);
    }
    assert_eq!((length, segment.verify().unwrap().blocks), (longer, longer.unsigned_abs()));
    assert!(length > 0);
}

#[test]
fn a_wild_pointer_and_a_range_of_another_thread_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let threads = Segment::open(directory.path().join("segment"), 4096).unwrap().share_by(256).unwrap();
    let (mut left, mut right) = (threads.worker().unwrap(), threads.worker().unwrap());
    let root = threads.root::<[u64; 64]>();
    let mut txn = left.begin();
    assert!(matches!(txn.look(Ptr::<u64>::NONE), Err(Error::OutOfRange { .. })));
    assert!(matches!(txn.delete(threads.root::<u64>()), Err(Error::NotAllocated { .. })));
    // A pointer is plain data.
    *txn.write(threads.root::<u64>()).unwrap() = (64 << 10) + (64 << 10) + 3;
    let damaged = *txn.look(threads.root::<Ptr<u64>>()).unwrap();
    assert!(matches!(txn.write(damaged), Err(Error::Misplaced { .. })));
    assert!(matches!(txn.look(damaged), Err(Error::Misplaced { .. })));
    txn.abort();
    // `look` locks the value; `part` locks the whole value that the part belongs to.
    let mut txn = left.begin();
    let last = txn.part(root, |all| &all[63]).unwrap();
    assert_eq!(*txn.look(last).unwrap(), 0);
    let mut other = right.begin();
    other.set_range(4000, 8).unwrap().fill(1);
    assert!(
        matches!(other.write(last), Err(Error::Contended { .. })),
        "a lock out of order is refused after a short wait"
    );
}

/// Values as long as the room that a call of the heap keeps free in the undo log.
type Long = [u64; 500];

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Collections {
    rows: Vector<[u64; 64]>,
    names: Map<u64, Long>,
    hashed: HashMap<u64, Long>,
}

type All = (Vec<u64>, BTreeMap<u64, u64>, BTreeMap<u64, u64>);

fn all(memory: &impl Memory) -> All {
    let root: Ptr<Collections> = memory.segment().root();
    let (rows, names) = (root.part(|it| &it.rows, memory).unwrap(), root.part(|it| &it.names, memory).unwrap());
    let hashed = root.part(|it| &it.hashed, memory).unwrap();
    let mut all = All::default();
    for nth in 0..rows.len(memory).unwrap() {
        all.0.push(rows.get(memory, nth).unwrap().unwrap()[63]);
    }
    names.for_each(memory, |key, value| assert_eq!(all.1.insert(*key, value[499]), None)).unwrap();
    hashed.for_each(memory, |key, value| assert_eq!(all.2.insert(*key, value[499]), None)).unwrap();
    assert_eq!(all.1.len() as u64, names.len(memory).unwrap());
    assert_eq!(all.2.len() as u64, hashed.len(memory).unwrap());
    all
}

#[test]
fn a_change_without_room_in_the_undo_log_leaves_the_collections_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let options = vista::Options::new(1 << 20).reserve(4 << 20).anywhere();
    let mut segment = options.open(&directory.path().join("segment")).unwrap();
    let root: Ptr<Collections> = segment.root();
    let (rows, names) = (root.part(|it| &it.rows, &segment).unwrap(), root.part(|it| &it.names, &segment).unwrap());
    let hashed = root.part(|it| &it.hashed, &segment).unwrap();
    for nth in 0..8 {
        let mut txn = segment.begin();
        rows.push(&mut txn, [nth; 64]).unwrap();
        names.insert(&mut txn, nth, [nth; 500]).unwrap();
        hashed.insert(&mut txn, nth, [nth; 500]).unwrap();
        txn.end().unwrap();
    }
    // The vector is full, and the next pair makes the hash map larger. The heap has free blocks for both collections,
    // but no free units, so the undo log cannot grow.
    let mut txn = segment.begin();
    let spare: Vec<u64> = [64, 112, 4096, 8192, 16_384]
        .iter()
        .flat_map(|bytes| [*bytes; 3])
        .map(|bytes| txn.malloc(bytes).unwrap())
        .collect();
    while txn.malloc(64 << 10).is_ok() {}
    txn.end().unwrap();
    let mut txn = segment.begin();
    spare.into_iter().for_each(|at| txn.free(at).unwrap());
    txn.end().unwrap();
    let most =
        (0..1000).map(|nth| nth << 10).take_while(|bytes| segment.begin().set_range(8192, *bytes).is_ok()).last();
    let (most, expected) = (most.unwrap(), all(&segment));
    assert_eq!(expected.0.len(), 8);
    let (mut refused, mut done) = ([0; 6], [0; 6]);
    let blocks = segment.verify().unwrap().blocks;
    for (what, left) in (0..6).flat_map(|what| (0..18_000).step_by(16).map(move |left| (what, left))) {
        let mut txn = segment.begin();
        // The log has `left` bytes of room, or a little more.
        let _ = txn.set_range(8192, most - left).unwrap();
        let tried = match what {
            0 => names.insert(&mut txn, 100 + left as u64, [1; 500]).map(drop),
            1 => names.remove(&mut txn, &3).map(drop),
            2 => hashed.insert(&mut txn, 100 + left as u64, [1; 500]).map(drop),
            3 => hashed.remove(&mut txn, &3).map(drop),
            4 => rows.push(&mut txn, [1; 64]),
            _ => rows.clear(&mut txn),
        };
        if tried.is_ok() {
            assert_ne!(all(&txn), expected, "call {what}");
            txn.abort();
            done[what] += 1;
        } else {
            // A refused call does not abort the transaction.
            txn.end().unwrap_or_else(|why| panic!("call {what}, {left} bytes left: {why}"));
            refused[what] += 1;
        }
        assert_eq!(all(&segment), expected, "call {what}, {left} bytes left");
        // The hash map may already have one row for the next attempt.
        assert!(segment.verify().unwrap().blocks <= blocks + 1, "call {what}, {left} bytes left: a block has no owner");
    }
    assert!(refused.iter().chain(&done).all(|times| *times > 10), "refused {refused:?}, done {done:?}");
}
