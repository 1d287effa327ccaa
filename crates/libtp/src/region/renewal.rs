//! The lives of the shared memory: starts the threads of a generation, begins the next generation if the memory is
//! broken, and ends the last generation.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use libtp_log::{IncarnationEnd, Lsn};
use libtp_process::catch_call;
use rio::{failpoint, planted};

use crate::ground::mutex::lock;
use crate::open::attach;
use crate::region::background;
use crate::region::generation::{Generation, Refused, Sessions};
use crate::region::inner::Inner;
use crate::region::leave::leave;
use crate::region::open_database::take_along;
use crate::region::panics::{self, PanicEffect};
use crate::region::threads::Threads;
use crate::{Error, Result};

impl Generation {
    /// Starts the generation's threads, unless the settings forbid threads. After an error some of the threads may run;
    /// the caller must stop or abandon these threads.
    pub(crate) fn start_background(&self, env: &Arc<Inner>) -> Result<()> {
        if env.settings.no_background {
            self.managers.processes.join_barriers();
            return Ok(());
        }
        let mut threads = Threads::default();
        let started = self.guarded(|| background::start(&mut threads, env, &self.managers));
        *lock(&self.threads) = Some(threads);
        started
    }

    /// Ends the generation because its handle is dropped.
    fn end(&self, env: &Inner, sessions: Sessions) -> Result<()> {
        self.managers.processes.begin_to_leave();
        self.stop_background();
        match catch_call(|| leave(&self.managers, &self.liveness, &env.platform, sessions)) {
            Ok(left) => left,
            // A destructor must not unwind to the caller.
            Err(payload) => match self.effect_of_panic(&self.managers, payload.as_ref()) {
                // The next process that uses the environment rebuilds its memory.
                PanicEffect::Region => Err(Error::Rebuilt),
                PanicEffect::Session | PanicEffect::Caller => {
                    self.repair_dead();
                    Err(Error::Panicked { what: panics::text_of(payload.as_ref()) })
                }
            },
        }
    }
}

impl Inner {
    /// Returns the present generation, or the next one if the present generation is broken.
    pub(crate) fn generation(self: &Arc<Inner>) -> Result<Arc<Generation>> {
        self.check_process()?;
        let generation = self.newest();
        if generation.managers.region.is_broken() {
            return self.next_generation();
        }
        Ok(generation)
    }

    /// Begins a new generation, unless another thread has begun it meanwhile.
    #[cold]
    #[inline(never)]
    fn next_generation(self: &Arc<Inner>) -> Result<Arc<Generation>> {
        let called = Instant::now();
        let mut one = lock(&self.renewing);
        let broken = self.newest();
        if !broken.managers.region.is_broken() {
            return Ok(broken);
        }
        if broken.managers.processes.is_observer() {
            return Err(libtp_process::Error::ObserverOnly.into());
        }
        // If the last attempt failed after this call began, this call returns the same error. Otherwise each of several
        // threads would wait for the attempts of all threads before it, and then for its own attempt.
        if let Some(refused) = one.as_ref().filter(|refused| refused.at >= called) {
            return Err(Error::Environment { environment: self.platform.path.clone(), what: refused.what.clone() });
        }
        // This frees address space for the next region: a process with a limit on its address space may have no other
        // room for that region.
        broken.managers.region.give_up_growth();
        let generation = loop {
            let attached = attach::open_again(&self.platform, &self.settings, &broken.managers);
            if let Err(Error::Environment { what, .. }) = &attached {
                *one = Some(Refused { at: Instant::now(), what: what.clone() });
            }
            let attached = attached?;
            let generation =
                Generation::new(broken.number + 1, attached, &self.platform.path, Arc::clone(&broken.panics));
            match generation.start_background(self) {
                Ok(()) => break generation,
                Err(error) => {
                    generation.abandon_background();
                    // If the new generation is broken already, begin another generation. After any other error, such as
                    // a lack of memory for a thread, return: the threads of the broken generation, or the next caller,
                    // try again.
                    if !matches!(error, Error::Rebuilt) {
                        return Err(error);
                    }
                }
            }
        };
        // The mutex is held until the new generation is the present generation: a database that is opened meanwhile
        // belongs to one of the two generations.
        let databases = self.databases();
        for open in databases.values() {
            if let Err(error) = take_along(&generation, open) {
                generation.abandon_background();
                return Err(error);
            }
        }
        failpoint("rebuild: attached, old attachment lock kept");
        // The attachment lock is not released earlier: until the new region exists, no process may believe that this
        // handle's sessions in the old region are dead.
        broken.liveness.release_attachment_lock();
        failpoint("rebuild: old attachment lock given up");
        let generation = Arc::new(generation);
        let idle = {
            let mut present = lock(&self.present.now);
            present.ends.push(generation.managers.log.end_of_incarnation(broken.managers.log.incarnation()));
            present.generation = Arc::clone(&generation);
            let mut idle = std::mem::take(&mut present.idle);
            idle.extend(self.present.at_hand.take_all());
            idle
        };
        drop((databases, one));
        // The threads of the broken generation end only now: if an attempt fails, they try again.
        broken.abandon_background();
        // A panic of a session that is dropped in broken memory needs no report.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(idle)));
        // Passed-on transactions would keep the broken memory mapped. A panic of their sessions needs no report,
        // either.
        let _ = catch_unwind(AssertUnwindSafe(|| self.passed_on.sweep()));
        Ok(generation)
    }

    /// Returns `Ok` if the log of the next generation has the commit record that a transaction of the ended generation
    /// `number` wrote at `lsn`. Returns `Ok` for `Lsn::NONE`, too: a transaction with this LSN changed nothing and read
    /// no commit, so it depends on no commit record.
    ///
    /// # Errors
    /// `Rebuilt` if the log does not have the record. `OutcomeUnknown` if the handle does not know whether the log has
    /// the record, or cannot begin the next generation.
    pub(crate) fn outcome_of(self: &Arc<Inner>, number: u64, lsn: Lsn) -> Result<()> {
        if lsn == Lsn::NONE {
            return Ok(());
        }
        self.generation().map_err(Error::after_commit_record)?;
        let end = usize::try_from(number).ok().and_then(|number| lock(&self.present.now).ends.get(number).copied()?);
        let outcome = match end {
            Some(IncarnationEnd::At(end)) if lsn < end => Ok(()),
            Some(IncarnationEnd::At(end) | IncarnationEnd::AtMost(end)) if lsn >= end => Err(Error::Rebuilt),
            _ => Err(Error::OutcomeUnknown {
                cause: "the shared memory was rebuilt from the log more than once since then".into(),
            }),
        };
        match outcome {
            Ok(()) if planted("libtp: a commit during a rebuild counts as lost") => Err(Error::Rebuilt),
            Err(_) if planted("libtp: a commit during a rebuild counts as kept") => Ok(()),
            outcome => outcome,
        }
    }

    /// Ends the environment because its last handle is dropped.
    pub(crate) fn end(&self) -> Result<()> {
        let (generation, idle) = {
            let mut present = lock(&self.present.now);
            let mut idle = std::mem::take(&mut present.idle);
            idle.extend(self.present.at_hand.take_all());
            (Arc::clone(&present.generation), idle)
        };
        let (idle, stale) = idle.into_iter().partition(|idle| Arc::ptr_eq(&idle.generation, &generation));
        // A panic of a session that is dropped in broken memory needs no report.
        let _ = catch_unwind(AssertUnwindSafe(|| drop::<Sessions>(stale)));
        self.passed_on.end();
        generation.end(self, idle)
    }
}

#[cfg(test)]
mod tests;
