//! B-trees compared with `BTreeMap`, with keys of every length up to the limit and values of up to three pages.

use std::ops::Bound;

use libtp::{Bytes, Cursor, Env, Error, Keys, Load, Pair, Txn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::life::{acts, agree, cases, differing, failed, run, Outcome, Shape, Subject, NAME};
use crate::pairs::{Map, Pairs};

/// A value: its length, and the byte from which its bytes are computed.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    length: Length,
    byte: u8,
}

#[derive(Clone, Copy, Debug)]
enum Length {
    Bytes(u16),
    /// The length in 255ths of three pages.
    Pages(u8),
    /// The length as the difference to the length of a page.
    Edge(i8),
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Filling),
    PutNew(u8, Filling),
    /// Puts neighbouring keys, in ascending or descending order.
    PutMany {
        first: u8,
        count: u8,
        filling: Filling,
        is_downwards: bool,
    },
    Update(u8, u8),
    UpdatePart(u8, (u16, u8)),
    Add(u8, (u16, u8)),
    Delete(u8),
    DeleteMany {
        first: u8,
        count: u8,
    },
    /// Deletes all keys in a range, with or without its upper bound, or with a prefix.
    DeleteRange(Part),
    Count(Part),
    /// Moves a cursor over some of the keys, to the end and back.
    WalkRange(Part),
    Get(u8),
    GetMany(Vec<u8>),
    GetForUpdate(u8),
    First,
    Last,
    Seek(u8),
    Next,
    Prev,
    /// Moves the cursor by this number of keys, up or down.
    Walk(i8),
}

/// Some of the keys.
#[derive(Clone, Copy, Debug)]
enum Part {
    Between(u8, u8),
    UpTo(u8, u8),
    From(u8),
    /// The keys with a prefix: the first bytes of a key.
    Prefix(u8, u8),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(low, high)| Part::Between(low, high)),
        (any::<u8>(), any::<u8>()).prop_map(|(low, high)| Part::UpTo(low, high)),
        any::<u8>().prop_map(Part::From),
        (any::<u8>(), any::<u8>()).prop_map(|(number, bytes)| Part::Prefix(number, bytes)),
    ]
}

/// Generates values. Most are short; a few have up to three pages.
pub fn filling() -> impl Strategy<Value = Filling> + Clone {
    let length = prop_oneof![
        6 => (0u16..80).prop_map(Length::Bytes),
        3 => (80u16..1500).prop_map(Length::Bytes),
        1 => any::<u8>().prop_map(Length::Pages),
        1 => any::<i8>().prop_map(Length::Edge),
    ];
    (length, any::<u8>()).prop_map(|(length, byte)| Filling { length, byte })
}

/// Generates an offset in a value, sometimes a large one, and a byte to store there.
pub fn place() -> impl Strategy<Value = (u16, u8)> + Clone {
    (prop_oneof![4 => 0u16..20, 2 => 0u16..1500, 1 => 0u16..13000], any::<u8>())
}

fn step() -> impl Strategy<Value = Step> {
    let filling = filling();
    let key = prop_oneof![3 => 0u8..24, 1 => any::<u8>()];
    prop_oneof![
        8 => (key.clone(), filling.clone()).prop_map(|(key, filling)| Step::Put(key, filling)),
        3 => (key.clone(), filling.clone()).prop_map(|(key, filling)| Step::PutNew(key, filling)),
        2 => (any::<u8>(), any::<u8>(), filling, any::<bool>()).prop_map(|(first, count, filling, is_downwards)| {
            Step::PutMany { first, count: count % 64, filling, is_downwards }
        }),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, byte)| Step::Update(key, byte)),
        2 => (key.clone(), place()).prop_map(|(key, place)| Step::UpdatePart(key, place)),
        2 => (key.clone(), place()).prop_map(|(key, place)| Step::Add(key, place)),
        5 => key.clone().prop_map(Step::Delete),
        1 => (any::<u8>(), 0u8..64).prop_map(|(first, count)| Step::DeleteMany { first, count }),
        1 => part().prop_map(Step::DeleteRange),
        1 => part().prop_map(Step::Count),
        1 => part().prop_map(Step::WalkRange),
        3 => key.clone().prop_map(Step::Get),
        1 => prop::collection::vec(key.clone(), 0..20).prop_map(Step::GetMany),
        1 => key.clone().prop_map(Step::GetForUpdate),
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => key.prop_map(Step::Seek),
        3 => Just(Step::Next),
        3 => Just(Step::Prev),
        1 => any::<i8>().prop_map(Step::Walk),
    ]
}

