//! Hash files against `BTreeMap`: as for B-trees, and scans during which the same transaction puts records.

use std::collections::{BTreeMap, BTreeSet};

use libtp::{Db, Env, Error, Txn};
use libtp_tests::sizes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::btree::{filling, key, value, Filling};
use crate::life::{acts, failed, run, Outcome, Shape, Subject, NAME};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

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
    Delete(u16),
    DeleteMany {
        first: u16,
        count: u8,
    },
    Get(u16),
    GetForUpdate(u16),
    /// Scans everything, and puts `put` records when `met` records have been met.
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
        5 => number.clone().prop_map(Step::Delete),
        1 => (0u16..600, 0u8..100).prop_map(|(first, count)| Step::DeleteMany { first, count }),
        3 => number.clone().prop_map(Step::Get),
        1 => number.prop_map(Step::GetForUpdate),
        1 => (any::<u8>(), any::<u8>(), filling()).prop_map(|(met, put, filling)| Step::Scan { met, put, filling }),
    ]
}

struct File {
    db: Db,
    page_bytes: usize,
}

impl File {
    fn key(&self, number: u16) -> Vec<u8> {
        let [low, high] = number.to_le_bytes();
        let mut key = key(low, self.db.key_bytes_max().min(300));
        key.push(high);
        key
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map) -> Outcome<()> {
        match step {
            Step::Put(number, filling) => self.put(txn, *number, *filling, model),
            Step::PutMany { first, count, filling } => {
                (0..u16::from(*count)).try_for_each(|at| self.put(txn, first.wrapping_add(at), *filling, model))
            }
            Step::PutNew(number, filling) => self.put_new(txn, *number, *filling, model),
            Step::Update(number, byte) => self.update(txn, *number, *byte, model),
            Step::Delete(number) => self.delete(txn, *number, model),
            Step::DeleteMany { first, count } => {
                (0..u16::from(*count)).try_for_each(|at| self.delete(txn, first.wrapping_add(at), model))
            }
            Step::Get(number) | Step::GetForUpdate(number) => {
                let key = self.key(*number);
                let found = match step {
                    Step::Get(_) => self.db.get(txn, &key),
                    _ => self.db.get_for_update(txn, &key),
                };
                let found = found.map_err(failed("get"))?;
                match found.as_ref() == model.get(&key) {
                    true => Ok(()),
                    false => Err(TestCaseError::fail(format!("{step:?} found {:?} bytes", found.map(|it| it.len())))),
                }
            }
            Step::Scan { met, put, filling } => self.scan(txn, (*met, *put, *filling), model),
        }
    }

    /// Checks that a scan meets every record that is there all the time once and unchanged, and a record put
    /// meanwhile at most once.
    fn scan(&self, txn: &Txn<'_>, (met, put, filling): (u8, u8, Filling), model: &mut Map) -> Outcome<()> {
        let mut missing: BTreeSet<Vec<u8>> = model.keys().cloned().collect();
        let mut found = BTreeSet::new();
        let mut cursor = self.db.cursor(txn);
        let mut at = cursor.first().map_err(failed("first"))?;
        while let Some((key, value)) = at {
            if !found.insert(key.clone()) {
                return Err(TestCaseError::fail(format!("a scan met {key:?} twice")));
            }
            if model.get(&key) != Some(&value) {
                return Err(TestCaseError::fail(format!("a scan met {key:?} with {} other bytes", value.len())));
            }
            missing.remove(&key);
            if found.len() == usize::from(met) {
                let first = u16::from(put) * 7;
                (first..first + u16::from(put)).try_for_each(|number| self.put(txn, number, filling, model))?;
            }
            at = cursor.next().map_err(failed("next"))?;
        }
        match missing.first() {
            None => Ok(()),
            Some(first) => Err(TestCaseError::fail(format!("a scan missed {}, {first:?} among them", missing.len()))),
        }
    }

