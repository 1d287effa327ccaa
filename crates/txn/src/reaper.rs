//! The reaper: repairs the remains of a dead session in the managers, while other sessions work (docs/design/0004).
//!
//! Two halves (PROTOCOLS D5). *Physical*: the dead session's section is rolled back, the record that the session had
//! appended is redone on each of the record's pages whose page LSN is lower than the record's LSN, then the session's
//! latches are released. This half needs only the latches and notes that the dead session holds. A session that waits
//! for one of these latches does this half. If no session waits, the physical half is left to the session that does the
//! logical half: it begins with the physical half of every dead session. *Logical*: the dead session's transaction ends
//! according to its last record, its locks and its pins are released, and its slot is freed. This half needs latches,
//! so only a session that holds no latch does it: a background thread of any process, the next session to open or to
//! leave, or a session that has waited long for a lock.
//!
//! Each half holds the right to repair while it works. If the repairing session dies here: the right is free, and the
//! next session continues the repair. A transaction that the repairing session had adopted then counts as a transaction
//! of that dead session.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libtp_lock::LockerId;
use libtp_log::{Lsn, Record, TxnId};
use libtp_process::{Broken, DeadSession, LeaveTimedOut, Repairer, Session, SessionId};
use rio::{failpoint, planted};

use crate::log_records::{ABORT_END, COMMIT};
use crate::recovery::redo_held;
use crate::slot::State;
use crate::{Error, Managers, Result, TxnSession};

/// The number of attempts to read the record that a dead session had noted, and the pause between two attempts.
/// Meanwhile the sessions that wait for the dead session's latches keep waiting.
const NOTED_TRIES: u32 = 10;
const NOTED_MOMENT: Duration = Duration::from_millis(2);

/// The result of one round of repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Dead sessions whose slots are free now.
    pub sessions: u32,
    /// The committed transactions of dead sessions that were finished.
    pub finished: u32,
    /// The transactions of dead sessions that were undone.
    pub undone: u32,
}

/// Repairs dead sessions for one process's handle, while that handle is open.
struct Reaper(Weak<Managers>);

impl Repairer for Reaper {
    fn free_latches(&self, waiting: &Session, dead: SessionId) {
        let Some(managers) = self.0.upgrade() else { return };
        managers.give_up_on_failure(|| managers.repair_physically(waiting, dead));
    }

    fn give_up(&self, why: &str) {
        if let Some(managers) = self.0.upgrade() {
            managers.give_up(why);
        }
    }

    fn repair_all(&self, by: &Session) {
        let Some(managers) = self.0.upgrade() else { return };
        if let Err(error) = managers.reap_as(by, Instant::now()) {
            tracing::warn!(%error, "a dead session could not be repaired completely; the repair is tried again");
        }
    }

    fn can_repair(&self) -> bool {
        self.0.upgrade().is_none_or(|managers| !managers.log.is_poisoned())
    }
}

impl Managers {
    /// Makes this handle repair the dead sessions that its sessions wait for.
    pub(crate) fn become_repairer(self: &Arc<Managers>) {
        self.processes.set_repairer(Box::new(Reaper(Arc::downgrade(self))));
        let own = Arc::downgrade(self);
        self.locks.set_keeper(move |locker| own.upgrade().is_some_and(|managers| managers.is_in_a_slot(locker)));
    }

    /// Returns whether the locker belongs to a transaction slot of an existing session. A session takes a slot over
    /// first and its locker afterwards: in between, the locker still names the slot's former session.
    fn is_in_a_slot(&self, locker: LockerId) -> bool {
        let mut slots = self.txns.slots.iter();
        slots.any(|slot| self.processes.exists(slot.owner.load()) && slot.locker.load() == locker.0)
    }

    /// Repairs every dead session that no other living session is repairing. The caller holds no latch.
    ///
    /// # Errors
    /// A transaction could not be undone, or a record could not be redone: the next call tries again.
    pub fn reap(&self) -> Result<Reaped> {
        self.reap_since(Instant::now())
    }

    /// Does as [`Managers::reap`], for a caller that learned of the deaths at `learned`.
    ///
    /// # Errors
    /// As [`Managers::reap`].
    pub fn reap_since(&self, learned: Instant) -> Result<Reaped> {
        if self.processes.dead_sessions().is_empty() {
            return Ok(Reaped::default());
        }
        let by = self.spares.take(&self.processes)?;
        let reaped = self.reap_as(&by, learned);
        self.spares.give(by);
        // Spares that died of a repair are replaced. If that fails, it is tried again later.
        let _ = self.refill_spares();
        reaped
    }