/// Returns the key of a number. A few keys have the largest length, one is empty, many share a prefix.
pub fn key(number: u8, limit: usize) -> Vec<u8> {
    let text = format!("{number:03}");
    let mut key = match number % 8 {
        0 if number == 0 => return Vec::new(),
        0 => text.repeat(limit / 3),
        1..=3 => format!("shared beginning of many keys/{text}"),
        4 => format!("{text}/{}", "x".repeat(usize::from(number) * 2 % limit)),
        _ => text,
    }
    .into_bytes();
    if number % 16 == 8 {
        key.resize(limit, number);
    }
    key.truncate(limit);
    key
}

/// Returns the bytes of a value.
pub fn value(filling: Filling, page_bytes: usize) -> Vec<u8> {
    let length = match filling.length {
        Length::Bytes(bytes) => usize::from(bytes),
        Length::Pages(part) => 3 * page_bytes * usize::from(part) / 255,
        Length::Edge(off) => page_bytes.saturating_add_signed(isize::from(off)),
    };
    (0..length).map(|at| filling.byte.wrapping_add(at.to_le_bytes()[0]).wrapping_mul(31)).collect()
}

struct Tree {
    pairs: Pairs,
}

/// The position of the model's cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Nowhere,
    On(Vec<u8>),
}

/// A cursor of the library, and the position in the model at which it must be.
struct Cursors<'t> {
    real: Cursor<'t>,
    standing: Standing,
}

impl Cursors<'_> {
    /// Compares the pair that a step found with the wanted pair. If both are `None`, the cursor stays.
    fn arrive(&mut self, step: &Step, found: Option<Pair>, wanted: Option<Pair>) -> Outcome<()> {
        if found != wanted {
            let (found, wanted) = (brief(found.as_ref()), brief(wanted.as_ref()));
            return Err(TestCaseError::fail(format!(
                "{step:?} found {found}, wanted {wanted} (the cursor was at {:?})",
                self.standing
            )));
        }
        if let Some((key, _)) = wanted {
            self.standing = Standing::On(key);
        }
        Ok(())
    }

    fn next(&mut self, step: &Step, model: &Map) -> Outcome<()> {
        let found = self.real.next().map_err(failed("next"))?;
        let wanted = match &self.standing {
            Standing::Nowhere => model.iter().next(),
            Standing::On(key) => model.range::<[u8], _>((Bound::Excluded(&key[..]), Bound::Unbounded)).next(),
        };
        self.arrive(step, found, wanted.map(owned))
    }

    fn prev(&mut self, step: &Step, model: &Map) -> Outcome<()> {
        let found = self.real.prev().map_err(failed("prev"))?;
        let wanted = match &self.standing {
            Standing::Nowhere => model.iter().next_back(),
            Standing::On(key) => model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&key[..]))).next_back(),
        };
        self.arrive(step, found, wanted.map(owned))
    }
}

fn owned(pair: (&Vec<u8>, &Vec<u8>)) -> Pair {
    (pair.0.clone(), pair.1.clone())
}

fn brief(pair: Option<&Pair>) -> String {
    match pair {
        None => "nothing".into(),
        Some((key, value)) => {
            let head = String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned();
            format!("{head:?} ({} bytes) with {} bytes {:?}", key.len(), value.len(), &value[..value.len().min(4)])
        }
    }
}

impl Tree {
    fn keys(&self, part: Part) -> Keys {
        match part {
            Part::Between(low, high) => (self.key(low)..self.key(high)).into(),
            Part::UpTo(low, high) => (self.key(low)..=self.key(high)).into(),
            Part::From(low) => (self.key(low)..).into(),
            Part::Prefix(number, bytes) => Keys::prefix(self.beginning(number, bytes)),
        }
    }

    fn beginning(&self, number: u8, bytes: u8) -> Vec<u8> {
        let mut key = self.key(number);
        key.truncate(usize::from(bytes) % 40);
        key
    }

    /// Returns the model's pairs in `part`.
    fn of_part(&self, part: Part, model: &Map) -> Vec<Pair> {
        let is_meant = |key: &Vec<u8>| match part {
            Part::Between(low, high) => *key >= self.key(low) && *key < self.key(high),
            Part::UpTo(low, high) => *key >= self.key(low) && *key <= self.key(high),
            Part::From(low) => *key >= self.key(low),
            Part::Prefix(number, bytes) => key.starts_with(&self.beginning(number, bytes)),
        };
        model.iter().filter(|(key, _)| is_meant(key)).map(owned).collect()
    }

    fn key(&self, number: u8) -> Vec<u8> {
        key(number, self.pairs.db.key_bytes_max())
    }

