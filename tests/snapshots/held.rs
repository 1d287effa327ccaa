//! A snapshot that a test holds.

use std::collections::BTreeMap;

use libtp_record::{Database, Snapshot, SnapshotAccess, SnapshotCursor};
use libtp_txn::{Durability, TxnSession};

use crate::world::World;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A snapshot, and the session that holds it.
pub struct Held<'w> {
    world: &'w World,
    pub who: TxnSession,
    pub snapshot: Snapshot,
}

impl<'w> Held<'w> {
    pub fn begin(world: &'w World) -> Held<'w> {
        let who = world.join();
        let view = world.managers.begin_snapshot(&who).unwrap();
        Held { world, who, snapshot: Snapshot::new(view) }
    }

    pub fn of<'a>(&'a self, database: &'a Database) -> SnapshotAccess<'a> {
        SnapshotAccess::new(&self.world.managers, &self.who, database, &self.snapshot)
    }

    pub fn get(&self, database: &Database, key: &[u8]) -> Option<Vec<u8>> {
        self.of(database).get(key, <[u8]>::to_vec).unwrap()
    }

    pub fn end(self) {
        self.world.managers.end_snapshot(&self.who);
        self.world.managers.leave(self.who);
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

pub fn commit(world: &World, who: &TxnSession) {
    who.commit(&world.managers, Durability::Relaxed).unwrap();
}

pub fn put(world: &World, who: &TxnSession, database: &Database, key: &[u8], value: &[u8]) {
    who.begin(&world.managers);
    world.access(who, database).put(key, value).unwrap();
    commit(world, who);
}
