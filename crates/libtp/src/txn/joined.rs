//! One transaction over records and memory (PROTOCOLS F2): a transaction joins a segment. The transaction's list of
//! joined segments is in `parts.rs`.
//!
//! Paper: a departure; Rio Vista, section 6, names message queues and distributed transactions as uses of free
//! transactions. The segment has vista's undo log. The transaction has an exclusive lock on the segment until it ends.
//! The commit record names the segments. Each segment gets the outcome before its lock is released. If the process dies
//! first, the next transaction that joins the segment finds the outcome in the log's tables before it reads the
//! segment.
//!
//! Invariants
//! 1. A segment names the transaction and the handle that work on it, from before the first before-image until the
//!    segment has got the outcome.
//! 2. Only that handle gives the segment the outcome. If the kernel reports that the handle no longer exists, the
//!    holder of the segment's lock gives the outcome.
//! 3. A transaction in doubt (its memory was found broken, or it panicked at its commit) gives no outcome: it releases
//!    the segment, and the next transaction that joins the segment takes the outcome from the log's tables.

use std::cell::{OnceCell, RefCell, RefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_lock::{Mode, Wait};
use libtp_log::{IncarnationEnd, Lsn, TxnId};
use libtp_txn::{segment_lock, TxnSession};
use rio::{failpoint, planted};
use vista::{Decision, Judge, Member};

use crate::region::generation::Generation;
use crate::region::open_segment::OpenSegment;
use crate::txn::parts::Part;
use crate::txn::segment::Segment;
use crate::{Error, LockWait, Result, Txn};

/// The longest wait for a living process whose transaction has ended, but which has not released the segment yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two checks whether the segment is free.
const MOMENT: Duration = Duration::from_micros(200);

/// A segment that a transaction has joined, and through which the transaction stores. Dropped before the transaction
/// ends.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let notes = env.segment("notes", 4096)?;
/// let txn = env.begin()?;
/// let mut memory = txn.join(&notes)?;
/// memory.set_range(0, 5)?.copy_from_slice(b"hello");
/// drop(memory);
/// txn.abort()?;
/// assert_eq!(env.run(|txn| Ok(txn.join(&notes)?.bytes()[0]))?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The types of typed memory store through a `Joined`, too ([`vista::Stores`]):
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// use libtp::vista::{Stores, Vector};
/// let numbers = env.segment("numbers", 4096)?;
/// env.run(|txn| {
///     let mut memory = txn.join(&numbers)?;
///     let all = memory.root::<Vector<u64>>();
///     Ok(all.push(&mut memory, 7)?)
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing reachable through a `Joined` can end the transaction: vista's own transaction is not exposed.
/// ```compile_fail,E0308
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// fn takes(_: &mut libtp::vista::Txn<'_>) {}
/// let notes = env.segment("notes", 4096)?;
/// let txn = env.begin()?;
/// let mut memory = txn.join(&notes)?;
/// takes(&mut memory);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// ```compile_fail,E0599
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let notes = env.segment("notes", 4096)?;
/// let txn = env.begin()?;
/// txn.join(&notes)?.end();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// Forgetting a `Joined` (`mem::forget`) does no harm: its stores belong to the transaction, whose end releases the
/// segment. But the transaction can no longer join the segment again, nor roll back to a savepoint.
///
/// A rollback to a savepoint undoes stores to memory, too ([`Txn::savepoint`](crate::Txn::savepoint)), if no `Joined`
/// was alive when the savepoint was made, and no `Joined` is alive at the rollback. After the rollback, join the
/// segment again (the call only searches a list), and declare the ranges again before you store to them. Memory that
/// was joined after the savepoint stays joined, with its contents at the join.
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// let notes = env.segment("notes", 4096)?;
/// env.run(|txn| {
///     txn.join(&notes)?.set_range(0, 5)?.copy_from_slice(b"hello");
///     let part = txn.savepoint();
///     txn.join(&notes)?.set_range(0, 5)?.copy_from_slice(b"world");
///     part.roll_back()?;
///     assert_eq!(&txn.join(&notes)?.bytes()[..5], b"hello");
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Joined<'t>(RefMut<'t, Member>);

