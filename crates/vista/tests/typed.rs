//! Typed memory against the collections of the standard library: random transactions, a part of which abort, and the segment
//! opened again and again.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use vista::{Error, HashMap, Map, Ptr, Segment, Vector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

type Names = Map<[u8; 6], u64>;
/// The same pairs.
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

/// What is checked: the vector, the map and the list.
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

/// Where the collections lie in the root.
fn places(segment: &Segment) -> (Ptr<Vector<u32>>, Ptr<Names>) {
    let root = segment.root::<Root>();
    (root.part(|root| &root.numbers, segment).unwrap(), root.part(|root| &root.names, segment).unwrap())
}

fn hashed(segment: &Segment) -> Ptr<Hashed> {
    segment.root::<Root>().part(|root| &root.hashed, segment).unwrap()
}

#[test]
fn what_lies_in_a_segment_is_what_a_program_would_have_in_its_own_memory() {
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
    assert!(model.names.len() > 50 && model.list.len() > 100 && model.numbers.len() > 10, "hardly anything was tried");
}

#[test]
fn a_pointer_to_nothing_is_refused_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let mut segment = Segment::open(directory.path().join("segment"), 4096).unwrap();
    let none = Ptr::<u64>::NONE.look(&segment).unwrap_err();
    assert!(matches!(none, Error::OutOfRange { .. }), "{none}");
    let mut txn = segment.begin();
    let refused = txn.write(Ptr::<u64>::NONE).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
    // A pointer is plain data: one that was damaged, or is of another segment, may say anything.
    *txn.write(txn.root::<u64>()).unwrap() = (64 << 10) + (64 << 10) + 3;
    let damaged = *txn.root::<Ptr<u64>>().look(&txn).unwrap();
    let refused = txn.write(damaged).unwrap_err();
    assert!(matches!(refused, Error::Misplaced { .. } | Error::OutOfRange { .. }), "{refused}");
    let freed = txn.create(5_u64).unwrap();
    txn.delete(freed).unwrap();
    assert!(matches!(txn.delete(freed), Err(Error::NotAllocated { .. })));
}
