//! Random transactions of many threads or processes over a few keys.
//!
//! After every [`EPOCH`] transactions the workload turns to new lists, cells and ranges of rows. So reads stay short,
//! and many reads find an empty list. The keys of one epoch are next to each other on a few pages.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use libtp::{Bytes, DatabaseSettings, Db, Durability, Env, Error, Granularity, Recno, Result, Settings, Txn};
use libtp_sim::Random;
use libtp_tests::process::now;

use crate::history::{Element, Record, Row, Step};

/// The number of threads.
pub const THREADS: usize = 8;
/// The number of transactions before the workload turns to new lists, cells and ranges.
pub const EPOCH: u64 = 250;
/// The number of lists of an epoch.
const LISTS: u32 = 6;
/// The number of cells of an epoch.
const CELLS: u32 = 16;
/// The number of ranges of an epoch.
const RANGES: u32 = 2;
/// The number of places of a range.
const PLACES: u32 = 100;

/// The isolation of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// The library's isolation, unchanged.
    Transactions,
    /// A control: each step is a transaction of its own, although the history records the steps as one transaction.
    StepByStep,
    /// A control: each read and each write is a transaction of its own.
    ReadThenWrite,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub transactions: u64,
    pub granularity: Granularity,
    pub discipline: Discipline,
}

/// Numbers that the history does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub deadlocks: u64,
    pub aborts: u64,
}

/// Returns settings with little memory, small pages and short logs, so that pages split and are replaced, and
/// checkpoints are taken.
pub fn settings(plan: Plan) -> Settings {
    let small = DatabaseSettings {
        page_bytes: Some(Bytes::kib(4)),
        granularity: Some(plan.granularity),
        ..DatabaseSettings::default()
    };
    Settings {
        memory: Some(Bytes::mib(1)),
        durability: Some(Durability::Relaxed),
        checkpoint_log: Some(Bytes::mib(2)),
        database: ["lists", "cells", "rows"].map(|name| (name.to_owned(), small.clone())).into(),
        ..Settings::default()
    }
}

/// Runs a plan. Returns the history and a tally. The last transaction of the history reads everything, after all other
/// transactions have ended.
pub fn run(plan: Plan) -> Result<(Vec<Record>, Tally)> {
    let directory = tempfile::tempdir().map_err(|error| Error::Io(Box::new(error)))?;
    let env = Env::builder().settings(settings(plan)).open(directory.path())?;
    let stage = Stage::new(&env, plan, 0)?;
    stage.fill()?;
    let ended: Vec<Result<(Vec<Record>, Tally)>> = std::thread::scope(|scope| {
        let start = |number| {
            let stage = &stage;
            scope.spawn(move || Actor::new(stage, number).play())
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread of the workload panicked")).collect()
    });
    let (mut history, mut tally) = (Vec::new(), Tally::default());
    for of_thread in ended {
        let (records, counts) = of_thread?;
        history.extend(records);
        tally.deadlocks += counts.deadlocks;
        tally.aborts += counts.aborts;
    }
    history.push(stage.everything()?);
    Ok((history, tally))
}

/// The state that all threads of a process share.
pub struct Stage<'e> {
    env: &'e Env,
    plan: Plan,
    lists: Db,
    cells: Recno,
    rows: Db,
    begun: AtomicU64,
    elements: AtomicU64,
    /// Called with each transaction just before its commit. If the process dies after this call, the transaction may
    /// be committed.
    announce: fn(u64, &[Step]),
}

impl<'e> Stage<'e> {
    /// Opens the databases. Each new element is a number above `first_element`.
    pub fn new(env: &'e Env, plan: Plan, first_element: Element) -> Result<Stage<'e>> {
        let (lists, cells, rows) = (env.btree("lists")?, env.recno("cells", 8)?, env.btree("rows")?);
        let (begun, elements) = (AtomicU64::new(0), AtomicU64::new(first_element));
        Ok(Stage { env, plan, lists, cells, rows, begun, elements, announce: |_, _| {} })
    }

    /// Sets the function that is called before each commit.
    pub fn announcing(self, announce: fn(u64, &[Step])) -> Stage<'e> {
        Stage { announce, ..self }
    }

