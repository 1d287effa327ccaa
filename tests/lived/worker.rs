//! A worker: transactions of random changes, some of them aborted.

use std::time::Instant;

use libtp::{Db, Error, Result, Txn};
use libtp_histogram::Histogram;
use libtp_sim::Random;

use crate::house::{Extent, House, QUEUES, RECORD_BYTES};
use crate::stock::{self, Numbered, Window, ABSENT};

/// Number of operations of a transaction.
const BATCH: u64 = 50;
/// One of this many transactions works on the list, and locks the whole list.
const LIST_IN: u64 = 25;
/// One of this many transactions aborts.
const ABORT_IN: u64 = 16;
/// Of `CHANGES_OF` operations on an existing record, `CHANGES` change it and the others remove it. An operation on a
/// missing record puts it. So seven of ten records exist.
const CHANGES: u64 = 4;
const CHANGES_OF: u64 = 7;
/// One of this many changes first reads and compares the record.
const READ_IN: u64 = 4;
/// A queue has at most `Extent::window` messages. A worker removes no message from a queue that has fewer than
/// `Extent::window - PLAY` messages.
const PLAY: u32 = 32;

/// Times and counts of a part of the run.
#[derive(Default)]
pub struct Stretch {
    pub operations: Histogram,
    pub commits: Histogram,
    pub aborted: u64,
    pub victims: u64,
}

/// A change of the books, with the state that an abort restores.
enum Noted<'h> {
    Numbered(&'h Numbered, usize, u32),
    Queue(usize, Window),
    Inserted(usize),
    Deleted(usize, u32),
    Replaced(usize, u32),
}

pub struct Worker<'h> {
    house: &'h House,
    extent: Extent,
    /// The worker's number.
    number: usize,
    random: Random,
    noted: Vec<Noted<'h>>,
    key: Vec<u8>,
    value: Vec<u8>,
    pub stretch: Stretch,
}

