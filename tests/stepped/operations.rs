//! The operations in which a process is stepped.
//!
//! Each transaction of an operation has a number, which is in the values of its records.

use libtp::{Durability, Mode, Result};
use libtp_tests::process::say;
use libtp_tests::stepping::{be_traced, mark};

use crate::world::{key, value, Database, Edit, World, WARM};

/// Whether a run of an operation is stepped by the parent.
pub enum Part {
    /// The run before the stepped run. It does the work that each process does only once, so that the stepped run does
    /// not include this work.
    Warm,
    /// The parent steps a part of the run, and kills the process in this part or at its end.
    Stepped,
}

impl Part {
    /// Returns whether this is the run before the stepped run.
    pub fn is_warm(&self) -> bool {
        matches!(self, Part::Warm)
    }

    /// Does the part of the operation that the parent steps in the stepped run.
    pub fn step<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.is_warm() {
            return work();
        }
        if let Err(why) = be_traced(|thread| say(&format!("thread {thread}"))) {
            say(&format!("untraced {why}"));
            std::process::exit(0);
        }
        mark();
        let result = work();
        mark();
        result
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Changes eight bytes of a tree's record in place.
    Update,
    /// Changes a part of a tree's record, under one latch.
    UpdatePart,
    /// Changes a part of a hash file's record.
    UpdatePartHash,
    /// Replaces a tree's record by a longer one.
    PutLonger,
    /// Inserts a record into a tree.
    Insert,
    /// Deletes a tree's record.
    Delete,
    /// Appends a record by number.
    Append,
    /// Replaces a record of a hash file.
    PutHash,
    /// Locks an object and unlocks it.
    Lock,
    /// Locks a record for a change, and commits without a change.
    LockRecord,
    /// Reads a tree's record.
    Get,
    /// Begins a transaction and commits it.
    Empty,
    /// Commits a change with relaxed durability.
    CommitRelaxed,
    /// Commits a change, and waits until the commit is on the disk.
    CommitSync,
    /// Commits while another process waits for the record.
    CommitBeforeWaiter,
    /// Aborts two changes.
    Abort,
    /// Rolls two changes back to a savepoint.
    RollBack,
    /// Changes a record of a database that the transaction has not used yet.
    FirstUse,
    /// Makes a change whose log record begins in one chunk of the log's ring and ends in another.
    NewChunk,
    /// Inserts long records, for which a page is split.
    Split,
    /// Changes a record that another process has locked.
    Wait,
    /// A whole transaction that changes three databases.
    Whole,
}

use Operation::{
    Abort, Append, CommitBeforeWaiter, CommitRelaxed, CommitSync, Delete, Empty, FirstUse, Get, Insert, Lock,
    LockRecord, NewChunk, PutHash, PutLonger, RollBack, Split, Update, UpdatePart, UpdatePartHash, Wait, Whole,
};

/// The object that survivors lock after each death.
const OBJECT: &[u8] = b"the printer";
/// The record that most operations change.
const RECORD: u64 = 7;

impl Operation {
    /// All operations.
    #[rustfmt::skip]
    pub const ALL: [Operation; 22] = [
        Update, UpdatePart, UpdatePartHash, PutLonger, Insert, Delete, Append, PutHash, Lock, LockRecord, Get, Empty,
        CommitRelaxed, CommitSync, CommitBeforeWaiter, Abort, RollBack, FirstUse, NewChunk, Split, Wait, Whole,
    ];

    /// Returns the operation's name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the operation with this name.
    pub fn of(name: &str) -> Operation {
        Operation::ALL.into_iter().find(|operation| operation.name() == name).unwrap()
    }

    /// Returns whether the stepped part commits the transaction.
    pub fn commits(self) -> bool {
        matches!(self, LockRecord | Empty | CommitRelaxed | CommitSync | CommitBeforeWaiter | Whole)
    }

    /// Returns the changes that the transaction makes before it commits, aborts or rolls back.
    fn attempts(self, nth: u64, is_warm: bool) -> Vec<Edit> {
        let name = |begin: &str| if is_warm { WARM.to_owned() + begin } else { begin.to_owned() }.into_bytes();
        let record = if is_warm { name("") } else { key(RECORD) };
        let (new, value) = ([name("i"), value(nth)].concat(), value(nth));
        let put = |database, key: &[u8], value: Vec<u8>| Edit { database, key: key.to_vec(), value: Some(value) };
        let own = if is_warm { b"warmwarm".to_vec() } else { value.clone() };
        let append = Edit { database: Database::Numbers, key: Vec::new(), value: Some(own) };
        match self {
            Update | UpdatePart | FirstUse | NewChunk | Wait | CommitRelaxed | CommitSync | CommitBeforeWaiter => {
                vec![put(Database::Tree, &record, value)]
            }
            PutLonger => vec![put(Database::Tree, &record, value.repeat(12))],
            Insert => vec![put(Database::Tree, &new, value)],
            Delete => vec![Edit { database: Database::Tree, key: name("d"), value: None }],
            Append => vec![append],
            PutHash | UpdatePartHash => vec![put(Database::Hash, &record, value)],
            Lock | LockRecord | Get | Empty => Vec::new(),
            Abort | RollBack => vec![put(Database::Tree, &record, value.clone()), put(Database::Tree, &new, value)],
            Split => {
                let part = |part: u8| put(Database::Wide, &[&new[..], &[b'a' + part]].concat(), value.repeat(120));
                (0..6).map(part).collect()
            }
            Whole => vec![put(Database::Tree, &record, value.clone()), put(Database::Hash, &record, value), append],
        }
    }

