//! A database with two indices, of which one is dropped and made again at each opening, compared with maps.

use std::collections::BTreeMap;

use libtp::{Db, Env, Index, IndexKeys, Txn};
use proptest::prelude::*;

use crate::life::{acts, agree, cases, differing, failed, run, Outcome, Shape, Subject, NAME};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    PutNew(u8, u16),
    Delete(u8),
    /// Puts another value of the same length.
    Update(u8, u8),
    DeleteRange(u8, u8),
    /// Finds the records with an index key.
    Find(u8),
    /// Seeks an index key, and goes back to the entry before it.
    Walk(u8),
    /// Makes changes, and rolls back to a savepoint before them.
    Part(u8, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0u8..40;
    let value = || prop_oneof![6 => 0u16..60, 1 => any::<u16>()];
    prop_oneof![
        8 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (key(), value()).prop_map(|(key, value)| Step::PutNew(key, value)),
        3 => key().prop_map(Step::Delete),
        3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Update(key, value)),
        1 => (key(), 0u8..10).prop_map(|(key, count)| Step::DeleteRange(key, count)),
        3 => (0u8..10).prop_map(Step::Find),
        2 => (0u8..10).prop_map(Step::Walk),
        2 => (key(), value()).prop_map(|(key, value)| Step::Part(key, value)),
    ]
}

fn key(number: u8) -> Vec<u8> {
    [&[number / 4 * 4, 0][..], &[number]].concat()
}

/// Returns a value. Some values are long enough for overflow pages, so changes of the value replace overflow pages,
/// too.
fn value(number: u16) -> Vec<u8> {
    let bytes = if number % 32 == 31 { usize::from(number) } else { usize::from(number % 50) };
    number.to_be_bytes().iter().copied().cycle().take(bytes).collect()
}

/// Gives the index keys of a record: the value's length modulo ten, and each of its first two bytes modulo ten.
fn parts(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    index_keys(value).into_iter().for_each(|key| keys.add(key));
}

fn index_keys(value: &[u8]) -> Vec<Vec<u8>> {
    let letters = value.iter().take(2).map(|letter| vec![1, letter % 10]);
    let mut keys: Vec<Vec<u8>> = letters.chain([vec![u8::try_from(value.len() % 10).unwrap()]]).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn whole_key(key: &[u8], _value: &[u8], keys: &mut IndexKeys) {
    keys.add(key);
}

struct Indexed<const HASH: bool> {
    db: Db,
    by_parts: Index,
}

/// Returns the index key and the key of every entry that the index of the model's records must have.
fn entries(model: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_one =
        |(key, value): (&Vec<u8>, &Vec<u8>)| index_keys(value).into_iter().map(|one| (one, key.clone())).collect();
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = model.iter().flat_map(|pair| -> Vec<_> { of_one(pair) }).collect();
    all.sort();
    all
}

impl<const HASH: bool> Indexed<HASH> {
    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map) -> Outcome<()> {
        match *step {
            Step::Put(number, to) => {
                self.db.put(txn, &key(number), &value(to)).map_err(failed("put"))?;
                model.insert(key(number), value(to));
                Ok(())
            }
            Step::PutNew(number, to) => match self.db.put_new(txn, &key(number), &value(to)) {
                Err(libtp::Error::Exists) => agree(step, model.contains_key(&key(number)), true),
                done => {
                    done.map_err(failed("put_new"))?;
                    agree(step, model.insert(key(number), value(to)), None)
                }
            },
            Step::Delete(number) => {
                let was_there = self.db.delete(txn, &key(number)).map_err(failed("delete"))?;
                agree(step, was_there, model.remove(&key(number)).is_some())
            }
            Step::Update(number, to) => {
                let change = |value: &mut [u8]| value.iter_mut().for_each(|byte| *byte ^= to);
                let found = self.db.update_with(txn, &key(number), |value| change(value)).map_err(failed("update"))?;
                let known = model.get_mut(&key(number));
                agree(step, found.is_some(), known.is_some())?;
                if let Some(value) = known {
                    change(value);
                }
                Ok(())
            }
            Step::DeleteRange(..) if HASH => Ok(()),
            Step::DeleteRange(number, count) => {
                let (low, high) = (key(number), key(number.saturating_add(count)));
                let gone = self.db.delete_range(txn, low.clone()..high.clone()).map_err(failed("delete_range"))?;
                let before = model.len();
                model.retain(|key, _| *key < low || *key >= high);
                agree(step, gone, (before - model.len()) as u64)
            }
            Step::Find(number) => {
                for index_key in [vec![number], vec![1, number]] {
                    let found = self.by_parts.get(txn, &index_key).map_err(failed("get"))?;
                    let of = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                    let wanted = model.iter().filter(|pair| index_keys(pair.1).contains(&index_key)).map(of);
                    agree(step, found, wanted.collect())?;
                }
                Ok(())
            }
            Step::Walk(number) => {
                let all = entries(model);
                let at = all.partition_point(|entry| entry.0 < vec![number]);
                let mut cursor = self.by_parts.cursor(txn);
                let entry = |found: Option<libtp::IndexEntry>| found.map(|found| (found.index_key, found.key));
                let found = cursor.seek(&[number]).map_err(failed("seek"))?;
                agree(step, entry(found).as_ref(), all.get(at))?;
                if at < all.len() {
                    let found = cursor.prev().map_err(failed("prev"))?;
                    agree(step, entry(found), at.checked_sub(1).map(|at| all[at].clone()))?;
                }
                Ok(())
            }
            Step::Part(number, to) => {
                let part = txn.savepoint();
                self.db.put(txn, &key(number), &value(to)).map_err(failed("put"))?;
                self.db.delete(txn, &key(number / 2)).map_err(failed("delete"))?;
                part.roll_back().map_err(failed("roll back"))
            }
        }
    }
}

impl<const HASH: bool> Subject for Indexed<HASH> {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, _: Shape) -> libtp::Result<Self> {
        let db = if HASH { env.hash(NAME)? } else { env.btree(NAME)? };
        let by_parts = db.index("by parts", parts)?;
        // The index is dropped, if it existed before, and built from the present records.
        db.index("by key", whole_key)?;
        db.drop_index("by key")?;
        db.index("by key", whole_key)?;
        Ok(Indexed { db, by_parts })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        steps.iter().try_for_each(|step| self.step(txn, step, model))
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.db.cursor(txn);
        let mut model = Map::new();
        while let Some((key, value)) = cursor.next().map_err(failed("reading"))? {
            model.insert(key, value);
        }
        let mut cursor = self.by_parts.cursor(txn);
        let mut found = Vec::new();
        while let Some(entry) = cursor.next().map_err(failed("reading the index"))? {
            found.push((entry.index_key, entry.key));
        }
        agree(Step::Find(0), found, entries(&model))?;
        Ok(model)
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        differing(wanted, found)
    }
}

#[test]
fn an_index_of_a_tree_agrees_with_its_records() {
    run::<Indexed<false>>(
        "index of a tree",
        Shape { page_bytes: 4096, record_bytes: 0 },
        cases() / 2,
        acts(step(), 16),
    );
}

#[test]
fn an_index_of_a_hash_file_agrees_with_its_records() {
    run::<Indexed<true>>(
        "index of a hash file",
        Shape { page_bytes: 4096, record_bytes: 0 },
        cases() / 4,
        acts(step(), 16),
    );
}