    fn put(&self, txn: &Txn<'_>, number: u16, filling: Filling, model: &mut Map) -> Outcome<()> {
        let (key, value) = (self.key(number), value(filling, self.page_bytes));
        self.db.put(txn, &key, &value).map_err(failed("put"))?;
        model.insert(key, value);
        Ok(())
    }

    fn put_new(&self, txn: &Txn<'_>, number: u16, filling: Filling, model: &mut Map) -> Outcome<()> {
        let (key, value) = (self.key(number), value(filling, self.page_bytes));
        let is_there = model.contains_key(&key);
        match (self.db.put_new(txn, &key, &value), is_there) {
            (Ok(()), false) => {
                model.insert(key, value);
                Ok(())
            }
            (Err(Error::Exists), true) => Ok(()),
            (ended, _) => Err(TestCaseError::fail(format!("put_new of {number}: {ended:?}, there before: {is_there}"))),
        }
    }

    fn update(&self, txn: &Txn<'_>, number: u16, byte: u8, model: &mut Map) -> Outcome<()> {
        let key = self.key(number);
        let change = |value: &mut [u8]| {
            if let Some(first) = value.first_mut() {
                *first ^= byte;
            }
            value.len()
        };
        let found = self.db.update_with(txn, &key, change).map_err(failed("update"))?;
        let wanted = model.get_mut(&key).map(|value| change(value));
        match found == wanted {
            true => Ok(()),
            false => Err(TestCaseError::fail(format!("update of {number} found {found:?}, not {wanted:?} bytes"))),
        }
    }

    fn delete(&self, txn: &Txn<'_>, number: u16, model: &mut Map) -> Outcome<()> {
        let key = self.key(number);
        let was_there = self.db.delete(txn, &key).map_err(failed("delete"))?;
        match was_there == model.remove(&key).is_some() {
            true => Ok(()),
            false => Err(TestCaseError::fail(format!("delete of {number} said {was_there}"))),
        }
    }
}

impl Subject for File {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, shape: Shape) -> libtp::Result<File> {
        Ok(File { db: env.hash(NAME)?, page_bytes: shape.page_bytes })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        steps.iter().try_for_each(|step| self.step(txn, step, model))
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.db.cursor(txn);
        let mut found = Map::new();
        let mut at = cursor.first().map_err(failed("reading"))?;
        while let Some((key, value)) = at {
            if self.db.get(txn, &key).map_err(failed("reading"))?.as_ref() != Some(&value) {
                return Err(TestCaseError::fail(format!("{key:?} has one value for a cursor, another by its key")));
            }
            if let Some(before) = found.insert(key, value) {
                return Err(TestCaseError::fail(format!("a key is there twice, once with {} bytes", before.len())));
            }
            at = cursor.next().map_err(failed("reading"))?;
        }
        Ok(found)
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        let lost: Vec<_> = wanted.keys().filter(|key| !found.contains_key(*key)).collect();
        let added: Vec<_> = found.keys().filter(|key| !wanted.contains_key(*key)).collect();
        let other = wanted.iter().filter(|(key, value)| found.get(*key).is_some_and(|found| found != *value)).count();
        let first = lost.first().or(added.first()).map(|key| String::from_utf8_lossy(key));
        format!("{} lost, {} added, {other} other values; {first:?}", lost.len(), added.len())
    }
}

fn cases() -> u64 {
    sizes::number("LIBTP_TEST_CASES", 120)
}

#[test]
fn a_hash_file_with_pages_of_4_kib_is_as_a_map() {
    run::<File>("hash 4 KiB", Shape { page_bytes: 4096, record_bytes: 0 }, cases(), acts(step(), 16));
}

#[test]
fn a_hash_file_with_pages_of_8_kib_is_as_a_map() {
    run::<File>("hash 8 KiB", Shape { page_bytes: 8192, record_bytes: 0 }, cases() / 2, acts(step(), 16));
}
