//! The yardstick of recoverable memory: bugs that a test build can switch on in the order of the stores of the undo log, each to
//! be noticed by `tests/vista` when a machine loses what was not written back.

/// A bug, and whether it shows only where the memory outlives the cache.
pub const PLANTED_STORES: [(&str, bool); 5] = [
    ("undo: a record is published before its image", false),
    ("undo: no zero behind the last record", false),
    ("undo: no fence behind a record", true),
    ("undo: committed before the stores are in memory", true),
    ("rio: new blocks are not made safe", true),
];
