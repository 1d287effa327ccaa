//! Cursors: a place in a database that moves both ways.

use std::ops::ControlFlow;
use std::sync::Arc;

use libtp_record::{
    Access, BtreeCursor, HashCursor, KeyRange, Method, NumberCursor, Order, SnapshotAccess, SnapshotCursor,
    SnapshotHashCursor, SnapshotNumberCursor, Stand,
};

use crate::{Error, Result, Snapshot, Txn};

/// A pair a cursor stands on.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A place in a B-tree database. It holds no latch between steps, so others go on changing what it has not passed; what it
/// has passed is locked for reading until its transaction ends. In a [`Snapshot`] nothing is locked, and it shows what that shows.
/// In a hash file it has no order: from the first record, whichever that is, to the next and so on.
/// A cursor of some of the keys ([`Db::range`](crate::Db::range)) goes and locks no further than these.
///
/// A call that fails leaves the cursor where it stood, and so does one that finds nothing, but for two: [`Cursor::next`] that finds nothing
/// stands behind all, and [`Cursor::prev`] before all. Where the record is removed that a cursor stands on, the cursor stands between
/// the neighbours. So it is with every kind of cursor.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
/// let words = env.btree("words")?;
/// env.run(|txn| {
///     for word in [&b"pear"[..], b"apple", b"plum"] {
///         words.put(txn, word, b"")?;
///     }
///     let mut cursor = words.cursor(txn);
///     assert_eq!(cursor.seek(b"b")?.map(|pair| pair.0).as_deref(), Some(&b"pear"[..]));
///     assert_eq!(cursor.next()?.map(|pair| pair.0).as_deref(), Some(&b"plum"[..]));
///     assert_eq!(cursor.next()?, None);
///     assert_eq!(cursor.first()?.map(|pair| pair.0).as_deref(), Some(&b"apple"[..]));
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<'t> {
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
    let what = "it is a hash database, whose keys have no order: a cursor goes from its first record on, one by one";
    Error::Database { name: name.into(), what: what.into() }
}

/// Does something with the place in a B-tree; a hash file refuses.
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

/// Does the same with the place in a file of either kind.
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

/// Does the same with the place of either kind, guarded as its kind is.
macro_rules! at_either {
    ($kind:ident, $place:expr, $at:ident => $work:expr) => {
        match $place {
            $kind::Locking($at, txn) => txn.guarded(|| Ok($work?)),
            $kind::Snapshot($at, snapshot) => snapshot.guarded(|| Ok($work?)),
        }
    };
}

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<'t> Cursor<'t> {
    pub(crate) fn locking(txn: &'t Txn<'_>, access: Access<'t>, range: KeyRange) -> Cursor<'t> {
        let place = match access.database().method() {
            Method::Hash => Place::HashLocking(Box::new(HashCursor::new(access)), txn),
            _ => Place::Locking(Box::new(BtreeCursor::new(access).within(range)), txn),
        };
        Cursor { place, order: None }
    }

    pub(crate) fn of_snapshot(snapshot: &'t Snapshot<'_>, access: SnapshotAccess<'t>, range: KeyRange) -> Cursor<'t> {
        let place = match access.database().method() {
            Method::Hash => Place::HashSnapshot(Box::new(SnapshotHashCursor::new(access)), snapshot),
            _ => Place::Snapshot(Box::new(SnapshotCursor::new(access).within(range)), snapshot),
        };
        Cursor { place, order: None }
    }

    /// The same cursor, over keys in that order.
    pub(crate) fn in_order(mut self, order: &Option<Arc<dyn Order>>) -> Cursor<'t> {
        self.order.clone_from(order);
        self
    }

    /// A pair as the program knows it.
    fn found(&self, found: Result<Option<Pair>>) -> Result<Option<Pair>> {
        let Some(order) = &self.order else { return found };
        Ok(found?.map(|(encoded, value)| {
            let mut key = Vec::new();
            order.decode(&encoded, &mut key);
            (key, value)
        }))
    }

    /// The first pair.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Corrupt`, `Io`.
    pub fn first(&mut self) -> Result<Option<Pair>> {
        let found = at_any!(&mut self.place, at => at.first());
        self.found(found)
    }

    /// The last pair.
    ///
    /// # Errors
    /// As [`Cursor::first`]; `Database` for a hash file, which has no order.
    pub fn last(&mut self) -> Result<Option<Pair>> {
        let found = in_order!(&mut self.place, at => at.last());
        self.found(found)
    }

    /// The first pair whose key is `key` or greater.
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

    /// The next pair; the first if the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        let found = at_any!(&mut self.place, at => at.next());
        self.found(found)
    }

    /// Shows `visit` the key and value of the next pair, as [`Cursor::next`] gives them, and of all behind it, until that breaks or
    /// there is no further pair; none is copied for the caller, so this is the fastest way through many. What `visit` broke
    /// with, if it did: then the cursor stands on the pair that it was shown last.
    ///
    /// No latch is held while `visit` runs: it may wait, or use the library, the transaction and the database included.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::open(dir.path())?;
    /// # let words = env.btree("words")?;
    /// # env.run(|txn| words.put(txn, b"apple", b"5"))?;
    /// use std::ops::ControlFlow;
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
            let is_there = match &mut self.place {
                // What a snapshot's cursor has copied already needs no guard, nor that it was all: it was right when it was copied.
                Place::Snapshot(at, snapshot) => match at.step() {
                    Some(is_there) => is_there,
                    None => snapshot.guarded(|| Ok(at.move_next()?))?,
                },
                place => at_any!(place, at => at.move_next())?,
            };
            let shown = match &self.place {
                Place::Locking(at, _) => at.record(),
                Place::Snapshot(at, _) => at.record(),
                Place::HashLocking(at, _) => at.record(),
                Place::HashSnapshot(at, _) => at.record(),
            };
            let Some((key, value)) = shown.filter(|_| is_there) else { return Ok(None) };
            if let ControlFlow::Break(with) = visit(key, value) {
                return Ok(Some(with));
            }
        }
    }

    /// The first pair behind a key, whether that is there or not, in the order of this cursor: where one goes on that stood on the
    /// key, in another transaction say. In a hash file, too.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_behind(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        // Keys that are equal in the order are encoded alike.
        let behind = self.encoded(key);
        let found = match &mut self.place {
            Place::HashLocking(at, txn) => txn.guarded(|| Ok(at.next_behind(&behind)?)),
            Place::HashSnapshot(at, snapshot) => snapshot.guarded(|| Ok(at.next_behind(&behind)?)),
            Place::Locking(at, txn) => txn.guarded(|| Ok(at.seek_behind(&behind)?)),
            Place::Snapshot(at, snapshot) => snapshot.guarded(|| Ok(at.seek_behind(&behind)?)),
        };
        self.found(found)
    }

    /// Stands where the cursor stood before in a tree.
    fn stand(&mut self, stands: &Stands) -> Result<()> {
        let stand = match stands {
            Stands::Nowhere => Stand::Nowhere,
            Stands::On(entry) => Stand::On(entry),
            Stands::BelowAll => Stand::BelowAll,
            Stands::AboveAll => Stand::AboveAll,
        };
        match &mut self.place {
            Place::Locking(at, _) => at.stand(stand),
            Place::Snapshot(at, snapshot) => snapshot.guarded(|| Ok(at.stand(stand)?))?,
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

    /// The pair before; the last if the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::last`].
    pub fn prev(&mut self) -> Result<Option<Pair>> {
        let found = in_order!(&mut self.place, at => at.prev());
        self.found(found)
    }
}

/// Where a cursor over the entries of a tree stands, which may have to stay there when its tree's cursor has gone on.
#[derive(Debug, Default)]
pub(crate) enum Stands {
    #[default]
    Nowhere,
    /// On that entry, or in the gap that the entry has left.
    On(Vec<u8>),
    BelowAll,
    AboveAll,
}

/// What such a cursor does where its call finds no entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InVain {
    Stays,
    GoesBelowAll,
    GoesAboveAll,
}

