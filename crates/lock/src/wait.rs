//! Waiting for a lock: a brief spin, then sleeps, each of bounded length.
//!
//! Paper: LIBTP 3.2.3 and 3.2.4. A session that releases a lock grants it to the next waiter in the same section and
//! wakes that waiter. The waiter reads the state of its request without the latch. The state is only a hint, because
//! the section that changed it may still be rolled back. So the waiter then reads the state again under the latch.
//!
//! Invariants
//! 1. No session waits here with a latch held.
//! 2. No waiter depends on a wake (PROTOCOLS D8): after each sleep without a wake, the waiter itself grants all that
//!    can be granted, and searches for deadlocks.
//! 3. A wait that is cancelled (`process/cancel.rs`) ends within [`SLEEP_MAX`].
//! 4. `waiting` in the locker's slot is set exactly while the locker waits: a search for deadlocks reads it.
//!
//! If we die here: the request stays in its queue and waits; the repair removes the request in the same way as a
//! granted request.

use std::time::{Duration, Instant};

use libtp_process::{boot_micros, Work, SLEEP_MAX};
use rio::failpoint;

use crate::acquire::Ask;
use crate::change::Change;
use crate::locker::Waiting;
use crate::own_thread::OWN_THREAD_AFTER;
use crate::queue::{Granted, Queue};
use crate::request::{Place, Request, State};
use crate::stuck_check::StuckCheck;
use crate::{Detect, Error, LockManager, LockerId, Result, Wait};

/// The code of a session's wait for a lock, for tools; the subject is the mixed name.
pub const WAITS_FOR_LOCK: u32 = 1;

/// The number of checks before the first yield: meanwhile a holder may release the lock on another processor.
const PAUSES: u32 = 100;
/// The number of further checks before a sleep, each after a yield: a holder may be waiting for this processor.
const YIELDS: u32 = 8;

/// The time after which a waiter searches for dead sessions.
pub(crate) const HELP_AFTER: Duration = Duration::from_millis(20);
/// The time after which a waiter gives up if the dead sessions cannot be repaired.
const DEAD_PATIENCE: Duration = Duration::from_secs(1);

/// The next step of a waiting request.
enum Step {
    /// Check under the latch: the request seems to be granted.
    Look,
    /// Sleep for this time.
    Sleep(Duration),
    /// Stop waiting.
    GiveUp(Error),
}

/// The reason why a waiter checks its request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The request may be granted now.
    Again,
    /// The waiter was woken, or saw that its request is granted. If the request is not granted, the waiter was
    /// overtaken.
    AfterWake,
}

impl LockManager {
    /// Notes that the locker waits. Called under the latch, so that a granter finds the session to wake.
    pub(crate) fn begin_wait(&self, ask: &Ask<'_>, place: Place) -> u32 {
        let number = ask.slot.waits.get().wrapping_add(1).max(1);
        ask.slot.waits.init(number);
        failpoint("lock: wait numbered");
        ask.slot.session.publish(ask.session.id());
        ask.slot.waiting_since.init(0);
        ask.slot.waiting.publish(Waiting::new(place, number));
        failpoint("lock: marked as waiting");
        number
    }

