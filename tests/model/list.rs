//! Lists, whose records are renumbered, compared with std's `Vec`.

use libtp::{Env, List, ListCursor, Txn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::life::{acts, cases, failed, run, Outcome, Shape, Subject, NAME};

type Lines = Vec<Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Append(u8),
    AppendMany(u8),
    /// Inserts before a record. The record's number is given in 256ths of the list's length.
    InsertBefore(u8, u8),
    InsertMany(u8, u8),
    InsertAfter(u8, u8),
    Put(u8, u8),
    PutBehind(u8, u8),
    Delete(u8),
    DeleteMany(u8, u8),
    Get(u8),
    Count,
    /// Makes changes, and rolls back to a savepoint before them.
    Part(u8),
    First,
    Last,
    Seek(u8),
    Next,
    Prev,
    PutHere(u8),
    BeforeHere(u8),
    AfterHere(u8),
    DeleteHere,
}

fn step() -> impl Strategy<Value = Step> {
    let byte = any::<u8>;
    prop_oneof![
        4 => byte().prop_map(Step::Append),
        2 => byte().prop_map(Step::AppendMany),
        4 => (byte(), byte()).prop_map(|(at, byte)| Step::InsertBefore(at, byte)),
        2 => (byte(), byte()).prop_map(|(at, count)| Step::InsertMany(at, count)),
        2 => (byte(), byte()).prop_map(|(at, byte)| Step::InsertAfter(at, byte)),
        3 => (byte(), byte()).prop_map(|(at, byte)| Step::Put(at, byte)),
        1 => (0_u8..20, byte()).prop_map(|(beyond, byte)| Step::PutBehind(beyond, byte)),
        4 => byte().prop_map(Step::Delete),
        2 => (byte(), byte()).prop_map(|(at, count)| Step::DeleteMany(at, count)),
        2 => byte().prop_map(Step::Get),
        1 => Just(Step::Count),
        1 => byte().prop_map(Step::Part),
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => byte().prop_map(Step::Seek),
        3 => Just(Step::Next),
        3 => Just(Step::Prev),
        1 => byte().prop_map(Step::PutHere),
        2 => byte().prop_map(Step::BeforeHere),
        2 => byte().prop_map(Step::AfterHere),
        2 => Just(Step::DeleteHere),
    ]
}

struct Listed {
    list: List,
    record_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nowhere,
    On(usize),
    Before(usize),
}

struct Cursors<'t, 'e> {
    real: ListCursor<'t, Txn<'e>>,
    standing: Standing,
}

fn wrong<T>(what: String) -> Outcome<T> {
    Err(TestCaseError::fail(what))
}

/// Returns the index that is `at` 256ths of `count`.
fn place(at: u8, count: usize) -> usize {
    usize::from(at) * count / 256
}

fn number(index: usize) -> u64 {
    index as u64 + 1
}

impl Cursors<'_, '_> {
    fn arrive(
        &mut self,
        step: &Step,
        found: libtp::Result<Option<(u64, Vec<u8>)>>,
        (model, wanted): (&Lines, Option<usize>),
    ) -> Outcome<()> {
        let found = found.map_err(failed("a step of the cursor"))?;
        let wanted = wanted.filter(|&index| index < model.len());
        let expected = wanted.map(|index| (number(index), model[index].clone()));
        if found != expected {
            let brief = |one: Option<(u64, Vec<u8>)>| one.map(|(number, record)| (number, record.len()));
            return wrong(format!(
                "{step:?} found {:?}, wanted {:?} (the cursor was at {:?})",
                brief(found),
                brief(expected),
                self.standing
            ));
        }
        if let Some(index) = wanted {
            self.standing = Standing::On(index);
        }
        Ok(())
    }

    fn go(&mut self, step: &Step, model: &Lines) -> Outcome<()> {
        let last = model.len().checked_sub(1);
        match *step {
            Step::First => {
                let found = self.real.first();
                self.arrive(step, found, (model, Some(0)))
            }
            Step::Last => {
                let found = self.real.last();
                self.arrive(step, found, (model, last))
            }
            Step::Seek(at) => {
                let index = place(at, model.len() + 2);
                let found = self.real.seek(number(index));
                self.arrive(step, found, (model, Some(index)))
            }
            Step::Next => {
                let wanted = match self.standing {
                    Standing::Nowhere => Some(0),
                    Standing::On(index) => Some(index + 1),
                    Standing::Before(index) => Some(index),
                };
                let found = self.real.next();
                self.arrive(step, found, (model, wanted))
            }
            _ => {
                let wanted = match self.standing {
                    Standing::Nowhere => last,
                    Standing::On(index) | Standing::Before(index) => index.min(model.len()).checked_sub(1),
                };
                let found = self.real.prev();
                self.arrive(step, found, (model, wanted))
            }
        }
    }

