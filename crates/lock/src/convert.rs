//! Converting a lock to another mode, and checking whether a lock could be granted.
//!
//! Paper: LIBTP 3.2.3, *lock_upgrade* and *lock_downgrade*, "which allow the caller to atomically trade a lock of one
//! type for a lock of another".
//!
//! A conversion never queues after other requests. It waits among the granted requests until conflicting modes are
//! released, and later requests wait for it. So a reader that wants to write is not starved. Two readers that want to
//! write the same object are a deadlock, which is found like any other deadlock.
//!
//! If we die here: the lock is held in its old mode or, once the section is closed, in its new mode.

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::acquire::Ask;
use crate::alone::OwnLock;
use crate::change::Change;
use crate::name::LockName;
use crate::queue::{Granted, Queue};
use crate::request::{Place, State};
use crate::table::Latched;
use crate::{Error, LockManager, LockerId, Mode, Result, Wait};

impl LockManager {
    /// Converts a held lock to the weakest mode that covers the held mode and `mode`: the paper's `lock_upgrade`.
    ///
    /// # Errors
    /// `NotHeld`, and the errors of [`LockManager::lock`].
    pub fn upgrade(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode, wait: Wait) -> Result<()> {
        self.holds(session, locker, name).ok_or(Error::NotHeld { name })?;
        self.lock(session, locker, name, mode, wait)
    }

    /// Converts a held lock to a weaker mode that it covers: the paper's `lock_downgrade`.
    ///
    /// # Errors
    /// `NotHeld`, also when the held mode does not cover `mode`.
    pub fn downgrade(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode) -> Result<()> {
        let ask = self.ask(session, locker, name, mode);
        if name.is_coarse() {
            if let Some(kept) = ask.slot.find_kept(&self.table, name, ask.mixed) {
                self.unkeep(session, ask.slot, kept);
            }
        } else if let Some(is_covered) = self.downgrade_thin(&ask) {
            return if is_covered { Ok(()) } else { Err(Error::NotHeld { name }) };
        }
        let mut granted = Granted::new();
        let latched = self.table.latch(session, ask.mixed);
        let queue = self.table.queue_of(session, latched.bucket, name, ask.mixed);
        let queue = queue.map_err(|_| Error::NotHeld { name })?;
        let (_, own) = queue.of_locker(ask.locker).ok_or(Error::NotHeld { name })?;
        if !own.state.get().granted().is_some_and(|held| held.covers(mode)) {
            return Err(Error::NotHeld { name });
        }
        let mut change = Change::open(session);
        change.set(&own.state, State::granted_in(mode));
        // This also removes the stronger mode from the summary.
        failpoint("lock: downgraded, others not granted");
        queue.grant(&mut change, &mut granted);
        change.close();
        drop(latched);
        failpoint("lock: downgraded, no waiter woken");
        self.wake(&granted);
        Ok(())
    }

    /// Waits until the lock could be granted, but does not take it. An insertion calls this for `IX` on the gap into
    /// which it inserts (PROTOCOLS K1). Waiting requests do not conflict, because the call takes no lock that they wait
    /// for.
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    #[inline]
    pub fn instant(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode, wait: Wait) -> Result<()> {
        let ask = self.ask(session, locker, name, mode);
        if !name.is_coarse() && self.is_without_rival(&ask) {
            return Ok(());
        }
        self.instant_slowly(ask, wait)
    }

    #[cold]
    #[inline(never)]
    fn instant_slowly(&self, ask: Ask<'_>, wait: Wait) -> Result<()> {
        let Ask { session, name, mode, .. } = ask;
        let locker = LockerId(ask.locker);
        let held = {
            let latched = self.table.latch(session, ask.mixed);
            if name.is_coarse() && !mode.is_intent() {
                let mut granted = Granted::new();
                self.revoke(session, latched.bucket, name, ask.mixed, &mut granted);
                self.wake(&granted);
            }
            let found = self.table.queue_of(session, latched.bucket, name, ask.mixed);
            let Ok(queue) = found else { return Ok(()) };
            if queue.granted_to_others(ask.locker) & mode.conflicts() == 0 {
                return Ok(());
            }
            let own = queue.of_locker(ask.locker).filter(|&(place, own)| queue.held_bit(place, own) != 0);
            own.and_then(|(_, own)| own.state.get().granted())
        };
        if wait == Wait::No {
            return Err(ask.would_block());
        }
        self.lock(session, locker, name, mode, wait)?;
        match held {
            None => self.unlock(session, locker, name),
            Some(held) => self.downgrade(session, locker, name, held),
        }
    }

