//! Bugs in recoverable memory. Some bugs change the order of the undo log's stores. `tests/vista` must notice each of
//! these bugs when a machine loses the stores that were not written back. Other bugs are in the code that guards the
//! stores, and in the redo log of `rvm`.

use super::Suite::{Disks, Vista};
use super::{Judge, Planted};

/// The test of recoverable memory that must notice a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticedBy {
    /// A program that is stopped between any two stores.
    Stops,
    /// A program that is stopped between any two stores, on a machine that then loses the processor's cache.
    LostLines,
    /// Two concurrent transactions of a program that is stopped between any two stores; the cache is lost.
    Two,
    /// Threads that change the same bytes.
    Threads,
    /// Stores to hidden memory, and to the addresses before and after a mapping.
    WildStores,
    /// A disk that crashes or fails: `crates/rvm/tests/disks`.
    Disks,
    /// A machine that stops while the file grows. The memory survives, and the processor's cache is lost.
    Growth,
    /// A machine that loses its cache before or after a commit record that also decides about memory.
    Joined,
    /// A machine that loses its cache during a rollback to a savepoint.
    Parts,
    /// A test that watches the system calls while a segment is made.
    Creation,
}

use NoticedBy::{Creation, Growth, Joined, LostLines, Parts, Stops, Threads, Two, WildStores};

const fn by(test: NoticedBy, name: &'static str) -> Planted {
    let suite = if matches!(test, NoticedBy::Disks) { Disks } else { Vista };
    Planted::new(suite, name, Judge::Stores(test))
}

pub(super) const STORES: &[Planted] = &[
    by(Stops, "undo: a record is published before its image"),
    by(Stops, "undo: no zero is stored after the last record"),
    by(LostLines, "undo: no fence follows the write-back of a record"),
    by(LostLines, "undo: a transaction commits before its stores are in memory"),
    by(LostLines, "undo: a commit returns before its end is in memory"),
    by(Two, "undo: a further log is not linked"),
    by(Joined, "vista: a decision precedes the write-back of the stores"),
    by(Parts, "undo: records after a savepoint are cut before the restored bytes are in memory"),
    by(Parts, "undo: cut records stay readable after new records"),
    by(Threads, "threads: two transactions hold the same lock"),
    by(WildStores, "rio: hidden memory stays writable"),
    by(WildStores, "rio: a mapping has no guard pages"),
    by(NoticedBy::Disks, "rvm: the log is not synced"),
    by(NoticedBy::Disks, "rvm: the log is truncated before the database is synced"),
    by(NoticedBy::Disks, "rvm: a failed log accepts more writes"),
    by(NoticedBy::Disks, "rvm: growth outside of transactions is not logged"),
    by(NoticedBy::Disks, "rvm: a late opener creates the log again"),
    by(Growth, "rio: new blocks are not made durable"),
    by(Growth, "rio: a link precedes the write-back of the allocation"),
    by(Growth, "undo: a longer log is linked before its images are in memory"),
    by(Creation, "rio: a new region's first blocks are not filled"),
    by(Creation, "rio: a new region is named before it is synced"),
    by(Creation, "rio: a new region's name is not synced"),
];
