//! The actions and observations of transactions, in a form from which the order of versions can be computed
//! afterwards.
//!
//! There are three kinds of objects. A *list* grows at its end: each append adds a unique number, so a read shows the
//! order of all writes before it (the idea of Elle); a push adds a number without reading. A *cell* holds the number of
//! its last write, and each write reports the number that it replaced. A *row* is inserted once and deleted at most
//! once, at a place of a range that scans read, so it shows phantoms.

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
    /// Added an element behind a list without reading the list.
    Push { list: u32, element: Element },
    /// Read a cell.
    ReadCell { cell: u32, found: Element },
    /// Read a cell and wrote it.
    WriteCell { cell: u32, before: Element, element: Element },
    /// Read all rows of the places `from..=to` of a range.
    Scan { range: u32, from: u32, to: u32, rows: BTreeSet<Row> },
    /// Inserted a row.
    Insert { row: Row },
    /// Deleted a row it found.
    Delete { row: Row },
}

/// One transaction as its thread observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread's number.
    pub thread: usize,
    /// A time just before its beginning, on the clock of all processes.
    pub begin: u64,
    /// A time after its end; the largest number if the process was killed before it could report.
    pub end: u64,
    /// Whether it committed.
    pub is_committed: bool,
    /// Its steps, in order. Of an aborted transaction only the writes count: no other transaction may see them.
    pub steps: Vec<Step>,
}
