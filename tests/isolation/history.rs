//! What transactions did and saw, told so that the order of versions can be worked out afterwards.
//!
//! Three kinds of objects. A *list* grows at its end: each append adds a number that no other append adds, so a read tells
//! the order of all writes before it (the idea of Elle); a push adds one, too, and tells nothing. A *cell* holds the number of its last write, and each write tells
//! the number it replaced. A *row* is inserted once and deleted at most once, at a place of a range that scans read: so it
//! tells of phantoms.

use std::collections::BTreeSet;

/// A number no two writes of a history share; 0 is what was there before any write.
pub type Element = u64;

/// A row's key: the range it is in, its place there, and a number that no other row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub range: u32,
    pub place: u32,
    pub element: Element,
}

/// One thing a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a list.
    ReadList { list: u32, elements: Vec<Element> },
    /// Read a list and wrote it back with one more element.
    Append { list: u32, before: Vec<Element>, element: Element },
    /// Added an element behind a list without a look at the list.
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

/// One transaction as its thread saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which thread.
    pub thread: usize,
    /// When it began, on the clock of all processes: just before.
    pub begin: u64,
    /// When it had ended; for ever, if nobody lived to say.
    pub end: u64,
    /// Whether it committed.
    pub is_committed: bool,
    /// What it did, in order. Of an aborted one only the writes count: nobody may see them.
    pub steps: Vec<Step>,
}
