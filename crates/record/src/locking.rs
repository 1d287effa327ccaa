//! A database as one transaction uses it: its pages, and its locks.
//!
//! Paper: LIBTP 4.4, step 3: "precede buffer manager calls with an appropriate (read or write) lock call".
//! PROTOCOLS K1.
//!
//! A session that changes a record locks the record's key before the search. It holds no latch then, so it may wait. A
//! reader tries the lock while the leaf is latched. Readers and writers also try the locks of objects whose names are
//! known only from a page (the next key, the page itself) while the page is latched. If a lock is not granted at once,
//! the session releases the latch, waits for the lock, and searches again.

use libtp_lock::{LockName, Mode, Wait};
use libtp_txn::{Change, Managers, TxnSession};
use rio::planted;

use crate::database::{Database, Granularity, Method};
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::pages::Pages;
use crate::{Error, Result};

/// Whether an operation reads or changes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    /// Returns the mode of the lock on the record or the page.
    #[inline]
    pub(crate) fn mode(self) -> Mode {
        match self {
            Purpose::Read => Mode::S,
            Purpose::Write => Mode::X,
        }
    }

    /// Returns the bit by which a transaction remembers that it has entered a database.
    #[inline]
    fn bit(self) -> u8 {
        match self {
            Purpose::Read => 1,
            Purpose::Write => 2,
        }
    }

    /// Returns the mode of the lock on the database.
    #[inline]
    fn intention(self) -> Mode {
        match self {
            Purpose::Read => Mode::IS,
            Purpose::Write => Mode::IX,
        }
    }
}

/// A transaction with at least this number of locks tries to lock whole databases instead.
const ESCALATE_FROM: u32 = 100_000;
/// The number of further locks after which a transaction tries again to lock the whole database.
const ESCALATE_EVERY: u32 = 8192;

/// The outcome of an attempt to get a lock without a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Granted,
    Busy,
}

/// A database, and the transaction that uses it.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub(crate) pages: Pages<'a>,
    pub(crate) database: &'a Database,
    /// The limit of waits for locks; `None` for the session's setting at the time of the wait.
    wait: Option<Wait>,
}

