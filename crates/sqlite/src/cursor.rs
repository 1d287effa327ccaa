//! Cursors, as SQLite moves them.
//!
//! A cursor keeps a copy of its key and record, and takes a native cursor only when it steps. A lookup that misses does
//! not look at the neighbours, which would lock the gap between them: the cursor reports that it stands on the entry
//! before, and looks for that entry only if SQLite asks for it. An error found then is not hidden: the cursor returns
//! it at the next call that can fail.
//!
//! In a transaction a lookup of one key locks it for writing, so two transactions that read and then write the same row
//! queue up. A search for equal keys, or for the first or last entry, locks its own name (`queue_up`).

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use libtp::{Db, Error, Mode};

use crate::answer::{Outcome, Refusal, CORRUPT, ERROR, READONLY, TOOBIG};
use crate::arguments::Field;
use crate::keys::{self, Column};
use crate::owned::{with_source, Pair, Place, Source};
use crate::rowid::{Numbers, Table};
use crate::session::{with_txn, Session};

/// The sentence of a cursor that failed before: the cause has a sentence of its own.
pub(crate) const FAILED_BEFORE: &str = "a call of this statement failed before";

/// The beginning of the names that searches lock.
const SEARCH: &[u8] = b"sql.search";

/// The endings of the names that searches for the first and for the last entry lock.
const FIRST: &[u8] = b"first";
const LAST: &[u8] = b"last";

/// The tree of the schema, which all read and few change.
const SCHEMA: u32 = 1;

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPlace {
    Nowhere,
    Valid,
    /// On `key`; another cursor of the connection may have changed the entry.
    Stale,
    /// Between entries, at `key`.
    Gap,
    /// As `Gap`, but the cursor has reported that it stands on the entry before the gap.
    Lazy,
    Fault(c_int),
}

/// The edge of a stretch that a cursor has read.
enum Edge {
    /// The end of the tree.
    End,
    /// The cursor's key.
    Here,
    Key(Vec<u8>),
}

/// The stretch that a cursor has read since it was placed.
struct Sweep {
    low: Edge,
    high: Edge,
}

/// A key of an index that SQLite looks up.
pub(crate) struct SearchKey<'a> {
    pub(crate) fields: &'a [Field],
    /// Whether they are the whole key of an entry.
    pub(crate) is_whole: bool,
    /// SQLite's answer to a comparison with an equal key: negative to stand behind all equal keys, positive to stand
    /// before them, zero to stand on one.
    pub(crate) bias: c_int,
    /// Whether only equal keys are wanted.
    pub(crate) is_equal: bool,
}

/// A cursor.
pub(crate) struct Cursor {
    pub(crate) root: u32,
    tree: Arc<Db>,
    /// The columns of an index; empty for a table of rowids.
    columns: Vec<Column>,
    is_write: bool,
    /// The number of bytes of a key that searches compare: entries have shorter keys.
    longest: usize,
    /// Whether SQLite reads from the record, and refuses changes of it.
    pub(crate) is_pinned: bool,
    /// Whether the cursor belongs to a blob's handle, which knows the blob's place in the record.
    pub(crate) is_blob: bool,
    native: Option<Place>,
    /// Whether `native` is at the place of this cursor.
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

    /// Returns whether SQLite must ask for the cursor's place before it reads.
    pub(crate) fn has_moved(&self) -> bool {
        self.at != CursorPlace::Valid
    }

    pub(crate) fn stands_pinned(&self) -> bool {
        self.is_pinned && matches!(self.at, CursorPlace::Valid | CursorPlace::Gap)
    }

    /// Returns the key under the cursor.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the rowid under the cursor.
    pub(crate) fn rowid(&self) -> i64 {
        keys::rowid_of(&self.key)
    }

    /// Returns the record under the cursor; nothing after an error.
    pub(crate) fn value(&self) -> &[u8] {
        match self.at {
            CursorPlace::Fault(_) => &[],
            _ => &self.value,
        }
    }

    /// Leaves the transaction or snapshot.
    pub(crate) fn leave(&mut self) {
        self.native = None;
        self.is_placed = false;
        self.set_stale();
    }

    /// Notes that the entry under the cursor may have been changed.
    pub(crate) fn set_stale(&mut self) {
        if self.at == CursorPlace::Valid {
            self.at = CursorPlace::Stale;
        }
    }