    /// Changes the list at the cursor.
    fn change(&mut self, step: &Step, record: &[u8], model: &mut Lines) -> Outcome<()> {
        match (step, self.standing) {
            (Step::PutHere(_), standing) => {
                let done = self.real.put(record).map_err(failed("a put at the cursor"))?;
                let index = match standing {
                    Standing::On(index) if index < model.len() => Some(index),
                    _ => None,
                };
                if done != index.is_some() {
                    return wrong(format!("{step:?} returned {done} (the cursor was at {standing:?})"));
                }
                if let Some(index) = index {
                    model[index] = record.to_vec();
                }
            }
            (Step::DeleteHere, standing) => {
                let done = self.real.delete().map_err(failed("a deletion at the cursor"))?;
                let index = match standing {
                    Standing::On(index) if index < model.len() => Some(index),
                    _ => None,
                };
                if done != index.is_some() {
                    return wrong(format!("{step:?} returned {done} (the cursor was at {standing:?})"));
                }
                if let Some(index) = index {
                    self.standing = Standing::Before(index);
                    model.remove(index);
                }
            }
            (Step::BeforeHere(_), Standing::On(index) | Standing::Before(index)) => {
                let new = self.real.insert_before(record).map_err(failed("an insertion before the cursor"))?;
                insert(model, index, record);
                self.standing = match self.standing {
                    Standing::On(_) => Standing::On(index + 1),
                    _ => Standing::Before(index + 1),
                };
                if new != Some(number(index)) {
                    return wrong(format!("{step:?} at index {index} returned the number {new:?}"));
                }
            }
            (Step::AfterHere(_), Standing::On(index) | Standing::Before(index)) => {
                let new = self.real.insert_after(record).map_err(failed("an insertion after the cursor"))?;
                let at = index + usize::from(matches!(self.standing, Standing::On(_)));
                insert(model, at, record);
                if new != Some(number(at)) {
                    return wrong(format!("{step:?} at index {at} returned the number {new:?}"));
                }
            }
            (Step::BeforeHere(_), _) => {
                if self.real.insert_before(record).map_err(failed("an insertion nowhere"))?.is_some() {
                    return wrong(format!("{step:?} inserted a record although the cursor is at no record"));
                }
            }
            _ => {
                if self.real.insert_after(record).map_err(failed("an insertion nowhere"))?.is_some() {
                    return wrong(format!("{step:?} inserted a record although the cursor is at no record"));
                }
            }
        }
        Ok(())
    }
}

/// Inserts a record. If its index is beyond the end, empty records fill the gap before it.
fn insert(model: &mut Lines, index: usize, record: &[u8]) {
    if index > model.len() {
        model.resize(index, Vec::new());
    }
    model.insert(index, record.to_vec());
}

impl Listed {
    /// Returns a record. A few records are as long as several pages.
    fn record(&self, byte: u8) -> Vec<u8> {
        let length = match byte % 64 {
            0 => 0,
            1 => 3 * self.record_bytes * 20,
            part => usize::from(part) * self.record_bytes / 32,
        };
        (0..length).map(|at| byte.wrapping_add(at.to_le_bytes()[0])).collect()
    }

    fn insert(&self, txn: &Txn<'_>, index: usize, byte: u8, model: &mut Lines) -> Outcome<()> {
        let record = self.record(byte);
        let made = self.list.insert_before(txn, number(index), &record).map_err(failed("insert_before"))?;
        insert(model, index, &record);
        if made != number(index) {
            return wrong(format!("an insertion at index {index} returned the number {made}"));
        }
        Ok(())
    }

    fn append(&self, txn: &Txn<'_>, byte: u8, model: &mut Lines) -> Outcome<()> {
        let made = self.list.append(txn, &self.record(byte)).map_err(failed("append"))?;
        model.push(self.record(byte));
        if made != model.len() as u64 {
            return wrong(format!("the append of record {} returned the number {made}", model.len()));
        }
        Ok(())
    }

