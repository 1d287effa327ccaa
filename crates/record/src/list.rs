//! Lists: records of any length by number, where an insertion or a deletion renumbers all that follow (db(3)'s `DB_RECNO`).
//!
//! Paper: LIBTP 4.4 has "fixed length recno" only (`recno`); db(3) promised both. A list lies in a tree of its own
//! (docs/design/0015-renumbering.md): each record is an entry of that tree under an *id* that never changes, and so is each node of
//! a *counted tree* over these ids, which says how many records lie below each child. The n-th record is found by going down the
//! counts; an insertion changes one node of each level. To the log, to recovery, to snapshots and to whoever repairs after a
//! death these are changes of entries of a B-tree, and nothing else.
//!
//! Locks. Whoever inserts or deletes locks the whole database (`X`): all numbers behind the place change, so a lock on a number
//! would mean nothing. Whoever reads, or replaces a record by another, has the database in an intention mode until its
//! transaction ends, and that alone keeps the numbers as they are; below it only the record itself is locked, by its id.
//!
//! | file | what |
//! |---|---|
//! | `entries` | the keys, and the bytes of head and nodes |
//! | `find` | from a number to an id |
//! | `moved` | from an id to its number, for cursors that outlive transactions |
//! | `change` | put, insert, delete |
//! | `verify` | that the counts are right, and everything is counted once |
//! | `remains` | what is left of one whose file was damaged |
//!
//! Failures half way are taken back by the caller, which knows savepoints.

pub(crate) mod change;
pub mod entries;
pub(crate) mod find;
pub(crate) mod moved;
pub mod remains;
pub(crate) mod verify;

pub use find::Stretch;
pub use moved::{Now, Seen};
