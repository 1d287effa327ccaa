//! A snapshot that a test holds.

use std::collections::BTreeMap;

use libtp_record::{Database, Snapshot, SnapshotAccess, SnapshotCursor};
use libtp_txn::{Durability, TxnSession};

use crate::world::World;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A snapshot, and the session that holds it.
pub struct Held<'w> {
    world: &'w World,
    pub txn: TxnSession,
    pub snapshot: Snapshot,
}

impl<'w> Held<'w> {
    pub fn begin(world: &'w World) -> Held<'w> {
        let txn = world.join();
        let view = world.managers.begin_snapshot(&txn).unwrap();
        Held { world, txn, snapshot: Snapshot::new(view) }
    }

    pub fn of<'a>(&'a self, database: &'a Database) -> SnapshotAccess<'a> {
        SnapshotAccess::new(&self.world.managers, &self.txn, database, &self.snapshot)
    }

    pub fn get(&self, database: &Database, key: &[u8]) -> Option<Vec<u8>> {
        self.of(database).get(key, <[u8]>::to_vec).unwrap()
    }

    pub fn end(self) {
        self.world.managers.end_snapshot(&self.txn);
        self.world.managers.leave(self.txn);
    }

    pub fn forwards(&self, database: &Database) -> Model {
        let mut cursor = SnapshotCursor::new(self.of(database));
        std::iter::from_fn(|| cursor.next().unwrap()).collect()
    }

    pub fn backwards(&self, database: &Database) -> Model {
        let mut cursor = SnapshotCursor::new(self.of(database));
        std::iter::from_fn(|| cursor.prev().unwrap()).collect()
    }
}

pub fn commit(world: &World, txn: &TxnSession) {
    txn.commit(&world.managers, Durability::Relaxed).unwrap();
}

pub fn put(world: &World, txn: &TxnSession, database: &Database, key: &[u8], value: &[u8]) {
    txn.begin(&world.managers);
    world.access(txn, database).put(key, value).unwrap();
    commit(world, txn);
}