impl<'h> Worker<'h> {
    pub fn new(house: &'h House, extent: Extent, number: usize, seed: u64) -> Worker<'h> {
        let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64 + 1));
        let (key, value) = (Vec::new(), Vec::new());
        Worker { house, extent, number, random, noted: Vec::new(), key, value, stretch: Stretch::default() }
    }

    /// Does `operations` operations, including those of transactions that abort.
    pub fn work(&mut self, operations: u64) {
        let mut left = operations;
        while left != 0 {
            let batch = left.min(BATCH);
            self.transaction(batch);
            left -= batch;
        }
    }

    fn transaction(&mut self, operations: u64) {
        let txn = self.house.env.begin().unwrap();
        let is_on_list = self.random.chance(1, LIST_IN);
        let mut begun = Instant::now();
        for _ in 0..operations {
            let done = if is_on_list { self.on_list(&txn) } else { self.anywhere(&txn) };
            let ended = Instant::now();
            self.stretch.operations.record(nanos(begun, ended));
            begun = ended;
            match done {
                Ok(()) => {}
                Err(Error::Deadlock) => {
                    self.stretch.victims += 1;
                    return self.abort(txn);
                }
                Err(other) => panic!("{other}"),
            }
        }
        if self.random.chance(1, ABORT_IN) {
            self.stretch.aborted += 1;
            return self.abort(txn);
        }
        self.noted.clear();
        txn.commit().unwrap();
        self.stretch.commits.record(nanos(begun, Instant::now()));
    }

    /// Restores the books, and then aborts: after the abort, other transactions may change the records.
    fn abort(&mut self, txn: Txn<'_>) {
        while let Some(noted) = self.noted.pop() {
            match noted {
                Noted::Numbered(numbered, key, before) => drop(numbered.set(key, before)),
                Noted::Queue(queue, before) => *self.house.windows[queue].lock().unwrap() = before,
                Noted::Inserted(at) => drop(self.house.of_list.open().remove(at)),
                Noted::Deleted(at, before) => self.house.of_list.open().insert(at, before),
                Noted::Replaced(at, before) => self.house.of_list.open()[at] = before,
            }
        }
        txn.abort().unwrap();
    }

    fn anywhere(&mut self, txn: &Txn<'_>) -> Result<()> {
        let house = self.house;
        match self.random.below(100) {
            0..60 => self.keyed(txn, &house.records, &house.of_records),
            60..70 => self.keyed(txn, &house.hashed, &house.of_hashed),
            70..75 => self.keyed(txn, &house.indexed, &house.of_indexed),
            75..80 => self.numbered(txn),
            _ => self.queued(txn),
        }
    }

    /// Puts, changes or removes a record.
    fn keyed(&mut self, txn: &Txn<'_>, db: &Db, numbered: &'h Numbered) -> Result<()> {
        let at = self.random.index(numbered.len());
        stock::key_of(at, &mut self.key);
        if self.random.chance(1, READ_IN) {
            let found = db.get_for_update(txn, &self.key)?;
            let number = numbered.get(at);
            stock::value_of(number, at as u64, &mut self.value);
            let must = (number != ABSENT).then_some(&self.value);
            assert!(found.as_ref() == must, "record {at} of {} was read wrong", db.name());
        }
        // Another transaction may have changed the record before the lock was granted.
        let is_there = numbered.get(at) != ABSENT;
        let now =
            if is_there && !self.random.chance(CHANGES, CHANGES_OF) { ABSENT } else { stock::fresh(&mut self.random) };
        if now == ABSENT {
            let was_there = db.delete(txn, &self.key)?;
            let before = numbered.set(at, ABSENT);
            assert_eq!(was_there, before != ABSENT, "record {at} of {}", db.name());
            self.noted.push(Noted::Numbered(numbered, at, before));
            return Ok(());
        }
        stock::value_of(now, at as u64, &mut self.value);
        db.put(txn, &self.key, &self.value)?;
        self.noted.push(Noted::Numbered(numbered, at, numbered.set(at, now)));
        Ok(())
    }

    /// Puts, changes or removes a record of the record-number file.
    fn numbered(&mut self, txn: &Txn<'_>) -> Result<()> {
        let (numbers, numbered) = (&self.house.numbers, &self.house.of_numbers);
        let at = self.random.index(numbered.len());
        let is_there = numbered.get(at) != ABSENT;
        let now =
            if is_there && !self.random.chance(CHANGES, CHANGES_OF) { ABSENT } else { stock::fresh(&mut self.random) };
        if now == ABSENT {
            let was_there = numbers.delete(txn, at as u64 + 1)?;
            let before = numbered.set(at, ABSENT);
            assert_eq!(was_there, before != ABSENT, "record number {}", at + 1);
            self.noted.push(Noted::Numbered(numbered, at, before));
            return Ok(());
        }
        stock::record_of(now, at as u64, RECORD_BYTES, &mut self.value);
        numbers.put(txn, at as u64 + 1, &self.value)?;
        self.noted.push(Noted::Numbered(numbered, at, numbered.set(at, now)));
        Ok(())
    }

    /// Adds a message at the end of a queue, or removes the first message.
    fn queued(&mut self, txn: &Txn<'_>) -> Result<()> {
        let of_worker = self.random.index(QUEUES);
        let queue = self.number * QUEUES + of_worker;
        let (prefix, full) = (u8::try_from(queue).unwrap(), self.extent.window());
        let window = *self.house.windows[queue].lock().unwrap();
        let comes = window.len() + PLAY < full || (window.len() < full && self.random.coin());
        let mut after = window;
        if comes {
            stock::message_key(prefix, window.after, &mut self.key);
            stock::value_of(window.after, queue as u64, &mut self.value);
            self.house.queues.put_new(txn, &self.key, &self.value)?;
            after.after += 1;
        } else {
            stock::message_key(prefix, window.first, &mut self.key);
            if of_worker == 0 {
                let found = self.house.queues.prefix(txn, &[prefix])?.first()?;
                let (found_key, found_value) = found.expect("the queue is not empty");
                stock::value_of(window.first, queue as u64, &mut self.value);
                assert_eq!(found_key, self.key, "the first message of queue {queue}");
                assert!(found_value == self.value, "message {} of queue {queue} was read wrong", window.first);
            }
            assert!(self.house.queues.delete(txn, &self.key)?, "message {} of queue {queue} is gone", window.first);
            after.first += 1;
        }
        *self.house.windows[queue].lock().unwrap() = after;
        self.noted.push(Noted::Queue(queue, window));
        Ok(())
    }

    /// Inserts, removes or replaces a record of the list. The change locks the list until the end of the transaction.
    fn on_list(&mut self, txn: &Txn<'_>) -> Result<()> {
        let list = &self.house.list;
        // Before the lock is granted, the list's length may change by fewer than `2 * BATCH` records.
        let likely = self.extent.listed() - usize::try_from(2 * BATCH).unwrap();
        let at = self.random.index(likely);
        let number = stock::fresh(&mut self.random);
        stock::value_of(number, 0, &mut self.value);
        let place = at as u64 + 1;
        let length = self.house.of_list.open().len();
        match self.random.below(3) {
            0 => {
                list.put(txn, place, &self.value)?;
                let before = std::mem::replace(&mut self.house.of_list.open()[at], number);
                self.noted.push(Noted::Replaced(at, before));
            }
            _ if length > self.extent.listed() => {
                assert!(list.delete(txn, place)?, "record {place} of the list is gone");
                let before = self.house.of_list.open().remove(at);
                self.noted.push(Noted::Deleted(at, before));
            }
            _ => {
                list.insert_before(txn, place, &self.value)?;
                self.house.of_list.open().insert(at, number);
                self.noted.push(Noted::Inserted(at));
            }
        }
        Ok(())
    }
}

fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.duration_since(from).as_nanos()).unwrap()
}

impl Stretch {
    pub fn add(&mut self, other: &Stretch) {
        self.operations.merge(&other.operations);
        self.commits.merge(&other.commits);
        self.aborted += other.aborted;
        self.victims += other.victims;
    }
}
