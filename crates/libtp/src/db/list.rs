//! Lists: [`List`], records of any length by number, where an insertion renumbers all records after it.
//!
//! Paper: none; db(3)'s `DB_RECNO`. `record/list` implements the structure; this module adds locks and a savepoint: a
//! change of a list is several changes of entries, and if one of these changes fails, the earlier changes are undone.

use libtp_record::copies::copy_of;
use std::sync::Arc;

use libtp_record::list::entries::TextNotes;
use libtp_record::list::{Now, Seen};
use libtp_record::{open::LIST, Stretch};

use crate::db::handle::Db;
use crate::region::inner::Inner;
use crate::txn::failure::keep_first;
use crate::{Reader, Result, Txn};

/// A database of records of any length, numbered from 1 without gaps: inserting or removing a record changes the
/// numbers of all records after it. db(3) calls this `DB_RECNO`.
///
/// Any number of transactions can read a list and replace its records at the same time. A transaction that inserts or
/// deletes locks the list exclusively until it ends: it waits for all other transactions that have read the list, and
/// later transactions wait for it. So read little before inserting: if two transactions have read the list and then
/// both insert, one of them gets `Deadlock` ([`Env::run`](crate::Env::run) runs it again). A
/// [`Snapshot`](crate::Snapshot) reads the list as it was when the snapshot was taken, and waits for no transaction.
/// The cost of a call grows with the depth of the list's tree: with a million records, the tree has four levels.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let lines = env.list("lines")?;
/// env.run(|txn| {
///     lines.append(txn, b"first")?;
///     lines.append(txn, b"third")?;
///     assert_eq!(lines.insert_before(txn, 2, b"second")?, 2);
///     assert_eq!(lines.get(txn, 3)?.as_deref(), Some(&b"third"[..]));
///     assert!(lines.delete(txn, 1)?);
///     assert_eq!(lines.get(txn, 1)?.as_deref(), Some(&b"second"[..]));
///     assert_eq!(lines.count(txn)?, 2);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct List {
    tree: Db,
}

impl List {
    pub(crate) fn open(env: &Arc<Inner>, name: &str) -> Result<List> {
        Ok(List { tree: Db::open_keyed(env, name, LIST, None)? })
    }

    /// Returns the list whose entries are in that tree.
    pub(crate) fn of_tree(tree: Db) -> List {
        List { tree }
    }

    /// Returns the tree of the list's entries.
    pub(crate) fn tree(&self) -> &Db {
        &self.tree
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// Returns the number of records. In a transaction the number does not change until the transaction ends.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Corrupt`, `Io`.
    pub fn count(&self, reader: &impl Reader) -> Result<u64> {
        reader.list_count(&self.tree)
    }

    /// Returns the record with that number, from 1, or `None` if the list is shorter. In a transaction the record is
    /// locked for reading, and keeps its number, until the transaction ends.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn get(&self, reader: &impl Reader, number: u64) -> Result<Option<Vec<u8>>> {
        reader.list_get(&self.tree, number)
    }

    /// As [`List::get`], but locks the record for writing: a later `put` under the same number then cannot cause a
    /// deadlock.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn get_for_update(&self, txn: &Txn<'_>, number: u64) -> Result<Option<Vec<u8>>> {
        txn.guarded(|| Ok(self.tree.access(txn).list_get_for_update(number, copy_of)?.transpose()?))
    }

    /// Replaces the record with that number. If the number is higher than the last record's number, empty records fill
    /// the numbers in between, up to a million of them.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Full`, with nothing changed; `Io` for the number 0 and for numbers too far after the
    /// last record's number; `Failed`, `Corrupt`.
    pub fn put(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<()> {
        self.whole(txn, || Ok(self.tree.access(txn).list_put(number, record)?))
    }

    /// Stores a record after the last record, and returns its number.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn append(&self, txn: &Txn<'_>, record: &[u8]) -> Result<u64> {
        self.whole(txn, || Ok(self.tree.access(txn).list_append(record)?))
    }

    /// Inserts a record with that number (`R_IBEFORE`): the record that had the number, and all records after it, each
    /// get the next higher number. Returns the new record's number. If the number is higher than the last record's
    /// number, the call works as [`List::put`].
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn insert_before(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<u64> {
        self.whole(txn, || Ok(self.tree.access(txn).list_insert(number, record)?))
    }

    /// Inserts a record after the record with that number (`R_IAFTER`), or before all records if the number is 0.
    /// Returns the new record's number: `number` plus one.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn insert_after(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<u64> {
        self.insert_before(txn, number.saturating_add(1), record)
    }

    /// Removes a record: all records after it get the next lower number. Returns false if the list is shorter.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn delete(&self, txn: &Txn<'_>, number: u64) -> Result<bool> {
        self.whole(txn, || Ok(self.tree.access(txn).list_delete(number)?))
    }

    /// Locks the list exclusively until the transaction ends: no other transaction reads or changes it. Call it at the
    /// beginning of a transaction that reads and then inserts or deletes: without this lock, two such transactions can
    /// deadlock.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Io`.
    pub fn lock(&self, txn: &Txn<'_>) -> Result<()> {
        txn.guarded(|| Ok(self.tree.access(txn).list_lock()?))
    }

    /// Returns a cursor over the records in the order of their numbers.
    pub fn cursor<'t, R: Reader>(&'t self, reader: &'t R) -> ListCursor<'t, R> {
        ListCursor { list: self, reader, place: NumberPlace::Nowhere, stretch: Stretch::default(), stamp: 0 }
    }

    /// Returns the list's notes about its text file. No other transaction reads or changes the list from now on.
    pub(crate) fn text_note(&self, txn: &Txn<'_>) -> Result<Option<TextNotes>> {
        txn.guarded(|| Ok(self.tree.access(txn).list_text_note()?))
    }

    pub(crate) fn set_text_note(&self, txn: &Txn<'_>, notes: TextNotes) -> Result<()> {
        txn.guarded(|| Ok(self.tree.access(txn).list_set_text_note(notes)?))
    }

    /// Runs `change`, which changes several entries. If it fails, undoes the changes that it has made.
    fn whole<T>(&self, txn: &Txn<'_>, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = txn.session().last_lsn();
        let savepoint = txn.savepoint_of_records();
        match txn.guarded(change) {
            Err(error) if txn.session().last_lsn() != before => Err(keep_first(error, savepoint.roll_back())),
            done => {
                savepoint.keep();
                done
            }
        }
    }
}