    /// Returns the changes that survivors must find if the transaction commits.
    pub fn edits(self, nth: u64) -> Vec<Edit> {
        match self {
            Abort | RollBack => Vec::new(),
            _ => self.attempts(nth, false),
        }
    }

    /// Returns the changes that a survivor makes after a death, in the transaction `nth`, to the records that the
    /// transaction `dead` changed or used. These changes restore the state in which the operation began, so that the
    /// next death begins with the same state.
    pub fn settles(self, dead: u64, nth: u64) -> Vec<Edit> {
        let set = |mut edit: Edit, value: Option<Vec<u8>>| {
            edit.value = value;
            edit
        };
        let change = Edit { database: Database::Tree, key: key(RECORD), value: Some(value(nth)) };
        let changed = self.attempts(dead, false).into_iter().flat_map(|edit| match (self, edit.database) {
            (Delete, _) => vec![set(edit, Some(value(nth)))],
            // Removes a record that the operation inserted.
            (Insert | Split | Abort | RollBack, _) if edit.key != key(RECORD) => {
                vec![set(edit.clone(), Some(value(nth))), set(edit, None)]
            }
            _ => vec![set(edit, Some(value(nth)))],
        });
        [vec![change], changed.collect()].concat()
    }

    /// Does a survivor's work: takes the locks that the dead session may have, and makes the changes. Returns the
    /// number of changes of the transaction `dead` that it found.
    pub fn settle(self, world: &World, dead: u64, nth: u64, durability: Durability) -> Result<usize> {
        world.env.run_with(durability, |txn| {
            txn.lock(OBJECT, Mode::X)?;
            let mut found = 0;
            for edit in self.edits(dead) {
                found += usize::from(world.has(txn, &edit)?);
            }
            self.settles(dead, nth).iter().try_for_each(|edit| world.apply(txn, edit))?;
            Ok(found)
        })
    }

    /// Holds a lock on the record that the operation changes, until `release` has returned.
    pub fn hold(world: &World, release: impl FnOnce()) -> Result<()> {
        let txn = world.env.begin_with(Durability::Relaxed)?;
        world.tree.get_for_update(&txn, &key(RECORD))?;
        release();
        txn.commit()
    }

    /// Does the operation in the transaction `nth`. [`Part::step`] does the stepped part.
    pub fn play(self, world: &World, nth: u64, part: &Part) -> Result<()> {
        let edits = self.attempts(nth, part.is_warm());
        let durability = if self == CommitSync { Durability::Sync } else { Durability::Relaxed };
        if self == Delete && part.is_warm() {
            world.env.run(|txn| world.tree.put(txn, &edits[0].key, &value(nth)))?;
        }
        if self == NewChunk {
            world.fill_chunk()?;
        }
        let begin = || world.env.begin_with(durability);
        if matches!(self, Empty | Whole) {
            return part.step(|| {
                let txn = begin()?;
                edits.iter().try_for_each(|edit| world.apply(&txn, edit))?;
                txn.commit()
            });
        }
        let txn = begin()?;
        if self != FirstUse {
            world.touch(&txn)?;
        }
        let make = || edits.iter().try_for_each(|edit| world.apply(&txn, edit));
        match self {
            CommitRelaxed | CommitSync | CommitBeforeWaiter => {
                make()?;
                return part.step(|| txn.commit());
            }
            Abort => {
                make()?;
                return part.step(|| txn.abort());
            }
            RollBack => {
                world.tree.put(&txn, &key(1), &value(nth))?;
                let savepoint = txn.savepoint();
                make()?;
                part.step(|| savepoint.roll_back())?;
                // Aborts the rest of the transaction, too.
                return txn.abort();
            }
            LockRecord => {
                return part.step(|| {
                    world.tree.get_for_update(&txn, &key(RECORD))?;
                    txn.commit()
                })
            }
            Lock => part.step(|| {
                txn.lock(OBJECT, Mode::X)?;
                txn.unlock(OBJECT)
            })?,
            Split => {
                // The first four records fill the page.
                let (some, others) = edits.split_at(4);
                some.iter().try_for_each(|edit| world.apply(&txn, edit))?;
                part.step(|| others.iter().try_for_each(|edit| world.apply(&txn, edit)))?;
            }
            Get => part.step(|| world.tree.get(&txn, &key(RECORD)).map(drop))?,
            Update | FirstUse | NewChunk | Wait => {
                if part.is_warm() {
                    // The update below needs an existing record.
                    make()?;
                }
                let change = |bytes: &mut [u8]| bytes.copy_from_slice(&value(nth + u64::from(part.is_warm())));
                part.step(|| world.tree.update_with(&txn, &edits[0].key, change).map(drop))?;
            }
            UpdatePart | UpdatePartHash => {
                if part.is_warm() {
                    make()?;
                }
                let db = if self == UpdatePart { &world.tree } else { &world.hash };
                // The first two digits do not change, so only a part of the value is logged.
                let new = value(nth + u64::from(part.is_warm()));
                part.step(|| db.update_part(&txn, &edits[0].key, 2, &new[2..]).map(drop))?;
            }
            _ => part.step(make)?,
        }
        txn.commit()
    }
}