    fn step(&self, txn: &Txn<'_>, step: &Step, model: &mut Map, cursors: &mut Cursors<'_>) -> Outcome<()> {
        match step {
            Step::Put(number, filling) => self.put(txn, *number, *filling, model),
            Step::PutMany { first, count, filling, is_downwards } => (0..*count).try_for_each(|at| {
                let at = if *is_downwards { count - at } else { at };
                self.put(txn, first.wrapping_add(at), *filling, model)
            }),
            Step::PutNew(number, filling) => {
                self.pairs.put_new(txn, self.key(*number), value(*filling, self.pairs.page_bytes), model)
            }
            Step::Update(number, byte) => self.pairs.update(txn, &self.key(*number), *byte, model),
            Step::UpdatePart(number, place) => self.pairs.update_part(txn, &self.key(*number), *place, model),
            Step::Add(number, place) => self.pairs.add(txn, &self.key(*number), *place, model),
            Step::Delete(number) => self.pairs.delete(txn, &self.key(*number), model),
            Step::DeleteMany { first, count } => {
                (0..*count).try_for_each(|at| self.pairs.delete(txn, &self.key(first.wrapping_add(at)), model))
            }
            Step::DeleteRange(part) => {
                let gone = self.of_part(*part, model);
                gone.iter().for_each(|(key, _)| drop(model.remove(key)));
                let count = self.pairs.db.delete_range(txn, self.keys(*part)).map_err(failed("delete_range"))?;
                agree(step, count, gone.len() as u64)
            }
            Step::Count(part) => {
                let count = self.pairs.db.count(txn, self.keys(*part)).map_err(failed("count"))?;
                agree(step, count, self.of_part(*part, model).len() as u64)
            }
            Step::WalkRange(part) => {
                let mut cursor = self.pairs.db.range(txn, self.keys(*part)).map_err(failed("range"))?;
                let (mut up, mut down) = (Vec::new(), Vec::new());
                while let Some(pair) = cursor.next().map_err(failed("next within"))? {
                    up.push(pair);
                }
                // The cursor is still on the last pair.
                down.extend(up.last().cloned());
                while let Some(pair) = cursor.prev().map_err(failed("prev within"))? {
                    down.push(pair);
                }
                let wanted = self.of_part(*part, model);
                agree(step, up.len(), wanted.len())?;
                agree(step, up == wanted, down.iter().rev().eq(&wanted))?;
                agree(step, up == wanted, true)
            }
            Step::Get(number) => self.pairs.get(txn, &self.key(*number), false, model),
            Step::GetMany(numbers) => {
                let keys: Vec<Vec<u8>> = numbers.iter().map(|number| self.key(*number)).collect();
                self.pairs.get_many(txn, &keys, model)
            }
            Step::GetForUpdate(number) => self.pairs.get(txn, &self.key(*number), true, model),
            Step::First => {
                let found = cursors.real.first().map_err(failed("first"))?;
                cursors.arrive(step, found, model.iter().next().map(owned))
            }
            Step::Last => {
                let found = cursors.real.last().map_err(failed("last"))?;
                cursors.arrive(step, found, model.iter().next_back().map(owned))
            }
            Step::Seek(number) => {
                let key = self.key(*number);
                let found = cursors.real.seek(&key).map_err(failed("seek"))?;
                cursors.arrive(step, found, model.range(key..).next().map(owned))
            }
            Step::Next => cursors.next(step, model),
            Step::Prev => cursors.prev(step, model),
            Step::Walk(way) => (0..way.unsigned_abs()).try_for_each(|_| match *way > 0 {
                true => cursors.next(step, model),
                false => cursors.prev(step, model),
            }),
        }
    }

    fn put(&self, txn: &Txn<'_>, number: u8, filling: Filling, model: &mut Map) -> Outcome<()> {
        self.pairs.put(txn, self.key(number), value(filling, self.pairs.page_bytes), model)
    }
}

impl Subject for Tree {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, shape: Shape) -> libtp::Result<Tree> {
        Ok(Tree { pairs: Pairs { db: env.btree(NAME)?, page_bytes: shape.page_bytes } })
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        let mut cursors = Cursors { real: self.pairs.db.cursor(txn), standing: Standing::Nowhere };
        steps.iter().try_for_each(|step| self.step(txn, step, model, &mut cursors))
    }

    fn compact(&self) -> Outcome<()> {
        match self.pairs.db.compact(90) {
            // An open transaction has locked the whole database.
            Ok(_) | Err(Error::LockTimeout(_)) => Ok(()),
            Err(error) => Err(failed("compact")(error)),
        }
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        let mut cursor = self.pairs.db.cursor(txn);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut at = cursor.first().map_err(failed("reading upwards"))?;
        while let Some(pair) = at {
            up.push(pair);
            at = cursor.next().map_err(failed("reading upwards"))?;
        }
        let mut at = cursor.last().map_err(failed("reading downwards"))?;
        while let Some(pair) = at {
            down.push(pair);
            at = cursor.prev().map_err(failed("reading downwards"))?;
        }
        down.reverse();
        if up != down {
            return Err(TestCaseError::fail(format!(
                "the {} pairs of a scan upwards differ from the {} of a scan downwards",
                up.len(),
                down.len()
            )));
        }
        if let Some(two) = up.windows(2).find(|two| two[0].0 >= two[1].0) {
            return Err(TestCaseError::fail(format!("out of order: {}, {}", brief(two.first()), brief(two.last()))));
        }
        Ok(up.into_iter().collect())
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        differing(wanted, found)
    }
}

