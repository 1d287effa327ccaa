//! Tests of iterators over lists that the loop changes, compared with a `Vec`.

use std::collections::BTreeSet;

use crate::{Env, List, Txn};

fn bytes(id: u64) -> Vec<u8> {
    id.to_le_bytes().to_vec()
}

fn id_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record.try_into().unwrap())
}

fn fill(list: &List, txn: &Txn<'_>, count: u64) -> Vec<u64> {
    (0..count).for_each(|id| assert_eq!(list.append(txn, &bytes(id)).unwrap(), id + 1));
    (0..count).collect()
}

fn records(list: &List, txn: &Txn<'_>) -> Vec<u64> {
    list.range(txn, ..).map(|found| id_of(&found.unwrap().1)).collect()
}

#[test]
fn a_loop_that_removes_each_record_removes_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::create(dir.path()).unwrap();
    let list = env.list("list").unwrap();
    for count in [1, 2, 7, 500] {
        let txn = env.begin().unwrap();
        fill(&list, &txn, count);
        for found in list.range(&txn, ..) {
            assert!(list.delete(&txn, found.unwrap().0).unwrap());
        }
        assert_eq!(list.count(&txn).unwrap(), 0, "from the front, of {count}");
        fill(&list, &txn, count);
        for found in list.range(&txn, ..).rev() {
            assert!(list.delete(&txn, found.unwrap().0).unwrap());
        }
        assert_eq!(list.count(&txn).unwrap(), 0, "from the back, of {count}");
        // A loop over a range removes only the records of the range.
        fill(&list, &txn, 20 + count);
        for found in list.range(&txn, 11..=10 + count) {
            assert!(list.delete(&txn, found.unwrap().0).unwrap());
        }
        let left: Vec<u64> = (0..10).chain(10 + count..20 + count).collect();
        assert_eq!(records(&list, &txn), left);
    }
}

#[test]
fn a_loop_that_inserts_beside_each_record_gets_each_record_once() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::create(dir.path()).unwrap();
    let list = env.list("list").unwrap();
    for (is_after, is_back) in [(false, false), (true, false), (false, true), (true, true)] {
        let txn = env.begin().unwrap();
        let all = fill(&list, &txn, 500);
        let mut range = list.range(&txn, ..);
        let mut shown = Vec::new();
        while let Some(found) = if is_back { range.next_back() } else { range.next() } {
            let (number, record) = found.unwrap();
            shown.push(id_of(&record));
            assert!(shown.len() <= 500, "inserted records are returned: {is_after} {is_back}");
            match is_after {
                true => list.insert_after(&txn, number, &bytes(u64::MAX)).unwrap(),
                false => list.insert_before(&txn, number, &bytes(u64::MAX)).unwrap(),
            };
        }
        if is_back {
            shown.reverse();
        }
        assert_eq!(shown, all, "{is_after} {is_back}");
    }
}

/// A source of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// A list and its model.
struct Pair<'t, 'e> {
    list: &'t List,
    txn: &'t Txn<'e>,
    model: Vec<u64>,
    next: u64,
}

impl Pair<'_, '_> {
    fn insert(&mut self, at: usize) {
        let at = at.min(self.model.len());
        self.list.insert_before(self.txn, at as u64 + 1, &bytes(self.next)).unwrap();
        self.model.insert(at, self.next);
        self.next += 1;
    }

    fn delete(&mut self, at: usize) {
        if at < self.model.len() {
            assert!(self.list.delete(self.txn, at as u64 + 1).unwrap());
            self.model.remove(at);
        }
    }

    /// Changes the list at random: at the place of the last returned record, or elsewhere.
    fn change(&mut self, dice: &mut Dice, at: usize) {
        match dice.below(8) {
            0 => self.delete(at),
            1 => self.insert(at),
            2 => self.insert(at + 1),
            3 => self.delete(dice.below(self.model.len())),
            4 => self.insert(dice.below(self.model.len())),
            5 => (0..dice.below(30)).for_each(|_| self.delete(at)),
            6 => (0..dice.below(30)).for_each(|_| self.insert(at)),
            _ => {}
        }
    }
}

/// Walks a list of `count` records from both ends, and changes the list in between.
fn walk(list: &List, txn: &Txn<'_>, dice: &mut Dice, count: u64) {
    let model = fill(list, txn, count);
    let mut pair = Pair { list, txn, model, next: count };
    let low = dice.below(pair.model.len()) as u64;
    let high = low + dice.below(pair.model.len()) as u64;
    let is_whole = dice.below(2) == 0;
    let range = |at: usize| is_whole || (low..=high).contains(&(at as u64 + 1));
    let mut records = if is_whole { list.range(txn, ..) } else { list.range(txn, low..=high) };
    // The range has the records that have its numbers at the first step, so this change before the first step counts.
    pair.change(dice, 0);
    let due: Vec<u64> = pair.model.iter().enumerate().filter(|(at, _)| range(*at)).map(|(_, id)| *id).collect();
    let mut shown = BTreeSet::new();
    let (mut fronts, mut backs) = (Vec::new(), Vec::new());
    for step in 0.. {
        assert!(step < 10_000, "the iterator does not end");
        let is_front = dice.below(3) != 0;
        let Some(found) = (if is_front { records.next() } else { records.next_back() }) else { break };
        let (number, record) = found.unwrap();
        let (id, at) = (id_of(&record), usize::try_from(number).unwrap() - 1);
        assert_eq!(pair.model.get(at), Some(&id), "the number is the record's present number");
        assert!(shown.insert(id), "record {id} was returned twice");
        if is_front { &mut fronts } else { &mut backs }.push(id);
        pair.change(dice, at);
    }
    let place = |id: &u64| pair.model.iter().position(|other| other == id);
    for id in &due {
        assert!(shown.contains(id) || place(id).is_none(), "record {id} was not returned");
    }
    let order: Vec<usize> = fronts.iter().chain(backs.iter().rev()).filter_map(place).collect();
    assert!(order.is_sorted(), "{order:?}");
    if !is_whole {
        let of_others = shown.iter().find(|&&id| id < count && !due.contains(&id));
        assert_eq!(of_others, None, "outside of {low}..={high}");
    }
}

#[test]
fn each_remaining_record_is_returned_once_whatever_the_loop_changes() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::create(dir.path()).unwrap();
    let list = env.list("list").unwrap();
    for seed in 0..200 {
        let (txn, mut dice) = (env.begin().unwrap(), Dice(seed));
        let count = [0, 1, 5, 60, 400][dice.below(5)];
        println!("seed {seed}, {count} records");
        walk(&list, &txn, &mut dice, count);
        txn.abort().unwrap();
    }
}
