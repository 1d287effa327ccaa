//! Cursors with the operations of SQLite's B-tree cursors.
//!
//! A cursor has a copy of its key and record, and makes a libtp cursor, the native cursor, only for a step. If a lookup
//! finds no entry, it does not read the neighbours, because that would lock the gap between them. Instead the cursor
//! reports that it is at the entry before the key, and searches for this entry only if SQLite needs it. If that
//! search fails, the cursor returns the error at the next call that can fail.
//!
//! In a transaction, a lookup of one key locks the key for writing. So two transactions that read and then write the
//! same row run one after the other. For the same purpose a search for equal keys, or for the first or last entry,
//! locks a name (`queue_up`).

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use libtp::{Db, Error, Mode};

use crate::answer::{Outcome, Refusal, ABORT, ABORT_ROLLBACK, CORRUPT, ERROR, READONLY, TOOBIG};
use crate::arguments::Field;
use crate::keys::{self, Column};
use crate::owned::{with_source, Pair, Place, Source};
use crate::rowid::{Numbers, Table};
use crate::session::{with_txn, Session};

/// The prefix of the names that searches lock.
const SEARCH: &[u8] = b"sql.search";

/// The ends of the names that searches for the first and for the last entry lock.
const FIRST: &[u8] = b"first";
const LAST: &[u8] = b"last";

/// The root of the schema's tree. All transactions read this tree, and few change it.
const SCHEMA: u32 = 1;

/// The reason why a cursor's next call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    code: c_int,
    sentence: &'static str,
}

impl Fault {
    /// The rows that an open SELECT has read are not the same after the transaction in which it read them.
    pub(crate) const CHANGED: Fault = Fault {
        code: ABORT_ROLLBACK,
        sentence: "rows that this statement has read have changed, and the transaction in which it read them has ended. Run the statement again",
    };
    /// The row of a blob handle was changed or deleted.
    pub(crate) const BLOB: Fault = Fault { code: ABORT, sentence: "query aborted" };

    /// Returns the fault for an error that an earlier call had, or for which SQLite stops the statement.
    pub(crate) fn earlier(code: c_int) -> Fault {
        let sentence = match code {
            // SQLite's own text: programs compare it.
            ABORT_ROLLBACK => "abort due to ROLLBACK",
            _ => "a call of this statement failed before",
        };
        Fault { code, sentence }
    }
}

/// The position of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPlace {
    Nowhere,
    Valid,
    /// On `key`, but another cursor of the connection may have changed or removed the entry.
    Stale,
    /// Between entries, at `key`.
    Gap,
    /// Between entries, at `key`; but the cursor has reported that it is at the entry before the gap.
    Lazy,
    Fault(Fault),
}

/// A bound of the key range that a cursor has read.
enum Edge {
    /// The end of the tree.
    End,
    /// The cursor's key.
    Here,
    Key(Vec<u8>),
}

/// The key range that a cursor has read since its last seek.
struct Sweep {
    low: Edge,
    high: Edge,
}

/// A search of SQLite for a key of an index.
pub(crate) struct SearchKey<'a> {
    pub(crate) fields: &'a [Field],
    /// Whether the fields are the whole key of an entry.
    pub(crate) is_whole: bool,
    /// The result that SQLite wants for a comparison with an equal key. Negative: the cursor goes after all equal keys.
    /// Positive: it goes before them. Zero: it goes to one of them.
    pub(crate) bias: c_int,
    /// Whether SQLite wants only entries with an equal key.
    pub(crate) is_equal: bool,
}