    /// Makes all cells, so that a write always replaces an existing cell.
    pub fn fill(&self) -> Result<()> {
        let count = self.cell_count();
        for first in (0..count).step_by(512) {
            self.env.run(|txn| {
                for _ in first..count.min(first + 512) {
                    self.cells.append(txn, &[0; 8])?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn cell_count(&self) -> u64 {
        u64::from(CELLS) * (self.plan.transactions / EPOCH + 1)
    }

    fn new_element(&self) -> Element {
        // Relaxed: only the uniqueness of each element matters.
        1 + self.elements.fetch_add(1, Ordering::Relaxed)
    }

    fn epochs(&self) -> u32 {
        u32::try_from(self.plan.transactions / EPOCH + 1).expect("there are fewer epochs than transactions")
    }

    /// Reads every list, cell and row in one transaction, while no other transaction runs.
    pub fn everything(&self) -> Result<Record> {
        let begin = now();
        let mut steps = Vec::new();
        let txn = self.env.begin()?;
        for list in 0..self.epochs() * LISTS {
            steps.push(Step::ReadList { list, elements: read_list(&self.lists, &txn, list)? });
        }
        for cell in 0..u32::try_from(self.cell_count()).expect("few cells") {
            steps.push(Step::ReadCell { cell, found: read_cell(&self.cells, &txn, cell)? });
        }
        for range in 0..self.epochs() * RANGES {
            let rows = scan(&self.rows, &txn, range, 0, PLACES, true)?;
            steps.push(Step::Scan { range, from: 0, to: PLACES, rows });
        }
        txn.commit()?;
        Ok(Record { thread: usize::MAX, begin, end: now(), is_committed: true, steps })
    }
}

fn list_key(list: u32) -> Vec<u8> {
    format!("list/{list:08}").into_bytes()
}

fn row_key(row: Row) -> Vec<u8> {
    format!("row/{:08}/{:05}/{:012}", row.range, row.place, row.element).into_bytes()
}

fn row_of(key: &[u8]) -> Option<Row> {
    let text = std::str::from_utf8(key).ok()?;
    let mut parts = text.strip_prefix("row/")?.split('/');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (range, place, element) = (number()?, number()?, number()?);
    Some(Row { range: u32::try_from(range).ok()?, place: u32::try_from(place).ok()?, element })
}

fn elements_of(bytes: &[u8]) -> Vec<Element> {
    bytes.chunks_exact(8).map(element_of).collect()
}

fn element_of(bytes: &[u8]) -> Element {
    Element::from_le_bytes(bytes.try_into().expect("an element has eight bytes"))
}

fn read_cell(cells: &Recno, txn: &Txn<'_>, cell: u32) -> Result<Element> {
    let bytes = cells.get(txn, u64::from(cell) + 1)?;
    Ok(element_of(&bytes.expect("all cells were made before the work began")))
}

fn read_list(lists: &Db, txn: &Txn<'_>, list: u32) -> Result<Vec<Element>> {
    Ok(lists.get_with(txn, &list_key(list), elements_of)?.unwrap_or_default())
}

/// Reads the rows of the places `from..=to`, in either direction.
fn scan(rows: &Db, txn: &Txn<'_>, range: u32, from: u32, to: u32, is_upwards: bool) -> Result<BTreeSet<Row>> {
    let first = row_key(Row { range, place: from, element: 0 });
    let beyond = row_key(Row { range, place: to + 1, element: 0 });
    let mut found = BTreeSet::new();
    let mut cursor = rows.cursor(txn);
    let mut at = match is_upwards {
        true => cursor.seek(&first)?,
        false => {
            cursor.seek(&beyond)?;
            cursor.prev()?
        }
    };
    while let Some((key, _)) = at.filter(|(key, _)| (&first..&beyond).contains(&key)) {
        let row = row_of(&key).unwrap_or_else(|| panic!("an unknown key: {}", String::from_utf8_lossy(&key)));
        assert!(found.insert(row), "a scan returned {row:?} twice");
        at = if is_upwards { cursor.next()? } else { cursor.prev()? };
    }
    Ok(found)
}

/// One thread of the workload.
pub struct Actor<'s, 'e> {
    stage: &'s Stage<'e>,
    number: usize,
    random: Random,
    tally: Tally,
}

/// A running transaction. In a control it is a sequence of transactions.
struct Running<'s, 'e> {
    stage: &'s Stage<'e>,
    txn: Option<Txn<'e>>,
    epoch: u32,
    steps: Vec<Step>,
}

impl Running<'_, '_> {
    fn txn(&self) -> &Txn<'_> {
        self.txn.as_ref().expect("a transaction is running between its beginning and its end")
    }

    /// Ends the transaction and begins another. A control calls this between two steps, so that other transactions can
    /// come between the steps.
    fn between_steps(&mut self) -> Result<()> {
        if let Some(txn) = self.txn.take() {
            txn.commit()?;
        }
        std::thread::yield_now();
        self.txn = Some(self.stage.env.begin()?);
        Ok(())
    }

    fn between_steps_if(&mut self, discipline: Discipline) -> Result<()> {
        if self.stage.plan.discipline == discipline {
            self.between_steps()?;
        }
        Ok(())
    }

    fn between_read_and_write(&mut self) -> Result<()> {
        self.between_steps_if(Discipline::ReadThenWrite)
    }
}

impl<'s, 'e> Actor<'s, 'e> {
    /// Makes the actor of the thread or process `number`.
    pub fn new(stage: &'s Stage<'e>, number: usize) -> Actor<'s, 'e> {
        let seed = stage.plan.seed << 8 | number as u64;
        Actor { stage, number, random: Random::new(seed), tally: Tally::default() }
    }

    fn play(mut self) -> Result<(Vec<Record>, Tally)> {
        let mut records = Vec::new();
        loop {
            // Relaxed: a plain counter, which publishes nothing.
            let place = self.stage.begun.fetch_add(1, Ordering::Relaxed);
            if place >= self.stage.plan.transactions {
                return Ok((records, self.tally));
            }
            records.push(self.transaction(u32::try_from(place / EPOCH).expect("few epochs"))?);
        }
    }

    /// Runs one transaction over the lists, cells and ranges of an epoch.
    pub fn transaction(&mut self, epoch: u32) -> Result<Record> {
        let begin = now();
        let txn = Some(self.stage.env.begin()?);
        let mut running = Running { stage: self.stage, txn, epoch, steps: Vec::new() };
        let worked = self.work(&mut running);
        let is_committed = self.finish(&mut running, begin, worked)?;
        Ok(Record { thread: self.number, begin, end: now(), is_committed, steps: running.steps })
    }

    fn work(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        for _ in 0..1 + self.random.below(4) {
            self.step(running)?;
            running.between_steps_if(Discipline::StepByStep)?;
            running.between_steps_if(Discipline::ReadThenWrite)?;
        }
        Ok(())
    }

    fn finish(&mut self, running: &mut Running<'_, '_>, begin: u64, worked: Result<()>) -> Result<bool> {
        let is_broken = self.stage.plan.discipline != Discipline::Transactions;
        let Some(txn) = running.txn.take() else { return worked.map(|()| true) };
        match worked {
            Ok(()) if is_broken || !self.random.chance(1, 12) => {
                (self.stage.announce)(begin, &running.steps);
                match self.random.chance(1, 2) {
                    true => txn.commit()?,
                    false => drop(txn.commit_async()?),
                }
                Ok(true)
            }
            Ok(()) => {
                self.tally.aborts += 1;
                if self.random.coin() {
                    txn.abort()?;
                }
                Ok(false)
            }
            Err(Error::Deadlock) => {
                self.tally.deadlocks += 1;
                txn.abort()?;
                // In a control, the earlier steps are already committed.
                Ok(is_broken)
            }
            Err(error) => Err(error),
        }
    }

    fn step(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        match self.random.below(100) {
            0..=24 => self.read_list(running),
            25..=49 => self.append(running),
            50..=57 => self.read_cell(running),
            58..=67 => self.write_cell(running),
            68..=79 => self.scan(running).map(|_| ()),
            80..=91 => self.insert(running),
            _ => self.delete(running),
        }
    }

    fn any(&mut self, epoch: u32, of_epoch: u32) -> u32 {
        epoch * of_epoch + u32::try_from(self.random.below(u64::from(of_epoch))).expect("below a u32")
    }

    fn read_list(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let list = self.any(running.epoch, LISTS);
        let elements = read_list(&self.stage.lists, running.txn(), list)?;
        running.steps.push(Step::ReadList { list, elements });
        Ok(())
    }

    fn append(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let (list, element) = (self.any(running.epoch, LISTS), self.stage.new_element());
        let lists = &self.stage.lists;
        let before = match self.random.coin() {
            true => read_list(lists, running.txn(), list)?,
            false => {
                lists.get_for_update(running.txn(), &list_key(list))?.map(|all| elements_of(&all)).unwrap_or_default()
            }
        };
        running.between_read_and_write()?;
        let after: Vec<u8> = before.iter().chain([&element]).flat_map(|one| one.to_le_bytes()).collect();
        match before.is_empty() && self.random.coin() {
            false => lists.put(running.txn(), &list_key(list), &after)?,
            true => match lists.put_new(running.txn(), &list_key(list), &after) {
                // Only in a control can another transaction have made the list since the read above.
                Err(Error::Exists) if running.stage.plan.discipline == Discipline::ReadThenWrite => return Ok(()),
                put => put?,
            },
        }
        running.steps.push(Step::Append { list, before, element });
        Ok(())
    }

    fn read_cell(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let cell = self.any(running.epoch, CELLS);
        let found = self.cell_value(running, cell)?;
        running.steps.push(Step::ReadCell { cell, found });
        Ok(())
    }

    fn cell_value(&self, running: &Running<'_, '_>, cell: u32) -> Result<Element> {
        read_cell(&self.stage.cells, running.txn(), cell)
    }

    fn write_cell(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let (cell, element) = (self.any(running.epoch, CELLS), self.stage.new_element());
        let before = self.cell_value(running, cell)?;
        running.between_read_and_write()?;
        self.stage.cells.put(running.txn(), u64::from(cell) + 1, &element.to_le_bytes())?;
        running.steps.push(Step::WriteCell { cell, before, element });
        Ok(())
    }

    fn scan(&mut self, running: &mut Running<'_, '_>) -> Result<BTreeSet<Row>> {
        let range = self.any(running.epoch, RANGES);
        let (one, other) = (self.any(0, PLACES), self.any(0, PLACES));
        let (from, to) = match self.random.chance(1, 4) {
            true => (0, PLACES),
            false => (one.min(other), one.max(other)),
        };
        let rows = scan(&self.stage.rows, running.txn(), range, from, to, self.random.coin())?;
        running.steps.push(Step::Scan { range, from, to, rows: rows.clone() });
        Ok(rows)
    }

    fn insert(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let (range, place) = (self.any(running.epoch, RANGES), self.any(0, PLACES));
        let row = Row { range, place, element: self.stage.new_element() };
        let value = vec![b'r'; self.random.index(120)];
        match self.random.coin() {
            true => self.stage.rows.put(running.txn(), &row_key(row), &value)?,
            false => self.stage.rows.put_new(running.txn(), &row_key(row), &value)?,
        }
        running.steps.push(Step::Insert { row });
        Ok(())
    }

    fn delete(&mut self, running: &mut Running<'_, '_>) -> Result<()> {
        let rows: Vec<Row> = self.scan(running)?.into_iter().collect();
        if rows.is_empty() {
            return Ok(());
        }
        let row = rows[self.random.index(rows.len())];
        running.between_read_and_write()?;
        let was_there = self.stage.rows.delete(running.txn(), &row_key(row))?;
        let is_control = self.stage.plan.discipline == Discipline::ReadThenWrite;
        assert!(was_there || is_control, "{row:?} was found by a scan and is missing in the same transaction");
        running.steps.push(Step::Delete { row });
        Ok(())
    }
}
