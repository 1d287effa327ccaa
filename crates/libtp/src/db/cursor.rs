//! Cursors: places in a database that move both ways.

use libtp_record::copies::copy_of;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use libtp_record::{
    BtreeCursor, HashCursor, KeyRange, Method, NumberCursor, Order, SnapshotCursor, SnapshotHashCursor,
    SnapshotNumberCursor,
};

use crate::db::handle::{Db, Recno};
use crate::{Error, Result, Snapshot, Txn};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A place in a B-tree database. A cursor holds no latch between steps, so other sessions can change the records that
/// it has not passed. The records that it has passed are locked for reading until its transaction ends. In a
/// [`Snapshot`] it locks nothing and shows the snapshot's state. In a hash file it has no order and visits every record
/// in turn. A cursor of some of the keys ([`Db::range`](crate::Db::range)) moves and locks within these keys only.
///
/// A call that fails or finds nothing leaves the cursor in its place: after [`Cursor::next`] has found nothing, the
/// cursor is still on the last record, and another `next` finds a record that was put after it meanwhile. When the
/// record under a cursor is removed, the cursor is between the neighbours of that record. This holds for every kind of
/// cursor. One failure moves the cursor: if the process has no memory for a copy of the value (`Full`), the cursor is on
/// the record whose value was not copied.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let words = env.btree("words")?;
/// env.run(|txn| {
///     for word in [&b"pear"[..], b"apple", b"plum"] {
///         words.put(txn, word, b"")?;
///     }
///     let mut cursor = words.cursor(txn);
///     assert_eq!(cursor.seek(b"b")?.map(|pair| pair.0).as_deref(), Some(&b"pear"[..]));
///     assert_eq!(cursor.next()?.map(|pair| pair.0).as_deref(), Some(&b"plum"[..]));
///     assert_eq!(cursor.next()?, None);
///     assert_eq!(cursor.prev()?.map(|pair| pair.0).as_deref(), Some(&b"pear"[..]));
///     assert_eq!(cursor.first()?.map(|pair| pair.0).as_deref(), Some(&b"apple"[..]));
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A `for` loop takes the pairs of a cursor's keys one by one, from either end: [`Pairs`](crate::Pairs).
pub struct Cursor<'t> {
    db: &'t Db,
    place: Place<'t>,
    order: Option<Arc<dyn Order>>,
}