/// A cursor.
pub(crate) struct Cursor {
    pub(crate) root: u32,
    tree: Arc<Db>,
    /// The columns of an index; empty for a table of rowids.
    columns: Vec<Column>,
    is_write: bool,
    /// The number of bytes of a key that searches compare. All entries have shorter keys.
    longest: usize,
    /// Whether SQLite is reading the record. While it is, changes of the record by other cursors fail.
    pub(crate) is_pinned: bool,
    /// Whether the cursor belongs to a blob handle, which has stored the blob's offset in the record.
    pub(crate) is_blob: bool,
    native: Option<Place>,
    /// Whether `native` has the same position as this cursor.
    is_placed: bool,
    at: CursorPlace,
    key: Vec<u8>,
    value: Vec<u8>,
    encoded: Vec<u8>,
    sweep: Option<Sweep>,
}

impl Cursor {
    pub(crate) fn new(root: u32, tree: Arc<Db>, columns: Vec<Column>, is_write: bool) -> Cursor {
        let longest = tree.key_bytes_max().saturating_sub(keys::BEHIND.len());
        Cursor {
            longest,
            root,
            tree,
            columns,
            is_write,
            is_pinned: false,
            is_blob: false,
            native: None,
            is_placed: false,
            at: CursorPlace::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            encoded: Vec::new(),
            sweep: None,
        }
    }

    /// Returns whether SQLite must restore the cursor before it reads.
    pub(crate) fn has_moved(&self) -> bool {
        self.at != CursorPlace::Valid
    }

    pub(crate) fn stands_pinned(&self) -> bool {
        self.is_pinned && matches!(self.at, CursorPlace::Valid | CursorPlace::Gap)
    }

    /// Returns the key at the cursor.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the rowid at the cursor.
    pub(crate) fn rowid(&self) -> i64 {
        keys::rowid_of(&self.key)
    }

    /// Returns the record at the cursor; no bytes after an error.
    pub(crate) fn value(&self) -> &[u8] {
        match self.at {
            CursorPlace::Fault(_) => &[],
            _ => &self.value,
        }
    }

    /// Drops the native cursor, which borrows from the transaction or snapshot.
    pub(crate) fn leave(&mut self) {
        self.native = None;
        self.is_placed = false;
        self.set_stale();
    }

    /// Notes that the entry at the cursor may have been changed.
    pub(crate) fn set_stale(&mut self) {
        if self.at == CursorPlace::Valid {
            self.at = CursorPlace::Stale;
        }
    }

    /// Makes the cursor leave the transaction, and makes its next call fail with the code. With `is_write_only`, a
    /// cursor that only reads does not fail.
    pub(crate) fn trip(&mut self, code: c_int, is_write_only: bool) {
        self.leave();
        if !is_write_only || self.is_write {
            self.at = CursorPlace::Fault(Fault::earlier(code));
        }
    }

    /// Makes the cursor's next call that can fail return the fault.
    pub(crate) fn set_fault(&mut self, fault: Fault) {
        self.at = CursorPlace::Fault(fault);
    }

    pub(crate) fn clear(&mut self, session: &mut Session) {
        self.end_sweep(session);
        (self.at, self.is_placed) = (CursorPlace::Nowhere, false);
    }

    /// Adds the key range that the cursor has read to the session's spans. Further steps begin another range.
    pub(crate) fn end_sweep(&mut self, session: &mut Session) {
        let Some(Sweep { low, high }) = self.sweep.take() else { return };
        let edge = |edge: Edge| match edge {
            Edge::End => None,
            Edge::Here => Some(self.key.clone().into_boxed_slice()),
            Edge::Key(key) => Some(key.into_boxed_slice()),
        };
        session.spans.add(self.root, edge(low), edge(high));
    }

    fn begin_sweep(&mut self, session: &mut Session, low: Edge, high: Edge) {
        if !self.is_write {
            self.end_sweep(session);
            self.sweep = Some(Sweep { low, high });
        }
    }

    fn refuse_fault(&self) -> Outcome<()> {
        match self.at {
            CursorPlace::Fault(Fault { code, sentence }) => {
                Err(Refusal { is_repeated: true, ..Refusal::new(code, sentence) })
            }
            _ => Ok(()),
        }
    }

    fn native(&mut self, session: &Session) -> Outcome<&mut Place> {
        let reader = session.reader()?;
        Ok(self.native.get_or_insert_with(|| Place::new(&self.tree, reader)))
    }

