//! The yardstick of recoverable memory: bugs that a test build can switch on in the order of the stores of the undo log, each to
//! be noticed by `tests/vista` when a machine loses what was not written back; and in what guards them, and in the redo log.

/// Who is to notice a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticedBy {
    /// A program that is stopped between any two stores.
    Stops,
    /// The same, where the memory outlives the cache.
    LostLines,
    /// The same, where two transactions go on at once.
    Two,
    /// Threads that change the same bytes.
    Threads,
    /// Stores to what is hidden, and to the addresses before and behind a mapping.
    WildStores,
    /// A disk that crashes or fails: `crates/rvm/tests/disks`.
    Disks,
    /// A machine that stops while the file grows, where the memory outlives the cache.
    Growth,
}

/// A bug, and who is to notice it.
pub const PLANTED_STORES: [(&str, NoticedBy); 13] = [
    ("undo: a record is published before its image", NoticedBy::Stops),
    ("undo: no zero behind the last record", NoticedBy::Stops),
    ("undo: no fence behind a record", NoticedBy::LostLines),
    ("undo: committed before the stores are in memory", NoticedBy::LostLines),
    ("undo: the number is raised before the stores are written back", NoticedBy::LostLines),
    ("undo: one more log is not linked", NoticedBy::Two),
    ("threads: two have one lock", NoticedBy::Threads),
    ("rio: what is hidden can be stored to", NoticedBy::WildStores),
    ("rio: a mapping has no guard pages", NoticedBy::WildStores),
    ("rvm: the log is not synced", NoticedBy::Disks),
    ("rvm: the log begins anew before the database is synced", NoticedBy::Disks),
    ("rvm: a log that failed is written further", NoticedBy::Disks),
    ("rio: new blocks are not made safe", NoticedBy::Growth),
];
