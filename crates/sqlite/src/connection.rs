//! A connection: the session and its cursors.

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use libtp::PageLock;

use crate::answer::{Outcome, Refusal, ABORT_ROLLBACK, BUSY_SNAPSHOT, CONSTRAINT_PINNED, ERROR, INTERNAL};
use crate::cursor::{Cursor, Fault};
use crate::home::Home;
use crate::keys::Column;
use crate::meta::Meta;
use crate::owned::{with_source, Reader};
use crate::roots;
use crate::rowid::Rule;
use crate::session::{with_txn, BeginMode, Session};
use crate::settings::Setting;

/// The type that the shim calls `TpConn`.
pub struct Connection {
    /// The cursors, by the number that the shim uses.
    cursors: Vec<Option<Cursor>>,
    pub(crate) session: Session,
}

impl Connection {
    pub(crate) fn new(home: Arc<Home>) -> Connection {
        Connection { cursors: Vec::new(), session: Session::new(home) }
    }

    /// Returns SQLite's state of the transaction: 0 none, 1 reading, 2 writing.
    pub(crate) fn state(&self) -> c_int {
        match (self.session.has_reader(), self.session.is_writing() || self.session.doom.is_some()) {
            (_, true) => 2,
            (true, false) => 1,
            (false, false) => 0,
        }
    }

    /// Begins a transaction, or continues the running transaction.
    pub(crate) fn begin(&mut self, how: BeginMode) -> Outcome<()> {
        self.session.report_doom()?;
        let begun = match (self.session.has_reader(), self.session.is_writing(), how) {
            (_, true, BeginMode::Exclusive) => self.session.exclude_writers(),
            (_, true, _) | (true, _, BeginMode::Read) => Ok(()),
            (false, _, BeginMode::Read) => self.session.read_snapshot(),
            (false, _, _) => self.session.new_txn(how).and_then(|txn| self.session.read_by(txn)),
            (true, false, _) => self.write_behind_reads(how),
        };
        // The setting may have changed after `new_txn` read it and before the transaction locked it.
        let is_alone = how == BeginMode::Immediate && self.session.meta.runs_immediate_alone();
        let begun = begun.and_then(|()| if is_alone { self.session.exclude_writers() } else { Ok(()) });
        // If a deadlock has ended the new transaction, it never became the connection's transaction, so there is
        // nothing to roll back.
        begun.map_err(|refusal| {
            if refusal.ends_transaction && !self.session.is_writing() {
                self.session.note_victim();
                return Refusal { ends_transaction: false, ..refusal };
            }
            refusal
        })
    }

    /// Replaces the snapshot by a transaction, if all rows that were read are unchanged.
    fn write_behind_reads(&mut self, how: BeginMode) -> Outcome<()> {
        self.end_sweeps();
        let session = &mut self.session;
        let (old, new) = (Rc::clone(session.reader()?), session.new_txn(how)?);
        let is_same = Meta::load(&session.home, &new)? == session.meta
            && session.spans.are_same(&session.home, &old, &new, session.wait_left())?;
        if !is_same {
            return Err(Refusal::new(
                BUSY_SNAPSHOT,
                "another connection has changed rows that this transaction has read, so this transaction can no longer write; nothing was changed. Roll it back, and run it again; with BEGIN IMMEDIATE it locks the rows that it reads",
            ));
        }
        drop(old);
        self.leave();
        drop(self.session.take_reader());
        self.session.read_by(new)
    }

    /// Makes the last changes of the transaction: stores its own counts of rowids. If this fails, the program can roll
    /// back the transaction.
    pub(crate) fn prepare_commit(&mut self) -> Outcome<()> {
        let session = &mut self.session;
        session.refuse_doomed()?;
        if !session.is_writing() {
            return Ok(());
        }
        let reader = Rc::clone(session.reader()?);
        with_txn(&reader, |txn| session.numbers.store(&session.home, txn))
    }

