//! Random transactions that append without reading: values to keys of a `Multi`, records to a `List` and to a
//! `Recno`, and records of a database with an index.
//!
//! An append to a `Multi` or a `List`, and an append in order to a `Recno`, report no order, but a read shows the values
//! in the order of the transactions that appended them. `Recno::append` chooses its number without a lock, so these
//! numbers are not in the order of the transactions (PROTOCOLS K3). Therefore the checker treats the records of the
//! `Recno` to which the transactions append without order, and the entries of the index, as rows, which a scan finds or
//! does not find.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libtp::{Bytes, Db, Duplicates, Durability, Env, Error, Index, List, Multi, Recno, Result, Settings, Txn};
use libtp_sim::Random;
use libtp_tests::process::now;
use libtp_tests::sizes;

use crate::checker::{check, lost_at_the_end, Verdict};
use crate::history::{Element, Record, Row, Step};

const THREADS: usize = 4;
/// The number of transactions in one environment. It is bounded because the reads get longer with each append.
const ROUND: u64 = 600;
/// The number of keys of the `Multi`. To the checker, the values of each key are a list, with a number from 0 to 3. The
/// lists with the next numbers are the `List`s, and the lists with the highest numbers are the `Recno`s to which the
/// transactions append in order.
const KEYS: u32 = 4;
const LISTS: u32 = 2;
const IN_ORDER: u32 = 2;
/// The lists with lower numbers are not `Recno`s.
const FIRST_IN_ORDER: u32 = KEYS + LISTS;
const ALL_LISTS: u32 = FIRST_IN_ORDER + IN_ORDER;
/// The range of rows that are the records of the `Recno` to which the transactions append without order.
const NUMBERS: u32 = 0;
/// The range of rows that are the entries of the index.
const INDEXED: u32 = 1;
/// The number of records of the database with the index, and of keys of the index.
const RECORDS: u64 = 24;
const PLACES: u32 = 8;

struct Stage<'e> {
    env: &'e Env,
    multi: Multi,
    lists: Vec<List>,
    in_order: Vec<Recno>,
    numbers: Recno,
    records: Db,
    places: Index,
    begun: AtomicU64,
    elements: AtomicU64,
    transactions: u64,
}

fn element_of(bytes: &[u8]) -> Element {
    Element::from_le_bytes(bytes.try_into().expect("an element has eight bytes"))
}

