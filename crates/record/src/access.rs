//! Access to a database on behalf of a transaction: its pages, and its locks.
//!
//! Paper: LIBTP 4.4, step 3: "precede buffer manager calls with an appropriate (read or write) lock call". PROTOCOLS K1.
//!
//! Whoever changes a record takes the lock of its key before the search, with no latch held, and may wait for it: the
//! lock's name needs no page. A reader tries it while the leaf is latched, as everybody does with what is only known on a
//! page (the next key, the page itself); if refused, the latch is given up, the lock waited for, and the place looked for
//! again.

use libtp_lock::{LockName, Mode, Wait};
use libtp_txn::{Change, Managers, TxnSession};
use rio::planted;

use crate::database::{Database, Granularity};
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::pages::Pages;
use crate::{Error, Result};

/// Whether records are to be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    /// The mode on the record, or on the page.
    #[inline]
    pub(crate) fn mode(self) -> Mode {
        match self {
            Purpose::Read => Mode::S,
            Purpose::Write => Mode::X,
        }
    }

    /// What a transaction notes that has entered a database for it.
    #[inline]
    fn bit(self) -> u8 {
        match self {
            Purpose::Read => 1,
            Purpose::Write => 2,
        }
    }

    /// The mode on the database.
    #[inline]
    fn intention(self) -> Mode {
        match self {
            Purpose::Read => Mode::IS,
            Purpose::Write => Mode::IX,
        }
    }
}

/// From so many locks on, a transaction tries to lock whole databases instead.
const ESCALATE_FROM: u32 = 100_000;
/// And again after so many more.
const ESCALATE_EVERY: u32 = 8192;

/// What a try of a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Granted,
    Busy,
}

/// A database, and the transaction that works on it.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub(crate) pages: Pages<'a>,
    pub(crate) database: &'a Database,
    /// None: as long as the session says.
    wait: Option<Wait>,
}

