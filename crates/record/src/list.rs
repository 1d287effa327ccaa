//! Lists: records of any length by number. An insertion or a deletion renumbers all records behind it (db(3)'s
//! `DB_RECNO`).
//!
//! Paper: LIBTP 4.4 has "fixed length recno" only (`recno`); db(3) promised both. A list lies in a tree of its own
//! (docs/design/0015-renumbering.md). Each record is an entry of that tree under an *id* that never changes. So is each
//! node of a *counted tree* over these ids. A node has the number of records below each child. A search for the n-th
//! record goes down by these counts; an insertion changes one node of each level. To the log, recovery, snapshots and
//! repair these are changes of entries of a B-tree, and nothing else.
//!
//! Locks. An insertion or deletion locks the whole database (`X`): all numbers behind the place change, so a lock on a
//! number would mean nothing. A reader, or a replacement of a record, holds the database in an intention mode until its
//! transaction ends, which keeps the numbers as they are. Below the database only the record itself is locked, by its
//! id.
//!
//! | file | what |
//! |---|---|
//! | `entries` | the keys, and the bytes of head and nodes |
//! | `find` | from a number to an id |
//! | `moved` | from an id to its number, for cursors that outlive transactions |
//! | `change` | put, insert, delete |
//! | `verify` | checks that the counts are right and every record is counted once |
//! | `remains` | the salvaged records of a damaged file |
//!
//! The caller, which knows savepoints, undoes a failure half way.

pub(crate) mod change;
pub mod entries;
pub(crate) mod find;
pub(crate) mod moved;
pub mod remains;
pub(crate) mod verify;

pub use find::Stretch;
pub use moved::{Now, Seen};
