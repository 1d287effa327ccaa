//! Records by number compared with `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;

use libtp::{Env, Recno, RecnoCursor, Txn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::btree::place;
use crate::life::{acts, agree, cases, differing, failed, run, Outcome, Shape, Subject, NAME};
use crate::pairs::parted;

type Map = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Append(u8),
    AppendMany(u8),
    Put(u64, u8),
    UpdatePart(u64, (u16, u8)),
    Add(u64, (u16, u8)),
    Get(u64),
    Delete(u64),
    First,
    Last,
    Seek(u64),
    Next,
    Prev,
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![6 => 1u64..20, 2 => 1u64..120, 1 => 1u64..600];
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Append),
        1 => any::<u8>().prop_map(Step::AppendMany),
        5 => (number.clone(), any::<u8>()).prop_map(|(number, byte)| Step::Put(number, byte)),
        2 => (number.clone(), place()).prop_map(|(number, place)| Step::UpdatePart(number, place)),
        2 => (number.clone(), place()).prop_map(|(number, place)| Step::Add(number, place)),
        3 => number.clone().prop_map(Step::Get),
        4 => number.clone().prop_map(Step::Delete),
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => number.prop_map(Step::Seek),
        3 => Just(Step::Next),
        3 => Just(Step::Prev),
    ]
}

struct Numbers {
    recno: Recno,
    record_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nowhere,
    On(u64),
}

struct Cursors<'t> {
    real: RecnoCursor<'t>,
    standing: Standing,
}

type Found = Option<(u64, Vec<u8>)>;

impl Cursors<'_> {
    fn arrive(&mut self, step: &Step, found: Found, wanted: Option<(&u64, &Vec<u8>)>) -> Outcome<()> {
        let wanted: Found = wanted.map(|(number, record)| (*number, record.clone()));
        if found != wanted {
            let [found, wanted] =
                [found, wanted].map(|one| one.map(|(number, record)| (number, record.first().copied())));
            return Err(TestCaseError::fail(format!(
                "{step:?} found {found:?}, wanted {wanted:?} (the cursor was at {:?})",
                self.standing
            )));
        }
        if let Some((number, _)) = wanted {
            self.standing = Standing::On(number);
        }
        Ok(())
    }
}

impl Numbers {
    fn record(&self, byte: u8) -> Vec<u8> {
        (0..self.record_bytes).map(|at| byte.wrapping_add(at.to_le_bytes()[0])).collect()
    }

