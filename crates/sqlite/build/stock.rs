//! The functions of `btree.h` that run SQLite's own code for an environment, too.
//!
//! They work on the companion (c/shim.h): pagers, caches, page sizes, mutexes and hints; or they call other functions
//! of `btree.h`. If `btree.h` has a function that is neither in this list nor in the shim, the build fails: otherwise
//! SQLite's own code would use a cursor of an environment.

/// The names of these functions without `sqlite3Btree`.
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
