//! Finds the record of a number by the counts in the nodes.

use zerocopy::FromBytes;

use super::entries::{node_key, record_key, Child, Head, Node, TextNotes, HEAD_KEY, TEXT_KEY};
use crate::database::Database;
use crate::locking::{Access, Purpose};
use crate::snapshot::SnapshotAccess;
use crate::{Error, Result};

/// An upper bound of the number of levels of a list.
const LEVELS_MAX: u8 = 40;

/// The entries of a list's tree, for a transaction or a snapshot.
pub(crate) trait Entries {
    /// Reads the head or a node. Locks only the database, at least in an intention mode.
    fn inner(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Reads a record. In a transaction, locks the record for reading.
    fn record<R>(&self, id: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>>;
    /// Returns the list.
    fn list(&self) -> &Database;
}

impl Entries for Access<'_> {
    fn inner(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.enter(Purpose::Read)?;
        self.btree_get(key, (Purpose::Read, None), |_, _, _| {}, <[u8]>::to_vec)
    }

    fn record<R>(&self, id: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get(&record_key(id), read)
    }

    fn list(&self) -> &Database {
        self.database()
    }
}

impl Entries for SnapshotAccess<'_> {
    fn inner(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key, <[u8]>::to_vec)
    }

    fn record<R>(&self, id: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get(&record_key(id), read)
    }

    fn list(&self) -> &Database {
        self.database()
    }
}

/// Returns the error for entries that contradict each other.
#[cold]
pub(super) fn damaged(list: &Database, what: impl Into<String>) -> Error {
    Error::DamagedList { database: list.name().to_string(), what: what.into() }
}

pub(super) fn check_list(list: &Database) -> Result<()> {
    if list.key_format().is_list {
        return Ok(());
    }
    Err(Error::WrongMethod { database: list.name().to_string(), found: list.method().name(), wanted: "list" })
}

/// Reads the head.
pub(super) fn head(entries: &impl Entries) -> Result<Head> {
    check_list(entries.list())?;
    let Some(bytes) = entries.inner(&HEAD_KEY)? else { return Ok(Head::new()) };
    Head::of(&bytes).ok_or_else(|| damaged(entries.list(), "its head contradicts itself"))
}

/// Reads a node.
pub(super) fn node(entries: &impl Entries, id: u64) -> Result<Node> {
    let bytes = entries.inner(&node_key(id))?;
    let bytes = bytes.ok_or_else(|| damaged(entries.list(), format!("node {id} is missing")))?;
    Node::of(&bytes).ok_or_else(|| damaged(entries.list(), format!("node {id} contradicts itself")))
}

/// A node on a path, and the child at which the path continues.
pub(super) struct Step {
    pub(super) id: u64,
    pub(super) node: Node,
    pub(super) at: usize,
}

/// Returns the path from the root to the record after the first `index` records, or to the place after the last record.
/// The path of an empty list is empty.
pub(super) fn descend(entries: &impl Entries, head: &Head, index: u64) -> Result<Vec<Step>> {
    let (mut steps, mut index): (Vec<Step>, u64) = (Vec::new(), index);
    let mut child = Child { id: head.root.get(), count: head.count.get() };
    while child.id != 0 {
        let node = node(entries, child.id)?;
        let is_below =
            steps.last().map_or(node.level < LEVELS_MAX, |above| above.node.level.checked_sub(1) == Some(node.level));
        if !is_below || node.count() != child.count {
            let what = format!("node {} of level {} counts {} records", child.id, node.level, node.count());
            return Err(damaged(entries.list(), format!("{what}, and the node above states {}", child.count)));
        }
        let (at, rest) = node.place(index);
        let next = node.children.get(at).copied();
        let is_leaf = node.level == 0;
        steps.push(Step { id: child.id, node, at });
        match next {
            Some(next) if !is_leaf => child = next,
            _ => break,
        }
        index = rest;
    }
    Ok(steps)
}

/// Consecutive records: the known contents of one leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the first record.
    pub first: u64,
    /// The records' ids, in order.
    pub ids: Vec<u64>,
}

impl Stretch {
    /// Returns the id of a number, if the stretch has it.
    pub fn id_of(&self, number: u64) -> Option<u64> {
        self.ids.get(usize::try_from(number.checked_sub(self.first)?).ok()?).copied()
    }
}

/// Returns the stretch that has a number; `None` if there is no such record.
pub(super) fn stretch(entries: &impl Entries, number: u64) -> Result<Option<Stretch>> {
    let head = head(entries)?;
    if number == 0 || number > head.count.get() {
        return Ok(None);
    }
    let mut steps = descend(entries, &head, number - 1)?;
    let Some(leaf) = steps.pop() else { return Ok(None) };
    let ids = leaf.node.children.iter().map(|child| child.id).collect();
    Ok(Some(Stretch { first: number - leaf.at as u64, ids }))
}

/// Reads a record whose id is in a node.
pub(super) fn record_of<R>(entries: &impl Entries, id: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
    entries.record(id, read)?.ok_or_else(|| damaged(entries.list(), format!("the record with id {id} is missing")))
}

pub(super) fn get<R>(entries: &impl Entries, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
    let stretch = stretch(entries, number)?;
    let id = stretch.and_then(|stretch| stretch.id_of(number));
    id.map(|id| record_of(entries, id, read)).transpose()
}

/// Returns the notes on a text file; `None` if the list never read or wrote a text file.
pub(super) fn text_note(entries: &impl Entries) -> Result<Option<TextNotes>> {
    check_list(entries.list())?;
    let Some(bytes) = entries.inner(&TEXT_KEY)? else { return Ok(None) };
    let note = TextNotes::read_from_bytes(&bytes);
    note.map(Some).map_err(|_| damaged(entries.list(), "its note about its text file contradicts itself"))
}

/// The calls that read, for transactions and for snapshots.
macro_rules! reads {
    ($access:ty) => {
        impl $access {
            /// Returns the number of records of a list.
            ///
            /// # Errors
            /// [`Error::WrongMethod`](crate::Error::WrongMethod), [`Error::DamagedList`](crate::Error::DamagedList),
            /// and errors of locks, snapshots and pages.
            pub fn list_count(&self) -> Result<u64> {
                Ok(head(self)?.count.get())
            }

            /// Passes the record with a number (from 1) to `read`. Returns `None` if there is no such record.
            ///
            /// A page may be latched while `read` runs: `read` may copy or inspect the record, and calls no other
            /// function of the library (PROTOCOLS D12).
            ///
            /// # Errors
            /// As [`list_count`](Self::list_count).
            pub fn list_get<R>(&self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
                get(self, number, read)
            }

            /// Returns the stretch that has a number, for cursors; `None` if there is no such record.
            ///
            /// # Errors
            /// As [`list_count`](Self::list_count).
            pub fn list_stretch(&self, number: u64) -> Result<Option<Stretch>> {
                stretch(self, number)
            }

            /// Passes the record with an id of a stretch to `read`.
            ///
            /// # Errors
            /// As [`list_count`](Self::list_count).
            pub fn list_record<R>(&self, id: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
                record_of(self, id, read)
            }
        }
    };
}

reads!(Access<'_>);
reads!(SnapshotAccess<'_>);