impl Stands {
    /// The entry it stands on.
    pub(crate) fn entry(&self) -> Option<&[u8]> {
        match self {
            Stands::On(entry) => Some(entry),
            _ => None,
        }
    }

    /// The call of the tree's cursor has come to an entry, or to none: what it shows. Where that cannot be shown, all stands where it stood.
    pub(crate) fn arrive<T>(
        &mut self,
        at: &mut Cursor<'_>,
        found: Option<Pair>,
        in_vain: InVain,
        show: impl FnOnce(&Pair) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(entry) = found else {
            match in_vain {
                InVain::Stays => at.stand(self)?,
                InVain::GoesBelowAll => *self = Stands::BelowAll,
                InVain::GoesAboveAll => *self = Stands::AboveAll,
            }
            return Ok(None);
        };
        match show(&entry) {
            Ok(shown) => {
                *self = Stands::On(entry.0);
                Ok(Some(shown))
            }
            Err(error) => at.stand(self).and(Err(error)),
        }
    }

    /// Stands where it stood before, the tree's cursor too.
    pub(crate) fn stay(&self, at: &mut Cursor<'_>) -> Result<()> {
        at.stand(self)
    }
}

/// A place in a record-number database.
pub struct RecnoCursor<'t>(NumberPlace<'t>);

enum NumberPlace<'t> {
    Locking(Box<NumberCursor<'t>>, &'t Txn<'t>),
    Snapshot(Box<SnapshotNumberCursor<'t>>, &'t Snapshot<'t>),
}

#[allow(clippy::should_implement_trait)] // as for `Cursor`
impl<'t> RecnoCursor<'t> {
    pub(crate) fn locking(txn: &'t Txn<'_>, access: Access<'t>) -> RecnoCursor<'t> {
        RecnoCursor(NumberPlace::Locking(Box::new(NumberCursor::new(access)), txn))
    }

    pub(crate) fn of_snapshot(snapshot: &'t Snapshot<'_>, at: SnapshotNumberCursor<'t>) -> RecnoCursor<'t> {
        RecnoCursor(NumberPlace::Snapshot(Box::new(at), snapshot))
    }

    /// The first record and its number.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.0, at => at.first())
    }

    /// The last record.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.0, at => at.last())
    }

    /// The first record whose number is `number` or greater.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, number: u64) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.0, at => at.seek(number))
    }

    /// The next record; the first if the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.0, at => at.next())
    }

    /// The record before; the last if the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        at_either!(NumberPlace, &mut self.0, at => at.prev())
    }
}

#[cfg(test)]
mod tests;