    /// Ends the cursor with an error, or just makes it leave if it only reads and readers go on.
    pub(crate) fn trip(&mut self, code: c_int, is_write_only: bool) {
        self.leave();
        if !is_write_only || self.is_write {
            self.at = CursorPlace::Fault(code);
        }
    }

    /// Makes the next call that can fail return the code.
    pub(crate) fn set_fault(&mut self, code: c_int) {
        self.at = CursorPlace::Fault(code);
    }

    pub(crate) fn clear(&mut self, session: &mut Session) {
        self.end_sweep(session);
        (self.at, self.is_placed) = (CursorPlace::Nowhere, false);
    }

    /// Gives the session the stretch that the cursor has read. Further steps begin another one.
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
            CursorPlace::Fault(code) => Err(Refusal::new(code, FAILED_BEFORE)),
            _ => Ok(()),
        }
    }

    fn native(&mut self, session: &Session) -> Outcome<&mut Place> {
        let reader = session.reader()?;
        Ok(self.native.get_or_insert_with(|| Place::new(&self.tree, reader)))
    }

    /// Takes the place of the pair that the native cursor found, or the place at the end.
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

    /// Looks a key up, without its neighbours.
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

    /// In a transaction: waits for all transactions that search for the same, until they end. Programs with queues and
    /// counters search for the first entry, the last entry or equal keys: two transactions that read so and then write
    /// would wait for each other.
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
                let found = self.native(session).and_then(|native| Ok(native.next_behind(&key)?));
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

    /// Before a step forwards: the stretch keeps the key that the cursor leaves.
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

    /// Moves to the entry before. Returns whether there is one.
    pub(crate) fn previous(&mut self, session: &mut Session) -> Outcome<bool> {
        // The cursor has reported that it stands on the entry before the gap.
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

    /// Returns whether the cursor stands on no entry. A fault counts as an entry: the cursor returns the error when the
    /// entry is read.
    pub(crate) fn is_at_end(&mut self, session: &mut Session) -> Outcome<bool> {
        self.settle(session)?;
        Ok(!matches!(self.at, CursorPlace::Valid | CursorPlace::Fault(_)))
    }

    /// Returns to the entry after a change by another cursor. Returns whether the entry is gone.
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

    /// Looks up a key of an index. Returns the order of the place to the key, and whether an equal key was seen.
    pub(crate) fn seek_key(&mut self, session: &mut Session, sought: SearchKey<'_>) -> Outcome<(c_int, bool)> {
        self.refuse_fault()?;
        let mut key = std::mem::take(&mut self.encoded);
        keys::encode(sought.fields, &self.columns, &mut key);
        // No entry has a longer key, and each entry is before or behind it by the bytes that are kept.
        let is_long = key.len() > self.longest;
        key.truncate(self.longest);
        let sought = match sought.bias.signum() {
            0 if sought.is_whole || is_long => self.seek_exactly(session, &key).map(on_or_before),
            0 => self.seek_beginning(session, &key).map(on_or_before),
            1 => self.seek_before(session, &key, sought.is_equal),
            _ => self.seek_behind(session, &mut key, sought.is_equal, is_long),
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

    fn seek_behind(
        &mut self,
        session: &mut Session,
        key: &mut Vec<u8>,
        is_equal: bool,
        is_long: bool,
    ) -> Outcome<(c_int, bool)> {
        self.end_sweep(session);
        let length = key.len();
        // No entry begins with a long key.
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

    /// Writes over a part of the record under the cursor.
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

    /// Deletes the entry under the cursor. The cursor then stands in the gap.
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

    /// Returns a number for a new row, or `None` if there is none above all others.
    pub(crate) fn new_rowid(&self, session: &mut Session) -> Outcome<Option<i64>> {
        self.numbered(session, Numbers::take)
    }

    /// Stores a row.
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

    /// Works with the numbers of the cursor's table.
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

/// Moves the native cursor to the first entry from the cursor's key on.
fn seek(cursor: &mut Cursor, session: &Session) -> Outcome<Option<Pair>> {
    let key = std::mem::take(&mut cursor.key);
    let found = cursor.native(session).and_then(|native| Ok(native.seek(&key)?));
    cursor.key = key;
    found
}

fn on_or_before(is_there: bool) -> (c_int, bool) {
    (if is_there { 0 } else { -1 }, is_there)
}