impl<'a> Access<'a> {
    /// Access for the transaction running in `who`. Locks are waited for as `wait` says.
    #[inline]
    pub fn new(managers: &'a Managers, who: &'a TxnSession, database: &'a Database, wait: Wait) -> Access<'a> {
        Access { pages: Pages::new(Change::new(managers, who), database.id()), database, wait: Some(wait) }
    }

    /// As [`Access::new`]; locks are waited for as the session says at the time ([`TxnSession::set_wait`]).
    #[inline]
    pub fn of_session(managers: &'a Managers, who: &'a TxnSession, database: &'a Database) -> Access<'a> {
        Access { pages: Pages::new(Change::new(managers, who), database.id()), database, wait: None }
    }

    /// The database.
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// Locks the whole database; in `S` or `X` no other lock is needed afterwards.
    ///
    /// # Errors
    /// Deadlock, timeout, or no room for the lock.
    pub fn lock_database(&self, mode: Mode) -> Result<()> {
        self.pages.change.who.forget_entered();
        self.lock(lock_names::database(self.database.id()), mode)
    }

    /// Takes the lock on the database that everything below needs, and says what needs locking below: nothing if the
    /// database's own lock covers the purpose.
    #[inline]
    pub(crate) fn enter(&self, purpose: Purpose) -> Result<Option<Granularity>> {
        // As if the lock on the whole database were held.
        if self.pages.change.managers.is_unprotected() {
            return Ok(None);
        }
        let is_known = self.pages.change.who.has_entered(self.database.id().raw(), purpose.bit());
        if is_known && !self.holds_very_many_locks() {
            return Ok(Some(self.database.granularity()));
        }
        let change = &self.pages.change;
        let name = lock_names::database(self.database.id());
        let has_kept =
            || change.managers.locks.try_kept(self.pages.session(), change.who.locker(), name, purpose.intention());
        if !is_known && has_kept() {
            change.who.note_entered(self.database.id().raw(), purpose.bit());
            return Ok(Some(self.database.granularity()));
        }
        self.enter_slowly(purpose)
    }

    #[inline(never)]
    fn enter_slowly(&self, purpose: Purpose) -> Result<Option<Granularity>> {
        let name = lock_names::database(self.database.id());
        let held = self.pages.change.managers.locks.holds(self.pages.session(), self.pages.change.who.locker(), name);
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
        self.pages.change.who.note_entered(self.database.id().raw(), purpose.bit());
        Ok(Some(self.database.granularity()))
    }

    /// Whether it is time to try to lock the whole database.
    #[inline]
    pub(crate) fn holds_very_many_locks(&self) -> bool {
        let change = &self.pages.change;
        change.managers.locks.holds_at_least(change.who.locker(), change.who.escalate_at().max(ESCALATE_FROM))
    }

    /// Trades the locks on records and gaps for one on the database, if nobody is in the way (PROTOCOLS K2); whether it
    /// did.
    #[cold]
    fn escalates(&self, purpose: Purpose, held: Option<Mode>) -> Result<bool> {
        // A transaction that has only read here, and goes on reading, has locked nothing for writing.
        let only_reads = purpose == Purpose::Read && matches!(held, None | Some(Mode::IS));
        let mode = if only_reads { Mode::S } else { Mode::X };
        let file = self.database.id().raw();
        let change = &self.pages.change;
        change.who.set_escalate_at(change.managers.locks.count(change.who.locker()) + ESCALATE_EVERY);
        if !self.database.escalates() || self.try_lock(lock_names::database(self.database.id()), mode)? == Tried::Busy {
            return Ok(false);
        }
        change.who.forget_entered();
        let is_part = |name: LockName| name.space == file && name.kind != lock_names::KIND_DATABASE;
        change.managers.locks.unlock_those(self.pages.session(), change.who.locker(), is_part);
        Ok(true)
    }

    /// Takes a lock, waiting for it. No latch is held.
    #[inline]
    pub(crate) fn lock(&self, name: LockName, mode: Mode) -> Result<()> {
        if name.kind == lock_names::KIND_RECORD && planted("record: records not locked") {
            return Ok(());
        }
        let change = &self.pages.change;
        let wait = self.wait.unwrap_or_else(|| change.who.wait());
        Ok(change.managers.locks.lock(self.pages.session(), change.who.locker(), name, mode, wait)?)
    }

    /// Takes the right to say in which order the values of a key come, until the transaction ends (PROTOCOLS K3). `beginning` is what the
    /// entries of the key begin with.
    ///
    /// # Errors
    /// What locks can fail with.
    pub fn lock_order_of(&self, beginning: &[u8]) -> Result<()> {
        if self.enter(Purpose::Write)?.is_none() {
            return Ok(());
        }
        self.lock(lock_names::record(self.database.id(), key_hash(beginning)), Mode::X)
    }

    /// Takes a lock if that needs no waiting. Latches may be held.
    #[inline]
    pub(crate) fn try_lock(&self, name: LockName, mode: Mode) -> Result<Tried> {
        let change = &self.pages.change;
        tried(change.managers.locks.lock(self.pages.session(), change.who.locker(), name, mode, Wait::No))
    }

    /// Makes sure that the next lock needs no room, and can so be tried with a latch held (PROTOCOLS D11).
    #[inline]
    pub(crate) fn reserve_lock(&self) -> Result<()> {
        let change = &self.pages.change;
        Ok(change.managers.locks.reserve(self.pages.session(), change.who.locker())?)
    }

    /// As [`Access::try_lock`], for the lock of a record or of its page.
    #[inline]
    pub(crate) fn try_record_lock(&self, name: LockName, mode: Mode) -> Result<Tried> {
        if name.kind == lock_names::KIND_RECORD && planted("record: records not locked") {
            return Ok(Tried::Granted);
        }
        self.try_lock(name, mode)
    }

    /// Whether the lock could be had at this instant. Latches may be held.
    #[inline]
    pub(crate) fn try_instant(&self, name: LockName, mode: Mode) -> Result<Tried> {
        let change = &self.pages.change;
        tried(change.managers.locks.instant(self.pages.session(), change.who.locker(), name, mode, Wait::No))
    }

    /// Waits until a gap may be entered, and then keeps its lock: given back at once, it would be another scan's before this
    /// insertion has come back, again and again. No latch is held.
    pub(crate) fn wait_for_gap(&self, gap: LockName) -> Result<()> {
        self.lock(gap, Mode::IX)
    }

    /// The mode in which the transaction holds a lock.
    #[inline]
    pub(crate) fn holds(&self, name: LockName) -> Option<Mode> {
        let change = &self.pages.change;
        change.managers.locks.holds(self.pages.session(), change.who.locker(), name)
    }

    /// Whether nobody at all holds the object or waits for it. Latches may be held.
    pub(crate) fn is_free(&self, name: LockName) -> bool {
        self.pages.change.managers.locks.is_free(self.pages.session(), name)
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

/// What a try came to; an error is what is no other's lock in the way.
#[inline]
pub(crate) fn tried(result: libtp_lock::Result<()>) -> Result<Tried> {
    match result {
        Ok(()) => Ok(Tried::Granted),
        Err(libtp_lock::Error::WouldBlock { .. }) => Ok(Tried::Busy),
        Err(other) => Err(other.into()),
    }
}