    /// Waits until the request is granted.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&self, ask: &Ask<'_>, place: Place, number: u32, wait: Wait) -> Result<()> {
        let latches = ask.session.latch_count();
        assert_eq!(latches, 0, "a session waits for {} with a latch held (docs/latch-order.md)", ask.name);
        self.table.header.wait_count.fetch_add(1);
        ask.session.wait_info(WAITS_FOR_LOCK, ask.mixed);
        failpoint("lock: begins to wait");
        let outcome = self.wait_long(ask, place, number, wait);
        ask.session.wait_info(0, 0);
        failpoint("lock: wait over, still waiting");
        ask.slot.waiting.publish(Waiting::NONE);
        outcome
    }

    fn wait_long(&self, ask: &Ask<'_>, place: Place, number: u32, wait: Wait) -> Result<()> {
        let request = self.table.request(place);
        if spin(request) && self.look(ask, place, Look::Again) {
            return Ok(());
        }
        let outcome = self.sleep_until_granted(ask, place, number, wait);
        match outcome {
            Err(Error::Deadlock { .. }) => ask.slot.note_was_victim(boot_micros()),
            _ if ask.slot.spared.load() == number => {}
            _ => ask.slot.note_contention(boot_micros()),
        }
        outcome
    }

    fn sleep_until_granted(&self, ask: &Ask<'_>, place: Place, number: u32, wait: Wait) -> Result<()> {
        let request = self.table.request(place);
        let started = Instant::now();
        let mut doubts = StuckCheck::default();
        let mut ask_for_own_after = OWN_THREAD_AFTER;
        ask.slot.waiting_since.init(boot_micros());
        loop {
            let ticket = ask.session.prepare_sleep();
            match self.next_step(ask, request, number, started.elapsed(), wait) {
                Step::Look => {
                    if self.look(ask, place, Look::AfterWake) {
                        return Ok(());
                    }
                }
                Step::GiveUp(error) => return self.give_up(ask, place, error),
                Step::Sleep(bound) => {
                    failpoint("lock: about to sleep");
                    if ask.session.sleep_on(ticket, bound) {
                        if self.look(ask, place, Look::AfterWake)
                            || (spin(request) && self.look(ask, place, Look::Again))
                        {
                            return Ok(());
                        }
                    } else {
                        self.search_when_due(ask.session, LockerId(ask.locker), started.elapsed());
                        // The holder may be dead, and no other session may be running to repair it. The search for dead
                        // sessions costs a system call or two for each process, so only one of all waiters searches.
                        if started.elapsed() >= HELP_AFTER && self.processes.begin_if_due(Work::Dead, HELP_AFTER) {
                            ask.session.help_the_dead();
                        }
                        self.check_stuck(&mut doubts, ask, place, number, started.elapsed());
                        if self.look(ask, place, Look::Again) {
                            return Ok(());
                        }
                        if started.elapsed() >= ask_for_own_after {
                            ask_for_own_after = started.elapsed() * 2;
                            if let Some(holder) = self.own_thread_in_the_way(ask.session, ask.locker) {
                                let error = Error::OwnThread { name: ask.name, mode: ask.mode, holder };
                                return self.give_up(ask, place, error);
                            }
                        }
                        if started.elapsed() >= DEAD_PATIENCE && self.processes.are_dead_for_good() {
                            let error = Error::HeldForGood { name: ask.name, mode: ask.mode };
                            return self.give_up(ask, place, error);
                        }
                    }
                }
            }
        }
    }

    fn next_step(&self, ask: &Ask<'_>, request: &Request, number: u32, waited: Duration, wait: Wait) -> Step {
        let (name, mode) = (ask.name, ask.mode);
        if !request.state.load().waits() {
            return Step::Look;
        }
        if ask.slot.victim.load() == number {
            return Step::GiveUp(Error::Deadlock { name, mode });
        }
        if ask.session.is_cancelled() {
            return Step::GiveUp(Error::Cancelled { name, mode });
        }
        let mut bound = SLEEP_MAX;
        if let Detect::OnWait(patience) = self.settings.detect {
            bound = patience.checked_sub(waited).filter(|left| !left.is_zero()).map_or(bound, |left| left.min(bound));
        }
        match wait {
            Wait::For(limit) if waited >= limit => Step::GiveUp(Error::Timeout { name, mode, limit }),
            Wait::For(limit) => Step::Sleep(bound.min(limit - waited)),
            Wait::Forever | Wait::No => Step::Sleep(bound),
        }
    }

    /// Grants the request if possible. Returns whether it is granted.
    pub(crate) fn look(&self, ask: &Ask<'_>, place: Place, reason: Look) -> bool {
        let request = self.table.request(place);
        let mut granted = Granted::new();
        let latched = self.table.latch(ask.session, ask.mixed);
        if request.state.get().waits() {
            if ask.name.is_coarse() && !ask.mode.is_intent() {
                self.revoke(ask.session, latched.bucket, ask.name, ask.mixed, &mut granted);
            }
            let found = self.table.find(latched.bucket, ask.name, ask.mixed);
            let queue: Queue<'_> = found.expect("a request that waits is in a queue");
            let mut change = Change::open(ask.session);
            failpoint("lock: checks its queue, section open");
            queue.grant(&mut change, &mut granted);
            change.close();
        }
        let is_granted = !request.state.get().waits();
        if is_granted {
            request.notice();
        } else if reason == Look::AfterWake {
            request.make_firm();
        }
        drop(latched);
        failpoint("lock: checked, no waiter woken");
        self.wake(&granted);
        is_granted
    }

    /// Withdraws the request, unless it was granted meanwhile. Then grants the requests after it that waited only for
    /// this request.
    fn give_up(&self, ask: &Ask<'_>, place: Place, error: Error) -> Result<()> {
        let request = self.table.request(place);
        let mut granted = Granted::new();
        let latched = self.table.latch(ask.session, ask.mixed);
        let state = request.state.get();
        if !state.waits() {
            request.notice();
            return Ok(());
        }
        failpoint("lock: gives up");
        let mut change = Change::open(ask.session);
        if let Some(held) = state.granted() {
            change.set(&request.state, State::granted_in(held));
            let found = self.table.find(latched.bucket, ask.name, ask.mixed);
            let queue: Queue<'_> = found.expect("a request that is granted is in a queue");
            failpoint("lock: gives up an upgrade");
            queue.grant(&mut change, &mut granted);
            change.close();
        } else {
            self.table.remove(&mut change, latched.bucket, place, &mut granted);
            failpoint("lock: gave up, still on the stack");
            ask.slot.drop_request(&self.table, &mut change, place, request);
            change.close();
            ask.slot.note_one_less();
        }
        drop(latched);
        failpoint("lock: gave up, no waiter woken");
        self.wake(&granted);
        Err(error)
    }
}

/// Checks for a moment whether the request is granted.
fn spin(request: &Request) -> bool {
    for round in 0..PAUSES + YIELDS {
        // Acquire: the granter's earlier stores are visible. The caller still confirms the grant under the latch.
        if !request.state.load().waits() {
            return true;
        }
        if round < PAUSES {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    false
}
