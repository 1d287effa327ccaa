//! The one driver of page changes: every forward change, compensation and split goes through here.
//!
//! The order (ARCHITECTURE.md, steps 4 to 8; PROTOCOLS D2, D3, D11, L7): the caller reserves all that is needed, and
//! then latches the pages. Each page is marked dirty; its recovery LSN is the log's tail *before* the append. A section
//! is opened. The record is appended. **Redo** changes each page: the same function that recovery calls. The page LSN
//! is stamped. The section is closed. Only then are the latches released.
//!
//! Redo stores some bytes (`PageMut::again`) without before-images: if the session dies, the repairing session redoes
//! the record, whose append is noted in the dead session's slot, and so repeats these stores. The driver passes the
//! proof that the append is noted. Without the proof, as in an unprotected environment, every store has a before-image.
//!
//! If a session dies here: before the tail is published the record does not exist, and the section is rolled back.
//! After the tail is published, the repairing session rolls the section back and redoes the record on each of the
//! record's pages whose page LSN is lower than the record's LSN.

use libtp_buffer::{ExclusivePage, PageHeader, PageMut, Repeated};
use libtp_log::{record_bytes, Entry, Lsn, RecordBuffer, TxnId};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::log_records::CLR_FLAG;
use crate::managers::record_table::RecordType;
use crate::{Change, Damage, Managers, Result};

/// Bytes by which a compensation may be longer than the log record that it undoes: the LSN where undo continues, and
/// the old LSN of the restored database record.
const CLR_EXTRA: usize = 64;

/// Returns the log space for the undo of a record with a body of `body_bytes`.
#[inline]
fn undo_bytes(body_bytes: usize) -> u64 {
    (record_bytes(body_bytes) + CLR_EXTRA) as u64
}