impl std::fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Joined({})", self.segment().path().display())
    }
}

impl Joined<'_> {
    /// Declares that the transaction may change `bytes` bytes from `at` on, and returns them.
    ///
    /// # Errors
    /// `Memory`: the segment has no such bytes, or there is no room for their old contents; `Forked`.
    pub fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        Ok(self.member_mut().set_range(at, bytes)?)
    }

    /// Returns the flat part of the segment as it is now, including the transaction's own changes.
    pub fn bytes(&self) -> &[u8] {
        self.member().segment().bytes()
    }

    /// Returns the segment as it is now, for reading typed memory.
    pub fn segment(&self) -> &vista::Segment {
        self.member().segment()
    }

    /// Returns the present contents of `bytes` bytes from offset `at` on, in the flat part or in allocated memory.
    ///
    /// # Errors
    /// `Memory`: the segment has no such bytes.
    pub fn get(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        Ok(self.segment().get(at, bytes)?)
    }

    /// Allocates `bytes` bytes from the segment's heap and returns their offset, a multiple of 16. The bytes are not
    /// cleared.
    ///
    /// # Errors
    /// `Memory`: the segment had to grow and could not.
    pub fn malloc(&mut self, bytes: u64) -> Result<u64> {
        Ok(self.member_mut().malloc(bytes)?)
    }

    /// Frees the allocation at `at` when the transaction commits.
    ///
    /// # Errors
    /// `Memory`: no allocation begins there, or it was freed already, or there is no room for the old bytes.
    pub fn free(&mut self, at: u64) -> Result<()> {
        Ok(self.member_mut().free(at)?)
    }

    fn member(&self) -> &Member {
        &self.0
    }

    fn member_mut(&mut self) -> &mut Member {
        &mut self.0
    }
}

impl vista::Memory for Joined<'_> {
    fn segment(&self) -> &vista::Segment {
        self.member().segment()
    }
}

impl vista::Stores for Joined<'_> {
    fn set_range(&mut self, at: u64, bytes: usize) -> vista::Result<&mut [u8]> {
        self.member_mut().set_range(at, bytes)
    }

    fn malloc(&mut self, bytes: u64) -> vista::Result<u64> {
        self.member_mut().malloc(bytes)
    }

    fn free(&mut self, at: u64) -> vista::Result<()> {
        self.member_mut().free(at)
    }

    fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()> {
        self.member_mut().ensure_ranges(ranges)
    }
}

impl Txn<'_> {
    /// Joins a segment of memory and locks it until the transaction ends: stores to it are kept if and only if the
    /// transaction commits.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Segment` if the segment cannot be joined, as the error says; `Memory`, `Full`.
    pub fn join(&self, segment: &Segment) -> Result<Joined<'_>> {
        self.guarded(|| {
            let refuse = |what: &str| Error::Segment { path: segment.path().to_path_buf(), what: what.into() };
            if !Arc::ptr_eq(&segment.env, self.environment()) {
                return Err(refuse("the segment was opened through another environment handle than the transaction; nothing was changed. Open the segment through the transaction's handle"));
            }
            if !self.decided().is_empty() {
                return Err(refuse("the transaction drops or renames databases, and cannot also join memory; nothing was changed. Join the segment in another transaction"));
            }
            let parts = self.parts();
            let part = match parts.known(&segment.open) {
                Some(part) => part,
                None => parts.add(
                    Joining { generation: self.generation(), txn: self.session(), segment: &segment.open }.join()?,
                ),
            };
            let twice = |_| refuse("this transaction uses the segment already; nothing was changed. Drop the handle that the first `join` returned");
            let member = part.member.try_borrow_mut().map_err(twice)?;
            Ok(Joined(RefMut::map(member, |member| member.as_deref_mut().expect("the member stays until the end"))))
        })
    }
}

/// A transaction that joins a segment.
struct Joining<'a> {
    generation: &'a Generation,
    txn: &'a TxnSession,
    segment: &'a Arc<OpenSegment>,
}