    /// Commits. With `keeps_reading`, a SELECT is open: it continues with a new snapshot if all rows that it has read
    /// are unchanged there; otherwise its next step fails.
    pub(crate) fn commit(&mut self, keeps_reading: bool) -> Outcome<()> {
        self.session.refuse_doomed()?;
        if !self.session.is_writing() {
            if !keeps_reading {
                self.end(false);
            }
            return Ok(());
        }
        let before = self.digest(keeps_reading)?;
        self.leave();
        let ended = self.session.take_reader().map_or(Ok(()), |reader| reader.commit(self.session.durability));
        let is_committed = ended.is_ok();
        self.after(is_committed, before, keeps_reading, Fault::CHANGED);
        Ok(ended?)
    }

    /// Undoes the transaction. With `keeps_reading`, a SELECT is open and continues as after a commit.
    pub(crate) fn roll_back(&mut self, keeps_reading: bool) -> Outcome<()> {
        if !self.session.is_writing() && self.session.doom.is_none() {
            if !keeps_reading {
                self.end(false);
            }
            return Ok(());
        }
        // A doomed transaction was aborted, so its reads can no longer be compared.
        let before = if self.session.doom.is_none() { self.digest(keeps_reading).unwrap_or(None) } else { None };
        self.leave();
        let ended = self.session.take_reader().map_or(Ok(()), Reader::abort);
        self.after(false, before, keeps_reading, Fault::earlier(ABORT_ROLLBACK));
        Ok(ended?)
    }

    fn digest(&mut self, keeps_reading: bool) -> Outcome<Option<u64>> {
        if !keeps_reading {
            return Ok(None);
        }
        self.end_sweeps();
        let digest = self.session.spans.digest(&self.session.home, self.session.reader()?, self.session.wait_left())?;
        Ok(Some(digest))
    }

    /// Does the work after the end of a transaction. With `keeps_reading`, takes a snapshot for the open SELECTs, and
    /// makes them fail with `fault` if their reads are not the same as `before`.
    fn after(&mut self, is_committed: bool, before: Option<u64>, keeps_reading: bool, fault: Fault) {
        let session = &mut self.session;
        session.numbers.end(&session.home, is_committed, session.wait);
        session.doom = None;
        if !keeps_reading {
            session.spans.clear();
            return;
        }
        let after = session.read_snapshot().and_then(|()| {
            let digest = session.spans.digest(&session.home, session.reader()?, session.wait_left())?;
            Ok(Some(digest))
        });
        if before.is_none() || !after.is_ok_and(|after| after == before) {
            self.cursors().for_each(|cursor| cursor.set_fault(fault));
            self.session.has_expired = true;
        }
    }

    /// Ends a snapshot.
    fn end(&mut self, keeps_reads: bool) {
        self.leave();
        drop(self.session.take_reader());
        if !keeps_reads {
            self.session.spans.clear();
        }
    }

    /// Aborts the transaction at once, because of a deadlock or another error that ends it, and releases its locks.
    /// SQLite rolls it back later.
    pub(crate) fn doom(&mut self, cause: &str) {
        if !self.session.is_writing() {
            return;
        }
        self.leave();
        // If the library has ended the transaction already, the abort fails. The abort's error is ignored, because it
        // has the same cause.
        let _ = self.session.take_reader().map(Reader::abort);
        self.session.doom = Some(cause.to_owned());
        self.session.is_doom_reported = true;
        self.session.note_victim();
    }

    /// Aborts the transaction at once, but not as the victim of a deadlock. If the program has not got an error yet
    /// (`is_reported` is false), its next call fails with BUSY_SNAPSHOT.
    pub(crate) fn doom_for(&mut self, cause: &str, is_reported: bool) {
        self.leave();
        let _ = self.session.take_reader().map(Reader::abort);
        self.session.spans.clear();
        self.session.doom = Some(cause.to_owned());
        self.session.is_doom_reported = is_reported;
    }

    /// Ends the savepoints from SQLite's number `from` on. A rollback ends only the savepoints after `from`.
    pub(crate) fn end_savepoint(&mut self, is_rollback: bool, from: c_int, is_statement: bool) -> Outcome<()> {
        if self.session.doom.is_some() {
            // An error here, at the end of a statement that failed, would make SQLite end its transaction.
            return if is_statement { Ok(()) } else { self.session.refuse_doomed() };
        }
        // The first savepoint marks the beginning of the transaction, for which SQLite has the number -1.
        let place = usize::try_from(i64::from(from) + 1).unwrap_or(0);
        if !self.session.is_writing() {
            return Ok(());
        }
        if !is_rollback {
            self.session.keep_savepoints(place.max(1));
            return Ok(());
        }
        if place >= self.session.savepoints.len() {
            return Ok(());
        }
        self.leave();
        let session = &mut self.session;
        session.keep_savepoints(place + 1);
        if let Some(savepoint) = session.savepoints.pop() {
            let taken = savepoint.taken;
            savepoint.mark.roll_back()?;
            session.numbers.give_back(&session.home, taken, session.wait);
        }
        session.add_savepoints(place)?;
        session.meta = Meta::load(&session.home, session.reader()?)?;
        Ok(())
    }

