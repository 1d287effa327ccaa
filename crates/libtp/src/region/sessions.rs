//! Takes the sessions of a handle from the pool of the present generation, and returns them to the pool.

use std::sync::Arc;

use libtp_txn::{Committed, Managers, State, TxnSession};
use rio::planted;

use crate::ground::mutex::lock;
use crate::region::generation::{Generation, Seated};
use crate::region::inner::Inner;
use crate::{Error, Result};

impl Inner {
    /// Returns a session of the present generation: an idle session from the pool, or a new session.
    ///
    /// # Errors
    /// `Rebuilt`, `Panicked`: try again.
    #[inline(always)]
    pub(crate) fn take_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        if !planted("libtp: a child of a fork begins in its parent's environment") {
            self.check_process()?;
        }
        let is_over = |idle: &Seated| {
            idle.generation.managers.region.is_broken()
                && !planted("libtp: a pooled session of abandoned memory is used")
        };
        match self.present.at_hand.take() {
            Some(idle) if !is_over(&idle) => {
                self.make_ready(&idle.session);
                Ok(idle)
            }
            _ => self.take_or_join(),
        }
    }

    /// Takes an idle session from the list or from another thread's slot, or makes a new session.
    #[cold]
    #[inline(never)]
    fn take_or_join(self: &Arc<Inner>) -> Result<Box<Seated>> {
        // The mutex of the list is released before a new session joins, because joining may take long.
        let idle = lock(&self.present.now).idle.pop().or_else(|| self.present.at_hand.take_all().next());
        if let Some(idle) = idle.filter(|idle| !idle.generation.managers.region.is_broken()) {
            self.make_ready(&idle.session);
            return Ok(idle);
        }
        let generation = self.generation()?;
        let session = generation.guarded(|| Ok(generation.managers.join()?))?;
        self.make_ready(&session);
        Ok(Box::new(Seated { generation, session }))
    }

    /// Gives a session the environment's bound of waits, and makes it ignore earlier cancellations.
    #[inline]
    pub(crate) fn make_ready(&self, session: &TxnSession) {
        session.session().heed_cancels();
        session.set_wait(self.wait);
    }

    /// Returns a session to the pool. Leaves a dead session to the repair.
    pub(crate) fn give_session(&self, seat: Box<Seated>) {
        match seat.generation.managers.region.is_broken() && is_idle(&seat) {
            true => self.list_session(seat),
            false => self.give_back(seat),
        }
    }

    /// As [`Inner::give_session`], for a caller that has just found the session's region unbroken. If the session's
    /// generation ends meanwhile, the next thread that takes the session drops it.
    #[inline]
    pub(crate) fn give_back(&self, seat: Box<Seated>) {
        if !is_idle(&seat) {
            return seat.let_leave();
        }
        if planted("libtp: returned sessions are not reused") {
            return std::mem::forget(seat);
        }
        if let Some(former) = self.present.at_hand.put(seat) {
            self.list_session(former);
        }
    }

    /// Adds a session to the list. Drops a session of a generation that has ended.
    #[cold]
    #[inline(never)]
    fn list_session(&self, seat: Box<Seated>) {
        let mut present = lock(&self.present.now);
        if Arc::ptr_eq(&present.generation, &seat.generation) {
            present.idle.push(seat);
        }
    }

    /// Marks the idle sessions dead, as if the process had been killed: for simulation.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn die(&self) {
        let mut present = lock(&self.present.now);
        present.idle.extend(self.present.at_hand.take_all());
        present.idle.iter().for_each(|idle| idle.session.session().mark_dead());
    }

    /// Waits until a commit of the present generation is on disk. Uses a session of the pool, and another session if a
    /// panic kills the first.
    ///
    /// # Errors
    /// `Rebuilt` if that generation ends before the commit is on disk.
    pub(crate) fn wait_durable(self: &Arc<Inner>, generation: &Generation, committed: Committed) -> Result<()> {
        loop {
            let waited = self.take_session().and_then(|seat| {
                if seat.generation.number != generation.number {
                    self.give_session(seat);
                    return Err(Error::Rebuilt);
                }
                let waited = generation
                    .guarded_by(&seat.session, || Ok(seat.session.wait_durable(&generation.managers, committed)?));
                self.give_session(seat);
                waited
            });
            if !matches!(waited, Err(Error::Panicked { .. })) {
                return waited;
            }
        }
    }

    /// Runs `work` with a session of the present generation. Runs `work` again after `Rebuilt` or `Panicked`.
    pub(crate) fn with_session<T>(
        self: &Arc<Inner>,
        mut work: impl FnMut(&Managers, &TxnSession) -> Result<T>,
    ) -> Result<T> {
        loop {
            let done = self.take_session().and_then(|seat| {
                let generation = Arc::clone(&seat.generation);
                let done = generation.guarded_by(&seat.session, || work(&generation.managers, &seat.session));
                let done = done.map_err(|error| error.with_blockers(self, &generation, &seat.session));
                self.give_session(seat);
                done
            });
            if !matches!(done, Err(Error::Rebuilt | Error::Panicked { .. })) {
                return done;
            }
        }
    }
}

/// Returns whether a session lives and runs no transaction.
#[inline]
fn is_idle(seat: &Seated) -> bool {
    !seat.session.session().is_dead() && seat.session.state() == State::Idle
}