    fn append(&self, txn: &Txn<'_>, byte: u8, model: &mut Map) -> Outcome<()> {
        let record = self.record(byte);
        let number = self.recno.append(txn, &record).map_err(failed("append"))?;
        if let Some((last, _)) = model.last_key_value().filter(|(last, _)| **last >= number) {
            return Err(TestCaseError::fail(format!(
                "an append took number {number}, and the higher number {last} is in use"
            )));
        }
        model.insert(number, record);
        Ok(())
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map, cursors: &mut Cursors<'_>) -> Outcome<()> {
        match *step {
            Step::Append(byte) => self.append(txn, byte, model),
            Step::AppendMany(count) => (0..count).try_for_each(|byte| self.append(txn, byte, model)),
            Step::Put(number, byte) => {
                let record = self.record(byte);
                self.recno.put(txn, number, &record).map_err(failed("put"))?;
                model.insert(number, record);
                Ok(())
            }
            Step::UpdatePart(number, (offset, byte)) => {
                let (offset, bytes) = (usize::from(offset), [byte, !byte]);
                let done = self.recno.update_part(txn, number, offset, &bytes).map(|is_there| is_there.then_some(()));
                let change = |record: &mut Vec<u8>| {
                    record.get_mut(offset..)?.get_mut(..2)?.copy_from_slice(&bytes);
                    Some(())
                };
                agree(step, parted(done)?, model.get_mut(&number).map(change))
            }
            Step::Add(number, (offset, byte)) => {
                let (offset, amount) = (usize::from(offset), i64::from(byte) - 100);
                let done = parted(self.recno.add(txn, number, offset, amount))?;
                let add = |record: &mut Vec<u8>| {
                    let number = record.get_mut(offset..)?.first_chunk_mut()?;
                    *number = i64::from_le_bytes(*number).wrapping_add(amount).to_le_bytes();
                    Some(i64::from_le_bytes(*number))
                };
                agree(step, done, model.get_mut(&number).map(add))
            }
            Step::Get(number) => {
                let found = self.recno.get(txn, number).map_err(failed("get"))?;
                match found.as_ref() == model.get(&number) {
                    true => Ok(()),
                    false => Err(TestCaseError::fail(format!(
                        "{step:?} found another value than the model, or found none (a value was found: {})",
                        found.is_some()
                    ))),
                }
            }
            Step::Delete(number) => {
                let was_there = self.recno.delete(txn, number).map_err(failed("delete"))?;
                match was_there == model.remove(&number).is_some() {
                    true => Ok(()),
                    false => Err(TestCaseError::fail(format!("{step:?} returned {was_there}"))),
                }
            }
            Step::First => {
                let found = cursors.real.first().map_err(failed("first"))?;
                cursors.arrive(step, found, model.iter().next())
            }
            Step::Last => {
                let found = cursors.real.last().map_err(failed("last"))?;
                cursors.arrive(step, found, model.iter().next_back())
            }
            Step::Seek(number) => {
                let found = cursors.real.seek(number).map_err(failed("seek"))?;
                cursors.arrive(step, found, model.range(number..).next())
            }
            Step::Next => {
                let found = cursors.real.next().map_err(failed("next"))?;
                let wanted = match cursors.standing {
                    Standing::Nowhere => model.iter().next(),
                    Standing::On(number) => model.range((Bound::Excluded(number), Bound::Unbounded)).next(),
                };
                cursors.arrive(step, found, wanted)
            }
            Step::Prev => {
                let found = cursors.real.prev().map_err(failed("prev"))?;
                let wanted = match cursors.standing {
                    Standing::Nowhere => model.iter().next_back(),
                    Standing::On(number) => model.range(..number).next_back(),
                };
                cursors.arrive(step, found, wanted)
            }
        }
    }
}

impl Subject for Numbers {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, shape: Shape) -> libtp::Result<Numbers> {
        let bytes = u32::try_from(shape.record_bytes).expect("records are short");
        Ok(Numbers { recno: env.recno(NAME, bytes)?, record_bytes: shape.record_bytes })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        let mut cursors = Cursors { real: self.recno.cursor(txn), standing: Standing::Nowhere };
        steps.iter().try_for_each(|step| self.step(txn, step, model, &mut cursors))
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.recno.cursor(txn);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut at = cursor.first().map_err(failed("reading upwards"))?;
        while let Some(found) = at {
            up.push(found);
            at = cursor.next().map_err(failed("reading upwards"))?;
        }
        let mut at = cursor.last().map_err(failed("reading downwards"))?;
        while let Some(found) = at {
            down.push(found);
            at = cursor.prev().map_err(failed("reading downwards"))?;
        }
        down.reverse();
        if up != down || !up.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(TestCaseError::fail(format!(
                "the {} records of a scan upwards differ from the {} of a scan downwards, or are not sorted",
                up.len(),
                down.len()
            )));
        }
        Ok(up.into_iter().collect())
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        differing(wanted, found)
    }
}

#[test]
fn short_records_agree_with_a_map() {
    run::<Numbers>("recno of 12 bytes", Shape { page_bytes: 4096, record_bytes: 12 }, cases(), acts(step(), 16));
}

#[test]
fn long_records_agree_with_a_map() {
    run::<Numbers>("recno of 900 bytes", Shape { page_bytes: 4096, record_bytes: 900 }, cases() / 2, acts(step(), 16));
}

#[test]
fn records_on_large_pages_agree_with_a_map() {
    run::<Numbers>("recno, 64 KiB", Shape { page_bytes: 65536, record_bytes: 3000 }, cases() / 6, acts(step(), 12));
}
