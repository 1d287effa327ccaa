//! The reaper: what a dead session left in the managers is put right while others work (DESIGN 6).
//!
//! Two halves (PROTOCOLS D5). *Physical*: its section is rolled back, the record it had appended is redone on those of its
//! pages that are older, then its latches are given back. That needs nothing but what the dead session holds, and is done
//! by whoever waits for a latch of it, or by the logical half, for every dead session before any logical one. *Logical*:
//! its transaction ends as its last record says, its locks fall, its pins are taken off, its slot is free. That needs
//! latches, and is done by a session that holds none: a background thread of any process, the next to open or to leave, or
//! who has waited long for a lock.
//!
//! Each half has the right to repair while it is at it. If we die here: the right is free, and the next goes on. A
//! transaction that we had adopted is then our own.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libtp_lock::LockerId;
use libtp_log::{Lsn, Record, TxnId};
use libtp_process::{Broken, Corpse, Late, Repairer, Session, SessionId};
use rio::{failpoint, planted};

use crate::log_records::{ABORT_END, COMMIT};
use crate::recovery::redo_held;
use crate::slot::State;
use crate::{Error, Managers, Result, TxnSession};

/// How often the record that a dead session had noted is read, and how long in between: whoever waits for the dead one's
/// latches waits as long.
const NOTED_TRIES: u32 = 10;
const NOTED_MOMENT: Duration = Duration::from_millis(2);

/// What one round of repair did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Dead sessions whose slots are free now.
    pub sessions: u32,
    /// Their transactions that had committed and were finished.
    pub finished: u32,
    /// Their transactions that were undone.
    pub undone: u32,
}

/// Repairs in the name of one process's handle, for as long as that is open.
struct Reaper(Weak<Managers>);

impl Repairer for Reaper {
    fn free_latches(&self, waiting: &Session, dead: SessionId) {
        let Some(managers) = self.0.upgrade() else { return };
        managers.or_broken(|| managers.repair_physically(waiting, dead));
    }

    fn give_up(&self, why: &str) {
        if let Some(managers) = self.0.upgrade() {
            managers.give_up(why);
        }
    }

    fn repair_all(&self, by: &Session) {
        let Some(managers) = self.0.upgrade() else { return };
        if let Err(error) = managers.reap_as(by, Instant::now()) {
            tracing::warn!(%error, "a dead session could not be repaired wholly; it is tried again");
        }
    }

    fn can_repair(&self) -> bool {
        self.0.upgrade().is_none_or(|managers| !managers.log.is_poisoned())
    }
}

impl Managers {
    /// Makes this handle the one that repairs the dead whom its sessions meet.
    pub(crate) fn become_repairer(self: &Arc<Managers>) {
        self.processes.set_repairer(Box::new(Reaper(Arc::downgrade(self))));
        let own = Arc::downgrade(self);
        self.locks.set_keeper(move |locker| own.upgrade().is_some_and(|managers| managers.is_in_a_slot(locker)));
    }

    /// Whether the locker goes with a transaction slot that is a session's. One of a transaction's slot is taken over after the
    /// slot: until then it bears the name of who had both.
    fn is_in_a_slot(&self, locker: LockerId) -> bool {
        let mut slots = (1..=self.txns.slots.capacity()).map(|index| self.txns.slots.at(index));
        slots.any(|slot| self.processes.exists(slot.owner.load()) && slot.locker.load() == locker.0)
    }

    /// Repairs every dead session, as far as no other living one is at it. The caller holds no latch.
    ///
    /// # Errors
    /// A transaction could not be undone, or a record not be redone: what is left is tried again at the next call.
    pub fn reap(&self) -> Result<Reaped> {
        self.reap_since(Instant::now())
    }

