//! The functions of `btree.h` that SQLite's own code answers for an environment, too.
//!
//! They concern the companion (c/shim.h): pagers, caches, page sizes, mutexes and hints; or they call other functions
//! of `btree.h`. A function that is neither here nor in the shim is new: the build ends, so no cursor of an environment
//! goes to SQLite's code unseen.

/// Their names without `sqlite3Btree`.
pub const STOCK: [&str; 40] = [
    "ClearTableOfCursor",
    "ClosesWithCursor",
    "ConnectionCount",
    "CursorHasHint",
    "CursorHint",
    "CursorHintFlags",
    "CursorHintTblCsr",
    "CursorInfo",
    "CursorIsValid",
    "CursorList",
    "CursorSize",
    "CursorZero",
    "Enter",
    "EnterAll",
    "EnterCursor",
    "FakeValidCursor",
    "GetAutoVacuum",
    "GetJournalname",
    "GetPageSize",
    "GetRequestedReserve",
    "GetReserveNoMutex",
    "HoldsAllMutexes",
    "HoldsMutex",
    "IsInBackup",
    "Leave",
    "LeaveAll",
    "LeaveCursor",
    "LockTable",
    "MaxPageCount",
    "Pager",
    "Schema",
    "SchemaLocked",
    "SecureDelete",
    "SeekCount",
    "SetAutoVacuum",
    "SetCacheSize",
    "SetMmapLimit",
    "SetPageSize",
    "SetSpillSize",
    "Sharable",
];
