//! A segment that belongs to an environment. The environment's log decides whether a transaction is committed, and
//! several processes use the segment, one at a time.
//!
//! Paper: a departure; section 6 names distributed transactions and recoverable message queues as uses of free
//! transactions. The undo log is the same as in any segment. Two things differ. A header names the undo log's
//! transaction. And this module ends no transaction by itself: its caller calls [`Member::end`] or [`Member::abort`],
//! and a process that finds the undo log of a dead process asks a [`Judge`].
//!
//! vista does not keep the processes apart. Its caller makes sure that between [`Member::begin`] and the transaction's
//! end no other process calls anything. No caller gets the [`Txn`](crate::Txn), because it could end the transaction.
//!
//! Invariants
//! 1. The header names the transaction from before its first before-image is saved until its last before-image is gone.
//! 2. The stores are permanent once the undo log is empty. Before the log is emptied for a decision, the header records
//!    the decision. So a decision that was followed and later lost is noticed, wherever we die.
//! 3. Before an undo log is rolled back, the header records that no decision is about to be followed: an empty undo log
//!    together with a recorded decision means that the decision was followed.

mod mark;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::heap::UNIT;
use crate::membership::{owner_of, MemberHeader};
use crate::{Error, Membership, Options, Result, Segment};
use rio::{failpoint, planted, Held, Survives, Undo};

pub use mark::Mark;

/// The handle at work on a segment, and its process. The environment has given both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The handle; zero once it leaves the transaction to the log.
    pub handle: u64,
    /// The process of the handle.
    pub process: u64,
}

/// The place of a decision in the environment's log: the log's incarnation, and the LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// The log's incarnation.
    pub incarnation: u64,
    /// The LSN.
    pub lsn: u64,
}

/// Decides whether a transaction on which no process works any more is committed.
pub trait Judge {
    /// The error type.
    type Error: From<Error>;

    /// Returns where the commit of the transaction was decided; `None` if it is not committed.
    ///
    /// # Errors
    /// The judge cannot tell: the segment stays as it is.
    fn committed(&self, txn: u64) -> Result<Option<Decision>, Self::Error>;
}

/// A process's handle of a segment that belongs to an environment.
pub struct Member {
    segment: Segment,
    header: Held<MemberHeader>,
    /// The lengths of the file and of the flat part when this handle last read them: another process may have made them
    /// longer.
    seen: (u64, u64),
    /// Whether this handle's knowledge of the undo log is out of date.
    is_stale: bool,
}

impl Options {
    /// Opens a segment of an environment, and makes the segment if it is missing. An unfinished transaction in it stays
    /// unfinished until [`Member::settle`]. Other processes of the environment may have the segment open.
    ///
    /// # Errors
    /// As [`Options::open`]; `Belongs` if the segment belongs to another environment, `Alone` if it belongs to none.
    pub fn open_member(&self, path: &Path, member: Membership) -> Result<Member> {
        let segment = Options { member: Some(member), ..self.clone() }.open(path)?;
        let offset = owner_of(segment.region()).expect("the opening checked the owner");
        let header = segment.region().hold(offset);
        Ok(Member { header, seen: (0, 0), is_stale: true, segment })
    }
}

impl Member {
    /// Returns the environment's number for the segment.
    pub fn number(&self) -> u64 {
        self.header.number.get()
    }

    /// Returns the segment's file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Returns the events that the memory survives.
    pub fn survives(&self) -> Survives {
        self.segment.survives()
    }

    /// Returns the undo log's transaction, and the handle at work on it. Both are zero if there is no transaction.
    pub fn unfinished(&self) -> (u64, Holder) {
        let holder = Holder { handle: self.header.holder.load(), process: self.header.process.get() };
        (self.header.txn.load(), holder)
    }

