//! Iterators over databases, for `for` loops. They use cursors, and return records from both ends.
//!
//! Paper: none. An iterator has a cursor for each end; the cursor of the back end is made when it is needed. Each step
//! copies the pair, as a cursor's step does ([`Cursor::for_each`] copies nothing). The iterator compares the keys under
//! the two cursors, in the form that the file stores, to find out whether the ends have met. An iterator ends after an
//! error, so no loop gets the same error for ever.

mod listed;
mod numbered;

use std::cell::Cell;
use std::iter::FusedIterator;

use crate::db::cursor::{Cursor, Pair};
use crate::db::index::{Index, IndexCursor, IndexEntry};
use crate::db::multi::{Multi, MultiCursor};
use crate::{Reader, Result};

pub use listed::ListRecords;
pub use numbered::Records;

/// One end of an iterator: a cursor.
pub(super) trait End: Sized {
    /// The record that a step returns.
    type Item;
    /// The place of a record in the order of the records.
    type Place<'p>: PartialOrd
    where
        Self: 'p;

    /// Moves to the next record.
    fn step_up(&mut self) -> Result<Option<Self::Item>>;
    /// Moves to the previous record.
    fn step_down(&mut self) -> Result<Option<Self::Item>>;
    /// Returns the place of the record under the cursor.
    fn place(&self) -> Option<Self::Place<'_>>;
    /// Returns a cursor over the same records, without a place.
    fn another(&self) -> Self;
}

/// Both ends of an iterator.
pub(super) struct Ends<E> {
    front: E,
    back: Option<E>,
    has_ended: bool,
}

impl<E: End> Ends<E> {
    /// Returns the two ends of an iteration over all records of a cursor, which has no place yet.
    pub(super) fn of(front: E) -> Ends<E> {
        Ends { front, back: None, has_ended: false }
    }

    /// Returns one of the cursors.
    pub(super) fn cursor(&self) -> &E {
        &self.front
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the iterator.
    fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether the ends have passed each other. An end without a place has returned no record yet.
    fn have_met(&self) -> bool {
        let back = self.back.as_ref().and_then(End::place);
        matches!((self.front.place(), back), (Some(front), Some(back)) if front >= back)
    }

    /// Returns a step's record, unless the other end has returned it already.
    fn shown(&mut self, step: Result<Option<E::Item>>) -> Option<Result<E::Item>> {
        let item = match step {
            Ok(Some(item)) if !self.have_met() => return Some(Ok(item)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        self.end();
        item
    }

    pub(super) fn next(&mut self) -> Option<Result<E::Item>> {
        if self.has_ended {
            return None;
        }
        let step = self.front.step_up();
        self.shown(step)
    }

    pub(super) fn next_back(&mut self) -> Option<Result<E::Item>> {
        if self.has_ended {
            return None;
        }
        let step = self.back.get_or_insert_with(|| self.front.another()).step_down();
        self.shown(step)
    }
}

impl End for Cursor<'_> {
    type Item = Pair;
    type Place<'p>
        = &'p [u8]
    where
        Self: 'p;

    fn step_up(&mut self) -> Result<Option<Pair>> {
        self.next()
    }

    fn step_down(&mut self) -> Result<Option<Pair>> {
        self.prev()
    }

    fn place(&self) -> Option<&[u8]> {
        self.shown().map(|(key, _)| key)
    }

    fn another(&self) -> Self {
        Cursor::another(self)
    }
}

/// An iterator over pairs of keys and values, in the order of the keys and from both ends: a [`Cursor`] in a `for`
/// loop.
///
/// In a transaction each step locks as the cursor's step does. The loop may change the database: it then gets the pairs
/// that it puts ahead of its place, and does not get the pairs that it removes there. A hash file has no order and no
/// last pair: [`next_back`](DoubleEndedIterator::next_back) is refused there. After an error the iterator ends.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// use std::ops::Bound;
///
/// let words = env.btree("words")?;
/// env.run(|txn| {
///     for word in ["apple", "pear", "plum"] {
///         words.put(txn, word.as_bytes(), b"")?;
///     }
///     for pair in words.range(txn, (Bound::Excluded("apple"), Bound::Unbounded))? {
///         let (word, _) = pair?;
///         assert!(word.starts_with(b"p"));
///     }
///     let down: libtp::Result<Vec<_>> = words.prefix(txn, b"p")?.into_iter().rev().collect();
///     assert_eq!(down?[0].0, b"plum");
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pairs<'t>(Ends<Cursor<'t>>);

impl Iterator for Pairs<'_> {
    type Item = Result<Pair>;

    #[inline]
    fn next(&mut self) -> Option<Result<Pair>> {
        self.0.next()
    }
}

impl DoubleEndedIterator for Pairs<'_> {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        self.0.next_back()
    }
}

impl FusedIterator for Pairs<'_> {}

impl<'t> IntoIterator for Cursor<'t> {
    type Item = Result<Pair>;
    type IntoIter = Pairs<'t>;

    /// Returns an iterator over all pairs of the cursor's keys, wherever the cursor is.
    fn into_iter(self) -> Pairs<'t> {
        Pairs(Ends::of(self.rewound()))
    }
}

