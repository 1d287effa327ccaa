//! The sessions whose transactions a handle has passed on. A session keeps its transaction until another session takes
//! the transaction over.

use std::sync::{Mutex, PoisonError};

use crate::ground::mutex::lock;
use crate::region::generation::{Seated, Sessions};

/// Sessions whose transactions were passed on and, as far as this handle knows, not yet taken over.
#[derive(Default)]
pub(crate) struct PassedOn(Mutex<Sessions>);

impl PassedOn {
    /// Releases the sessions whose transactions were taken over, or whose region is broken.
    pub(crate) fn sweep(&self) {
        let is_over = |seat: &Seated| {
            seat.generation.managers.region.is_broken() || seat.generation.managers.is_taken(&seat.session)
        };
        let mut list = lock(&self.0);
        let (over, kept): (Sessions, Sessions) = list.drain(..).partition(|seat| is_over(seat));
        *list = kept;
        drop(list);
        over.into_iter().for_each(|seat| let_go(*seat));
    }

    /// Adds a session whose transaction is passed on.
    pub(crate) fn add(&self, seat: Box<Seated>) {
        lock(&self.0).push(seat);
    }

    /// Forgets everything in the child of a fork: the sessions are the parent's.
    pub(crate) fn forget_inherited(&mut self) {
        let list = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        list.drain(..).for_each(std::mem::forget);
    }

    /// Marks the sessions dead, because the handle is dropped: the repair of dead sessions undoes the transactions that
    /// were not taken over.
    pub(crate) fn end(&self) {
        self.sweep();
        for seat in std::mem::take(&mut *lock(&self.0)) {
            // Another session may have taken the transaction over since.
            seat.session.session().mark_dead();
        }
    }
}

fn let_go(seat: Seated) {
    let Seated { session, generation } = seat;
    if generation.managers.region.is_broken() {
        // The session ends with its region.
        return;
    }
    // If this fails, the next call reports the error.
    let _ = generation.guarded(|| {
        generation.managers.leave_taken(session);
        Ok(())
    });
}