    /// Returns the mode in which the locker holds the object.
    pub fn holds(&self, session: &Session, locker: LockerId, name: LockName) -> Option<Mode> {
        let ask = self.ask(session, locker, name, Mode::IS);
        let (mixed, slot) = (ask.mixed, ask.slot);
        if name.is_coarse() {
            if let Some(kept) = slot.find_kept(&self.table, name, mixed) {
                return kept.request.state.load().granted().filter(|_| slot.is_active(kept.index));
            }
        }
        if !slot.may_hold(mixed) {
            return None;
        }
        if !name.is_coarse() {
            match self.table.own_thin(&ask) {
                OwnLock::Thin(seen) => return seen.mode(),
                OwnLock::Absent => return None,
                OwnLock::PerhapsInQueue => {}
            }
        }
        let latched = self.table.latch(session, mixed);
        let queue = self.table.queue_of(session, latched.bucket, name, mixed).ok()?;
        queue.of_locker(locker.0).and_then(|(_, own)| own.state.get().granted())
    }

    /// Returns whether no locker holds the object or waits for it, at this moment. True is certain; false may be wrong.
    #[inline]
    pub fn is_free(&self, session: &Session, name: LockName) -> bool {
        let mixed = name.mixed();
        if !name.is_coarse() {
            // One acquire load is enough, see `is_without_rival`.
            let seen = self.table.word(mixed).load();
            if !seen.is_fat() {
                // If the owner's lock is on another name with the same word and tag, the result is false although the
                // object may be free.
                return !seen.may_be_for(mixed);
            }
        }
        self.is_free_in_queues(session, name, mixed)
    }

    #[cold]
    #[inline(never)]
    fn is_free_in_queues(&self, session: &Session, name: LockName, mixed: u64) -> bool {
        let latched = self.table.latch(session, mixed);
        self.table.queue_of(session, latched.bucket, name, mixed).map_or(true, Queue::is_idle)
    }

    /// Converts the locker's request at `place` to a mode that also covers `ask.mode`.
    pub(crate) fn convert(
        &self,
        ask: &Ask<'_>,
        latched: Latched<'_>,
        queue: Queue<'_>,
        place: Place,
        wait: Wait,
    ) -> Result<()> {
        let own = self.table.request(place);
        let held = own.state.get().granted().expect("a locker asks for nothing while it waits");
        if held.covers(ask.mode) {
            return Ok(());
        }
        let mode = held.join(ask.mode);
        let summary = queue.head.summary.get();
        let is_free = queue.granted_to_others(ask.locker) & mode.conflicts() == 0;
        if is_free || planted("lock: a conversion is granted beside readers") {
            let mut change = Change::open(ask.session);
            change.set(&own.state, State::granted_in(mode));
            failpoint("lock: upgraded, summary old");
            change.set(&queue.head.summary, summary.with(mode.bit()));
            change.close();
            failpoint("lock: upgraded");
            return Ok(());
        }
        if wait == Wait::No {
            return Err(ask.would_block());
        }
        // A deadlock of two conversions: each waits for the mode that the other holds.
        let is_deadlock = queue.requests().any(|(at, other)| {
            let state = other.state.get();
            at != place && state.granted().is_some() && state.waits() && state.granted_bit() & mode.conflicts() != 0
        });
        let mut change = Change::open(ask.session);
        change.set(&own.state, State::converting(held, mode));
        failpoint("lock: upgrade waits, summary old");
        change.set(&queue.head.summary, summary.with_waiting());
        change.close();
        let number = self.begin_wait(ask, place);
        failpoint("lock: upgrade waits");
        drop(latched);
        if is_deadlock {
            self.search_at_once(ask.session, LockerId(ask.locker));
        }
        self.wait(ask, place, number, wait)
    }
}