/// Converts an entry of a tree with `show` into its form for the program. Ends the iterator if `show` fails.
fn seen<'t, T>(
    entries: &mut Ends<Cursor<'t>>,
    entry: Option<Result<Pair>>,
    show: impl FnOnce(Pair) -> Result<T>,
) -> Option<Result<T>> {
    let shown = entry?.and_then(show);
    if shown.is_err() {
        entries.end();
    }
    Some(shown)
}

/// An iterator over the pairs of a database whose keys have several values: a [`MultiCursor`] in a `for` loop. The keys
/// come in order, and the values of each key in their order.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let tags = env.multi("tags", libtp::Duplicates::Sorted)?;
/// env.run(|txn| {
///     tags.put(txn, b"pear", b"green")?;
///     tags.put(txn, b"pear", b"fruit")?;
///     let mut values = Vec::new();
///     for pair in tags.range(txn, "pear"..="pear")? {
///         values.push(pair?.1);
///     }
///     assert_eq!(values, [b"fruit", b"green"]);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MultiPairs<'t> {
    multi: &'t Multi,
    entries: Ends<Cursor<'t>>,
}

impl Iterator for MultiPairs<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        let entry = self.entries.next();
        seen(&mut self.entries, entry, |entry| self.multi.pair(entry))
    }
}

impl DoubleEndedIterator for MultiPairs<'_> {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        let entry = self.entries.next_back();
        seen(&mut self.entries, entry, |entry| self.multi.pair(entry))
    }
}

impl FusedIterator for MultiPairs<'_> {}

impl<'t> IntoIterator for MultiCursor<'t> {
    type Item = Result<Pair>;
    type IntoIter = MultiPairs<'t>;

    /// Returns an iterator over all pairs of the cursor's keys, wherever the cursor is.
    fn into_iter(self) -> MultiPairs<'t> {
        let (multi, at) = self.into_parts();
        MultiPairs { multi, entries: Ends::of(at.rewound()) }
    }
}

/// An iterator over the records that an index finds: an [`IndexCursor`] in a `for` loop.
///
/// The iterator returns a record again if the loop changes the record so that its entry moves ahead of the loop. So a
/// loop that raises the indexed value may never end. Collect the keys first, or iterate from the back.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let people = env.btree("people")?;
/// let by_town = people.index("people by town", |_key, town, keys| keys.add(town))?;
/// env.run(|txn| {
///     people.put(txn, b"ada", b"London")?;
///     people.put(txn, b"kurt", b"Brno")?;
///     for found in by_town.range(txn, "L"..) {
///         assert_eq!(found?.key, b"ada");
///     }
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IndexEntries<'t, R: Reader> {
    index: &'t Index,
    reader: &'t R,
    entries: Ends<Cursor<'t>>,
    /// Whether the index was found on its database's list.
    is_listed: Cell<bool>,
}

impl<R: Reader> IndexEntries<'_, R> {
    fn found(&mut self, entry: Option<Result<Pair>>) -> Option<Result<IndexEntry>> {
        if !self.is_listed.replace(true) {
            if let Err(error) = self.index.check_listed(self.reader) {
                self.entries.end();
                return Some(Err(error));
            }
        }
        seen(&mut self.entries, entry, |entry| self.index.record_of(self.reader, &entry))
    }
}

impl<R: Reader> Iterator for IndexEntries<'_, R> {
    type Item = Result<IndexEntry>;

    fn next(&mut self) -> Option<Result<IndexEntry>> {
        let entry = self.entries.next();
        self.found(entry)
    }
}

impl<R: Reader> DoubleEndedIterator for IndexEntries<'_, R> {
    fn next_back(&mut self) -> Option<Result<IndexEntry>> {
        let entry = self.entries.next_back();
        self.found(entry)
    }
}

impl<R: Reader> FusedIterator for IndexEntries<'_, R> {}

impl<'t, R: Reader> IntoIterator for IndexCursor<'t, R> {
    type Item = Result<IndexEntry>;
    type IntoIter = IndexEntries<'t, R>;

    /// Returns an iterator over all records of the cursor's index keys, wherever the cursor is.
    fn into_iter(self) -> IndexEntries<'t, R> {
        let (index, reader, at) = self.into_parts();
        IndexEntries { index, reader, entries: Ends::of(at.rewound()), is_listed: Cell::new(false) }
    }
}

/// Writes the state of an iterator for people, without reading the database.
fn debug(f: &mut std::fmt::Formatter<'_>, what: &str, database: &str, has_ended: bool) -> std::fmt::Result {
    f.debug_struct(what).field("database", &database).field("has_ended", &has_ended).finish()
}

impl std::fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug(f, "Pairs", self.0.cursor().database_name(), self.0.has_ended())
    }
}

impl std::fmt::Debug for MultiPairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug(f, "MultiPairs", self.multi.name(), self.entries.has_ended())
    }
}

impl<R: Reader> std::fmt::Debug for IndexEntries<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug(f, "IndexEntries", self.index.name(), self.entries.has_ended())
    }
}

#[cfg(test)]
mod tests;
