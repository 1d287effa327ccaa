//! Transactions, snapshots, cursors and savepoints as values without a lifetime.
//!
//! In `libtp` these values borrow from each other and from the environment. SQLite needs them from one call to the
//! next, so here each value has counted pointers to all values that it borrows from.
//!
//! Invariants
//! 1. In a struct, a value that borrows is before the pointer to the lender, so it is dropped first. No function moves
//!    it out of the struct, except to end it.
//! 2. The lenders do not move, because they are behind an `Arc` or `Rc`.
#![allow(unsafe_code)]

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use libtp::{Cursor, Db, Durability, Env, Result, Savepoint, Snapshot, Txn};

use crate::home::Home;

/// The source of a connection's reads.
#[allow(clippy::large_enum_variant)] // a connection has only one
pub(crate) enum Source {
    Txn(Txn<'static>),
    Snapshot(Snapshot<'static>),
}

/// A transaction or a snapshot, with its environment.
pub(crate) struct Reader {
    source: Source,
    home: Arc<Home>,
}

/// Does work with the transaction or the snapshot of a reader.
macro_rules! with_source {
    ($reader:expr, $source:ident => $work:expr) => {
        match $reader.source() {
            $crate::owned::Source::Txn($source) => $work,
            $crate::owned::Source::Snapshot($source) => $work,
        }
    };
}
pub(crate) use with_source;

/// Returns the environment for a `Reader` with the same `home`.
fn lasting(home: &Arc<Home>) -> &'static Env {
    // SAFETY: the environment is in the `Home`, which does not move (invariant 2). In the `Reader`, the value that
    // borrows the environment is dropped before the clone of this `Arc` (invariant 1), so the environment outlives the
    // borrow.
    unsafe { &*std::ptr::from_ref(home.env()) }
}

impl Reader {
    /// Begins a transaction.
    pub(crate) fn txn(home: &Arc<Home>, durability: Durability) -> Result<Rc<Reader>> {
        let source = Source::Txn(lasting(home).begin_with(durability)?);
        Ok(Rc::new(Reader { source, home: Arc::clone(home) }))
    }

    /// Takes a snapshot.
    pub(crate) fn snapshot(home: &Arc<Home>) -> Result<Rc<Reader>> {
        let source = Source::Snapshot(lasting(home).snapshot()?);
        Ok(Rc::new(Reader { source, home: Arc::clone(home) }))
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Commits a transaction, or ends a snapshot.
    pub(crate) fn commit(self, durability: Durability) -> Result<()> {
        let Reader { source, home } = self;
        let ended = match source {
            Source::Txn(mut txn) => {
                txn.set_durability(durability);
                txn.commit()
            }
            Source::Snapshot(_) => Ok(()),
        };
        drop(home);
        ended
    }

    /// Aborts a transaction, or ends a snapshot.
    pub(crate) fn abort(self) -> Result<()> {
        let Reader { source, home } = self;
        let ended = match source {
            Source::Txn(txn) => txn.abort(),
            Source::Snapshot(_) => Ok(()),
        };
        drop(home);
        ended
    }
}

/// A place in a tree.
pub(crate) struct Place {
    cursor: Cursor<'static>,
    _tree: Arc<Db>,
    _reader: Rc<Reader>,
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

impl Place {
    pub(crate) fn new(tree: &Arc<Db>, reader: &Rc<Reader>) -> Place {
        // SAFETY: the tree's handle does not move (invariant 2), and `_tree` is dropped after the cursor (invariant 1).
        let lasting_tree: &'static Db = unsafe { &*Arc::as_ptr(tree) };
        // SAFETY: the reader does not move (invariant 2), and `_reader` is dropped after the cursor (invariant 1).
        let lasting_reader: &'static Reader = unsafe { &*Rc::as_ptr(reader) };
        let cursor = with_source!(lasting_reader, source => lasting_tree.cursor(source));
        Place { cursor, _tree: Arc::clone(tree), _reader: Rc::clone(reader) }
    }

    pub(crate) fn first(&mut self) -> Result<Option<Pair>> {
        self.cursor.first()
    }

    pub(crate) fn last(&mut self) -> Result<Option<Pair>> {
        self.cursor.last()
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        self.cursor.seek(key)
    }

    pub(crate) fn next_after(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        self.cursor.next_after(key)
    }

    pub(crate) fn prev(&mut self) -> Result<Option<Pair>> {
        self.cursor.prev()
    }

    /// Moves to the next pair, and replaces `key` and `value` by it. Returns false at the end.
    pub(crate) fn step(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let stepped = self.cursor.for_each(|found, record| {
            key.clear();
            key.extend_from_slice(found);
            value.clear();
            value.extend_from_slice(record);
            ControlFlow::Break(())
        });
        Ok(stepped?.is_some())
    }
}

/// A savepoint. A dropped mark undoes the changes since the savepoint.
pub(crate) struct Mark {
    savepoint: Savepoint<'static, 'static>,
    _reader: Rc<Reader>,
}

impl Mark {
    /// Makes a savepoint in a transaction. Returns `None` for a snapshot.
    pub(crate) fn new(reader: &Rc<Reader>) -> Option<Mark> {
        // SAFETY: the reader does not move (invariant 2), and `_reader` is dropped after the savepoint (invariant 1).
        let lasting_reader: &'static Reader = unsafe { &*Rc::as_ptr(reader) };
        match lasting_reader.source() {
            Source::Txn(txn) => Some(Mark { savepoint: txn.savepoint(), _reader: Rc::clone(reader) }),
            Source::Snapshot(_) => None,
        }
    }

    /// Keeps the changes since the savepoint, and ends all later savepoints.
    pub(crate) fn keep(self) {
        let Mark { savepoint, _reader } = self;
        savepoint.keep();
    }

    /// Undoes the changes since the savepoint, and ends the savepoint.
    pub(crate) fn roll_back(self) -> Result<()> {
        let Mark { savepoint, _reader } = self;
        savepoint.roll_back()
    }
}
