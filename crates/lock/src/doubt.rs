//! Whoever has waited very long looks whether there is anybody to wait for.
//!
//! A wild store can grant a lock to a locker that does not know of it, or cut a wait out of the sight of the search for
//! circles: then nobody would ever end the wait. What is looked at changes while others work, so a doubt counts only when it
//! comes again and again.

use std::time::Duration;

use libtp_process::SessionId;
use rio::planted;

use crate::acquire::Ask;
use crate::locker::Waiting;
use crate::request::{Place, Request};
use crate::{LockManager, LockerId};

/// Who has waited so long looks, and again after as long.
const PATIENCE: Duration = Duration::from_millis(250);
/// So many doubts in a row are a certainty.
const DOUBTS: u32 = 4;

/// The doubts of one wait.
#[derive(Default)]
pub(crate) struct Doubts {
    looks: u32,
    in_a_row: u32,
}

impl LockManager {
    /// Looks, when it is time. Unwinds when it is certain that nobody will ever end the wait.
    pub(crate) fn doubt(&self, doubts: &mut Doubts, ask: &Ask<'_>, place: Place, number: u32, waited: Duration) {
        if waited < PATIENCE * (doubts.looks + 1) {
            return;
        }
        doubts.looks += 1;
        match self.unexplained(ask, place, number) {
            None => doubts.in_a_row = 0,
            Some(what) => {
                doubts.in_a_row += 1;
                if doubts.in_a_row == DOUBTS {
                    ask.session.processes().give_up(&format!("nobody ends the wait for {}: {what}", ask.name));
                }
            }
        }
    }

    /// What there is about the wait that no session can have left so.
    fn unexplained(&self, ask: &Ask<'_>, place: Place, number: u32) -> Option<&'static str> {
        if ask.slot.waiting.load() != Waiting::new(place, number) {
            return Some("its locker does not say so");
        }
        let latched = self.table.latch(ask.session, ask.mixed);
        let Ok(queue) = self.table.find(latched.bucket, ask.name, ask.mixed) else { return Some("it has no queue") };
        let mut is_there = false;
        for (at, request) in queue.requests() {
            is_there |= at == place && request.locker.get() == ask.locker;
            if !request.is_for(ask.name) {
                return Some("something else is in its queue");
            }
            if at != place && !self.is_held(at, request) {
                return Some("somebody is in its queue who does not know of it");
            }
        }
        (!is_there).then_some("it is not in its queue")
    }

    /// Whether the request is its locker's, and that a session's.
    fn is_held(&self, place: Place, request: &Request) -> bool {
        let number = request.locker.get();
        if number == 0 || number > self.table.header.locker_used.load() {
            return false;
        }
        let locker = self.table.locker(number);
        let session = locker.session.load();
        // Who takes a locker over may stand still before it puts its name there, and who had it be gone.
        let is_kept_for = || {
            let keeps = self.keepers.get().filter(|_| !planted("lock: who is taken over belongs to nobody"));
            keeps.is_some_and(|keeps| keeps(LockerId(number))) || self.processes.exists(locker.session.load())
        };
        let is_owned = locker.in_use.load() != 0
            && session != SessionId::NONE
            && (self.processes.exists(session) || is_kept_for());
        let is_kept = || locker.all_kept(&self.table).any(|kept| kept.place == place);
        is_owned && (locker.requests(&self.table).any(|(own, _)| own == place) || is_kept())
    }
}