enum Place<'t> {
    Locking(Box<BtreeCursor<'t>>, &'t Txn<'t>),
    Snapshot(Box<SnapshotCursor<'t>>, &'t Snapshot<'t>),
    HashLocking(Box<HashCursor<'t>>, &'t Txn<'t>),
    HashSnapshot(Box<SnapshotHashCursor<'t>>, &'t Snapshot<'t>),
}

fn no_order(name: &str) -> Error {
    let what = "it is a hash database, whose keys have no order; nothing was changed. A cursor over it begins at the first record and goes forward";
    Error::Database { name: name.into(), what: what.into() }
}

/// Evaluates an expression with the place in a B-tree. Fails for a hash file, which has no order.
macro_rules! in_order {
    ($place:expr, $at:ident => $work:expr) => {
        match $place {
            Place::Locking($at, txn) => txn.guarded(|| Ok($work?)),
            Place::Snapshot($at, snapshot) => snapshot.guarded(|| Ok($work?)),
            Place::HashLocking(hash, _) => Err(no_order(hash.database_name())),
            Place::HashSnapshot(hash, _) => Err(no_order(hash.database_name())),
        }
    };
}

/// Evaluates an expression with the place in a B-tree or a hash file.
macro_rules! at_any {
    ($place:expr, $at:ident => $work:expr) => {
        match $place {
            Place::Locking($at, txn) => txn.guarded(|| Ok($work?)),
            Place::Snapshot($at, snapshot) => snapshot.guarded(|| Ok($work?)),
            Place::HashLocking($at, txn) => txn.guarded(|| Ok($work?)),
            Place::HashSnapshot($at, snapshot) => snapshot.guarded(|| Ok($work?)),
        }
    };
}

/// Evaluates an expression with the place in a transaction or a snapshot, under the guard of the transaction or
/// snapshot.
macro_rules! at_either {
    ($kind:ident, $place:expr, $at:ident => $work:expr) => {
        match $place {
            $kind::Locking($at, txn) => txn.guarded(|| Ok($work?)),
            $kind::Snapshot($at, snapshot) => snapshot.guarded(|| Ok($work?)),
        }
    };
}

#[allow(clippy::should_implement_trait)] // the usual names for cursors: `next` can fail, and there is a `prev`
impl<'t> Cursor<'t> {
    pub(crate) fn locking(txn: &'t Txn<'_>, db: &'t Db, range: KeyRange) -> Cursor<'t> {
        let access = db.access(txn);
        let place = match access.database().method() {
            Method::Hash => Place::HashLocking(Box::new(HashCursor::new(access)), txn),
            _ => Place::Locking(Box::new(BtreeCursor::new(access).within(range)), txn),
        };
        Cursor { db, place, order: None }
    }

    pub(crate) fn of_snapshot(snapshot: &'t Snapshot<'_>, db: &'t Db, range: KeyRange) -> Cursor<'t> {
        let access = snapshot.access(db.environment(), db.opened());
        let place = match access.database().method() {
            Method::Hash => Place::HashSnapshot(Box::new(SnapshotHashCursor::new(access)), snapshot),
            _ => Place::Snapshot(Box::new(SnapshotCursor::new(access).within(range)), snapshot),
        };
        Cursor { db, place, order: None }
    }

    /// Returns another cursor over the same keys, without a place.
    pub(super) fn another(&self) -> Cursor<'t> {
        let fresh = match &self.place {
            Place::Locking(at, txn) => Cursor::locking(txn, self.db, at.range().clone()),
            Place::Snapshot(at, snapshot) => Cursor::of_snapshot(snapshot, self.db, at.range().clone()),
            Place::HashLocking(_, txn) => Cursor::locking(txn, self.db, KeyRange::default()),
            Place::HashSnapshot(_, snapshot) => Cursor::of_snapshot(snapshot, self.db, KeyRange::default()),
        };
        fresh.in_order(&self.order)
    }

    /// Returns a cursor over the same keys without a place.
    pub(super) fn rewound(mut self) -> Cursor<'t> {
        if let Place::HashLocking(..) | Place::HashSnapshot(..) = self.place {
            return self.another();
        }
        // A cursor that loses its place searches no tree. If the region was given up, the next step reports it.
        let _ = self.return_to(None);
        self
    }

    /// Returns the name of the database.
    pub(super) fn database_name(&self) -> &str {
        self.db.name()
    }

    /// Returns this cursor, over keys in the given order.
    pub(crate) fn in_order(mut self, order: &Option<Arc<dyn Order>>) -> Cursor<'t> {
        self.order.clone_from(order);
        self
    }

    /// Returns a pair as the program knows it.
    fn found(&self, found: Result<Option<Pair>>) -> Result<Option<Pair>> {
        let Some(order) = &self.order else { return found };
        Ok(found?.map(|(encoded, value)| {
            let mut key = Vec::new();
            order.decode(&encoded, &mut key);
            (key, value)
        }))
    }

    /// Moves to the first pair.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Corrupt`, `Io`.
    pub fn first(&mut self) -> Result<Option<Pair>> {
        let found = at_any!(&mut self.place, at => at.first());
        self.found(found)
    }

    /// Moves to the last pair.
    ///
    /// # Errors
    /// As [`Cursor::first`]; `Database` for a hash file, which has no order.
    pub fn last(&mut self) -> Result<Option<Pair>> {
        let found = in_order!(&mut self.place, at => at.last());
        self.found(found)
    }

    /// Moves to the first pair whose key is `key` or greater.
    ///
    /// # Errors
    /// As [`Cursor::last`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        let mut encoded = Vec::new();
        let key = match &self.order {
            None => key,
            Some(order) => {
                order.encode(key, &mut encoded);
                &encoded
            }
        };
        let found = in_order!(&mut self.place, at => at.seek(key));
        self.found(found)
    }

    /// Moves to the next pair; to the first if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        let is_there = self.advance()?;
        let pair = self.shown().filter(|_| is_there);
        Ok(pair.map(|(key, value)| copy_of(value).map(|value| (self.known(key), value))).transpose()?)
    }

    /// Calls `visit` with the next pair, as [`Cursor::next`] finds it, and with each further pair, until `visit` breaks
    /// or the pairs end. Pairs are not copied for the caller, so this is the fastest way to read many pairs. Returns
    /// the value with which `visit` broke off; the cursor is then on the last pair visited.
    ///
    /// No latch is held while `visit` runs: it may wait, and may use the library, including this transaction and
    /// database.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// # let words = env.btree("words")?;
    /// # env.run(|txn| words.put(txn, b"apple", b"5"))?;
    /// use std::ops::{ControlFlow, RangeInclusive};
    ///
    /// let snapshot = env.snapshot()?;
    /// let mut bytes = 0;
    /// words.prefix(&snapshot, b"a")?.for_each(|key, value| {
    ///     bytes += key.len() + value.len();
    ///     ControlFlow::<()>::Continue(())
    /// })?;
    /// assert_eq!(bytes, 6);
    /// # drop(snapshot);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn for_each<B>(&mut self, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>) -> Result<Option<B>> {
        let (order, mut spelled) = (self.order.clone(), Vec::new());
        let mut visit = |key: &[u8], value: &[u8]| match &order {
            None => visit(key, value),
            Some(order) => {
                spelled.clear();
                order.decode(key, &mut spelled);
                visit(&spelled, value)
            }
        };
        loop {
            let is_there = self.advance()?;
            let Some((key, value)) = self.shown().filter(|_| is_there) else { return Ok(None) };
            if let ControlFlow::Break(with) = visit(key, value) {
                return Ok(Some(with));
            }
        }
    }

    /// Moves as [`Cursor::next`] does, for [`Cursor::shown`]. Returns whether there is a pair.
    #[inline(always)] // called once for each record
    fn advance(&mut self) -> Result<bool> {
        match &mut self.place {
            // Pairs that a snapshot's cursor has copied need no guard, because they were right when the cursor copied
            // them. If the cursor has also noted that no pair follows the copied pairs, that answer needs no guard.
            Place::Snapshot(at, snapshot) => match at.step() {
                Some(is_there) => Ok(is_there),
                None => snapshot.guarded(|| Ok(at.move_next()?)),
            },
            place => at_any!(place, at => at.move_next()),
        }
    }

    /// Returns the pair under the cursor, with its key in the form that the file stores.
    #[inline(always)] // called once for each record
    pub(super) fn shown(&self) -> Option<(&[u8], &[u8])> {
        match &self.place {
            Place::Locking(at, _) => at.record(),
            Place::Snapshot(at, _) => at.record(),
            Place::HashLocking(at, _) => at.record(),
            Place::HashSnapshot(at, _) => at.record(),
        }
    }

    /// Returns a stored key as the program knows it.
    #[inline]
    fn known(&self, stored: &[u8]) -> Vec<u8> {
        let Some(order) = &self.order else { return stored.to_vec() };
        let mut key = Vec::new();
        order.decode(stored, &mut key);
        key
    }

    /// Moves to the first pair after a key in the order of this cursor, whether or not the key exists. So a new cursor,
    /// of another transaction for example, continues after the key at which an earlier cursor was. Works in a hash
    /// file, too.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_after(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        // Keys that are equal in the order have equal encodings.
        let after = self.encoded(key);
        let found = at_any!(&mut self.place, at => at.seek_after(&after));
        self.found(found)
    }

    /// Moves the tree's cursor back to `entry`. Without an entry, the cursor loses its place.
    fn return_to(&mut self, entry: Option<&[u8]>) -> Result<()> {
        if self.shown().map(|(key, _)| key) == entry {
            return Ok(());
        }
        match &mut self.place {
            Place::Locking(at, _) => at.stand(entry),
            Place::Snapshot(at, snapshot) => snapshot.guarded(|| Ok(at.stand(entry)?))?,
            Place::HashLocking(..) | Place::HashSnapshot(..) => {}
        }
        Ok(())
    }

    fn encoded(&self, key: &[u8]) -> Vec<u8> {
        let Some(order) = &self.order else { return key.to_vec() };
        let mut encoded = Vec::new();
        order.encode(key, &mut encoded);
        encoded
    }

    /// Moves to the previous pair; to the last if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::last`].
    pub fn prev(&mut self) -> Result<Option<Pair>> {
        let found = in_order!(&mut self.place, at => at.prev());
        self.found(found)
    }
}

