//! The bank in this process's own memory behind one mutex: an engine without durability.
//!
//! Nothing survives the process. The report's row of this engine shows the cost of the workload alone; tests of the
//! driver use the engine, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::{Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{add_to_balance, balance_of, new_record, Scale, Table, Transfer, HISTORY_BYTES, RECORD_BYTES};

type Record = [u8; RECORD_BYTES];

/// The standard library's map that holds the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// `HashMap`.
    Hash,
    /// `BTreeMap`, closer to the structure of the other engines.
    Tree,
}

/// A bank in memory.
#[derive(Debug)]
pub struct InMemory {
    kind: MapKind,
    bank: Mutex<Bank>,
}

#[derive(Debug)]
struct Bank {
    tables: [Map; 3],
    history: Vec<[u8; HISTORY_BYTES]>,
}

#[derive(Debug)]
enum Map {
    Hash(HashMap<u32, Record>),
    Tree(BTreeMap<u32, Record>),
}

impl Map {
    fn new(kind: MapKind) -> Map {
        match kind {
            MapKind::Hash => Map::Hash(HashMap::new()),
            MapKind::Tree => Map::Tree(BTreeMap::new()),
        }
    }

    fn insert(&mut self, id: u32, record: Record) {
        match self {
            Map::Hash(map) => map.insert(id, record),
            Map::Tree(map) => map.insert(id, record),
        };
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> Option<&mut Record> {
        match self {
            Map::Hash(map) => map.get_mut(&id),
            Map::Tree(map) => map.get_mut(&id),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (&u32, &Record)> + '_> {
        match self {
            Map::Hash(map) => Box::new(map.iter()),
            Map::Tree(map) => Box::new(map.iter()),
        }
    }
}

impl InMemory {
    /// Makes an empty bank.
    pub fn new(kind: MapKind) -> InMemory {
        let tables = [Map::new(kind), Map::new(kind), Map::new(kind)];
        InMemory { kind, bank: Mutex::new(Bank { tables, history: Vec::new() }) }
    }

    /// Locks the bank, even if a client panicked while it held the lock: the maps are usable after a panic, and the
    /// audit finds wrong contents.
    fn bank(&self) -> MutexGuard<'_, Bank> {
        self.bank.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Falsifies one balance, for tests of the audit.
    ///
    /// # Panics
    /// If the bank has no record `id` in `table`.
    pub fn spoil(&self, table: Table, id: u32, amount: i64) {
        let mut bank = self.bank();
        let record = place(table).and_then(|at| bank.tables[at].get_mut(id)).expect("the bank has the balance");
        add_to_balance(record, amount);
    }
}

impl Engine for InMemory {
    fn name(&self) -> &'static str {
        match self.kind {
            MapKind::Hash => "hashmap",
            MapKind::Tree => "btreemap",
        }
    }

    fn lock_granularity(&self) -> &'static str {
        "bank"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut bank = self.bank();
        for (at, table) in Table::BALANCES.into_iter().enumerate() {
            for id in 0..scale.count(table) {
                bank.tables[at].insert(id, new_record(id, 0));
            }
        }
        progress(scale.total());
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InMemorySession { engine: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let bank = self.bank();
        match place(table) {
            Some(at) => {
                bank.tables[at].iter().for_each(|(id, record)| each(u64::from(*id), record));
            }
            None => (0..).zip(&bank.history).for_each(|(id, record)| each(id, record)),
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct InMemorySession<'a> {
    engine: &'a InMemory,
}

impl Session for InMemorySession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let mut bank = self.engine.bank();
        let mut account_balance = 0;
        for (at, table) in Table::BALANCES.into_iter().enumerate().rev() {
            let record = find(&mut bank.tables[at], self.engine.name(), table, transfer)?;
            account_balance = add_to_balance(record, transfer.amount);
        }
        bank.history.push(transfer.to_history());
        Ok(Outcome::Committed { balance: account_balance })
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let mut bank = self.engine.bank();
        let mut balance = 0;
        for (at, table) in Table::BALANCES.into_iter().enumerate() {
            let record = find(&mut bank.tables[at], self.engine.name(), table, transfer)?;
            balance += balance_of(record);
        }
        Ok(Outcome::Committed { balance })
    }
}

#[inline]
fn find<'a>(map: &'a mut Map, engine: &'static str, table: Table, transfer: &Transfer) -> Result<&'a mut Record> {
    let id = transfer.record_in(table);
    map.get_mut(id).ok_or(Error::Missing { engine, table: table.name(), id: u64::from(id) })
}

fn place(table: Table) -> Option<usize> {
    Table::BALANCES.into_iter().position(|one| one == table)
}