    fn delete(&self, txn: &Txn<'_>, index: usize, model: &mut Lines) -> Outcome<()> {
        let was_there = self.list.delete(txn, number(index)).map_err(failed("delete"))?;
        if was_there != (index < model.len()) {
            return wrong(format!("the deletion at index {index} of {} records returned {was_there}", model.len()));
        }
        if was_there {
            model.remove(index);
        }
        Ok(())
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Lines, cursors: &mut Cursors<'_, '_>) -> Outcome<()> {
        let count = model.len();
        match *step {
            Step::Append(byte) => self.append(txn, byte, model),
            Step::AppendMany(count) => (0..count).try_for_each(|byte| self.append(txn, byte, model)),
            Step::InsertBefore(at, byte) => self.insert(txn, place(at, count + 1), byte, model),
            Step::InsertMany(at, many) => {
                (0..many).try_for_each(|byte| self.insert(txn, place(at, count + 1), byte, model))
            }
            Step::InsertAfter(at, byte) => {
                let (index, record) = (place(at, count + 1), self.record(byte));
                let made = self.list.insert_after(txn, index as u64, &record).map_err(failed("insert_after"))?;
                insert(model, index, &record);
                if made != number(index) {
                    return wrong(format!("an insertion after record {index} returned the number {made}"));
                }
                Ok(())
            }
            Step::Put(at, byte) if count > 0 => {
                let (index, record) = (place(at, count), self.record(byte));
                self.list.put(txn, number(index), &record).map_err(failed("put"))?;
                model[index] = record;
                Ok(())
            }
            Step::Put(_, byte) => self.append(txn, byte, model),
            Step::PutBehind(beyond, byte) => {
                let (index, record) = (count + usize::from(beyond), self.record(byte));
                self.list.put(txn, number(index), &record).map_err(failed("put"))?;
                insert(model, index, &record);
                Ok(())
            }
            Step::Delete(at) => self.delete(txn, place(at, count + 1), model),
            Step::DeleteMany(at, many) => {
                (0..many).try_for_each(|_| self.delete(txn, place(at, model.len() + 1), model))
            }
            Step::Get(at) => {
                let index = place(at, count + 1);
                let found = self.list.get(txn, number(index)).map_err(failed("get"))?;
                match found.as_ref() == model.get(index) {
                    true => Ok(()),
                    false => wrong(format!("{step:?} found {:?} bytes", found.map(|record| record.len()))),
                }
            }
            Step::Count => match self.list.count(txn).map_err(failed("count"))? {
                found if found == count as u64 => Ok(()),
                found => wrong(format!("{found} records were counted, wanted {count}")),
            },
            Step::Part(byte) => {
                let part = txn.savepoint();
                let mut lost = model.clone();
                for at in 0..byte % 32 {
                    self.insert(txn, place(byte.wrapping_mul(at), lost.len() + 1), at, &mut lost)?;
                    self.delete(txn, place(byte.wrapping_add(at), lost.len() + 1), &mut lost)?;
                    self.delete(txn, place(at, lost.len() + 1), &mut lost)?;
                }
                part.roll_back().map_err(failed("rolling back"))
            }
            Step::First | Step::Last | Step::Seek(_) | Step::Next | Step::Prev => cursors.go(step, model),
            Step::PutHere(byte) | Step::BeforeHere(byte) | Step::AfterHere(byte) => {
                cursors.change(step, &self.record(byte), model)
            }
            Step::DeleteHere => cursors.change(step, b"", model),
        }
    }
}

impl Subject for Listed {
    type Step = Step;
    type Model = Lines;

    fn open(env: &Env, shape: Shape) -> libtp::Result<Listed> {
        Ok(Listed { list: env.list(NAME)?, record_bytes: shape.record_bytes })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Lines) -> Outcome<()> {
        let mut cursors = Cursors { real: self.list.cursor(txn), standing: Standing::Nowhere };
        steps.iter().try_for_each(|step| self.step(txn, step, model, &mut cursors))
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Lines> {
        let mut cursor = self.list.cursor(txn);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while let Some((at, record)) = cursor.next().map_err(failed("reading upwards"))? {
            if at != number(up.len()) {
                return wrong(format!("record {} has number {at}", up.len() + 1));
            }
            up.push(record);
        }
        // The cursor is still on the last record.
        down.extend(up.last().cloned());
        while let Some((_, record)) = cursor.prev().map_err(failed("reading downwards"))? {
            down.push(record);
        }
        down.reverse();
        if up != down {
            return wrong(format!(
                "the {} records of a scan upwards differ from the {} of a scan downwards",
                up.len(),
                down.len()
            ));
        }
        Ok(up)
    }

    fn difference(wanted: &Lines, found: &Lines) -> String {
        let first = wanted.iter().zip(found).position(|(one, other)| one != other);
        format!("{} records, wanted {}; the first difference has index {first:?}", found.len(), wanted.len())
    }
}

#[test]
fn lists_of_short_records_agree_with_a_vector() {
    run::<Listed>("list of short records", Shape { page_bytes: 4096, record_bytes: 20 }, cases() / 2, acts(step(), 16));
}

#[test]
fn lists_agree_with_a_vector() {
    run::<Listed>("list, 4 KiB", Shape { page_bytes: 4096, record_bytes: 60 }, cases() / 2, acts(step(), 16));
}

#[test]
fn lists_of_long_records_agree_with_a_vector() {
    run::<Listed>("list of long records", Shape { page_bytes: 4096, record_bytes: 900 }, cases() / 4, acts(step(), 12));
}
