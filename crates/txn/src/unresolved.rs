//! Unresolved transactions: committed, while a segment of memory that they have changed may not know it yet.
//!
//! Not in the paper (PROTOCOLS F2). A segment's undo log names a transaction, and whoever finds it there asks whether that is
//! committed. While the transaction is in its slot, nobody can ask: it holds the segment's lock. When it has left its slot
//! without having told the segment, because its process died in between, the answer is here, and in each checkpoint, until
//! the segment was told. A transaction that is not here is not committed.
//!
//! Invariants
//! 1. There is at most one entry of each segment: who joins one first sees to it that it knows of all commits before.
//! 2. An entry is made before the transaction's locks fall, and goes after the segment was told.
//!
//! If we die here: each change is one section under the table's latch. An entry whose segment knows already is in nobody's
//! way; the next to join that segment takes it out.

use libtp_log::{Lsn, TxnId, UNRESOLVED_MAX};
use libtp_process::{Rank, Session};
use rio::{failpoint, Word};

use crate::{Managers, Result};

rio::shared! {
    /// A commit that a segment may not know of.
    pub struct Unresolved {
        /// The transaction.
        pub txn: Word<TxnId>,
        /// Its commit record.
        pub lsn: Word<Lsn>,
        /// The segment's number; zero while the entry is free.
        pub segment: Word<u32>,
        /// Zero, kept for later.
        pub spare_small: Word<u32>,
        /// Zero, kept for later.
        pub spare: Word<u64>,
    } size 32
}

/// A commit that a segment of memory may not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOutcome {
    /// The segment's number.
    pub segment: u32,
    /// The transaction.
    pub txn: TxnId,
    /// Its commit record.
    pub lsn: Lsn,
}

impl Managers {
    /// What segments may not know of.
    pub fn open_outcomes(&self) -> Vec<OpenOutcome> {
        if self.txns.header.has_unresolved.load() == 0 {
            return Vec::new();
        }
        let entries = (1..=self.txns.unresolved.capacity()).map(|index| self.txns.unresolved.at(index));
        // One that changes meanwhile is of a segment that somebody is telling: both of its states are right.
        let read = |entry: &Unresolved| OpenOutcome {
            segment: entry.segment.load(),
            txn: entry.txn.load(),
            lsn: entry.lsn.load(),
        };
        entries.map(read).filter(|open| open.segment != 0).collect()
    }

    /// The transactions among them, for the control file, which has room for so many.
    pub(crate) fn unresolved_txns(&self) -> Vec<TxnId> {
        let mut txns: Vec<TxnId> = self.open_outcomes().into_iter().map(|open| open.txn).collect();
        txns.sort_unstable_by_key(|txn| txn.raw());
        txns.dedup();
        txns.truncate(UNRESOLVED_MAX);
        txns
    }

    /// The commit record of a transaction that has left its slot, if it is committed and the segment may not know it.
    pub fn open_commit(&self, segment: u32, txn: TxnId) -> Option<Lsn> {
        let own = |open: &OpenOutcome| open.segment == segment && open.txn == txn;
        self.open_outcomes().into_iter().find(own).map(|open| open.lsn)
    }

    /// Notes that these segments may not know of a commit.
    ///
    /// # Errors
    /// The region cannot grow.
    pub(crate) fn note_open(
        &self,
        session: &Session,
        txn: TxnId,
        lsn: Lsn,
        segments: impl IntoIterator<Item = u32>,
    ) -> Result<()> {
        for segment in segments {
            self.note_open_in(session, OpenOutcome { segment, txn, lsn })?;
        }
        Ok(())
    }

    fn note_open_in(&self, session: &Session, open: OpenOutcome) -> Result<()> {
        let table = &self.txns.unresolved;
        let _guard = self.txns.header.latch.exclusive(session, Rank::TXN_TABLE);
        let find = |segment: u32| (1..=table.capacity()).find(|&index| table.at(index).segment.get() == segment);
        // Who died in the middle of this is repaired once more, perhaps late.
        if find(open.segment).is_some_and(|index| table.at(index).lsn.get() >= open.lsn) {
            return Ok(());
        }
        let index = match find(open.segment).or_else(|| find(0)) {
            Some(index) => index,
            None => table.grow()?.start,
        };
        let entry = table.at(index);
        let mut section = session.section();
        self.txns.header.has_unresolved.set(&mut section, 1);
        entry.txn.set(&mut section, open.txn);
        failpoint("unresolved: entry without its commit record");
        entry.lsn.set(&mut section, open.lsn);
        entry.segment.set(&mut section, open.segment);
        failpoint("unresolved: entry made, section open");
        section.close();
        Ok(())
    }

    /// The segment knows of every commit.
    pub fn close_outcomes(&self, session: &Session, segment: u32) {
        let header = &self.txns.header;
        if header.has_unresolved.load() == 0 {
            return;
        }
        let table = &self.txns.unresolved;
        let _guard = header.latch.exclusive(session, Rank::TXN_TABLE);
        let entries = || (1..=table.capacity()).map(|index| table.at(index));
        let mut section = session.section();
        for entry in entries().filter(|entry| entry.segment.get() == segment) {
            entry.segment.set(&mut section, 0);
            failpoint("unresolved: entry free, section open");
        }
        if entries().all(|entry| entry.segment.get() == 0) {
            header.has_unresolved.set(&mut section, 0);
        }
        failpoint("unresolved: segment told, section open");
        section.close();
    }
}