/// A tree that was bulk-loaded when it was new.
struct Loaded(Tree);

impl Subject for Loaded {
    type Step = Step;
    type Model = Map;

    fn open(env: &Env, shape: Shape) -> libtp::Result<Loaded> {
        Ok(Loaded(Tree::open(env, shape)?))
    }

    fn begin(&self) -> Outcome<Map> {
        let filling = |number: u8| Filling {
            length: match number % 16 {
                3 => Length::Pages(number),
                9 => Length::Edge(i8::from_le_bytes([number])),
                _ => Length::Bytes(u16::from(number) * 3),
            },
            byte: number,
        };
        let pairs = (0..=u8::MAX).filter(|number| number % 3 != 1);
        let pairs: Vec<Pair> =
            pairs.map(|number| (self.0.key(number), value(filling(number), self.0.pairs.page_bytes))).collect();
        let how = Load::unsorted().memory(Bytes::kib(32)).fill_percent(80);
        let model: Map = pairs.iter().cloned().collect();
        let loaded = self.0.pairs.db.load(&how, pairs).map_err(failed("load"))?;
        match loaded == model.len() as u64 {
            true => Ok(model),
            false => Err(TestCaseError::fail(format!("{loaded} records were loaded, wanted {}", model.len()))),
        }
    }

    fn work(&self, txn: &Txn<'_>, steps: &[Step], model: &mut Map) -> Outcome<()> {
        self.0.work(txn, steps, model)
    }

    fn compact(&self) -> Outcome<()> {
        self.0.compact()
    }

    fn state(&self, txn: &Txn<'_>) -> Outcome<Map> {
        self.0.state(txn)
    }

    fn difference(wanted: &Map, found: &Map) -> String {
        Tree::difference(wanted, found)
    }
}

#[test]
fn a_btree_that_was_loaded_agrees_with_a_map() {
    run::<Loaded>("btree loaded", Shape { page_bytes: 4096, record_bytes: 0 }, cases() / 2, acts(step(), 16));
}

#[test]
fn a_btree_with_pages_of_4_kib_agrees_with_a_map() {
    run::<Tree>("btree 4 KiB", Shape { page_bytes: 4096, record_bytes: 0 }, cases(), acts(step(), 16));
}

#[test]
fn a_btree_with_pages_of_8_kib_agrees_with_a_map() {
    run::<Tree>("btree 8 KiB", Shape { page_bytes: 8192, record_bytes: 0 }, cases() / 2, acts(step(), 16));
}

#[test]
fn a_btree_with_pages_of_64_kib_agrees_with_a_map() {
    run::<Tree>("btree 64 KiB", Shape { page_bytes: 65536, record_bytes: 0 }, cases() / 6, acts(step(), 12));
}

#[test]
fn a_record_that_moves_while_it_is_changed_is_changed_in_its_new_place() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().memory(Bytes::mib(8)).open(directory.path()).unwrap();
    let tree = env.btree("tree").unwrap();
    let key = |number: u8| [b'k', number];
    env.run(|txn| (0..40).try_for_each(|number| tree.put(txn, &key(number), &[number; 20]))).unwrap();
    env.run(|txn| {
        // The program's calls move the record on its leaf. The calls in the first function move it to another slot, and
        // the call in the second function moves it to another cell.
        tree.update_with(txn, &key(20), |value| {
            tree.put(txn, &key(100), &[1; 20]).unwrap();
            tree.put(txn, b"k", &[2; 20]).unwrap();
            value.fill(0xA5);
        })?;
        tree.update_with(txn, &key(30), |value| {
            tree.put(txn, &key(30), &[3; 200]).unwrap();
            value.fill(0x5A);
        })
    })
    .unwrap();
    env.run(|txn| {
        for number in 0..40 {
            let byte = match number {
                20 => 0xA5,
                30 => 0x5A,
                _ => number,
            };
            assert_eq!(tree.get(txn, &key(number))?, Some(vec![byte; 20]), "{number}");
        }
        Ok(())
    })
    .unwrap();
    assert!(env.verify("tree").unwrap().findings.is_empty());
}