/// The place of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberPlace {
    Nowhere,
    On(u64),
    /// Between this number and the number before it: the record under the cursor was removed.
    Before(u64),
}

/// A place among the records of a list.
///
/// As in db(3), the cursor is at a number, not at a record: if another call inserts or removes a record in front of the
/// cursor, another record gets that number. Changes that are made through the cursor adjust its number, so the cursor
/// stays on its record.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let lines = env.list("lines")?;
/// env.run(|txn| {
///     lines.append(txn, b"two")?;
///     let mut cursor = lines.cursor(txn);
///     cursor.first()?;
///     cursor.insert_before(b"one")?;
///     cursor.insert_after(b"three")?;
///     assert_eq!(cursor.number(), Some(2));
///     assert!(cursor.delete()?);
///     assert_eq!(cursor.next()?, Some((2, b"three".to_vec())));
///     assert_eq!(cursor.prev()?, Some((1, b"one".to_vec())));
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ListCursor<'t, R: Reader> {
    list: &'t List,
    reader: &'t R,
    place: NumberPlace,
    /// The part of the list around the cursor, valid while the reader's stamp is `stamp`.
    stretch: Stretch,
    stamp: u64,
}

/// The remembered place of the record under a cursor. A later cursor finds the record again, even if transactions have
/// changed the record's number meanwhile.
#[derive(Clone, Debug)]
pub struct ListPlace(Seen);

/// A number and its record.
type Found = Option<(u64, Vec<u8>)>;

#[allow(clippy::should_implement_trait)] // the same reason as for `Cursor`
impl<'t, R: Reader> ListCursor<'t, R> {
    /// Returns the name of the list.
    pub(super) fn list_name(&self) -> &'t str {
        self.list.name()
    }

    /// Returns the list and the reader.
    pub(super) fn into_parts(self) -> (&'t List, &'t R) {
        (self.list, self.reader)
    }

    /// Returns the number under the cursor.
    pub fn number(&self) -> Option<u64> {
        match self.place {
            NumberPlace::On(number) => Some(number),
            _ => None,
        }
    }

    /// Reads the part of the list around a number, unless `stretch` has the number and is valid.
    fn see(&mut self, number: u64) -> Result<()> {
        let stamp = self.reader.stamp();
        if stamp != self.stamp || self.stretch.id_of(number).is_none() {
            self.stretch = self.reader.list_stretch(&self.list.tree, number)?.unwrap_or_default();
            self.stamp = stamp;
        }
        Ok(())
    }

    /// Returns the record with a number.
    fn read(&mut self, number: u64) -> Result<Found> {
        self.see(number)?;
        let Some(id) = self.stretch.id_of(number) else { return Ok(None) };
        Ok(Some((number, self.reader.list_record(&self.list.tree, id)?)))
    }

    /// Goes to the record with a number. If the record is missing, the cursor stays.
    fn go(&mut self, number: u64) -> Result<Found> {
        let found = self.read(number)?;
        if found.is_some() {
            self.place = NumberPlace::On(number);
        }
        Ok(found)
    }

    /// Moves to the first record; returns its number and bytes.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn first(&mut self) -> Result<Found> {
        self.go(1)
    }

    /// Moves to the last record.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn last(&mut self) -> Result<Found> {
        let count = self.list.count(self.reader)?;
        self.go(count)
    }

    /// Moves to the record with that number, from 1; returns `None` if the list is shorter.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn seek(&mut self, number: u64) -> Result<Found> {
        self.go(number.max(1))
    }

    /// Moves to the next record; to the first if the cursor has no place yet.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn next(&mut self) -> Result<Found> {
        match self.place {
            NumberPlace::Nowhere => self.first(),
            NumberPlace::On(number) => self.go(number.saturating_add(1)),
            NumberPlace::Before(number) => self.go(number),
        }
    }

    /// Moves to the previous record; to the last if the cursor has no place yet.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn prev(&mut self) -> Result<Found> {
        match self.place {
            NumberPlace::Nowhere => self.last(),
            NumberPlace::On(number) | NumberPlace::Before(number) => {
                // The list may be shorter by now.
                let number = (number - 1).min(self.list.count(self.reader)?);
                self.go(number)
            }
        }
    }
}

