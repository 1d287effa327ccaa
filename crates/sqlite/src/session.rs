//! The transaction of a connection: its source of reads, the spans that it has read, its savepoints and its settings.
//!
//! ```text
//! nothing --read--> snapshot --write: the spans read are the same--> transaction --commit--> nothing
//!    |                  '------- they are not: BUSY_SNAPSHOT, the snapshot stays                ^
//!    '--write, BEGIN IMMEDIATE, BEGIN EXCLUSIVE--> transaction --deadlock--> doomed --rollback--'
//! ```
//!
//! Every writing transaction locks the name [`WRITERS`] in mode IX. BEGIN EXCLUSIVE locks it in mode X: it waits
//! until no writer is open, and keeps other writers out; snapshots continue. BEGIN IMMEDIATE does the same if a setting
//! of the environment demands it (`settings.rs`). After a deadlock, the connection's next transaction tries to lock the
//! name in mode X, too: then no other writer runs, and this transaction cannot be a victim.
//!
//! A doomed transaction was aborted and has released its locks, but SQLite has not rolled it back yet. Until the
//! rollback, every other call fails. So the later statements of the transaction cannot commit without the earlier
//! statements.

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp::{Db, Durability, Mode, Txn};

use crate::answer::{Outcome, Refusal, ABORT_ROLLBACK, BUSY_SNAPSHOT, INTERNAL};
use crate::home::Home;
use crate::meta::Meta;
use crate::owned::{Mark, Reader, Source};
use crate::rowid::Numbers;
use crate::spans::Spans;

/// The name that all writers lock.
const WRITERS: &[u8] = b"sql.writers";

/// The longest wait for the exclusive lock on [`WRITERS`] by the transaction after a deadlock.
const ALONE_WAIT: Duration = Duration::from_millis(50);

/// The ways in which SQLite begins a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginMode {
    Read,
    Write,
    /// BEGIN IMMEDIATE.
    Immediate,
    Exclusive,
}

impl BeginMode {
    /// Returns the meaning of the shim's number (c/shim.h).
    pub(crate) fn of_code(code: c_int) -> BeginMode {
        match code {
            0 => BeginMode::Read,
            2 => BeginMode::Immediate,
            3 => BeginMode::Exclusive,
            _ => BeginMode::Write,
        }
    }
}

/// A savepoint, and the number of the rowid ranges that were taken before it.
pub(crate) struct Savepoint {
    pub(crate) mark: Mark,
    pub(crate) taken: usize,
}

/// The state of a connection between its calls, except its cursors.
pub(crate) struct Session {
    pub(crate) home: Arc<Home>,
    reader: Option<Rc<Reader>>,
    /// The savepoints, oldest first. The first marks the beginning of the transaction; SQLite's savepoint 0 is the
    /// second.
    pub(crate) savepoints: Vec<Savepoint>,
    pub(crate) spans: Spans,
    pub(crate) meta: Meta,
    pub(crate) numbers: Numbers,
    /// The text of the error that ended the transaction. `None` if the transaction has not ended, or if SQLite has
    /// rolled it back.
    pub(crate) doom: Option<String>,
    /// Whether the error that ended the transaction was returned to the program.
    pub(crate) is_doom_reported: bool,
    /// Whether a deadlock has ended a transaction since the shim's last call of `tpsql_was_victim`.
    pub(crate) was_victim: bool,
    runs_alone: bool,
    pub(crate) durability: Durability,
    pub(crate) wait: Duration,
    /// The last error, until the shim fetches it.
    pub(crate) refused: Option<(c_int, String)>,
    /// Whether the last error is an earlier error that a cursor has returned again.
    pub(crate) failed_before: bool,
    /// Whether, since the shim's last call of `tpsql_has_expired`, a transaction has ended and an open SELECT could not
    /// continue: the rows that it had read were changed.
    pub(crate) has_expired: bool,
    /// The time at which the current wait times out. Set while the wait is continued after cancellations that were
    /// meant for other connections.
    heeds_until: Option<Instant>,
    /// The text that the shim fetched last, and may still read.
    pub(crate) fetched: Option<String>,
}