/// The place of a cursor over the entries of a tree: on an entry, or in the gap that the entry has left; `None` if the
/// cursor has no place yet. It is stored apart from the tree's cursor, because it may have to stay although the tree's
/// cursor has moved.
#[derive(Debug, Default)]
pub(crate) struct EntryPlace(Option<Vec<u8>>);

impl EntryPlace {
    /// Returns the entry under the cursor.
    pub(crate) fn entry(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// Moves this place to the entry that the tree's cursor found, and returns the value that `show` makes of the
    /// entry. If there is no entry, or if the value cannot be shown, both cursors stay in their places.
    pub(crate) fn arrive<T>(
        &mut self,
        at: &mut Cursor<'_>,
        found: Option<Pair>,
        show: impl FnOnce(&Pair) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(entry) = found else {
            self.stay(at)?;
            return Ok(None);
        };
        match show(&entry) {
            Ok(shown) => {
                self.0 = Some(entry.0);
                Ok(Some(shown))
            }
            Err(error) => self.stay(at).and(Err(error)),
        }
    }

    /// Keeps this place, and moves the tree's cursor back to it.
    pub(crate) fn stay(&self, at: &mut Cursor<'_>) -> Result<()> {
        at.return_to(self.entry())
    }
}

/// A place in a record-number database.
pub struct RecnoCursor<'t> {
    db: &'t Recno,
    place: NumberPlace<'t>,
}