    /// Returns an open file that serves only to hold this handle's lock on the segment. A child of a fork should not
    /// keep it open.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.segment.kept.lock().expect("a region that several handles have is locked by an open file").as_fd()
    }

    /// Returns the last decision that was followed.
    pub fn followed(&self) -> Decision {
        Decision { incarnation: self.header.incarnation.get(), lsn: self.header.lsn.get() }
    }

    /// Ends a dead process's unfinished transaction as the judge decides.
    ///
    /// # Errors
    /// `Damaged`, `Memory`, and the errors of the judge. The segment is then unchanged.
    pub fn settle<J: Judge>(&mut self, judge: &J) -> Result<(), J::Error> {
        self.segment.check_process()?;
        let txn = self.header.txn.load();
        if txn == 0 {
            return Ok(());
        }
        self.catch_up()?;
        let damaged = |what| Error::Damaged { path: self.path().to_path_buf(), what };
        self.segment.undo.audit().map_err(damaged)?;
        match judge.committed(txn)? {
            Some(decision) => self.follow(decision),
            None if self.segment.undo.has_saved() => self.undo_unfinished(),
            // The decision was followed. A process that joins the environment finds out whether the decision is still
            // valid.
            None if self.header.ending.load() == txn => self.ended(Some(self.about_to_follow())),
            None => self.ended(None),
        }
        Ok(())
    }

    /// Begins the transaction's part in this segment, for the handle `holder`. No earlier transaction may be unfinished
    /// here.
    ///
    /// # Errors
    /// `Memory`, `Damaged`: nothing was begun.
    pub fn begin(&mut self, txn: u64, holder: Holder) -> Result<()> {
        self.segment.check_process()?;
        assert_eq!(self.header.txn.load(), 0, "unfinished transactions are settled first");
        self.catch_up()?;
        self.segment.undo.set_form();
        self.segment.begin().suspend();
        // `ending` belongs to an earlier transaction, and numbers of transactions may repeat.
        //
        // If the power fails here: the two words are in two cache lines, which reach memory in any order. So memory may
        // have the new `txn` together with an `ending` of an earlier transaction that had the same number. The undo log
        // is then empty, and `settle` assumes that the segment has followed the decision in `ending`. That is true: a
        // decision stays in `ending` only if the segment followed it and has followed no later decision, which would be
        // in `ending` instead. So `settle` only repeats the record, and one fence for both lines is enough
        // (`vista::members` repeatedly begins transactions with the same number, and loses the cache).
        self.header.ending.publish(0);
        self.header.process.publish(holder.process);
        self.header.holder.publish(holder.handle);
        self.header.txn.publish(txn);
        self.make_safe();
        Ok(())
    }

    /// Declares that the transaction may change `bytes` bytes from `at` on, and returns them.
    ///
    /// # Errors
    /// As [`Txn::set_range`](crate::Txn::set_range), also in a child of the process that has the segment.
    pub fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.segment.save_range_suspended(at, bytes)
    }

    /// Allocates `bytes` bytes from the segment's heap.
    ///
    /// # Errors
    /// As [`Txn::malloc`](crate::Txn::malloc).
    pub fn malloc(&mut self, bytes: u64) -> Result<u64> {
        self.segment.in_suspended(|txn| txn.malloc(bytes))
    }

    /// Frees the block at `at`.
    ///
    /// # Errors
    /// As [`Txn::free`](crate::Txn::free).
    pub fn free(&mut self, at: u64) -> Result<()> {
        self.segment.in_suspended(|txn| txn.free(at))
    }

    /// Makes sure that ranges can be declared ([`Stores::ensure_ranges`](crate::Stores::ensure_ranges)).
    ///
    /// # Errors
    /// As [`Txn::set_range`](crate::Txn::set_range).
    pub fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        self.segment.in_suspended(|txn| crate::Stores::ensure_ranges(txn, ranges))
    }

    /// Returns the segment as it is now.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Does the steps of the end that may fail. From now on the transaction stores nothing.
    ///
    /// # Errors
    /// `Memory` if blocks were freed and the undo log had to grow for that and could not.
    pub fn prepare(&mut self) -> Result<()> {
        self.segment.check_process()?;
        self.segment.release_all()?;
        // The undo log does not decide about the transaction: once the decision is made, the stores must be in memory.
        if !planted("vista: a decision precedes the write-back of the stores") {
            self.segment.undo.save_stored();
        }
        Ok(())
    }

    /// Ends the transaction as committed: its stores are kept.
    pub fn end(&mut self, decision: Decision) {
        // A child of a fork has no transaction to end.
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.release_all().expect("every step that may fail was done before");
        self.follow(decision);
        self.segment.close_ranges();
    }

    /// Ends the transaction as not committed: all its changes are undone.
    pub fn abort(&mut self) {
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.take_back();
        self.ended(None);
    }

    /// Leaves the transaction to a judge, because this process does not know whether it is committed. The next process
    /// that settles the segment asks the judge.
    pub fn leave_to_log(&mut self) {
        // A child of a fork has no transaction to leave.
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.freed.clear();
        self.is_stale = true;
        // This handle stores nothing any more in this transaction, whatever the decision is.
        self.segment.close_ranges();
        self.header.holder.publish(0);
    }

    /// Makes the stores that the undo log covers permanent, because the commit was decided.
    ///
    /// If we die here: while the log has images, the next process that settles the segment asks the judge again. If the
    /// log is empty and the judge does not know the decision any more, the header still records it.
    fn follow(&self, decision: Decision) {
        let is_said = self.header.ending.get() == self.header.txn.get();
        // No decision matters for a transaction that has stored nothing.
        let is_new = decision != self.followed() && (is_said || self.segment.undo.has_saved());
        if is_new && !is_said && !planted("vista: a decision is recorded only after its application") {
            self.header.ending_incarnation.init(decision.incarnation);
            self.header.ending_lsn.init(decision.lsn);
            failpoint("member: decision known, not noted");
            self.header.ending.publish(self.header.txn.get());
            self.make_safe();
        }
        failpoint("member: about to apply the decision, undo log not empty");
        self.segment.undo.discard();
        failpoint("member: undo log empty, decision not noted as applied");
        self.ended(is_new.then_some(decision));
    }

    /// Restores the old bytes from the undo log, because no commit was decided.
    ///
    /// If we die here: while the log has images, the next process does this again. Once the log is empty, the
    /// transaction counts as a transaction that has stored nothing.
    fn undo_unfinished(&self) {
        if self.header.ending.get() != 0 && !planted("vista: a rollback does not clear the recorded decision") {
            self.header.ending.publish(0);
            self.make_safe();
        }
        failpoint("member: about to be rolled back");
        self.segment.undo.roll_back();
        failpoint("member: rolled back, transaction still noted");
        self.ended(None);
    }

    fn about_to_follow(&self) -> Decision {
        Decision { incarnation: self.header.ending_incarnation.get(), lsn: self.header.ending_lsn.get() }
    }

    /// Records the decision that was followed, if any, and records that no transaction is unfinished.
    fn ended(&self, followed: Option<Decision>) {
        if let Some(Decision { incarnation, lsn }) = followed {
            self.header.incarnation.init(incarnation);
            failpoint("member: decision applied, partly noted");
            self.header.lsn.init(lsn);
            failpoint("member: decision applied, transaction still noted");
        }
        self.header.txn.publish(0);
        self.make_safe();
    }

    fn make_safe(&self) {
        self.segment.region().write_back_words(&*self.header);
    }

    /// Brings this handle up to date after other processes have made the file or the flat part longer.
    fn catch_up(&mut self) -> Result<()> {
        let segment = &mut self.segment;
        let now = (segment.region().used(), segment.header.bytes.get());
        if self.is_stale || now != self.seen {
            let damaged = |what: &str| Error::Damaged { path: segment.path().to_path_buf(), what: what.into() };
            if now.1 > segment.bytes_max().max(segment.bytes) {
                return Err(damaged("its flat part is longer than it can be"));
            }
            let undo = segment.header.undo.load().and_then(|undo| Undo::try_open(segment.region(), undo));
            segment.undo = undo.ok_or_else(|| damaged("its undo log is outside the file"))?;
            segment.undo.set_quick(segment.guarded.is_none());
            segment.bytes = now.1;
            segment.hide_metadata()?;
            segment.show_flat();
            (self.seen, self.is_stale) = (now, false);
        }
        let flat_end = (segment.from + segment.bytes).next_multiple_of(UNIT);
        segment.view.set_end(segment.heap.end().max(flat_end));
        segment.keep_room();
        Ok(())
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({} of its environment, {:?})", self.number(), self.segment)
    }
}