impl<'a> Access<'a> {
    /// Returns access for the transaction that runs in `txn`, with `wait` as the limit of waits for locks.
    #[inline]
    pub fn new(managers: &'a Managers, txn: &'a TxnSession, database: &'a Database, wait: Wait) -> Access<'a> {
        Access { pages: Pages::new(Change::new(managers, txn), database.id()), database, wait: Some(wait) }
    }

    /// As [`Access::new`], with the session's limit at the time of each wait ([`TxnSession::set_wait`]).
    #[inline]
    pub fn of_session(managers: &'a Managers, txn: &'a TxnSession, database: &'a Database) -> Access<'a> {
        Access { pages: Pages::new(Change::new(managers, txn), database.id()), database, wait: None }
    }

    /// Returns the database.
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// Locks the whole database. In `S` or `X`, the transaction needs no other lock in the database afterwards.
    ///
    /// # Errors
    /// Deadlock, timeout, or no room for the lock.
    pub fn lock_database(&self, mode: Mode) -> Result<()> {
        self.pages.change.txn.forget_entered();
        self.lock(lock_names::database(self.database.id()), mode)
    }

    /// Takes the lock on the database that is needed before locks inside the database. Returns the granularity of the
    /// locks inside, or `None` if the database's lock covers the purpose.
    // Always inlined: the usual result then needs no room in memory.
    #[inline(always)]
    pub(crate) fn enter(&self, purpose: Purpose) -> Result<Option<Granularity>> {
        let change = &self.pages.change;
        if change.txn.enter(&change.managers.locks, self.database.id().raw(), purpose.bit()) {
            return Ok(Some(self.database.lock_granularity()));
        }
        self.enter_anew(purpose)
    }

    #[inline(never)]
    fn enter_anew(&self, purpose: Purpose) -> Result<Option<Granularity>> {
        let change = &self.pages.change;
        // No locks are taken, as if the whole database were locked.
        if change.managers.is_unprotected() {
            return Ok(None);
        }
        let (file, name) = (self.database.id().raw(), lock_names::database(self.database.id()));
        let kept = match change.txn.has_entered(file, purpose.bit()) {
            true if !self.holds_very_many_locks() => return Ok(Some(self.database.lock_granularity())),
            true => None,
            false => {
                let (session, locker) = (self.pages.session(), change.txn.locker());
                change.managers.locks.lock_kept(session, locker, name, purpose.intention())
            }
        };
        let Some(kept) = kept else { return self.enter_slowly(purpose) };
        let covers_writing = kept.mode.covers(Purpose::Write.intention());
        let bits = if covers_writing { Purpose::Read.bit() | Purpose::Write.bit() } else { purpose.bit() };
        change.txn.note_kept(file, bits, kept);
        Ok(Some(self.database.lock_granularity()))
    }

    fn enter_slowly(&self, purpose: Purpose) -> Result<Option<Granularity>> {
        let name = lock_names::database(self.database.id());
        let held = self.pages.change.managers.locks.holds(self.pages.session(), self.pages.change.txn.locker(), name);
        match held {
            Some(mode) if mode.covers(purpose.intention()) => {}
            _ => self.lock(name, purpose.intention())?,
        }
        if purpose == Purpose::Write {
            self.learn_indices()?;
        }
        if held.is_some_and(|mode| mode.covers(purpose.mode())) {
            return Ok(None);
        }
        if self.holds_very_many_locks() && self.escalates(purpose, held)? {
            return Ok(None);
        }
        self.pages.change.txn.note_entered(self.database.id().raw(), purpose.bit());
        Ok(Some(self.database.lock_granularity()))
    }

    /// Returns whether it is time to try to lock the whole database. Many calls of a transaction do not ask: a late
    /// escalation does no harm.
    fn holds_very_many_locks(&self) -> bool {
        let change = &self.pages.change;
        change.managers.locks.holds_at_least(change.txn.locker(), change.txn.escalate_at().max(ESCALATE_FROM))
    }

    /// Replaces the locks on records and gaps by one lock on the database if no other transaction uses the database
    /// (PROTOCOLS K2). Returns whether they were replaced.
    #[cold]
    fn escalates(&self, purpose: Purpose, held: Option<Mode>) -> Result<bool> {
        // A transaction that has only read in this database, and wants to read, has no locks for writing.
        let only_reads = purpose == Purpose::Read && matches!(held, None | Some(Mode::IS));
        let mode = if only_reads { Mode::S } else { Mode::X };
        let file = self.database.id().raw();
        let change = &self.pages.change;
        change.txn.set_escalate_at(change.managers.locks.count(change.txn.locker()) + ESCALATE_EVERY);
        if !self.database.escalates() || self.try_lock(lock_names::database(self.database.id()), mode)? == Tried::Busy {
            return Ok(false);
        }
        change.txn.forget_entered();
        let is_part = |name: LockName| name.space == file && name.kind != lock_names::KIND_DATABASE;
        change.managers.locks.unlock_matching(self.pages.session(), change.txn.locker(), is_part);
        Ok(true)
    }

    /// Takes a lock. Waits while other transactions have it. The session holds no latch.
    #[inline]
    pub(crate) fn lock(&self, name: LockName, mode: Mode) -> Result<()> {
        if name.kind == lock_names::KIND_RECORD && planted("record: records are not locked") {
            return Ok(());
        }
        let change = &self.pages.change;
        let wait = self.wait.unwrap_or_else(|| change.txn.wait());
        Ok(change.managers.locks.lock(self.pages.session(), change.txn.locker(), name, mode, wait)?)
    }

    /// Locks the order of a key's values until the transaction ends (PROTOCOLS K3). The key's entries begin with
    /// `beginning`.
    ///
    /// # Errors
    /// The lock manager refused.
    pub fn lock_order_of(&self, beginning: &[u8]) -> Result<()> {
        if self.enter(Purpose::Write)?.is_none() {
            return Ok(());
        }
        self.lock(lock_names::record(self.database.id(), key_hash(beginning)), Mode::X)
    }

    /// Takes a lock if that needs no wait. The session may hold latches.
    #[inline]
    pub(crate) fn try_lock(&self, name: LockName, mode: Mode) -> Result<Tried> {
        let change = &self.pages.change;
        tried(change.managers.locks.lock(self.pages.session(), change.txn.locker(), name, mode, Wait::No))
    }

    /// Reserves room for the next lock, so that it can be tried under a latch (PROTOCOLS D11).
    #[inline]
    pub(crate) fn reserve_lock(&self) -> Result<()> {
        let change = &self.pages.change;
        Ok(change.managers.locks.reserve(self.pages.session(), change.txn.locker())?)
    }

    /// As [`Access::try_lock`], for the lock of a record or of its page.
    #[inline]
    pub(crate) fn try_record_lock(&self, name: LockName, mode: Mode) -> Result<Tried> {
        if name.kind == lock_names::KIND_RECORD && planted("record: records are not locked") {
            return Ok(Tried::Granted);
        }
        self.try_lock(name, mode)
    }

    /// Checks whether the lock is available at this instant. The session may hold latches.
    #[inline]
    pub(crate) fn try_instant(&self, name: LockName, mode: Mode) -> Result<Tried> {
        let change = &self.pages.change;
        tried(change.managers.locks.instant(self.pages.session(), change.txn.locker(), name, mode, Wait::No))
    }

    /// Waits until a gap may be entered, and keeps the gap's lock. Without this lock, other scans could lock the gap
    /// again and again before this insertion. The session holds no latch.
    pub(crate) fn wait_for_gap(&self, gap: LockName) -> Result<()> {
        self.lock(gap, Mode::IX)
    }

    /// Returns the mode in which the transaction holds a lock, if it holds the lock.
    #[inline]
    pub(crate) fn holds(&self, name: LockName) -> Option<Mode> {
        let change = &self.pages.change;
        change.managers.locks.holds(self.pages.session(), change.txn.locker(), name)
    }

    /// Returns whether no locker holds the object or waits for it. The session may hold latches.
    #[inline]
    pub(crate) fn is_free(&self, name: LockName) -> bool {
        self.pages.change.managers.locks.is_free(self.pages.session(), name)
    }

    /// Refuses a call for records by key if the file is neither a B-tree nor a hash file.
    #[inline]
    pub(crate) fn check_keyed(&self) -> Result<()> {
        self.check(matches!(self.database.method(), Method::Btree | Method::Hash), "btree")
    }

    /// Refuses a call for a B-tree if the file is no B-tree.
    #[inline]
    pub(crate) fn check_btree(&self) -> Result<()> {
        self.check(self.database.method() == Method::Btree, "btree")
    }

    /// Refuses a call for a hash file if the file is no hash file.
    #[inline]
    pub(crate) fn check_hash(&self) -> Result<()> {
        self.check(self.database.method() == Method::Hash, "hash")
    }

    /// Refuses a call for a recno file if the file is no recno file.
    #[inline]
    pub(crate) fn check_recno(&self) -> Result<()> {
        self.check(matches!(self.database.method(), Method::Recno { .. }), "recno")
    }

    /// Refuses a call for pages if the file does not have the method `pages`.
    #[inline]
    pub(crate) fn check_paged(&self) -> Result<()> {
        self.check(self.database.method() == Method::Pages, "pages")
    }

    #[inline]
    fn check(&self, is_right: bool, wanted: &'static str) -> Result<()> {
        if is_right {
            return Ok(());
        }
        let found = self.database.method().name();
        Err(Error::WrongMethod { database: self.database.name().to_string(), found, wanted })
    }

    /// Refuses a key that is too long.
    #[inline]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        let limit = self.database.key_bytes_max();
        if key.len() <= limit {
            return Ok(());
        }
        Err(Error::KeyTooLong { database: self.database.name().to_string(), bytes: key.len(), limit })
    }
}

/// Converts the result of an attempt to get a lock without a wait. A lock of another transaction is no error.
#[inline]
pub(crate) fn tried(result: libtp_lock::Result<()>) -> Result<Tried> {
    match result {
        Ok(()) => Ok(Tried::Granted),
        Err(libtp_lock::Error::WouldBlock { .. }) => Ok(Tried::Busy),
        Err(other) => Err(other.into()),
    }
}