    fn reap_as(&self, by: &Session, learned: Instant) -> Result<Reaped> {
        let mut reaped = Reaped::default();
        if self.region.is_broken() {
            return Ok(reaped);
        }
        let dead = self.processes.dead_sessions();
        for &session in &dead {
            self.give_up_on_failure(|| self.repair_physically(by, session));
        }
        failpoint("repair: all physical repairs done");
        if planted("txn: transactions of dead sessions are not ended") {
            return Ok(reaped);
        }
        self.give_up_on_failure(|| {
            self.check_owners();
            Ok(())
        });
        let mut first = Ok(());
        for &session in &dead {
            // An error of the disk may be temporary; any other error, and a panic, means that the region is broken.
            self.give_up_on_failure(|| {
                // A repairer may have died since the round of physical repairs began.
                self.repair_repairers(by, session)?;
                let Some(dead_session) = self.processes.take_dead(by, session) else { return Ok(()) };
                match self.repair_logically(by, dead_session, learned, &mut reaped) {
                    Err(error) if is_temporary(&error) => {
                        // The error is returned after all other dead sessions were repaired.
                        first = std::mem::replace(&mut first, Ok(())).and(Err(error));
                        Ok(())
                    }
                    done => done,
                }
            });
        }
        first.map(|()| reaped)
    }

    /// Asserts that every owner exists: the slot of a dead session is freed only when the session owns nothing any
    /// more. A slot or locker that a wild store has given to a session that does not exist would be kept for ever, with
    /// its locks.
    fn check_owners(&self) {
        let is_orphan = |owner: &dyn Fn() -> SessionId| {
            let first = owner();
            // A session that left meanwhile owns nothing any more.
            first != SessionId::NONE && !self.processes.exists(first) && owner() == first
        };
        for index in 1..=self.txns.slots.capacity() {
            let slot = self.txns.slots.at(index);
            assert!(!is_orphan(&|| slot.owner.load()), "transaction slot {index} belongs to no session");
        }
        // The owner is checked before and after the search for a slot. In between, another session may have taken the
        // locker over and freed the slot.
        let is_orphan =
            |locker, owner: &dyn Fn() -> SessionId| is_orphan(owner) && !self.is_in_a_slot(locker) && is_orphan(owner);
        if let Some(locker) = self.locks.find_locker(is_orphan) {
            panic!("{locker} belongs to no session");
        }
    }