    /// As [`Managers::reap`], by who was told of the deaths at `learned`.
    ///
    /// # Errors
    /// As [`Managers::reap`].
    pub fn reap_since(&self, learned: Instant) -> Result<Reaped> {
        if self.processes.dead_sessions().is_empty() {
            return Ok(Reaped::default());
        }
        let by = self.take_spare()?;
        let reaped = self.reap_as(&by, learned);
        self.give_spare(by);
        // Those that died of a repair are replaced, or it is tried again.
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
            self.or_broken(|| self.repair_physically(by, session));
        }
        failpoint("repair: all physical repairs done");
        if planted("txn: transactions of the dead are left") {
            return Ok(reaped);
        }
        self.or_broken(|| {
            self.check_owners();
            Ok(())
        });
        let mut first = Ok(());
        for &session in &dead {
            // An error of the disk passes; any other, and a panic, says that the region is not what it should be.
            self.or_broken(|| {
                // It may have died since the round of physical repairs began.
                self.repair_repairers(by, session)?;
                let Some(corpse) = self.processes.take_corpse(by, session) else { return Ok(()) };
                match self.repair_logically(by, corpse, learned, &mut reaped) {
                    Err(error) if passes(&error) => {
                        // Told, whatever becomes of the others.
                        first = std::mem::replace(&mut first, Ok(())).and(Err(error));
                        Ok(())
                    }
                    done => done,
                }
            });
        }
        first.map(|()| reaped)
    }

    /// Asserts that whatever has an owner has one that exists: who died is buried only when it owns nothing any more. What
    /// a wild store has given to nobody would be kept for ever, with its locks.
    fn check_owners(&self) {
        let is_orphan = |owner: &dyn Fn() -> SessionId| {
            let first = owner();
            // Who left meanwhile owns nothing any more.
            first != SessionId::NONE && !self.processes.exists(first) && owner() == first
        };
        for index in 1..=self.txns.slots.capacity() {
            let slot = self.txns.slots.at(index);
            assert!(!is_orphan(&|| slot.owner.load()), "transaction slot {index} belongs to no session");
        }
        // Asked twice: it may have been taken over in between, and its slot be free by now.
        let is_orphan =
            |locker, owner: &dyn Fn() -> SessionId| is_orphan(owner) && !self.is_in_a_slot(locker) && is_orphan(owner);
        if let Some(locker) = self.locks.find_locker(is_orphan) {
            panic!("{locker} belongs to no session");
        }
    }

    /// Does a repair that nothing but a broken region can keep from its end; if it fails, the region is given up and made anew
    /// from disk and log (PROTOCOLS D13), and the caller leaves it by unwinding.
    fn or_broken(&self, repair: impl FnOnce() -> Result<()>) {
        let why = match catch_unwind(AssertUnwindSafe(repair)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(payload) if payload.is::<Broken>() || payload.is::<Late>() => resume_unwind(payload),
            Err(payload) => match payload.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => payload.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).into()),
            },
        };
        self.give_up(&format!("it does not stand the repair of a dead session: {why}"));
        // A session that was used for it may still have noted what it was about to latch. Nobody needs it any more.
        resume_unwind(Box::new(Broken));
    }

    /// Declares the region broken: it is given up and made anew from disk and log (PROTOCOLS D13).
    pub fn give_up(&self, why: &str) {
        if !self.region.is_broken() {
            tracing::error!(why, "the shared memory is broken; it is made anew from the log");
        }
        self.processes.declare_broken();
    }

    /// Puts back, redoes, and gives the latches of a dead session back. Takes no latch.
    pub(crate) fn repair_physically(&self, by: &Session, dead: SessionId) -> Result<()> {
        self.check_structures().map_err(|what| Error::Broken { what })?;
        self.repair_repairers(by, dead)?;
        self.put_right(by, dead)
    }

    fn put_right(&self, by: &Session, dead: SessionId) -> Result<()> {
        let Some(corpse) = self.processes.take_corpse(by, dead) else { return Ok(()) };
        failpoint("repair: begins");
        if planted("txn: latches are given back before the roll-back") {
            corpse.let_go();
            rio::planted::linger();
        }
        corpse.roll_back();
        failpoint("repair: rolled back, not redone");
        self.buffers.settle_hand(&corpse);
        if planted("txn: latches are given back before the redo") {
            corpse.let_go();
        }
        self.redo_noted(&corpse)?;
        failpoint("repair: redone, latches held");
        corpse.let_go();
        Ok(())
    }

    /// Repairs, physically, who died while it repaired `dead`: its section may go back over the dead one's slot, and so comes
    /// first. So does who died repairing that one.
    fn repair_repairers(&self, by: &Session, dead: SessionId) -> Result<()> {
        let mut all = vec![dead];
        while let Some(repairer) = all.last().and_then(|&one| self.processes.dead_repairer(one)) {
            if all.contains(&repairer) {
                // Whoever took the right lived when the other was dead.
                return Err(Error::Broken { what: format!("{dead} and {repairer} died repairing each other") });
            }
            all.push(repairer);
        }
        all[1..].iter().rev().try_for_each(|&repairer| self.put_right(by, repairer))
    }

    /// Redoes the record a dead session had appended but not finished, and makes it its transaction's last (PROTOCOLS D3).
    fn redo_noted(&self, corpse: &Corpse<'_>) -> Result<()> {
        let Some(noted) = corpse.noted_append().filter(|noted| noted.lsn < self.log.tail().raw()) else {
            return Ok(());
        };
        let lsn = Lsn::new(noted.lsn);
        let record = self.read_noted(lsn)?;
        failpoint("repair: noted record found, not redone");
        if !planted("txn: the noted record is not redone") {
            // In the dead one's own name: if we die in it, its log says what to put back. In ours it would be put back, too,
            // since dead repairers come first.
            redo_held(self, corpse.session(), corpse.session(), &record.borrow())?;
        }
        failpoint("repair: redone, not the last commit");
        if record.header.kind() == COMMIT && !planted("txn: a dead one's commit is not the last") {
            self.txns.header.last_commit.fetch_max(lsn);
        }
        let id = TxnId::new(noted.txn);
        let mut slots = (1..=self.txns.slots.capacity()).map(|index| self.txns.slots.at(index));
        let own = slots.find(|slot| slot.owner.load() == corpse.id() && slot.id.get() == id && id != TxnId::NONE);
        if let Some(slot) = own.filter(|slot| State::from_word(slot.state.load()) != State::Idle) {
            if slot.first_lsn.get() == Lsn::NONE {
                slot.first_lsn.init(lsn);
            }
            failpoint("repair: redone, not the transaction's last");
            if !planted("txn: the noted record is not the last") {
                slot.last_lsn.fetch_max(lsn);
            }
        }
        Ok(())
    }

    /// Reads the record that a dead session had noted. It is nearly always in memory; where it is not, an error of the disk may
    /// pass. If it does not, the caller gives the region up, and making the next one tells the error to whoever waits: better
    /// than a latch that nobody gives back.
    fn read_noted(&self, lsn: Lsn) -> Result<Record> {
        let mut tries = 1..NOTED_TRIES;
        loop {
            match self.log.read(lsn) {
                Err(libtp_log::Error::Io(error)) if tries.next().is_some() => {
                    tracing::warn!(%error, %lsn, "the record that a dead session had noted cannot be read; it is tried again");
                    std::thread::sleep(NOTED_MOMENT);
                }
                read => return Ok(read?),
            }
        }
    }

    /// Ends the transactions of a dead session, and frees its slot.
    fn repair_logically(&self, by: &Session, corpse: Corpse<'_>, learned: Instant, reaped: &mut Reaped) -> Result<()> {
        // It may have died since the round of physical repairs began.
        if !corpse.is_let_go() {
            return Ok(());
        }
        if !planted("txn: hands are emptied last") && !self.buffers.repair_hand(by, &corpse) {
            return Ok(());
        }
        let mut is_whole = true;
        for index in 1..=self.txns.slots.capacity() {
            if self.txns.slots.at(index).owner.load() != corpse.id() {
                continue;
            }
            let applications = &self.types.applications;
            let slot = self.txns.slots.at(index);
            let txn = slot.id.get();
            if State::from_word(slot.state.load()) != State::Idle && applications.is_left(txn) {
                is_whole = false;
                continue;
            }
            let Some(who) = self.join_for(index, corpse.id())? else { continue };
            failpoint("repair: adopted, not undone");
            let ended = self.end_for_the_dead(&who, reaped);
            if let Err(Error::Unregistered { .. } | Error::OtherType { .. }) = ended {
                // It is ours now, and goes to the next who repairs what we left.
                applications.leave(txn);
            }
            if ended.is_err() {
                who.session().mark_dead();
            }
            failpoint("repair: ended, slot not free");
            self.give_spare(self.leave_slot(who));
            ended?;
        }
        if !is_whole {
            // Its locks stay until somebody takes back what it did (docs/design/0019).
            return Ok(());
        }
        failpoint("repair: no transaction left, lockers are");
        if !planted("txn: spare lockers stay") {
            self.free_spare_lockers(by, corpse.id());
        }
        if self.buffers.repair_frames(by, &corpse) {
            failpoint("repair: frames put right, not buried");
            corpse.bury(learned);
            reaped.sessions += 1;
        }
        Ok(())
    }

    /// Ends the lockers of a dead session that belong to no transaction's slot: it died while it came or went. One that does
    /// may still bear its name, if whoever took the slot over has not come further or has died.
    fn free_spare_lockers(&self, by: &Session, dead: SessionId) {
        let slots = (1..=self.txns.slots.capacity()).map(|index| self.txns.slots.at(index));
        let used: Vec<u32> =
            slots.filter(|slot| slot.owner.load() != SessionId::NONE).map(|slot| slot.locker.load()).collect();
        for locker in self.locks.lockers_of(dead).into_iter().filter(|locker| !used.contains(&locker.0)) {
            failpoint("repair: spare locker found");
            self.locks.adopt_locker(by, locker);
            failpoint("repair: spare locker adopted");
            self.locks.free_locker(by, locker);
        }
    }

    /// The type of a transaction's last record. There is no other way to its end, so what its slot names must be a record of
    /// its own.
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

    /// Ends a transaction as its last record says (PROTOCOLS D6).
    fn end_for_the_dead(&self, who: &TxnSession, reaped: &mut Reaped) -> Result<()> {
        if who.state() == State::Idle {
            // It may have died between the locks and the end of its slot.
            failpoint("repair: idle transaction, locks held");
            self.locks.unlock_all(who.session(), who.locker());
            failpoint("repair: idle transaction, locks fallen");
            who.end(self);
            return Ok(());
        }
        let last = who.last_lsn();
        let kind = if last == Lsn::NONE { None } else { Some(self.last_kind(who.id(), last)?) };
        match kind {
            Some(COMMIT | ABORT_END) if !planted("txn: who had committed is aborted") => {
                if kind == Some(COMMIT) && !planted("txn: a dead one's commit is not the last") {
                    self.txns.header.last_commit.fetch_max(last);
                }
                if kind == Some(COMMIT) && !planted("txn: the memory of who died committed is forgotten") {
                    who.leave_segments_open(self, last)?;
                }
                if kind == Some(COMMIT) {
                    who.remember_end(last);
                    self.finish_databases(who.session(), last)?;
                }
                failpoint("repair: committed, locks held");
                self.locks.unlock_all(who.session(), who.locker());
                failpoint("repair: committed, locks fallen");
                who.end(self);
                reaped.finished += 1;
            }
            _ if planted("txn: who had not committed is finished") => {
                self.locks.unlock_all(who.session(), who.locker());
                who.end(self);
            }
            _ => {
                failpoint("repair: about to abort");
                who.abort(self)?;
                failpoint("repair: aborted, not counted");
                reaped.undone += u32::from(last != Lsn::NONE);
            }
        }
        Ok(())
    }
}

/// Whether an error may be another one at the next try: the disk's, and the want of room. A region that was found broken is
/// so for ever.
fn passes(error: &Error) -> bool {
    !matches!(error, Error::Broken { .. })
}