impl Joining<'_> {
    fn join(&self) -> Result<Part> {
        let (managers, session) = (&self.generation.managers, self.txn.session());
        managers.locks.lock(session, self.txn.locker(), segment_lock(self.segment.number), Mode::X, self.txn.wait())?;
        failpoint("join: segment locked");
        if !planted("libtp: a segment is joined without a row in the table of outcomes") {
            self.segment.keep_row(managers, session)?;
        }
        let begun = Instant::now();
        let member = loop {
            match self.segment.take() {
                Some(member) => break member,
                // A thread of this process has the segment; its transaction has ended, but the thread has not noticed
                // yet.
                None => self.wait(begun)?,
            }
        };
        let (member, next) = (RefCell::new(Some(member)), OnceCell::new());
        let mut part = Part { segment: Arc::clone(self.segment), member, has_begun: false, next };
        self.make_ready(part.member.get_mut().as_mut().expect("the member was just stored"), begun)?;
        part.has_begun = true;
        Ok(part)
    }

    fn make_ready(&self, member: &mut Member, begun: Instant) -> Result<()> {
        let managers = &self.generation.managers;
        while let (txn @ 1.., holder) = member.unfinished() {
            // The loop reads the segment's transaction again after `is_there` has asked the kernel: a process that has
            // ended may have given the segment its outcome before it ended.
            let is_theirs =
                self.segment.is_there(holder)? && !planted("libtp: a segment is taken from a working transaction");
            if member.unfinished() != (txn, holder) {
                continue;
            }
            match is_theirs {
                true => self.wait(begun)?,
                false => member.settle(self)?,
            }
            failpoint("join: segment settled, table not");
        }
        self.check_followed(member.followed())?;
        managers.close_outcomes(self.txn.session(), self.segment.number);
        failpoint("join: outcomes closed, segment not noted");
        // The segment is noted only now, because a commit record that names the segment states that the segment has the
        // outcomes of all earlier transactions.
        self.txn.note_segment(self.segment.number)?;
        failpoint("join: segment noted");
        member.begin(self.txn.id().raw(), self.segment.holder)?;
        failpoint("join: begun");
        Ok(())
    }

    /// Sleeps for a moment: a living process has the segment and is about to release it.
    fn wait(&self, begun: Instant) -> Result<()> {
        let patience = match self.txn.wait() {
            Wait::No => Duration::ZERO,
            Wait::For(longest) => longest.min(PATIENCE),
            Wait::Forever => PATIENCE,
        };
        if begun.elapsed() >= patience {
            return Err(Error::LockTimeout(LockWait::new(segment_lock(self.segment.number), Mode::X, Some(patience))));
        }
        self.txn.session().sleep(MOMENT);
        Ok(())
    }

    /// Checks that the log has the commit that the segment has carried out (`followed`). If the log lacks that commit,
    /// the segment is newer than the log.
    fn check_followed(&self, followed: Decision) -> Result<()> {
        let log = &self.generation.managers.log;
        let lsn = Lsn::new(followed.lsn);
        let end = match followed.incarnation {
            own if own == log.incarnation() => log.tail(),
            own if own > log.incarnation() => Lsn::NONE,
            own => match log.end_of_incarnation(own) {
                Some(IncarnationEnd::At(end) | IncarnationEnd::AtMost(end)) => end,
                None => return Ok(()),
            },
        };
        if lsn == Lsn::NONE || lsn < end {
            return Ok(());
        }
        let what = format!(
            "it has the commit at LSN {lsn}, and the environment's log ends at LSN {end}, so the segment is newer than the environment. Nothing was changed; restore both from one backup"
        );
        Err(Error::Segment { path: self.segment.path.clone(), what })
    }
}

impl Judge for Joining<'_> {
    type Error = Error;

    fn committed(&self, txn: u64) -> Result<Option<Decision>> {
        let managers = &self.generation.managers;
        let Some(lsn) = managers.open_commit(self.txn.session(), self.segment.number, TxnId::new(txn)) else {
            return Ok(None);
        };
        failpoint("join: outcome known, not followed");
        // The log is forced, because the segment must not follow a decision that could still be lost. This is rare.
        managers.log.force(self.txn.session(), lsn)?;
        Ok(Some(Decision { incarnation: managers.log.incarnation(), lsn: lsn.raw() }))
    }
}
