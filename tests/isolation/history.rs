//! The actions and observations of transactions, in a form from which the order of versions can be computed
//! afterwards.
//!
//! There are three kinds of objects.
//! * A *list* grows at its end. Each append reads the list and adds a unique number, so a read shows the order of all
//!   writes before it (the idea of Elle). A push adds a number without reading the list.
//! * A *cell* has the number of its last write, and each write reports the number that it replaced.
//! * A *row* is inserted once and deleted at most once, at a place of a range that scans read. So rows show phantoms.

use std::collections::BTreeSet;

/// A number that is unique among the writes of a history; 0 is the state before any write.
pub type Element = u64;

/// A row's key: its range, its place there, and its unique number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub range: u32,
    pub place: u32,
    pub element: Element,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a list.
    ReadList { list: u32, elements: Vec<Element> },
    /// Read a list and wrote it back with one more element.
    Append { list: u32, before: Vec<Element>, element: Element },
    /// Added an element at the end of a list without reading the list.
    Push { list: u32, element: Element },
    /// Read a cell.
    ReadCell { cell: u32, found: Element },
    /// Read a cell and wrote it.
    WriteCell { cell: u32, before: Element, element: Element },
    /// Read all rows of the places `from..=to` of a range.
    Scan { range: u32, from: u32, to: u32, rows: BTreeSet<Row> },
    /// Inserted a row.
    Insert { row: Row },
    /// Deleted a row that it found.
    Delete { row: Row },
}

/// One transaction as its thread observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread's number.
    pub thread: usize,
    /// The time just before its beginning, on a clock that all processes share.
    pub begin: u64,
    /// The time after its end; the largest number if the process was killed before its report.
    pub end: u64,
    /// Whether it committed.
    pub is_committed: bool,
    /// Its steps, in order. Of an aborted transaction the checker uses only the writes, which no other transaction may
    /// see.
    pub steps: Vec<Step>,
}