    pub(crate) fn trip(&mut self, code: c_int, is_write_only: bool) {
        self.end_sweeps();
        self.cursors().for_each(|cursor| cursor.trip(code, is_write_only));
    }

    pub(crate) fn put_meta(&mut self, place: usize, value: u32) -> Outcome<()> {
        let session = &mut self.session;
        let reader = Rc::clone(session.reader()?);
        with_txn(&reader, |txn| session.meta.put(&session.home, txn, place, value))
    }

    /// Returns the word for a setting of the environment. With a `word`, first changes the setting, in a separate
    /// transaction.
    pub(crate) fn setting(&mut self, name: &str, word: Option<&str>) -> Outcome<&'static str> {
        let setting = Setting::of_name(name)?;
        if let Some(word) = word {
            let value = setting.value(word)?;
            if self.session.has_reader() || self.session.doom.is_some() {
                let what = format!("{name} cannot be changed in a transaction, or while a SELECT is open; nothing was changed. End the transaction or the SELECT first");
                return Err(Refusal::new(ERROR, what));
            }
            let changed = self.begin(BeginMode::Write).and_then(|()| self.put_setting(setting, value));
            let changed = changed.and_then(|()| self.prepare_commit());
            let ended = if changed.is_ok() { self.commit(false) } else { self.roll_back(false) };
            changed.and(ended)?;
        }
        match self.session.has_reader() {
            true => Ok(setting.word(&self.session.meta)),
            false => Ok(setting.word(&Meta::load(&self.session.home, &*Reader::snapshot(&self.session.home)?)?)),
        }
    }

    fn put_setting(&mut self, setting: &Setting, value: u32) -> Outcome<()> {
        self.put_meta(setting.place, value)?;
        if setting.is_of_rowids() {
            // The two rules use the counts differently, so the counts are removed. Without a count the next insert
            // looks up the highest row.
            let reader = Rc::clone(self.session.reader()?);
            with_txn(&reader, |txn| Ok(self.session.home.numbers().delete_range(txn, ..)?))?;
        }
        Ok(())
    }

    /// Makes an empty tree and returns its root.
    pub(crate) fn create(&mut self) -> Outcome<u32> {
        let session = &mut self.session;
        let reader = Rc::clone(session.reader()?);
        let root = with_txn(&reader, |txn| roots::take(&session.home, txn, session.wait_left()))?;
        session.numbers.note_empty(root);
        Ok(root)
    }

    /// Deletes all entries of a tree, and returns their number. With `is_drop`, the tree's root may be given out again.
    pub(crate) fn clear(&mut self, root: u32, is_drop: bool) -> Outcome<u64> {
        self.refuse_pinned(root, None)?;
        self.others(root, None).filter(|cursor| cursor.is_blob).for_each(|blob| blob.set_fault(Fault::BLOB));
        self.set_stale(root, None);
        let session = &mut self.session;
        let (reader, tree) = (Rc::clone(session.reader()?), session.tree(root)?);
        let rule = session.meta.rowid_rule();
        let count = with_txn(&reader, |txn| {
            if rule == Rule::Exact {
                // An insert also locks the count first and then the tree.
                session.home.numbers().get_for_update(txn, &root.to_be_bytes())?;
            }
            tree.lock_all(txn, PageLock::Write)?;
            let count = tree.delete_range(txn, ..)?;
            if is_drop {
                roots::free(&session.home, txn, root)?;
            }
            Ok(count)
        })?;
        session.numbers.note_empty(root);
        Ok(count)
    }

    pub(crate) fn count(&mut self, root: u32) -> Outcome<u64> {
        let tree = self.session.tree(root)?;
        let count = with_source!(self.session.reader()?, source => tree.count(source, ..))?;
        self.session.spans.add(root, None, None);
        Ok(count)
    }

    /// Opens a cursor and returns its number.
    pub(crate) fn add_cursor(&mut self, root: u32, is_write: bool, columns: &[u8]) -> Outcome<u32> {
        let columns = columns.iter().map(|code| Column::of_code(*code)).collect::<Outcome<Vec<Column>>>()?;
        let cursor = Cursor::new(root, self.session.tree(root)?, columns, is_write);
        let place = match self.cursors.iter().position(Option::is_none) {
            Some(free) => {
                self.cursors[free] = Some(cursor);
                free
            }
            None => {
                self.cursors.push(Some(cursor));
                self.cursors.len() - 1
            }
        };
        u32::try_from(place).map_err(|_| Refusal::new(INTERNAL, "too many cursors"))
    }

    pub(crate) fn close_cursor(&mut self, number: u32) {
        let slot = usize::try_from(number).ok().and_then(|place| self.cursors.get_mut(place));
        if let Some(mut cursor) = slot.and_then(Option::take) {
            cursor.end_sweep(&mut self.session);
        }
    }

    /// Returns the cursor with this number, and the session.
    pub(crate) fn cursor(&mut self, number: u32) -> Outcome<(&mut Cursor, &mut Session)> {
        let slot = usize::try_from(number).ok().and_then(|place| self.cursors.get_mut(place));
        let cursor = slot.and_then(Option::as_mut);
        let cursor = cursor.ok_or_else(|| Refusal::new(INTERNAL, "SQLite uses a cursor that it has closed"))?;
        Ok((cursor, &mut self.session))
    }

    /// Overwrites a part of the record at the cursor of a blob handle.
    pub(crate) fn change_part(&mut self, number: u32, offset: usize, part: &[u8]) -> Outcome<()> {
        let root = self.cursor(number)?.0.root;
        self.refuse_pinned(root, Some(number))?;
        let (cursor, session) = self.cursor(number)?;
        cursor.put_part(session, offset, part)?;
        self.set_stale(root, Some(number));
        Ok(())
    }

    /// Changes a tree through a cursor. The other cursors on this tree look up their entries again at their next use.
    pub(crate) fn change(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Cursor, &mut Session) -> Outcome<()>,
    ) -> Outcome<()> {
        let root = self.cursor(number)?.0.root;
        self.refuse_pinned(root, Some(number))?;
        let (cursor, session) = self.cursor(number)?;
        change(cursor, session)?;
        let key = cursor.key().to_vec();
        let blobs = self.others(root, Some(number)).filter(|other| other.is_blob && other.key() == key);
        blobs.for_each(|blob| blob.set_fault(Fault::BLOB));
        self.set_stale(root, Some(number));
        Ok(())
    }

    fn others(&mut self, root: u32, but: Option<u32>) -> impl Iterator<Item = &mut Cursor> {
        let but = but.and_then(|number| usize::try_from(number).ok());
        let others = self.cursors.iter_mut().enumerate().filter(move |(place, _)| Some(*place) != but);
        others.filter_map(|(_, cursor)| cursor.as_mut()).filter(move |cursor| cursor.root == root)
    }

    fn refuse_pinned(&mut self, root: u32, but: Option<u32>) -> Outcome<()> {
        match self.others(root, but).any(|cursor| cursor.stands_pinned()) {
            true => {
                Err(Refusal::new(CONSTRAINT_PINNED, "a row cannot be changed while the same statement is changing it"))
            }
            false => Ok(()),
        }
    }

    fn set_stale(&mut self, root: u32, but: Option<u32>) {
        self.others(root, but).for_each(Cursor::set_stale);
    }

    fn cursors(&mut self) -> impl Iterator<Item = &mut Cursor> {
        self.cursors.iter_mut().filter_map(Option::as_mut)
    }

    fn end_sweeps(&mut self) {
        let Connection { cursors, session } = self;
        cursors.iter_mut().filter_map(Option::as_mut).for_each(|cursor| cursor.end_sweep(session));
    }

    /// Makes all cursors leave the transaction or snapshot, and adds the key ranges that they have read to the spans.
    fn leave(&mut self) {
        self.end_sweeps();
        self.cursors().for_each(Cursor::leave);
    }
}