    /// Takes over the pair that the native cursor found. Without a pair, the cursor has no position afterwards.
    fn arrive(&mut self, found: Option<Pair>) -> bool {
        let is_there = found.is_some();
        if let Some(pair) = found {
            (self.key, self.value) = pair;
        }
        (self.is_placed, self.at) = (is_there, if is_there { CursorPlace::Valid } else { CursorPlace::Nowhere });
        is_there
    }

    fn stand(&mut self, key: &[u8], at: CursorPlace) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.at, self.is_placed) = (at, false);
    }

    /// Looks a key up, and does not read its neighbours.
    fn look_up(&mut self, session: &mut Session, key: &[u8]) -> Outcome<bool> {
        let found = match session.reader()?.source() {
            Source::Txn(txn) => self.tree.get_for_update(txn, key)?.map(|value| self.value = value).is_some(),
            Source::Snapshot(snapshot) => {
                let value = &mut self.value;
                let copy = |found: &[u8]| {
                    value.clear();
                    value.extend_from_slice(found);
                };
                self.tree.get_with(snapshot, key, copy)?.is_some()
            }
        };
        if !self.is_write {
            session.spans.add_key(self.root, key);
        }
        Ok(found)
    }

    /// In a transaction, waits until all transactions that have made the same search have ended. Programs with queues
    /// and counters search for the first entry, the last entry or equal keys, and then write: without this lock two
    /// such transactions would deadlock.
    fn queue_up(&self, session: &Session, sought: &[u8]) -> Outcome<()> {
        let reader = session.reader()?;
        let Source::Txn(txn) = reader.source() else { return Ok(()) };
        if self.root == SCHEMA {
            return Ok(());
        }
        Ok(txn.lock(&[SEARCH, &self.root.to_be_bytes(), sought].concat(), Mode::U)?)
    }

    /// Moves to the first entry. Returns whether there is one.
    pub(crate) fn first(&mut self, session: &mut Session) -> Outcome<bool> {
        self.refuse_fault()?;
        self.queue_up(session, FIRST)?;
        let found = self.native(session)?.first()?;
        let high = if found.is_some() { Edge::Here } else { Edge::End };
        self.end_sweep(session);
        let is_there = self.arrive(found);
        self.begin_sweep(session, Edge::End, high);
        Ok(is_there)
    }

    /// Moves to the last entry. Returns whether there is one.
    pub(crate) fn last(&mut self, session: &mut Session) -> Outcome<bool> {
        self.refuse_fault()?;
        self.queue_up(session, LAST)?;
        let found = self.native(session)?.last()?;
        let low = if found.is_some() { Edge::Here } else { Edge::End };
        self.end_sweep(session);
        let is_there = self.arrive(found);
        self.begin_sweep(session, low, Edge::End);
        Ok(is_there)
    }

    /// Moves to the next entry. Returns whether there is one.
    pub(crate) fn next(&mut self, session: &mut Session) -> Outcome<bool> {
        self.refuse_fault()?;
        if self.at == CursorPlace::Nowhere {
            return Ok(false);
        }
        self.leave_low(session);
        let is_there = match (self.at, self.is_placed) {
            (_, true) if self.native.is_some() => self.step()?,
            (CursorPlace::Gap | CursorPlace::Lazy, _) => {
                let found = seek(self, session)?;
                self.arrive(found)
            }
            _ => {
                let key = std::mem::take(&mut self.key);
                let found = self.native(session).and_then(|native| Ok(native.next_after(&key)?));
                self.key = key;
                let found = found?;
                self.arrive(found)
            }
        };
        if let Some(sweep) = &mut self.sweep {
            match (&sweep.high, is_there) {
                (_, false) => sweep.high = Edge::End,
                (Edge::Key(high), true) if *high >= self.key => {}
                _ => sweep.high = Edge::Here,
            }
        }
        Ok(is_there)
    }

    fn step(&mut self) -> Outcome<bool> {
        let Some(native) = &mut self.native else { return Ok(false) };
        let is_there = native.step(&mut self.key, &mut self.value)?;
        (self.is_placed, self.at) = (is_there, if is_there { CursorPlace::Valid } else { CursorPlace::Nowhere });
        Ok(is_there)
    }

    /// Called before a step forward. If the low bound of the key range is the cursor's position, stores the cursor's
    /// present key as the bound.
    fn leave_low(&mut self, session: &mut Session) {
        if self.is_write {
            return;
        }
        match &mut self.sweep {
            None => self.begin_sweep(session, Edge::Key(self.key.clone()), Edge::Here),
            Some(sweep) => {
                if matches!(sweep.low, Edge::Here) {
                    sweep.low = Edge::Key(self.key.clone());
                }
            }
        }
    }

    /// Moves to the previous entry. Returns whether there is one.
    pub(crate) fn previous(&mut self, session: &mut Session) -> Outcome<bool> {
        // A lazy cursor has reported that it is at the entry before the gap, so it first goes there.
        self.settle(session)?;
        self.back(session)
    }

    fn back(&mut self, session: &mut Session) -> Outcome<bool> {
        self.refuse_fault()?;
        if self.at == CursorPlace::Nowhere {
            return Ok(false);
        }
        if !self.is_write {
            match &mut self.sweep {
                None => self.begin_sweep(session, Edge::Here, Edge::Key(self.key.clone())),
                Some(sweep) => {
                    if matches!(sweep.high, Edge::Here) {
                        sweep.high = Edge::Key(self.key.clone());
                    }
                }
            }
        }
        let found = if self.is_placed && self.native.is_some() {
            self.native(session)?.prev()?
        } else {
            match seek(self, session)? {
                None => self.native(session)?.last()?,
                Some(_) => self.native(session)?.prev()?,
            }
        };
        let is_there = self.arrive(found);
        if let Some(sweep) = &mut self.sweep {
            match (&sweep.low, is_there) {
                (_, false) => sweep.low = Edge::End,
                (Edge::Key(low), true) if *low <= self.key => {}
                _ => sweep.low = Edge::Here,
            }
        }
        Ok(is_there)
    }

    fn settle(&mut self, session: &mut Session) -> Outcome<()> {
        if self.at == CursorPlace::Lazy {
            self.back(session)?;
        }
        Ok(())
    }

    /// Returns whether the cursor is at no entry. For a cursor with a fault, returns false: SQLite then reads the
    /// entry, and that call returns the error.
    pub(crate) fn is_at_end(&mut self, session: &mut Session) -> Outcome<bool> {
        self.settle(session)?;
        Ok(!matches!(self.at, CursorPlace::Valid | CursorPlace::Fault(_)))
    }

    /// Looks the cursor's entry up again after a change by another cursor. Returns whether the entry was removed.
    pub(crate) fn restore(&mut self, session: &mut Session) -> Outcome<bool> {
        self.refuse_fault()?;
        if self.at != CursorPlace::Stale {
            return Ok(self.at != CursorPlace::Valid);
        }
        let key = std::mem::take(&mut self.key);
        let found = self.look_up(session, &key);
        self.key = key;
        let is_there = found?;
        self.at = if is_there { CursorPlace::Valid } else { CursorPlace::Gap };
        Ok(!is_there)
    }

    /// Looks up a row.
    pub(crate) fn seek_row(&mut self, session: &mut Session, rowid: i64) -> Outcome<bool> {
        let key = keys::of_rowid(rowid);
        self.seek_exactly(session, &key)
    }

    fn seek_exactly(&mut self, session: &mut Session, key: &[u8]) -> Outcome<bool> {
        self.refuse_fault()?;
        self.end_sweep(session);
        let is_there = self.look_up(session, key)?;
        self.stand(key, if is_there { CursorPlace::Valid } else { CursorPlace::Lazy });
        Ok(is_there)
    }

    /// Looks up a key of an index. Returns how the entry at the cursor compares with the key, and whether an entry with
    /// an equal key was found.
    pub(crate) fn seek_key(&mut self, session: &mut Session, sought: SearchKey<'_>) -> Outcome<(c_int, bool)> {
        self.refuse_fault()?;
        let mut key = std::mem::take(&mut self.encoded);
        keys::encode(sought.fields, &self.columns, &mut key);
        // All entries have shorter keys, so the first `longest` bytes decide whether an entry is before or after the
        // sought key.
        let is_long = key.len() > self.longest;
        key.truncate(self.longest);
        let sought = match sought.bias.signum() {
            0 if sought.is_whole || is_long => self.seek_exactly(session, &key).map(on_or_before),
            0 => self.seek_beginning(session, &key).map(on_or_before),
            1 => self.seek_before(session, &key, sought.is_equal),
            _ => self.seek_after(session, &mut key, sought.is_equal, is_long),
        };
        self.encoded = key;
        sought
    }

    /// Looks up the first entry whose key begins with these bytes.
    fn seek_beginning(&mut self, session: &mut Session, key: &[u8]) -> Outcome<bool> {
        self.end_sweep(session);
        let tree = Arc::clone(&self.tree);
        let reader = Rc::clone(session.reader()?);
        let found = with_source!(reader, source => tree.prefix(source, key)?.first()?);
        let is_there = found.is_some();
        if is_there {
            self.arrive(found);
            self.is_placed = false;
            self.begin_sweep(session, Edge::Key(key.to_vec()), Edge::Here);
        } else {
            self.stand(key, CursorPlace::Lazy);
            self.begin_sweep(session, Edge::Key(key.to_vec()), Edge::Key([key, &keys::BEHIND].concat()));
        }
        Ok(is_there)
    }

    fn seek_before(&mut self, session: &mut Session, key: &[u8], is_equal: bool) -> Outcome<(c_int, bool)> {
        if is_equal {
            self.queue_up(session, key)?;
        }
        self.end_sweep(session);
        let found = self.native(session)?.seek(key)?;
        if self.arrive(found) {
            self.begin_sweep(session, Edge::Key(key.to_vec()), Edge::Here);
            return Ok((1, self.key.starts_with(key)));
        }
        self.stand(key, CursorPlace::Lazy);
        self.begin_sweep(session, Edge::Key(key.to_vec()), Edge::End);
        Ok((-1, false))
    }

    fn seek_after(
        &mut self,
        session: &mut Session,
        key: &mut Vec<u8>,
        is_equal: bool,
        is_long: bool,
    ) -> Outcome<(c_int, bool)> {
        self.end_sweep(session);
        let length = key.len();
        // `BEHIND` puts the place after all entries whose keys begin with `key`. No entry's key begins with a long
        // key.
        if !is_long {
            key.extend_from_slice(&keys::BEHIND);
        }
        self.stand(key, CursorPlace::Lazy);
        key.truncate(length);
        if !is_equal {
            return Ok((-1, false));
        }
        self.settle(session)?;
        Ok((-1, self.at == CursorPlace::Valid && self.key.starts_with(key)))
    }

    /// Stores a record under a key of an index.
    pub(crate) fn put_key(&mut self, session: &Session, fields: &[Field], record: &[u8]) -> Outcome<()> {
        let mut key = std::mem::take(&mut self.encoded);
        keys::encode(fields, &self.columns, &mut key);
        let put = match key.len() {
            length if length < self.longest => self.put(session, &key, record),
            length => {
                let what = format!(
                    "an entry of an index or of a table without rowids has a key of {length} bytes, and {} are the most; nothing of the statement is kept. Index a part of the column, or a hash of it",
                    self.longest - 1
                );
                Err(Refusal::new(TOOBIG, what))
            }
        };
        self.encoded = key;
        put
    }

    /// Stores a record under a key.
    pub(crate) fn put(&mut self, session: &Session, key: &[u8], record: &[u8]) -> Outcome<()> {
        with_txn(session.reader()?, |txn| Ok(self.tree.put(txn, key, record)?))?;
        let is_placed = self.is_placed && self.key == key;
        self.stand(key, CursorPlace::Stale);
        self.is_placed = is_placed;
        Ok(())
    }

    /// Overwrites a part of the record at the cursor.
    pub(crate) fn put_part(&mut self, session: &Session, offset: usize, part: &[u8]) -> Outcome<()> {
        if !self.is_write {
            return Err(Refusal::new(READONLY, "the blob's handle was opened for reading; nothing was changed"));
        }
        let mut record = self.value.clone();
        let place = record.get_mut(offset..offset + part.len());
        place.ok_or_else(|| Refusal::new(CORRUPT, "a blob ends beyond its record"))?.copy_from_slice(part);
        with_txn(session.reader()?, |txn| Ok(self.tree.put(txn, &self.key, &record)?))?;
        self.value = record;
        Ok(())
    }

    /// Deletes the entry at the cursor. The cursor is then in the gap.
    pub(crate) fn delete(&mut self, session: &Session) -> Outcome<()> {
        let was_there = with_txn(session.reader()?, |txn| Ok(self.tree.delete(txn, &self.key)?))?;
        self.at = CursorPlace::Gap;
        match was_there {
            true => Ok(()),
            false => {
                let what = format!("the tree {} lacks an entry that SQLite deletes", self.tree.name());
                Err(Refusal::new(CORRUPT, what))
            }
        }
    }

    /// Returns the rowid for a new row, or `None` if the last rowid is the largest possible number.
    pub(crate) fn new_rowid(&self, session: &mut Session) -> Outcome<Option<i64>> {
        self.numbered(session, Numbers::take)
    }

    /// Stores a row under its rowid.
    pub(crate) fn put_row(&mut self, session: &mut Session, rowid: i64, record: &[u8]) -> Outcome<()> {
        let key = keys::of_rowid(rowid);
        let stands_on_it = matches!(self.at, CursorPlace::Valid | CursorPlace::Stale) && self.key == key;
        if stands_on_it {
            return self.put(session, &key, record);
        }
        let is_new = session.numbers.is_own(self.root, rowid);
        self.numbered(session, |numbers, table| numbers.note(table, rowid))?;
        if !is_new {
            return self.put(session, &key, record);
        }
        let put = with_txn(session.reader()?, |txn| Ok(self.tree.put_new(txn, &key, record)))?;
        self.stand(&key, CursorPlace::Stale);
        put.map_err(|error| match error {
            Error::Exists => {
                session.numbers.distrust(self.root);
                let what = format!("the count of rows in {} is wrong: there is a row {rowid} already. The statement is undone. Run it again: this connection counts from the highest row", self.tree.name());
                Refusal::new(ERROR, what)
            }
            error => error.into(),
        })
    }

    /// Does work with the session's rowids and the cursor's table.
    fn numbered<T>(
        &self,
        session: &mut Session,
        work: impl FnOnce(&mut Numbers, Table<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let reader = Rc::clone(session.reader()?);
        let (rule, wait) = (session.meta.rowid_rule(), session.wait_left());
        with_txn(&reader, |txn| {
            let table = Table { home: &session.home, rule, txn, tree: &self.tree, root: self.root, wait };
            work(&mut session.numbers, table)
        })
    }
}

/// Moves the native cursor to the first entry whose key is the cursor's key or greater.
fn seek(cursor: &mut Cursor, session: &Session) -> Outcome<Option<Pair>> {
    let key = std::mem::take(&mut cursor.key);
    let found = cursor.native(session).and_then(|native| Ok(native.seek(&key)?));
    cursor.key = key;
    found
}

fn on_or_before(is_there: bool) -> (c_int, bool) {
    (if is_there { 0 } else { -1 }, is_there)
}
