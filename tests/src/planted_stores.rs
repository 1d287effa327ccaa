//! The yardstick of recoverable memory: bugs that a test build can switch on. Some change the order of the undo log's
//! stores: `tests/vista` must notice each of them when a machine loses the stores that were not written back. Others
//! are in the code that guards the stores, and in the redo log.

use crate::planted_deaths::{Judge, PlantedDeath};

/// Bugs in the handling of locks and memory that a forked child inherits. A case of `tests/vista` must notice each bug.
pub const PLANTED_FORKS: [PlantedDeath; 4] = [
    PlantedDeath {
        name: "rio: a child keeps its parent's lock",
        judge: Judge::OwnCase("forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
        is_seldom: false,
    },
    PlantedDeath {
        name: "io: a clone keeps its parent's lock",
        judge: Judge::OwnCase("forks::a_child_that_outlives_its_killed_parent_keeps_no_memory_on_a_disk"),
        is_seldom: false,
    },
    PlantedDeath {
        name: "rvm: a child writes its parent's log",
        judge: Judge::OwnCase("inherited::a_child_writes_nothing_to_its_parents_redo_log"),
        is_seldom: false,
    },
    PlantedDeath {
        name: "rio: a child is its parent",
        judge: Judge::OwnCase("inherited::a_child_is_refused_in_its_parents_transaction_which_is_whole"),
        is_seldom: false,
    },
];

/// The test that must notice a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticedBy {
    /// A program that is stopped between any two stores.
    Stops,
    /// The same, where the memory survives and the processor's cache is lost.
    LostLines,
    /// The same, while two transactions run at once.
    Two,
    /// Threads that change the same bytes.
    Threads,
    /// Stores to hidden memory, and to the addresses before and behind a mapping.
    WildStores,
    /// A disk that crashes or fails: `crates/rvm/tests/disks`.
    Disks,
    /// A machine that stops while the file grows; the memory survives and the processor's cache is lost.
    Growth,
    /// A machine that loses its cache around a commit record that also decides over memory.
    Joined,
    /// A machine that loses its cache while a part of a transaction is undone.
    Parts,
    /// A test that watches the system calls while a segment is made.
    Creation,
}

/// All planted bugs, each with the test that must notice it.
pub const PLANTED_STORES: [(&str, NoticedBy); 23] = [
    ("undo: a record is published before its image", NoticedBy::Stops),
    ("undo: no zero behind the last record", NoticedBy::Stops),
    ("undo: no fence behind a record", NoticedBy::LostLines),
    ("undo: committed before the stores are in memory", NoticedBy::LostLines),
    ("undo: an end is answered before it is in memory", NoticedBy::LostLines),
    ("undo: one more log is not linked", NoticedBy::Two),
    ("vista: it is decided over stores that are not in memory", NoticedBy::Joined),
    ("undo: a part is cut off before memory has what it was", NoticedBy::Parts),
    ("undo: what is cut off may be read behind what is saved next", NoticedBy::Parts),
    ("threads: two have one lock", NoticedBy::Threads),
    ("rio: what is hidden can be stored to", NoticedBy::WildStores),
    ("rio: a mapping has no guard pages", NoticedBy::WildStores),
    ("rvm: the log is not synced", NoticedBy::Disks),
    ("rvm: the log begins anew before the database is synced", NoticedBy::Disks),
    ("rvm: a log that failed is written further", NoticedBy::Disks),
    ("rvm: what has grown outside of transactions gets to the database in part", NoticedBy::Disks),
    ("rvm: who comes late makes the log anew", NoticedBy::Disks),
    ("rio: new blocks are not made safe", NoticedBy::Growth),
    ("rio: memory is led to before it is handed out in memory", NoticedBy::Growth),
    ("undo: a longer log is led to before its images are in memory", NoticedBy::Growth),
    ("rio: a new region's first blocks are only set aside", NoticedBy::Creation),
    ("rio: a new region is named before it is on its disk", NoticedBy::Creation),
    ("rio: a new region's name is not synced", NoticedBy::Creation),
];