fn key_of(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Returns a record of the database with the index: the row's place, which is the index key, and its element.
fn record_of(row: Row) -> Vec<u8> {
    [&row.place.to_be_bytes()[..], &row.element.to_le_bytes()].concat()
}

fn row_of(record: &[u8]) -> Row {
    let (place, element) = record.split_at(4);
    let place = u32::from_be_bytes(place.try_into().expect("four bytes were split off"));
    Row { range: INDEXED, place, element: element_of(element) }
}

impl<'e> Stage<'e> {
    fn new(env: &'e Env, transactions: u64) -> Result<Stage<'e>> {
        let multi = env.multi("multi", Duplicates::AsTheyCame)?;
        let lists = (0..LISTS).map(|list| env.list(&format!("list{list}"))).collect::<Result<_>>()?;
        let in_order =
            (0..IN_ORDER).map(|number| env.recno(&format!("in order {number}"), 8)).collect::<Result<_>>()?;
        let (numbers, records) = (env.recno("numbers", 8)?, env.btree("records")?);
        let places = records.index("places", |_, record, keys| keys.add(&record[..4]))?;
        let (begun, elements) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Stage { env, multi, lists, in_order, numbers, records, places, begun, elements, transactions })
    }

    fn new_element(&self) -> Element {
        // Relaxed: only the uniqueness of each element matters.
        1 + self.elements.fetch_add(1, Ordering::Relaxed)
    }

    fn push(&self, txn: &Txn<'_>, list: u32) -> Result<Step> {
        let element = self.new_element();
        let bytes = element.to_le_bytes();
        match list {
            ..KEYS => drop(self.multi.put(txn, &key_of(list), &bytes)?),
            KEYS..FIRST_IN_ORDER => drop(self.lists[(list - KEYS) as usize].append(txn, &bytes)?),
            _ => drop(self.in_order[(list - FIRST_IN_ORDER) as usize].append_in_order(txn, &bytes)?),
        }
        Ok(Step::Push { list, element })
    }

    fn read(&self, txn: &Txn<'_>, list: u32) -> Result<Step> {
        let mut elements = Vec::new();
        match list {
            ..KEYS => elements.extend(self.multi.values(txn, &key_of(list))?.iter().map(|value| element_of(value))),
            KEYS..FIRST_IN_ORDER => {
                let mut cursor = self.lists[(list - KEYS) as usize].cursor(txn);
                while let Some((_, record)) = cursor.next()? {
                    elements.push(element_of(&record));
                }
            }
            _ => {
                let mut cursor = self.in_order[(list - FIRST_IN_ORDER) as usize].cursor(txn);
                while let Some((_, record)) = cursor.next()? {
                    elements.push(element_of(&record));
                }
            }
        }
        Ok(Step::ReadList { list, elements })
    }

    fn append_number(&self, txn: &Txn<'_>) -> Result<Step> {
        let element = self.new_element();
        let number = self.numbers.append(txn, &element.to_le_bytes())?;
        Ok(Step::Insert { row: Row { range: NUMBERS, place: u32::try_from(number).expect("few records"), element } })
    }

    fn scan_numbers(&self, txn: &Txn<'_>, is_upwards: bool) -> Result<Step> {
        let mut cursor = self.numbers.cursor(txn);
        let mut rows = BTreeSet::new();
        while let Some((number, record)) = if is_upwards { cursor.next()? } else { cursor.prev()? } {
            let place = u32::try_from(number).expect("few records");
            rows.insert(Row { range: NUMBERS, place, element: element_of(&record) });
        }
        Ok(Step::Scan { range: NUMBERS, from: 0, to: u32::MAX, rows })
    }

    /// Moves a record to another place of the index, or inserts it.
    fn move_record(&self, txn: &Txn<'_>, key: u64, place: u32, steps: &mut Vec<Step>) -> Result<()> {
        let old = self.records.get_for_update(txn, &key.to_be_bytes())?;
        let row = Row { range: INDEXED, place, element: self.new_element() };
        self.records.put(txn, &key.to_be_bytes(), &record_of(row))?;
        steps.extend(old.map(|old| Step::Delete { row: row_of(&old) }));
        steps.push(Step::Insert { row });
        Ok(())
    }

    fn remove_record(&self, txn: &Txn<'_>, key: u64, steps: &mut Vec<Step>) -> Result<()> {
        if let Some(old) = self.records.get_for_update(txn, &key.to_be_bytes())? {
            self.records.delete(txn, &key.to_be_bytes())?;
            steps.push(Step::Delete { row: row_of(&old) });
        }
        Ok(())
    }

    fn scan_places(&self, txn: &Txn<'_>, from: u32, to: u32) -> Result<Step> {
        let keys = from.to_be_bytes().to_vec()..=to.to_be_bytes().to_vec();
        let mut cursor = self.places.range(txn, keys);
        let mut rows = BTreeSet::new();
        while let Some(entry) = cursor.next()? {
            let row = row_of(&entry.value);
            assert_eq!(
                entry.index_key,
                row.place.to_be_bytes(),
                "an index entry leads to a record with another index key"
            );
            rows.insert(row);
        }
        Ok(Step::Scan { range: INDEXED, from, to, rows })
    }

    fn everything(&self) -> Result<Record> {
        let (begin, txn) = (now(), self.env.begin()?);
        let mut steps = (0..ALL_LISTS).map(|list| self.read(&txn, list)).collect::<Result<Vec<_>>>()?;
        steps.push(self.scan_numbers(&txn, true)?);
        steps.push(self.scan_places(&txn, 0, PLACES)?);
        txn.commit()?;
        Ok(Record { thread: usize::MAX, begin, end: now(), is_committed: true, steps })
    }

    fn step(&self, txn: &Txn<'_>, random: &mut Random, steps: &mut Vec<Step>) -> Result<()> {
        let below = |random: &mut Random, limit: u32| u32::try_from(random.below(limit.into())).expect("below a u32");
        let step = match random.below(20) {
            0..=8 => self.push(txn, below(random, ALL_LISTS))?,
            9..=10 => self.read(txn, below(random, ALL_LISTS))?,
            11..=13 => self.append_number(txn)?,
            14 => self.scan_numbers(txn, random.coin())?,
            15..=16 => return self.move_record(txn, random.below(RECORDS), below(random, PLACES), steps),
            17 => return self.remove_record(txn, random.below(RECORDS), steps),
            _ => {
                let (one, other) = (below(random, PLACES), below(random, PLACES));
                self.scan_places(txn, one.min(other), one.max(other))?
            }
        };
        steps.push(step);
        Ok(())
    }

    /// Runs one transaction of two to four steps. Returns its record.
    fn transaction(&self, thread: usize, random: &mut Random) -> Result<Record> {
        let (begin, txn, mut steps) = (now(), self.env.begin()?, Vec::new());
        let worked = (0..2 + random.below(3)).try_for_each(|_| self.step(&txn, random, &mut steps));
        let is_committed = match worked {
            Ok(()) if !random.chance(1, 10) => txn.commit().map(|()| true)?,
            Ok(()) | Err(Error::Deadlock) => txn.abort().map(|()| false)?,
            Err(error) => return Err(error),
        };
        Ok(Record { thread, begin, end: now(), is_committed, steps })
    }

    fn play(&self, thread: usize, seed: u64) -> Result<Vec<Record>> {
        let (mut random, mut records) = (Random::new(seed << 8 | thread as u64), Vec::new());
        // Relaxed: a plain counter, which publishes nothing.
        while self.begun.fetch_add(1, Ordering::Relaxed) < self.transactions {
            records.push(self.transaction(thread, &mut random)?);
        }
        Ok(records)
    }
}

/// Runs a round. Returns the checker's verdict on its history.
fn play(seed: u64, transactions: u64) -> Result<Verdict> {
    let directory = tempfile::tempdir().map_err(|error| Error::Io(Box::new(error)))?;
    let settings =
        Settings { memory: Some(Bytes::mib(2)), durability: Some(Durability::Relaxed), ..Settings::default() };
    let env = Env::builder().settings(settings).open(directory.path())?;
    let stage = Stage::new(&env, transactions)?;
    let played: Vec<Result<Vec<Record>>> = std::thread::scope(|scope| {
        let stage = &stage;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || stage.play(thread, seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread of the workload panicked")).collect()
    });
    let mut history = played.into_iter().collect::<Result<Vec<_>>>()?.concat();
    history.push(stage.everything()?);
    let mut verdict = check(&history);
    verdict.anomalies.extend(lost_at_the_end(&history, history.len() - 1));
    Ok(verdict)
}

#[test]
fn appends_without_reads_are_strictly_serializable() {
    let (wanted, first) = (sizes::number("LIBTP_TEST_TXNS", 20_000) / 10, sizes::first_seed());
    let (mut committed, mut dependencies, mut ambiguous) = (0, 0, 0);
    for (seed, done) in (first..).zip((0..wanted.div_ceil(ROUND)).map(|round| round * ROUND)) {
        let verdict =
            play(seed, ROUND.min(wanted - done)).unwrap_or_else(|error| panic!("LIBTP_TEST_SEED={seed}: {error}"));
        assert!(verdict.is_clean(), "LIBTP_TEST_SEED={seed}:\n{}", verdict.worst());
        committed += verdict.committed;
        dependencies += verdict.dependencies;
        ambiguous += verdict.ambiguous;
    }
    println!(
        "figures: {committed} of {wanted} transactions that append committed, {dependencies} dependencies, {ambiguous} not judged; \
         0 cycles, 0 lost"
    );
    assert!(committed as u64 > wanted / 3, "too few transactions committed, so the test shows nothing");
}

#[test]
fn later_appends_wait_for_a_transaction_that_has_appended_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::ZERO).open(directory.path()).unwrap();
    let numbers = env.recno("numbers", 8).unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    assert_eq!(numbers.append_in_order(&one, &[1; 8]).unwrap(), 1);
    for refused in [numbers.append_in_order(&two, &[2; 8]), numbers.append(&two, &[2; 8])] {
        assert!(matches!(refused, Err(Error::LockTimeout(_))), "{refused:?}");
    }
    one.commit().unwrap();
    assert_eq!(numbers.append_in_order(&two, &[2; 8]).unwrap(), 2);
    two.abort().unwrap();
    // An append without order keeps no lock, and no other append waits for it.
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    assert_eq!(numbers.append(&one, &[3; 8]).unwrap(), 3, "the number of an aborted transaction stays empty");
    assert_eq!(numbers.append_in_order(&two, &[4; 8]).unwrap(), 4);
}