    /// Does a repair that fails only in a broken region. If the repair fails, the region is given up and rebuilt from
    /// disk and log (PROTOCOLS D13), and the caller leaves the region by unwinding.
    fn give_up_on_failure(&self, repair: impl FnOnce() -> Result<()>) {
        let why = match catch_unwind(AssertUnwindSafe(repair)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(payload) if payload.is::<Broken>() || payload.is::<LeaveTimedOut>() => resume_unwind(payload),
            Err(payload) => match payload.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => payload.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).into()),
            },
        };
        self.give_up(&format!("the repair of a dead session fails: {why}"));
        // A session that was used for the repair may still have noted the latch that it was about to take. The note is
        // not needed any more.
        resume_unwind(Box::new(Broken));
    }

    /// Declares the region broken: it is given up and rebuilt from disk and log (PROTOCOLS D13).
    pub fn give_up(&self, why: &str) {
        if !self.region.is_broken() {
            tracing::error!(why, "the shared memory is broken; it is rebuilt from the log");
        }
        self.processes.declare_broken();
    }

    /// Rolls back a dead session's section, redoes its noted record, and releases its latches. Takes no latch.
    pub(crate) fn repair_physically(&self, by: &Session, dead: SessionId) -> Result<()> {
        self.check_structures().map_err(|what| Error::Broken { what })?;
        self.repair_repairers(by, dead)?;
        self.put_right(by, dead)
    }

    fn put_right(&self, by: &Session, dead: SessionId) -> Result<()> {
        let Some(dead_session) = self.processes.take_dead(by, dead) else { return Ok(()) };
        failpoint("repair: begins");
        if planted("txn: repair releases latches before the rollback") {
            dead_session.release_latches();
            rio::planted::linger();
        }
        dead_session.roll_back();
        failpoint("repair: rolled back, not redone");
        self.buffers.settle_hand(&dead_session);
        if planted("txn: repair releases latches before the redo") {
            dead_session.release_latches();
        }
        if planted("txn: repair releases latches before the redo of an update") {
            dead_session.release_latches();
            rio::planted::linger();
        }
        self.redo_noted(&dead_session)?;
        failpoint("repair: redone, latches held");
        self.buffers.end_changes(&dead_session);
        dead_session.release_latches();
        Ok(())
    }

    /// If a session died while it repaired `dead`, repairs that repairer physically. The repairer comes first, because
    /// its section may cover the slot of `dead`. If another session died while it repaired the repairer, that session
    /// comes before both.
    fn repair_repairers(&self, by: &Session, dead: SessionId) -> Result<()> {
        let mut all = vec![dead];
        while let Some(repairer) = all.last().and_then(|&one| self.processes.dead_repairer(one)) {
            if all.contains(&repairer) {
                // A session takes the right only while it is alive, so two dead sessions cannot repair each other.
                return Err(Error::Broken { what: format!("{dead} and {repairer} died repairing each other") });
            }
            all.push(repairer);
        }
        all[1..].iter().rev().try_for_each(|&repairer| self.put_right(by, repairer))
    }

    /// Redoes the record that a dead session had appended but not finished, and makes the record the last record of its
    /// transaction (PROTOCOLS D3).
    fn redo_noted(&self, dead_session: &DeadSession<'_>) -> Result<()> {
        let Some(noted) = dead_session.noted_append().filter(|noted| noted.lsn < self.log.tail().raw()) else {
            return Ok(());
        };
        let lsn = Lsn::new(noted.lsn);
        let record = self.read_noted(lsn)?;
        failpoint("repair: noted record found, not redone");
        if !planted("txn: repair does not redo the last append of the dead session") {
            // The redo uses the dead session's undo log: if this session dies here, the repair of the dead session
            // rolls the stores back. This session's undo log would do as well, because a dead repairer is repaired
            // before the session that it repaired.
            redo_held(self, dead_session.session(), &record.borrow())?;
        }
        failpoint("repair: redone, not the last commit");
        if record.header.kind() == COMMIT
            && !planted("txn: the commit of a dead session does not raise the last commit")
        {
            self.txns.header.last_commit.fetch_max(lsn);
        }
        let id = TxnId::new(noted.txn);
        let mut slots = self.txns.slots.iter();
        let own = slots.find(|slot| slot.owner.load() == dead_session.id() && slot.id.get() == id && id != TxnId::NONE);
        if let Some(slot) = own.filter(|slot| State::from_word(slot.state.load()) != State::Idle) {
            if slot.first_lsn.get() == Lsn::NONE {
                slot.first_lsn.init(lsn);
            }
            failpoint("repair: redone, not the transaction's last");
            if !planted("txn: repair does not make the redone record the last record of its transaction") {
                slot.last_lsn.fetch_max(lsn);
            }
        }
        Ok(())
    }

    /// Reads the record that a dead session had noted. The record is nearly always in memory. If it is not, an error of
    /// the disk may be temporary. If the error stays, the caller discards the region, and the waiting sessions get the
    /// error when the next region is made. If the caller kept the region, they would wait for ever for a latch.
    fn read_noted(&self, lsn: Lsn) -> Result<Record> {
        let mut tries = 1..NOTED_TRIES;
        loop {
            match self.log.read(lsn) {
                Err(libtp_log::Error::Io(error)) if tries.next().is_some() => {
                    tracing::warn!(%error, %lsn, "the record that a dead session had noted cannot be read; the repair is tried again");
                    std::thread::sleep(NOTED_MOMENT);
                }
                read => return Ok(read?),
            }
        }
    }

    /// Ends the transactions of a dead session, and frees its slot.
    fn repair_logically(
        &self,
        by: &Session,
        dead_session: DeadSession<'_>,
        learned: Instant,
        reaped: &mut Reaped,
    ) -> Result<()> {
        // The session may have died since the round of physical repairs began.
        if !dead_session.is_let_go() {
            return Ok(());
        }
        if !planted("txn: repair rolls transactions back before it releases the frame in hand")
            && !self.buffers.repair_hand(by, &dead_session)
        {
            return Ok(());
        }
        let mut is_whole = true;
        for index in 1..=self.txns.slots.capacity() {
            if self.txns.slots.at(index).owner.load() != dead_session.id() {
                continue;
            }
            let applications = &self.types.applications;
            let slot = self.txns.slots.at(index);
            let txn = slot.id.get();
            if State::from_word(slot.state.load()) != State::Idle && applications.is_left(txn) {
                is_whole = false;
                continue;
            }
            let Some(session) = self.join_for(index, dead_session.id())? else { continue };
            failpoint("repair: adopted, not undone");
            if !planted("txn: a repair waits for a stopped leader of the log without a bound") {
                // PROTOCOLS L3a: the repair is tried again. Meanwhile the repairing thread may have other work to do, for
                // example to open the environment.
                session.session().set_patience(Duration::ZERO);
            }
            let ended = self.end_for_the_dead(&session, reaped);
            if let Err(Error::Unregistered { .. } | Error::OtherType { .. }) = ended {
                // The adopting session is marked dead below, and its transaction goes to the next session that repairs
                // the adopting session.
                applications.leave(txn);
            }
            if ended.is_err() {
                session.session().mark_dead();
            }
            failpoint("repair: ended, slot not free");
            self.spares.give(self.leave_slot(session));
            ended?;
        }
        if !is_whole {
            // The transaction's locks stay until a process undoes its changes (docs/design/0019).
            return Ok(());
        }
        failpoint("repair: no transaction left, lockers left");
        if !planted("txn: spare lockers of a dead session are not freed") {
            self.free_spare_lockers(by, dead_session.id());
        }
        if self.buffers.repair_frames(by, &dead_session) {
            failpoint("repair: frames repaired, slot not free");
            dead_session.bury(learned);
            reaped.sessions += 1;
        }
        Ok(())
    }

    /// Ends the lockers of a dead session that belong to no transaction slot: the session died while it joined or left.
    /// A locker that belongs to a slot may still name the dead session, if the session that took the slot over has not
    /// stored its own name yet or has died.
    fn free_spare_lockers(&self, by: &Session, dead: SessionId) {
        let slots = self.txns.slots.iter();
        let used: Vec<u32> =
            slots.filter(|slot| slot.owner.load() != SessionId::NONE).map(|slot| slot.locker.load()).collect();
        for locker in self.locks.lockers_of(dead).into_iter().filter(|locker| !used.contains(&locker.0)) {
            failpoint("repair: spare locker found");
            self.locks.adopt_locker(by, locker);
            failpoint("repair: spare locker adopted");
            self.locks.free_locker(by, locker);
        }
    }

    /// Returns the type of a transaction's last record. The end of the transaction depends only on that record, so the
    /// LSN in its slot must be the LSN of a record of the transaction.
    pub(crate) fn last_kind(&self, txn: TxnId, last: Lsn) -> Result<u16> {
        let broken = |what: String| Err(Error::Broken { what });
        match self.log.read(last) {
            Ok(record) if record.header.txn() == txn => Ok(record.header.kind()),
            Ok(record) => {
                broken(format!("{txn:?} has its last record at {last}, which is {:?}'s", record.header.txn()))
            }
            Err(error @ (libtp_log::Error::Io(_) | libtp_log::Error::Failed { .. })) => Err(error.into()),
            Err(error) => broken(format!("{txn:?} has its last record at {last}: {error}")),
        }
    }

    /// Ends a transaction according to its last record (PROTOCOLS D6).
    fn end_for_the_dead(&self, session: &TxnSession, reaped: &mut Reaped) -> Result<()> {
        if session.state() == State::Idle {
            // The session may have died between the end of its transaction and the release of its locks.
            failpoint("repair: idle transaction, locks held");
            session.release_and_end(self, || failpoint("repair: idle transaction, locks released"));
            return Ok(());
        }
        let last = session.last_lsn();
        let kind = if last == Lsn::NONE { None } else { Some(self.last_kind(session.id(), last)?) };
        match kind {
            Some(COMMIT | ABORT_END) if !planted("txn: repair aborts a committed transaction") => {
                if kind == Some(COMMIT) && !planted("txn: the commit of a dead session does not raise the last commit")
                {
                    self.txns.header.last_commit.fetch_max(last);
                }
                if kind == Some(COMMIT) {
                    let has_memory = !planted("txn: the reaper forgets the segments of a committed transaction");
                    let commit = (session.id(), session.slot().first_lsn.get(), last);
                    self.complete_commit(session.session(), session.slot(), commit, has_memory)?;
                }
                failpoint("repair: committed, locks held");
                // The transaction ends before its locks are released: after the release, no repair may carry out the
                // transaction's drops and renamings again.
                session.end(self);
                failpoint("repair: ended, locks held");
                self.locks.unlock_all(session.session(), session.locker());
                failpoint("repair: committed, locks released");
                reaped.finished += 1;
            }
            _ if planted("txn: repair ends an uncommitted transaction without undo") => {
                session.release_and_end(self, || {})
            }
            _ => {
                failpoint("repair: about to abort");
                session.abort(self)?;
                failpoint("repair: aborted, not counted");
                reaped.undone += u32::from(last != Lsn::NONE);
            }
        }
        Ok(())
    }
}

/// Returns whether an error may be gone at the next attempt: an error of the disk, or lack of room. A region that was
/// found broken stays broken.
fn is_temporary(error: &Error) -> bool {
    !matches!(error, Error::Broken { .. })
}