impl Session {
    pub(crate) fn new(home: Arc<Home>) -> Session {
        Session {
            home,
            reader: None,
            savepoints: Vec::new(),
            spans: Spans::default(),
            meta: Meta::default(),
            numbers: Numbers::default(),
            doom: None,
            is_doom_reported: false,
            was_victim: false,
            runs_alone: false,
            durability: Durability::Sync,
            wait: Duration::from_secs(1),
            refused: None,
            failed_before: false,
            has_expired: false,
            heeds_until: None,
            fetched: None,
        }
    }

    /// Returns the source of reads.
    pub(crate) fn reader(&self) -> Outcome<&Rc<Reader>> {
        self.refuse_doomed()?;
        self.reader.as_ref().ok_or_else(|| Refusal::new(INTERNAL, "SQLite reads outside of a transaction"))
    }

    pub(crate) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the tree with a root. If this call opens the tree, the time limit of waits bounds the opening.
    pub(crate) fn tree(&self, root: u32) -> Outcome<Arc<Db>> {
        self.home.tree(root, self.wait_left())
    }

    /// Returns whether a transaction with locks is open; false for a snapshot.
    pub(crate) fn is_writing(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| matches!(reader.source(), Source::Txn(_)))
    }

    /// Fails if the transaction is doomed: with BUSY_SNAPSHOT if the program has not got an error yet, and otherwise as
    /// [`Session::refuse_doomed`] does.
    pub(crate) fn report_doom(&mut self) -> Outcome<()> {
        match &self.doom {
            Some(cause) if !self.is_doom_reported => {
                self.is_doom_reported = true;
                let what = format!(
                    "this transaction has ended, and nothing of it is kept. Run it again. It ended because of: {cause}"
                );
                Err(Refusal::new(BUSY_SNAPSHOT, what))
            }
            _ => self.refuse_doomed(),
        }
    }

    pub(crate) fn refuse_doomed(&self) -> Outcome<()> {
        match &self.doom {
            None => Ok(()),
            Some(cause) => Err(Refusal::new(
                ABORT_ROLLBACK,
                format!("this transaction has ended, and nothing of it is kept. Roll it back, and run it again. It ended because of: {cause}"),
            )),
        }
    }

    /// Sets the durability of commits, and the longest wait for each lock.
    pub(crate) fn set(&mut self, durability: Durability, wait: Duration) {
        self.durability = durability;
        self.end_heed();
        if self.wait != wait {
            self.wait = wait;
            if let Some(Source::Txn(txn)) = self.reader.as_deref().map(Reader::source) {
                txn.set_lock_timeout(Some(wait));
            }
        }
    }

    /// Lets the transaction wait for locks again after a cancellation, for the rest of the time limit.
    pub(crate) fn heed_cancels(&mut self) {
        let end = *self.heeds_until.get_or_insert_with(|| Instant::now() + self.wait);
        if let Some(Source::Txn(txn)) = self.reader.as_deref().map(Reader::source) {
            txn.heed_cancels_since(libtp::cancels());
            txn.set_lock_timeout(Some(end.saturating_duration_since(Instant::now())));
        }
    }

    /// Returns the time limit of a wait that begins now.
    pub(crate) fn wait_left(&self) -> Duration {
        self.heeds_until.map_or(self.wait, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Gives the next wait the whole time limit again.
    pub(crate) fn end_heed(&mut self) {
        if self.heeds_until.take().is_some() {
            if let Some(Source::Txn(txn)) = self.reader.as_deref().map(Reader::source) {
                txn.set_lock_timeout(Some(self.wait));
            }
        }
    }

    /// Begins a transaction with locks. It is the connection's transaction only after [`Session::read_by`].
    pub(crate) fn new_txn(&self, how: BeginMode) -> Outcome<Rc<Reader>> {
        let reader = Reader::txn(&self.home, self.durability)?;
        if let Source::Txn(txn) = reader.source() {
            txn.set_lock_timeout(Some(self.wait_left()));
            let is_alone = match how {
                BeginMode::Exclusive => true,
                // The setting is read before the transaction locks the name: two transactions that upgrade from IX to X
                // would deadlock.
                BeginMode::Immediate => Meta::load(&self.home, &*Reader::snapshot(&self.home)?)?.runs_immediate_alone(),
                BeginMode::Read | BeginMode::Write => false,
            };
            if !is_alone && self.runs_alone && self.locks_others_out(txn)? {
                return Ok(reader);
            }
            txn.lock(WRITERS, if is_alone { Mode::X } else { Mode::IX })?;
        }
        Ok(reader)
    }

    /// Tries to lock all other writers out, and returns whether that succeeded. The call waits only for a short time,
    /// because new writers wait while a request in mode X waits.
    fn locks_others_out(&self, txn: &Txn<'static>) -> Outcome<bool> {
        txn.set_lock_timeout(Some(self.wait_left().min(ALONE_WAIT)));
        let locked = txn.lock(WRITERS, Mode::X);
        txn.set_lock_timeout(Some(self.wait_left()));
        match locked {
            Err(libtp::Error::LockTimeout(_)) => Ok(false),
            locked => Ok(locked.map(|()| true)?),
        }
    }

    /// Lets the running transaction lock all other writers out.
    pub(crate) fn exclude_writers(&self) -> Outcome<()> {
        match self.reader()?.source() {
            Source::Txn(txn) => Ok(txn.lock(WRITERS, Mode::X)?),
            Source::Snapshot(_) => Ok(()),
        }
    }

    /// Makes a transaction or a snapshot the source of reads.
    pub(crate) fn read_by(&mut self, reader: Rc<Reader>) -> Outcome<()> {
        self.meta = Meta::load(&self.home, &reader)?;
        match reader.source() {
            Source::Snapshot(_) => {}
            Source::Txn(_) => {
                self.runs_alone = false;
                self.savepoints.extend(Mark::new(&reader).map(|mark| Savepoint { mark, taken: 0 }));
            }
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// Begins a snapshot.
    pub(crate) fn read_snapshot(&mut self) -> Outcome<()> {
        let snapshot = Reader::snapshot(&self.home)?;
        self.read_by(snapshot)
    }

    /// Adds savepoints until there are `number` besides the first.
    pub(crate) fn add_savepoints(&mut self, number: usize) -> Outcome<()> {
        let reader = Rc::clone(self.reader()?);
        while self.savepoints.len() <= number {
            let Some(mark) = Mark::new(&reader) else { return Ok(()) };
            self.savepoints.push(Savepoint { mark, taken: self.numbers.mark() });
        }
        Ok(())
    }

    /// Ends the savepoints from the index `from` on, and keeps the changes since them.
    pub(crate) fn keep_savepoints(&mut self, from: usize) {
        while self.savepoints.len() > from {
            if let Some(savepoint) = self.savepoints.pop() {
                savepoint.mark.keep();
            }
        }
    }

    /// Takes the transaction or snapshot, to end it. All cursors must have left it.
    pub(crate) fn take_reader(&mut self) -> Option<Reader> {
        self.keep_savepoints(0);
        let reader = self.reader.take()?;
        Some(Rc::into_inner(reader).expect("the cursors have left the transaction, and its savepoints have ended"))
    }

    /// Notes that a deadlock ended a transaction of this connection.
    pub(crate) fn note_victim(&mut self) {
        self.was_victim = true;
        self.runs_alone = true;
    }

    /// Returns a number that changes with every commit of another connection.
    pub(crate) fn data_version(&self) -> u32 {
        match self.reader.as_deref().map(Reader::source) {
            Some(Source::Snapshot(snapshot)) => version_of(snapshot.lsn()),
            // A transaction sees all commits of other connections so far.
            Some(Source::Txn(_)) | None => self.home.env().snapshot().map_or(0, |snapshot| version_of(snapshot.lsn())),
        }
    }
}

/// Does work with the connection's transaction. Fails for a snapshot: SQLite must begin a transaction before it writes.
pub(crate) fn with_txn<T>(reader: &Reader, work: impl FnOnce(&Txn<'static>) -> Outcome<T>) -> Outcome<T> {
    match reader.source() {
        Source::Txn(txn) => work(txn),
        Source::Snapshot(_) => Err(Refusal::new(INTERNAL, "SQLite writes outside of a transaction")),
    }
}

/// Returns 32 low bits of an LSN, without the lowest three, which are zero.
fn version_of(lsn: u64) -> u32 {
    u32::try_from(lsn >> 3 & u64::from(u32::MAX)).unwrap_or(0)
}