enum NumberPlace<'t> {
    Locking(Box<NumberCursor<'t>>, &'t Txn<'t>),
    Snapshot(Box<SnapshotNumberCursor<'t>>, &'t Snapshot<'t>),
}

#[allow(clippy::should_implement_trait)] // as for `Cursor`
impl<'t> RecnoCursor<'t> {
    pub(crate) fn locking(txn: &'t Txn<'_>, db: &'t Recno) -> RecnoCursor<'t> {
        RecnoCursor { db, place: NumberPlace::Locking(Box::new(NumberCursor::new(db.access(txn))), txn) }
    }

    pub(crate) fn of_snapshot(snapshot: &'t Snapshot<'_>, db: &'t Recno) -> RecnoCursor<'t> {
        let at = SnapshotNumberCursor::new(snapshot.access(db.environment(), db.opened()));
        RecnoCursor { db, place: NumberPlace::Snapshot(Box::new(at), snapshot) }
    }

    /// Keeps the cursor, which has no place yet, within some of the numbers. The cursor locks no other numbers.
    pub(super) fn within(self, numbers: RangeInclusive<u64>) -> RecnoCursor<'t> {
        let place = match self.place {
            NumberPlace::Locking(at, txn) => NumberPlace::Locking(Box::new(at.within(numbers)), txn),
            NumberPlace::Snapshot(at, snapshot) => NumberPlace::Snapshot(Box::new(at.within(numbers)), snapshot),
        };
        RecnoCursor { place, ..self }
    }

    /// Returns another cursor over the same records, without a place.
    pub(super) fn another(&self) -> RecnoCursor<'t> {
        match &self.place {
            NumberPlace::Locking(at, txn) => RecnoCursor::locking(txn, self.db).within(at.numbers().clone()),
            NumberPlace::Snapshot(at, snapshot) => {
                RecnoCursor::of_snapshot(snapshot, self.db).within(at.numbers().clone())
            }
        }
    }

    /// Returns the number of the record under the cursor.
    pub(super) fn number(&self) -> Option<u64> {
        let record = match &self.place {
            NumberPlace::Locking(at, _) => at.record(),
            NumberPlace::Snapshot(at, _) => at.record(),
        };
        record.map(|(number, _)| number)
    }

    /// Returns the name of the database.
    pub(super) fn database_name(&self) -> &str {
        self.db.name()
    }

    /// Moves to the first record; returns its number and bytes.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.place, at => at.first())
    }

    /// Moves to the last record.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.place, at => at.last())
    }

    /// Moves to the first record whose number is `number` or greater.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, number: u64) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.place, at => at.seek(number))
    }

    /// Moves to the next record; to the first if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.place, at => at.next())
    }

    /// Moves to the previous record; to the last if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.place, at => at.prev())
    }
}

#[cfg(test)]
mod tests;
