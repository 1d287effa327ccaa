//! Databases whose keys have several values, compared with a map of lists.

use std::collections::BTreeMap;

use libtp::{Duplicates, Env, Keys, Multi, Pair, Txn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::life::{acts, agree, cases, differing, failed, run, Outcome, Shape, Subject, NAME};

type Map = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    /// Puts several values of one key.
    PutMany(u8, u16, u8),
    Delete(u8),
    DeleteValue(u8, u16),
    Get(u8),
    Count(u8),
    /// Seeks a duplicate of a key by its position, and deletes it or puts another value there.
    DeleteAt(u8, u8),
    PutAt(u8, u8, u16),
    /// Moves a cursor from a key to the next and to the previous key.
    Around(u8),
    /// Reads a range in both directions, with or without its upper bound. Then reads all keys that begin with the
    /// step's first key.
    Range(u8, u8, bool),
    DeleteRange(u8, u8, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0u8..24;
    let value = || prop_oneof![4 => 0u16..40, 1 => any::<u16>()];
    prop_oneof![
        8 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (key(), value(), 0u8..50).prop_map(|(key, value, count)| Step::PutMany(key, value, count)),
        2 => key().prop_map(Step::Delete),
        4 => (key(), value()).prop_map(|(key, value)| Step::DeleteValue(key, value)),
        2 => key().prop_map(Step::Get),
        2 => key().prop_map(Step::Count),
        3 => (key(), 0u8..6).prop_map(|(key, steps)| Step::DeleteAt(key, steps)),
        3 => (key(), 0u8..6, value()).prop_map(|(key, steps, value)| Step::PutAt(key, steps, value)),
        3 => key().prop_map(Step::Around),
        3 => (key(), key(), any::<bool>()).prop_map(|(low, high, with_high)| Step::Range(low, high, with_high)),
        1 => (key(), key(), any::<bool>()).prop_map(|(low, high, with_high)| Step::DeleteRange(low, high, with_high)),
    ]
}

/// Returns a key. Some keys are prefixes of others, some have zero bytes.
fn key(number: u8) -> Vec<u8> {
    match number % 4 {
        0 => vec![0; usize::from(number / 4)],
        1 => [&[0, 255][..], &[number]].concat(),
        2 => vec![b'k'; usize::from(number)],
        _ => format!("key {number:02}").into_bytes(),
    }
}

/// A range of keys, and a function that returns whether a key is in it.
type Chosen = (Keys, Box<dyn Fn(&[u8]) -> bool>);

fn between(one: u8, other: u8, with_high: bool) -> Chosen {
    let (low, high) = (key(one).min(key(other)), key(one).max(key(other)));
    let keys = if with_high { Keys::from(&low[..]..=&high[..]) } else { Keys::from(&low[..]..&high[..]) };
    (keys, Box::new(move |key| *key >= low[..] && (*key < high[..] || (with_high && *key == high[..]))))
}

struct Kind<const SORTED: bool> {
    db: Multi,
}

impl<const SORTED: bool> Kind<SORTED> {
    /// Returns a value. In a database with values in insertion order, some values are very long.
    fn value(number: u16) -> Vec<u8> {
        let bytes = if SORTED || number % 64 != 0 { usize::from(number % 200) } else { usize::from(number) };
        number.to_be_bytes().iter().copied().cycle().take(bytes).collect()
    }

    /// Adds a value to the model. Returns false if the value is already there.
    fn add(model: &mut Map, key: u8, value: Vec<u8>) -> bool {
        let values = model.entry(self::key(key)).or_default();
        if !SORTED {
            values.push(value);
            return true;
        }
        match values.binary_search(&value) {
            Ok(_) => false,
            Err(at) => {
                values.insert(at, value);
                true
            }
        }
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map) -> Outcome<()> {
        match *step {
            Step::Put(number, value) => self.put(txn, step, number, value, model),
            Step::PutMany(number, value, count) => {
                (0..u16::from(count)).try_for_each(|at| self.put(txn, step, number, value.wrapping_add(at), model))
            }
            Step::Delete(number) => {
                let count = self.db.delete(txn, &key(number)).map_err(failed("delete"))?;
                agree(step, count, model.remove(&key(number)).map_or(0, |values| values.len() as u64))
            }
            Step::DeleteValue(number, value) => {
                let value = Self::value(value);
                let was_there = self.db.delete_value(txn, &key(number), &value).map_err(failed("delete_value"))?;
                let values = model.entry(key(number)).or_default();
                let at = values.iter().position(|one| *one == value);
                at.map(|at| values.remove(at));
                agree(step, was_there, at.is_some())
            }
            Step::Get(number) => {
                let found = self.db.get(txn, &key(number)).map_err(failed("get"))?;
                agree(step, found.as_ref(), model.get(&key(number)).and_then(|values| values.first()))?;
                let found = self.db.values(txn, &key(number)).map_err(failed("values"))?;
                agree(step, &found, model.get(&key(number)).unwrap_or(&Vec::new()))
            }
            Step::Count(number) => {
                let count = self.db.count(txn, &key(number)).map_err(failed("count"))?;
                agree(step, count, model.get(&key(number)).map_or(0, |values| values.len() as u64))
            }
            Step::DeleteAt(number, steps) => self.change_at(txn, step, (number, steps), None, model),
            Step::PutAt(number, steps, value) => {
                self.change_at(txn, step, (number, steps), Some(Self::value(value)), model)
            }
            Step::Around(number) => self.around(txn, step, number, model),
            Step::Range(low, high, with_high) => {
                self.walk(txn, step, between(low, high, with_high), model)?;
                self.walk(txn, step, (Keys::prefix(key(low)), Box::new(move |one| one.starts_with(&key(low)))), model)
            }
            Step::DeleteRange(low, high, with_high) => {
                let (keys, is_within) = between(low, high, with_high);
                let count = self.db.delete_range(txn, keys).map_err(failed("delete_range"))?;
                let chosen: Vec<_> = model.keys().filter(|key| is_within(key)).cloned().collect();
                let gone: usize = chosen.iter().filter_map(|key| model.remove(key)).map(|values| values.len()).sum();
                agree(step, count, gone as u64)
            }
        }
    }

    /// Reads a range of keys in both directions, and counts its pairs.
    fn walk(&self, txn: &Txn<'_>, step: &Step, (keys, is_within): Chosen, model: &Map) -> Outcome<()> {
        let pairs = |(key, values): (&Vec<u8>, &Vec<Vec<u8>>)| {
            values.iter().map(|value| (key.clone(), value.clone())).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = model.iter().filter(|(key, _)| is_within(key)).flat_map(pairs).collect();
        let (mut found, mut back) = (Vec::new(), Vec::new());
        let mut cursor = self.db.range(txn, &keys).map_err(failed("range"))?;
        while let Some(pair) = cursor.next().map_err(failed("next"))? {
            found.push(pair);
        }
        // The cursor is still on the last pair.
        back.extend(found.last().cloned());
        while let Some(pair) = cursor.prev().map_err(failed("prev"))? {
            back.push(pair);
        }
        back.reverse();
        agree(step, &found, &wanted)?;
        agree(step, &back, &wanted)?;
        agree(step, self.db.count_range(txn, &keys).map_err(failed("count_range"))?, wanted.len() as u64)
    }

    fn put(&self, txn: &Txn<'_>, step: &Step, number: u8, value: u16, model: &mut Map) -> Outcome<()> {
        let value = Self::value(value);
        let is_new = self.db.put(txn, &key(number), &value).map_err(failed("put"))?;
        agree(step, is_new, Self::add(model, number, value))
    }

    fn change_at(
        &self,
        txn: &Txn<'_>,
        step: &Step,
        (number, steps): (u8, u8),
        value: Option<Vec<u8>>,
        model: &mut Map,
    ) -> Outcome<()> {
        let mut cursor = self.db.cursor(txn);
        let values = model.entry(key(number)).or_default();
        if values.is_empty() {
            return Ok(());
        }
        let mut found = cursor.seek(&key(number)).map_err(failed("seek"))?;
        let mut at = 0;
        for _ in 0..steps {
            let next = cursor.next_duplicate().map_err(failed("next_duplicate"))?;
            agree(step, next.as_ref().map(|pair| &pair.1), values.get(at + 1))?;
            if next.is_some() {
                (found, at) = (next, at + 1);
            }
        }
        agree(step, found.map(|pair| pair.1).as_ref(), values.get(at))?;
        let old = values.remove(at);
        let done = match &value {
            None => self.db.delete_at(txn, &cursor),
            Some(value) => self.db.put_at(txn, &cursor, value),
        };
        agree(step, done.map_err(failed("at the cursor"))?, true)?;
        match value {
            Some(value) if SORTED => drop(Self::add(model, number, value)),
            Some(value) => values.insert(at, value),
            None => {
                // After the deletion, the cursor is between the neighbours of the deleted value.
                let next = cursor.next_duplicate().map_err(failed("next_duplicate"))?;
                agree(step, next.map(|pair| pair.1).as_ref(), values.get(at))?;
                agree(step, self.db.delete_at(txn, &self.db.cursor(txn)).map_err(failed("nowhere"))?, false)?;
            }
        }
        drop(old);
        Ok(())
    }

    fn around(&self, txn: &Txn<'_>, step: &Step, number: u8, model: &Map) -> Outcome<()> {
        let is_there = |pair: &(&Vec<u8>, &Vec<Vec<u8>>)| !pair.1.is_empty();
        let first = |pair: (&Vec<u8>, &Vec<Vec<u8>>)| (pair.0.clone(), pair.1[0].clone());
        let last = |pair: (&Vec<u8>, &Vec<Vec<u8>>)| (pair.0.clone(), pair.1[pair.1.len() - 1].clone());
        let mut cursor = self.db.cursor(txn);
        let wanted = model.range(key(number)..).find(is_there).map(first);
        let found = cursor.seek(&key(number)).map_err(failed("seek"))?;
        agree(step, found.as_ref(), wanted.as_ref())?;
        let Some((here, _)) = wanted else { return Ok(()) };
        let wanted = model.iter().filter(is_there).find(|pair| *pair.0 > here).map(first);
        agree(step, cursor.next_key().map_err(failed("next_key"))?, wanted)?;
        cursor.seek(&here).map_err(failed("seek"))?;
        let wanted = model.iter().filter(is_there).rfind(|pair| *pair.0 < here).map(last);
        agree(step, cursor.prev_key().map_err(failed("prev_key"))?, wanted)
    }
}

fn pairs(model: &Map) -> Vec<Pair> {
    model.iter().flat_map(|(key, values)| values.iter().map(move |value| (key.clone(), value.clone()))).collect()
}

impl<const SORTED: bool> Subject for Kind<SORTED> {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, _: Shape) -> libtp::Result<Self> {
        let duplicates = if SORTED { Duplicates::Sorted } else { Duplicates::AsTheyCame };
        Ok(Kind { db: env.multi(NAME, duplicates)? })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        let done = steps.iter().try_for_each(|step| self.step(txn, step, model));
        model.retain(|_, values| !values.is_empty());
        done
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.db.cursor(txn);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while let Some(pair) = cursor.next().map_err(failed("reading upwards"))? {
            up.push(pair);
        }
        // The cursor is still on the last pair.
        down.extend(up.last().cloned());
        while let Some(pair) = cursor.prev().map_err(failed("reading downwards"))? {
            down.push(pair);
        }
        let mut model = Map::new();
        for (key, value) in &up {
            model.entry(key.clone()).or_default().push(value.clone());
        }
        down.reverse();
        match up == down && pairs(&model) == up {
            true => Ok(model),
            false => Err(TestCaseError::fail(format!(
                "the {} pairs of a scan upwards differ from the {} of a scan downwards, or are not sorted",
                up.len(),
                down.len()
            ))),
        }
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        differing(wanted, found)
    }
}

#[test]
fn sorted_duplicates_agree_with_a_map_of_sets() {
    run::<Kind<true>>("sorted duplicates", Shape { page_bytes: 4096, record_bytes: 0 }, cases() / 2, acts(step(), 16));
}

#[test]
fn duplicates_in_insertion_order_agree_with_a_map_of_lists() {
    run::<Kind<false>>(
        "duplicates in insertion order",
        Shape { page_bytes: 4096, record_bytes: 0 },
        cases() / 2,
        acts(step(), 16),
    );
}
