//! Lists: records of any length by number. An insertion or a deletion renumbers all records after it (db(3)'s
//! `DB_RECNO`).
//!
//! Paper: LIBTP 4.4 has "fixed length recno" only (`recno`); db(3) promised records of variable length, too. Each list
//! has its own B-tree (docs/design/0015-renumbering.md). Each record is an entry of this B-tree, under an *id* that
//! never changes. Over the ids there is a *counted tree*, whose nodes are entries of the B-tree, too. A node has the
//! number of records below each child. One more entry, the *head*, has the number of all records, the root node's id
//! and the first unused id. A search for the n-th record descends from the root by the counts. An insertion changes the
//! head and one node of each level. The log, recovery, snapshots and repair treat all these changes as ordinary changes
//! of entries of a B-tree.
//!
//! Locks. An insertion or deletion locks the whole database (`X`): all later numbers change, so locks on single numbers
//! would be useless. A reader, or a replacement of a record, holds the database in an intention mode until its
//! transaction ends, so that the numbers do not change. Inside the database, only the record itself is locked, by its
//! id.
//!
//! | file | contents |
//! |---|---|
//! | `entries` | the keys, and the bytes of head and nodes |
//! | `find` | finds the id of a number |
//! | `moved` | finds the number of an id, for cursors that outlive transactions |
//! | `change` | put, insert, delete |
//! | `verify` | checks that the counts are right and every record is counted once |
//! | `remains` | the salvaged records of a damaged file |
//!
//! If a call fails, the caller undoes the call's partial change by a savepoint.

pub(crate) mod change;
pub mod entries;
pub(crate) mod find;
pub(crate) mod moved;
pub mod remains;
pub(crate) mod verify;

pub use find::Stretch;
pub use moved::{Now, Seen};
