//! Hash files compared with `BTreeMap`, with the operations of `btree.rs` on single keys. In some scans the transaction
//! puts records.

use std::collections::BTreeSet;

use libtp::{Env, Pair, Txn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::btree::{filling, key, place, value, Filling};
use crate::life::{acts, cases, differing, failed, run, Outcome, Shape, Subject, NAME};
use crate::pairs::{Map, Pairs};

#[derive(Clone, Debug)]
enum Step {
    Put(u16, Filling),
    PutNew(u16, Filling),
    PutMany {
        first: u16,
        count: u8,
        filling: Filling,
    },
    Update(u16, u8),
    UpdatePart(u16, (u16, u8)),
    Add(u16, (u16, u8)),
    Delete(u16),
    DeleteMany {
        first: u16,
        count: u8,
    },
    Get(u16),
    GetMany(Vec<u16>),
    GetForUpdate(u16),
    /// Scans everything, and puts `put` records after the scan has returned `met` records.
    Scan {
        met: u8,
        put: u8,
        filling: Filling,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![3 => 0u16..40, 2 => 0u16..600];
    prop_oneof![
        8 => (number.clone(), filling()).prop_map(|(number, filling)| Step::Put(number, filling)),
        3 => (number.clone(), filling()).prop_map(|(number, filling)| Step::PutNew(number, filling)),
        3 => (0u16..600, any::<u8>(), filling()).prop_map(|(first, count, filling)| {
            Step::PutMany { first, count: count % 100, filling }
        }),
        2 => (number.clone(), any::<u8>()).prop_map(|(number, byte)| Step::Update(number, byte)),
        2 => (number.clone(), place()).prop_map(|(number, place)| Step::UpdatePart(number, place)),
        2 => (number.clone(), place()).prop_map(|(number, place)| Step::Add(number, place)),
        5 => number.clone().prop_map(Step::Delete),
        1 => (0u16..600, 0u8..100).prop_map(|(first, count)| Step::DeleteMany { first, count }),
        3 => number.clone().prop_map(Step::Get),
        1 => prop::collection::vec(number.clone(), 0..20).prop_map(Step::GetMany),
        1 => number.prop_map(Step::GetForUpdate),
        1 => (any::<u8>(), any::<u8>(), filling()).prop_map(|(met, put, filling)| Step::Scan { met, put, filling }),
    ]
}

struct File {
    pairs: Pairs,
}

impl File {
    fn key(&self, number: u16) -> Vec<u8> {
        let [low, high] = number.to_le_bytes();
        let mut key = key(low, self.pairs.db.key_bytes_max().min(300));
        key.push(high);
        key
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map) -> Outcome<()> {
        match step {
            Step::Put(number, filling) => self.put(txn, *number, *filling, model),
            Step::PutMany { first, count, filling } => {
                (0..u16::from(*count)).try_for_each(|at| self.put(txn, first.wrapping_add(at), *filling, model))
            }
            Step::PutNew(number, filling) => {
                self.pairs.put_new(txn, self.key(*number), value(*filling, self.pairs.page_bytes), model)
            }
            Step::Update(number, byte) => self.pairs.update(txn, &self.key(*number), *byte, model),
            Step::UpdatePart(number, place) => self.pairs.update_part(txn, &self.key(*number), *place, model),
            Step::Add(number, place) => self.pairs.add(txn, &self.key(*number), *place, model),
            Step::Delete(number) => self.pairs.delete(txn, &self.key(*number), model),
            Step::DeleteMany { first, count } => (0..u16::from(*count))
                .try_for_each(|at| self.pairs.delete(txn, &self.key(first.wrapping_add(at)), model)),
            Step::Get(number) => self.pairs.get(txn, &self.key(*number), false, model),
            Step::GetMany(numbers) => {
                let keys: Vec<Vec<u8>> = numbers.iter().map(|number| self.key(*number)).collect();
                self.pairs.get_many(txn, &keys, model)
            }
            Step::GetForUpdate(number) => self.pairs.get(txn, &self.key(*number), true, model),
            Step::Scan { met, put, filling } => self.scan(txn, (*met, *put, *filling), model),
        }
    }

    /// Checks a scan. A record that exists during the whole scan must be returned exactly once, and unchanged. A record
    /// that is put during the scan may be returned at most once.
    fn scan(&self, txn: &Txn<'_>, (met, put, filling): (u8, u8, Filling), model: &mut Map) -> Outcome<()> {
        let mut missing: BTreeSet<Vec<u8>> = model.keys().cloned().collect();
        let mut found = BTreeSet::new();
        let mut cursor = self.pairs.db.cursor(txn);
        let mut at = cursor.first().map_err(failed("first"))?;
        while let Some((key, value)) = at {
            if !found.insert(key.clone()) {
                return Err(TestCaseError::fail(format!("a scan returned {key:?} twice")));
            }
            if model.get(&key) != Some(&value) {
                return Err(TestCaseError::fail(format!(
                    "a scan returned {key:?} with another value, of {} bytes",
                    value.len()
                )));
            }
            missing.remove(&key);
            if found.len() == usize::from(met) {
                let first = u16::from(put) * 7;
                (first..first + u16::from(put)).try_for_each(|number| self.put(txn, number, filling, model))?;
            }
            at = cursor.next().map_err(failed("next"))?;
        }
        match missing.first() {
            None => self.come_meanwhile(txn),
            Some(first) => {
                Err(TestCaseError::fail(format!("a scan missed {} records, among them {first:?}", missing.len())))
            }
        }
    }

    /// Checks that a cursor that has found no next record stays, and then finds a record that came meanwhile: the last
    /// record is removed and put again.
    fn come_meanwhile(&self, txn: &Txn<'_>) -> Outcome<()> {
        let db = &self.pairs.db;
        let all: Vec<Pair> = db.cursor(txn).into_iter().collect::<libtp::Result<_>>().map_err(failed("a loop"))?;
        let Some(((key, value), before)) = all.split_last() else { return Ok(()) };
        let mut cursor = db.cursor(txn);
        for _ in before {
            cursor.next().map_err(failed("next"))?;
        }
        db.delete(txn, key).map_err(failed("delete"))?;
        let at_end = cursor.next().map_err(failed("next at the end"))?;
        db.put(txn, key, value).map_err(failed("put"))?;
        let found = cursor.next().map_err(failed("next after a put"))?;
        match (at_end, found) {
            (None, Some(pair)) if pair == (key.clone(), value.clone()) => Ok(()),
            (at_end, found) => Err(TestCaseError::fail(format!(
                "a cursor at the end found a record (found: {}), or did not find the record that came meanwhile (found one: {})",
                at_end.is_some(),
                found.is_some()
            ))),
        }
    }

    fn put(&self, txn: &Txn<'_>, number: u16, filling: Filling, model: &mut Map) -> Outcome<()> {
        self.pairs.put(txn, self.key(number), value(filling, self.pairs.page_bytes), model)
    }
}

impl Subject for File {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, shape: Shape) -> libtp::Result<File> {
        Ok(File { pairs: Pairs { db: env.hash(NAME)?, page_bytes: shape.page_bytes } })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        steps.iter().try_for_each(|step| self.step(txn, step, model))
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.pairs.db.cursor(txn);
        let mut found = Map::new();
        let mut at = cursor.first().map_err(failed("reading"))?;
        while let Some((key, value)) = at {
            if self.pairs.db.get(txn, &key).map_err(failed("reading"))?.as_ref() != Some(&value) {
                return Err(TestCaseError::fail(format!("a cursor and a `get` return different values of {key:?}")));
            }
            if let Some(before) = found.insert(key, value) {
                return Err(TestCaseError::fail(format!(
                    "a cursor returned a key twice, once with {} bytes",
                    before.len()
                )));
            }
            at = cursor.next().map_err(failed("reading"))?;
        }
        Ok(found)
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        differing(wanted, found)
    }
}

#[test]
fn a_hash_file_with_pages_of_4_kib_agrees_with_a_map() {
    run::<File>("hash 4 KiB", Shape { page_bytes: 4096, record_bytes: 0 }, cases(), acts(step(), 16));
}

#[test]
fn a_hash_file_with_pages_of_8_kib_agrees_with_a_map() {
    run::<File>("hash 8 KiB", Shape { page_bytes: 8192, record_bytes: 0 }, cases() / 2, acts(step(), 16));
}
