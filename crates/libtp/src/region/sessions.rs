//! The sessions of a handle: taken from the pool of the present life, and given back.

use std::sync::Arc;

use libtp_txn::{Committed, Managers, TxnSession};
use rio::planted;

use crate::ground::mutex::lock;
use crate::region::generation::{Generation, Seated};
use crate::region::inner::Inner;
use crate::{Error, Result};

impl Inner {
    /// Returns a session of the present life, from the pool or new.
    ///
    /// # Errors
    /// `Rebuilt`, `Panicked`: try again.
    #[inline]
    pub(crate) fn take_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        self.check_process()?;
        // The lock of the pool is released before the session joins, which may take long.
        let pooled = lock(&self.present.0).idle.pop();
        match pooled {
            Some(pooled) if !pooled.generation.managers.region.is_broken() => {
                pooled.session.session().heed_cancels();
                Ok(pooled)
            }
            _ => self.new_session(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        let generation = self.generation()?;
        let session = generation.guarded(|| Ok(generation.managers.join()?))?;
        Ok(Box::new(Seated { generation, session }))
    }

    /// Returns a session of the present life to the pool. Leaves a dead session to the repair.
    #[inline]
    pub(crate) fn give_session(&self, seat: Box<Seated>) {
        if seat.session.session().is_dead() || seat.session.state() != libtp_txn::State::Idle {
            return seat.let_leave();
        }
        if planted("libtp: returned sessions are not reused") {
            return std::mem::forget(seat);
        }
        let mut present = lock(&self.present.0);
        if Arc::ptr_eq(&present.generation, &seat.generation) {
            present.idle.push(seat);
        }
    }

    /// Marks the idle sessions dead, as a kill leaves them: for simulation.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn die(&self) {
        lock(&self.present.0).idle.iter().for_each(|idle| idle.session.session().mark_dead());
    }

    /// Waits until a commit of the present life is on disk. Uses a session of its own, and another one if a panic kills
    /// it.
    ///
    /// # Errors
    /// `Rebuilt` if that life ends before.
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

    /// Runs `work` with a session of the present life, and again after `Rebuilt` or `Panicked`.
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
