//! Unresolved transactions: they are committed, but a segment of memory that they have changed may not know it yet.
//!
//! Not in the paper (PROTOCOLS F2). A segment's undo log names a transaction, and the session that finds the
//! transaction there asks whether it is committed. While the transaction is in its slot, no session can ask: the
//! transaction holds the segment's lock. If its process dies after the decision and before the segment has followed the
//! decision, the repair notes the commit in this table before it releases the lock. The note stays in the table, and in
//! each checkpoint, until the segment has followed the decision. A transaction that is not in the table is not
//! committed.
//!
//! The table has a row for each segment that was joined since the region was made. So a commit never has to add a row,
//! for which there might be no room (PROTOCOLS D11). At the end of a transaction the row usually has no outcome.
//!
//! Invariants
//! 1. There is one row for each segment, and at most one open outcome: a session that joins a segment first makes sure
//!    that the segment knows of all earlier commits.
//! 2. A segment has its row before a transaction notes that it has joined the segment. A row is never given to another
//!    segment.
//! 3. An outcome is noted before the transaction's locks are released, and removed after the segment has followed it.
//! 4. A session that acts on a row reads it under the table's latch. Otherwise it could read the transaction of one
//!    outcome with the commit record of another.
//!
//! If a session dies here: a row is made by one store; each other change is one section under the table's latch. An
//! outcome that its segment already knows does no harm; the next session that joins the segment removes it.

use libtp_log::{Lsn, TxnId, UNRESOLVED_MAX};
use libtp_process::{Rank, Session};
use rio::{failpoint, planted};

use crate::{Managers, OpenOutcome, Result};

impl Managers {
    /// Returns the commits that segments may not know of.
    pub(crate) fn open_outcomes(&self, by: &Session) -> Vec<OpenOutcome> {
        if self.txns.header.has_unresolved.load() == 0 {
            return Vec::new();
        }
        let is_latched = !planted("txn: open outcomes are read without the latch");
        let _guard = is_latched.then(|| self.txns.header.latch.shared(by, Rank::TXN_TABLE));
        self.rows().filter(|row| row.lsn != Lsn::NONE).collect()
    }

    /// Returns an entry for every segment that was joined since the region was made. The entry has the commit that the
    /// segment may not know of, or no transaction if there is no such commit. For tools: takes no latch, so if a row
    /// changes meanwhile, its words may be of two different outcomes.
    pub fn joined_segments(&self) -> Vec<OpenOutcome> {
        self.rows().collect()
    }

    fn rows(&self) -> impl Iterator<Item = OpenOutcome> + '_ {
        let table = &self.txns.unresolved;
        let read = |index| {
            let row = table.at(index);
            let (segment, txn) = (row.segment.load(), row.txn.load());
            failpoint("unresolved: row partly read");
            OpenOutcome { segment, txn, lsn: row.lsn.load() }
        };
        (1..=table.capacity()).map(read).filter(|row| row.segment != 0)
    }

    /// Returns the transactions of the open outcomes, at most as many as the control file has room for.
    pub(crate) fn unresolved_txns(&self, by: &Session) -> Vec<TxnId> {
        let mut txns: Vec<TxnId> = self.open_outcomes(by).into_iter().map(|open| open.txn).collect();
        txns.sort_unstable_by_key(|txn| txn.raw());
        txns.dedup();
        txns.truncate(UNRESOLVED_MAX);
        txns
    }

    /// Returns the commit record of a transaction that has left its slot, if it is committed and the segment may not
    /// know it.
    pub fn open_commit(&self, by: &Session, segment: u32, txn: TxnId) -> Option<Lsn> {
        let own = |open: &OpenOutcome| open.segment == segment && open.txn == txn;
        self.open_outcomes(by).into_iter().find(own).map(|open| open.lsn)
    }

    fn row_of(&self, segment: u32) -> Option<u32> {
        let table = &self.txns.unresolved;
        (1..=table.capacity()).find(|&index| table.at(index).segment.load() == segment)
    }

    /// Makes sure that the segment has its row, before a transaction joins it. Returns the row's number. `known` is the
    /// number that an earlier call returned.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn keep_row(&self, by: &Session, segment: u32, known: u32) -> Result<u32> {
        let table = &self.txns.unresolved;
        let is_known = (1..=table.capacity()).contains(&known) && table.at(known).segment.load() == segment;
        if let Some(row) = is_known.then_some(known).or_else(|| self.row_of(segment)) {
            return Ok(row);
        }
        let _guard = self.txns.header.latch.exclusive(by, Rank::TXN_TABLE);
        if let Some(row) = self.row_of(segment) {
            return Ok(row);
        }
        let row = match self.row_of(0) {
            Some(row) => row,
            None => table.grow()?.start,
        };
        failpoint("unresolved: row found, not taken");
        // Sessions without the latch read this word, so it is stored outside a section: it is never rolled back.
        table.at(row).segment.publish(segment);
        failpoint("unresolved: row made");
        Ok(row)
    }

    /// Notes that a segment may not know of a commit.
    ///
    /// # Errors
    /// The region cannot grow, for a segment that has no row.
    pub(crate) fn note_open(&self, session: &Session, open: OpenOutcome) -> Result<()> {
        let row = self.keep_row(session, open.segment, 0)?;
        let (header, row) = (&self.txns.header, self.txns.unresolved.at(row));
        let _guard = header.latch.exclusive(session, Rank::TXN_TABLE);
        // The row may already have this outcome or a later one: the repair of a dead session may be repeated late.
        if row.lsn.get() >= open.lsn {
            return Ok(());
        }
        let mut section = session.section();
        header.has_unresolved.set(&mut section, 1);
        row.txn.set(&mut section, open.txn);
        failpoint("unresolved: outcome without its commit record");
        row.lsn.set(&mut section, open.lsn);
        failpoint("unresolved: outcome noted, section open");
        section.close();
        Ok(())
    }

    /// Notes that the segment knows of every commit.
    pub fn close_outcomes(&self, session: &Session, segment: u32) {
        let header = &self.txns.header;
        if header.has_unresolved.load() == 0 {
            return;
        }
        let table = &self.txns.unresolved;
        let _guard = header.latch.exclusive(session, Rank::TXN_TABLE);
        let rows = || (1..=table.capacity()).map(|index| table.at(index));
        let mut section = session.section();
        if let Some(row) = rows().find(|row| row.segment.get() == segment) {
            row.lsn.set(&mut section, Lsn::NONE);
            failpoint("unresolved: no commit record, section open");
            row.txn.set(&mut section, TxnId::NONE);
        }
        if rows().all(|row| row.lsn.get() == Lsn::NONE) {
            header.has_unresolved.set(&mut section, 0);
        }
        failpoint("unresolved: segment committed, section open");
        section.close();
    }
}