impl ListCursor<'_, Txn<'_>> {
    /// Returns the cursor's place, for [`ListCursor::go_to`]; `None` if it stands on no record.
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn place(&mut self) -> Result<Option<ListPlace>> {
        let NumberPlace::On(number) = self.place else { return Ok(None) };
        self.see(number)?;
        let mut stretch = self.stretch.clone();
        if stretch.first == number && number > 1 {
            // Include the previous record, which marks the place if the record is removed.
            let before = self.reader.list_stretch(&self.list.tree, number - 1)?.unwrap_or_default();
            stretch = Stretch { first: before.first, ids: [before.ids, stretch.ids].concat() };
        }
        Ok(stretch.id_of(number).is_some().then_some(ListPlace(Seen { number, stretch })))
    }

    /// Goes to the present place of a remembered record; returns whether the record still exists. If the record was
    /// removed, the cursor is then between the record's former neighbours. Costs one descent of the tree, and one more
    /// descent for each hundred records that were inserted or removed in front of the record.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let lines = env.list("lines")?;
    /// let place = env.run(|txn| {
    ///     ["one", "two", "three"].iter().try_for_each(|line| lines.append(txn, line.as_bytes()).map(|_| ()))?;
    ///     let mut cursor = lines.cursor(txn);
    ///     cursor.seek(2)?;
    ///     cursor.place()
    /// })?;
    /// // This may happen in another process.
    /// env.run(|txn| lines.insert_before(txn, 1, b"zero"))?;
    /// env.run(|txn| {
    ///     let mut cursor = lines.cursor(txn);
    ///     assert!(cursor.go_to(&place.clone().expect("it stood on a line"))?);
    ///     assert_eq!(cursor.number(), Some(3));
    ///     assert_eq!(cursor.next()?, Some((4, b"three".to_vec())));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`List::count`].
    pub fn go_to(&mut self, place: &ListPlace) -> Result<bool> {
        let now = self.reader.list_now(&self.list.tree, &place.0)?;
        self.place = match now {
            Now::At(number) => NumberPlace::On(number),
            Now::GoneBefore(number) => NumberPlace::Before(number),
        };
        Ok(matches!(now, Now::At(_)))
    }

    /// Replaces the record under the cursor (`R_CURSOR`). Returns false if no record is there.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn put(&mut self, record: &[u8]) -> Result<bool> {
        let NumberPlace::On(number) = self.place else { return Ok(false) };
        if number > self.list.count(self.reader)? {
            return Ok(false);
        }
        self.list.put(self.reader, number, record).map(|()| true)
    }

    /// Stores a record under a number and goes there (`R_SETCURSOR`).
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn set(&mut self, number: u64, record: &[u8]) -> Result<()> {
        self.list.put(self.reader, number, record)?;
        self.place = NumberPlace::On(number);
        Ok(())
    }

    /// Inserts a record before the record under the cursor. The cursor stays on its record, whose number is now one
    /// higher. Returns the new record's number; `None`, with nothing inserted, if the cursor has no place.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn insert_before(&mut self, record: &[u8]) -> Result<Option<u64>> {
        let (number, then) = match self.place {
            NumberPlace::On(number) => (number, NumberPlace::On(number.saturating_add(1))),
            NumberPlace::Before(number) => (number, NumberPlace::Before(number.saturating_add(1))),
            NumberPlace::Nowhere => return Ok(None),
        };
        self.list.insert_before(self.reader, number, record)?;
        self.place = then;
        Ok(Some(number))
    }

    /// Inserts a record after the record under the cursor. The cursor stays on its record. Returns the new record's
    /// number; `None`, with nothing inserted, if the cursor has no place.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn insert_after(&mut self, record: &[u8]) -> Result<Option<u64>> {
        let number = match self.place {
            NumberPlace::On(number) => number.saturating_add(1),
            NumberPlace::Before(number) => number,
            NumberPlace::Nowhere => return Ok(None),
        };
        self.list.insert_before(self.reader, number, record).map(Some)
    }

    /// Removes the record under the cursor; the cursor then stands between its neighbours. Returns false if no record
    /// is there.
    ///
    /// # Errors
    /// As [`List::put`].
    pub fn delete(&mut self) -> Result<bool> {
        let NumberPlace::On(number) = self.place else { return Ok(false) };
        let was_there = self.list.delete(self.reader, number)?;
        if was_there {
            self.place = NumberPlace::Before(number);
        }
        Ok(was_there)
    }
}

#[cfg(test)]
mod tests;