impl Change<'_> {
    /// Makes sure that a record with a body of `body_bytes`, and the compensation that may undo it, can be logged
    /// without waiting and without failing (PROTOCOLS D11). Called before the first latch.
    ///
    /// # Errors
    /// The disk is full, or the log has failed: nothing was changed.
    #[inline]
    pub fn reserve(&self, body_bytes: usize) -> Result<()> {
        if self.managers.is_unprotected() {
            return Ok(());
        }
        self.txn.promise_undo(self.managers, undo_bytes(body_bytes))?;
        self.reserve_redo_only(body_bytes)
    }

    /// Does as [`Change::reserve`], for a record that is never undone.
    ///
    /// # Errors
    /// As [`Change::reserve`].
    #[inline]
    pub fn reserve_redo_only(&self, body_bytes: usize) -> Result<()> {
        let log = &self.managers.log;
        self.managers.with_log_room(self.txn, || log.reserve(self.session(), record_bytes(body_bytes)))
    }

    /// Logs a change of the transaction, and makes the change by redo on each page, in the order of roles. `record`,
    /// the session's scratch buffer, has the body of the log record. Cannot fail: the caller has reserved all room and
    /// has checked that the change fits.
    ///
    /// # Panics
    /// If redo refuses the record: a broken invariant of the caller.
    pub fn apply(&self, kind: u16, record: &mut RecordBuffer, pages: &mut [&mut ExclusivePage<'_>]) -> Lsn {
        let undo_body_bytes = record.body().len();
        self.apply_undone_by(kind, record, pages, undo_body_bytes)
    }

    /// Does as [`Change::apply`], but counts the undo's log space for a body of `undo_body_bytes` instead of the
    /// record's own body.
    ///
    /// # Panics
    /// As [`Change::apply`].
    pub fn apply_undone_by(
        &self,
        kind: u16,
        record: &mut RecordBuffer,
        pages: &mut [&mut ExclusivePage<'_>],
        undo_body_bytes: usize,
    ) -> Lsn {
        let lsn = self.drive_by_table(&self.entry(kind), Logged::Buffer(record), pages);
        self.note_logged(lsn, undo_bytes(undo_body_bytes));
        lsn
    }

    /// Does as [`Change::apply`], for one page. `make` makes the same change as the redo of the record's type. The redo
    /// would read the body and search for the place on the page; the caller already has both. In debug builds the page
    /// is compared with the page that the redo makes.
    ///
    /// # Panics
    /// As [`Change::apply`].
    #[inline(always)]
    pub fn apply_by(
        &self,
        kind: u16,
        record: &mut RecordBuffer,
        page: &mut ExclusivePage<'_>,
        make: impl Fn(&mut PageMut<'_, '_>, Lsn) -> std::result::Result<(), Damage>,
    ) -> Lsn {
        let undo_bytes = undo_bytes(record.body().len());
        let make = |page: &mut PageMut<'_, '_>, role, lsn, body: &[u8]| {
            let redone = cfg!(debug_assertions).then(|| self.redone(kind, page.bytes(), role, lsn, body));
            make(page, lsn)?;
            debug_assert!(redone.is_none_or(|redone| redone == page.bytes()), "`make` makes the change of the redo");
            Ok(())
        };
        let lsn = self.drive(&self.entry(kind), Logged::Buffer(record), &mut [page], make);
        self.note_logged(lsn, undo_bytes);
        lsn
    }

    #[inline]
    fn entry(&self, kind: u16) -> Entry {
        Entry { kind, flags: 0, txn: self.txn.id(), prev: self.txn.last_lsn() }
    }

    /// Enters the record as the transaction's last record, and clears the note of its append. Called after the record's
    /// pages are changed.
    #[inline]
    fn note_logged(&self, lsn: Lsn, undo_bytes: u64) {
        if self.managers.is_unprotected() {
            return;
        }
        self.txn.count_undo(self.managers, undo_bytes);
        failpoint("change: pages changed, record not in the slot");
        self.txn.logged(lsn);
        failpoint("change: record in the slot, append noted");
        self.session().clear_append();
        failpoint("change: append cleared, pages latched");
    }

    /// Logs and makes a change that belongs to no transaction and is never undone: a split, the removal of a ghost.
    ///
    /// # Panics
    /// As [`Change::apply`].
    pub fn apply_redo_only(&self, kind: u16, body: &[u8], pages: &mut [&mut ExclusivePage<'_>]) -> Lsn {
        let entry = Entry { kind, flags: 0, txn: TxnId::NONE, prev: Lsn::NONE };
        let lsn = self.drive_by_table(&entry, Logged::Slices { logged: body, body }, pages);
        failpoint("change: redo only, append noted");
        self.session().clear_append();
        failpoint("change: redo only, append cleared");
        lsn
    }

    /// Logs and makes a compensation: a change that undoes another change, is redone by recovery, and is never undone
    /// itself. The undo continues at `undo_next`, which is stored before the body.
    ///
    /// # Panics
    /// As [`Change::apply`].
    pub fn compensate(&self, kind: u16, body: &[u8], pages: &mut [&mut ExclusivePage<'_>], undo_next: Lsn) -> Lsn {
        let mut whole = Vec::with_capacity(8 + body.len());
        let undo_next = if planted("txn: compensation records are undone") { self.txn.last_lsn() } else { undo_next };
        whole.extend_from_slice(&undo_next.raw().to_le_bytes());
        whole.extend_from_slice(body);
        let entry = Entry { kind, flags: CLR_FLAG, txn: self.txn.id(), prev: self.txn.last_lsn() };
        failpoint("change: about to compensate");
        let lsn = self.drive_by_table(&entry, Logged::Slices { logged: &whole, body }, pages);
        if self.managers.is_unprotected() {
            return lsn;
        }
        failpoint("change: compensated, record not in the slot");
        self.txn.logged(lsn);
        failpoint("change: compensated, append noted");
        self.session().clear_append();
        lsn
    }

    /// Logs and makes the last of several changes that are never undone, even if the transaction aborts (ARIES: a
    /// nested top action). Undo skips these changes and continues at `undo_next`, the transaction's last record before
    /// the first of them. The pages stay latched until this record counts as a commit: a session that reads the result
    /// waits for this record as it waits for a commit (PROTOCOLS L4).
    ///
    /// # Panics
    /// As [`Change::apply`].
    pub fn conclude(&self, kind: u16, body: &[u8], pages: &mut [&mut ExclusivePage<'_>], undo_next: Lsn) -> Lsn {
        let lsn = self.compensate(kind, body, pages, undo_next);
        // If the session dies before this store, the undo that reads this compensation makes the store (`undo_one`).
        failpoint("change: concluded, readers not notified");
        self.managers.txns.header.last_commit.fetch_max(lsn);
        lsn
    }

    /// Does as [`Change::drive`], with the redo that the table has for the record's type.
    #[inline(never)]
    fn drive_by_table(&self, entry: &Entry, logged: Logged<'_>, pages: &mut [&mut ExclusivePage<'_>]) -> Lsn {
        self.drive(entry, logged, pages, self.record_type(entry.kind).redo)
    }

    /// Returns the bytes that the redo of the record's type makes of the page.
    fn redone(&self, kind: u16, page: &[u8], role: usize, lsn: Lsn, body: &[u8]) -> Vec<u8> {
        let mut copy = page.to_vec();
        if let Err(damage) = (self.record_type(kind).redo)(&mut PageMut::detached(&mut copy), role, lsn, body) {
            self.refused(kind, &damage);
        }
        copy
    }

    fn record_type(&self, kind: u16) -> &RecordType {
        self.managers.types.get(kind).expect("a record type is registered before it is logged")
    }

    #[inline(always)]
    fn drive(
        &self,
        entry: &Entry,
        logged: Logged<'_>,
        pages: &mut [&mut ExclusivePage<'_>],
        redo: impl Fn(&mut PageMut<'_, '_>, usize, Lsn, &[u8]) -> std::result::Result<(), Damage>,
    ) -> Lsn {
        let managers = self.managers;
        for page in pages.iter_mut().filter(|_| !planted("txn: a changed page is not marked dirty")) {
            page.mark_dirty_with(|| managers.log.tail());
            failpoint("change: one page marked dirty");
        }
        let session = self.session();
        failpoint("change: all pages marked dirty");
        let mut section = session.section();
        failpoint("change: section open, nothing logged");
        // In an unprotected environment, pages have the LSN of a record that is already on the disk: no write of a page
        // waits for the log.
        let (lsn, body) = match managers.is_unprotected() {
            true => (Lsn::FIRST, logged.body()),
            false => logged.log(managers, session, entry),
        };
        let repeated = Repeated::noted(session, lsn);
        if planted("txn: the append note is cleared before the pages change") {
            session.clear_append();
        }
        failpoint("change: logged, no page changed");
        for (role, page) in pages.iter_mut().enumerate() {
            let mut page = match repeated {
                Some(proof) => page.page_mut_repeated(&mut section, proof),
                None => page.page_mut(&mut section),
            };
            failpoint("change: before a page is changed");
            if planted("txn: the page LSN precedes the page's bytes") {
                // This store has no before-image.
                let at = std::mem::offset_of!(PageHeader, page_lsn);
                page.fresh()[at..at + 8].copy_from_slice(&lsn.raw().to_le_bytes());
            }
            if let Err(damage) = redo(&mut page, role, lsn, body) {
                self.refused(entry.kind, &damage);
            }
            failpoint("change: page changed, LSN old");
            if !planted("txn: the page LSN is not set") {
                page.set_lsn(lsn);
            }
        }
        failpoint("change: pages changed, section open");
        section.close();
        failpoint("change: section closed, append noted");
        lsn
    }

    #[cold]
    #[inline(never)]
    fn refused(&self, kind: u16, damage: &Damage) -> ! {
        panic!("redo of {} refused a page that the caller had checked: {}", self.record_type(kind).name, damage.0)
    }
}

/// A record to log, and the part of it that redo gets.
enum Logged<'l> {
    /// A record in a buffer: redo gets its body.
    Buffer(&'l mut RecordBuffer),
    /// A body, and the part of it without the driver's own bytes.
    Slices { logged: &'l [u8], body: &'l [u8] },
}

impl<'l> Logged<'l> {
    /// Returns the bytes that redo gets.
    #[inline]
    fn body(self) -> &'l [u8] {
        match self {
            Logged::Buffer(buffer) => buffer.body(),
            Logged::Slices { body, .. } => body,
        }
    }

    #[inline]
    fn log(self, managers: &Managers, session: &Session, entry: &Entry) -> (Lsn, &'l [u8]) {
        match self {
            Logged::Buffer(buffer) => (managers.log.log_buffer(session, entry, buffer), buffer.body()),
            Logged::Slices { body, .. }
                if entry.flags & CLR_FLAG != 0 && planted("txn: compensation records are not logged") =>
            {
                (entry.prev, body)
            }
            Logged::Slices { logged, body } => (managers.log.log_entry(session, entry, &[logged]), body),
        }
    }
}
