//! Sleeping until another session wakes the sleeper. No wake is lost, and every sleep has a bound.
//!
//! Paper: LIBTP section 3.2.4, "for each process, a semaphore is maintained upon which that process waits".
//! Departures: the semaphore is a word in the session's slot, one per thread; and every sleep ends within
//! [`SLEEP_MAX`], because the session that should wake the sleeper may be dead (PROTOCOLS D8).
//!
//! Bit 0 of the word: the session sleeps in the kernel, or is about to sleep. The higher bits: the number of wakes. The
//! sleeper takes a [`Ticket`] (the word), *then* checks its condition, *then* sleeps if the word still equals the
//! ticket. A waker first makes the condition true, then adds a wake. If the sleeper's check comes after the wake, the
//! sleeper sees the condition. Otherwise the word differs from the sleeper's ticket, and the sleeper does not sleep.
//! The waker calls the kernel only if bit 0 was set, and clears the bit before the call. So of several wakers only the
//! first calls the kernel, even if the sleeper resumes late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rio::planted;

use crate::latch_word::Wait;
use crate::slot::SessionSlot;
use crate::{os, Session, SessionId};

/// The bound of a sleep. After it a sleeper checks its condition again, and checks whether the session that it waits
/// for still lives.
pub const SLEEP_MAX: Duration = Duration::from_millis(5);

const ASLEEP: u32 = 1;
const ONE_WAKE: u32 = 2;

/// The number of wakes at one moment: taken before the check that decides whether to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "take a ticket, then check the condition, then sleep with the ticket"]
pub struct Ticket(u32);

impl Session {
    /// Takes a ticket. Check your condition after this call; if it is not true, [`Session::sleep_on`] the ticket.
    #[inline]
    pub fn prepare_sleep(&self) -> Ticket {
        take_ticket(self.slot().sleep.cell())
    }

    /// Sleeps until woken, at most `duration` and never longer than [`SLEEP_MAX`]. Returns whether the session was
    /// woken since the ticket was taken; the caller checks its condition again either way. Unwinds if the region is
    /// marked broken, or if this process is leaving and has waited for too long.
    pub fn sleep_on(&self, ticket: Ticket, duration: Duration) -> bool {
        self.leave_if_broken();
        self.leave_if_late();
        let word = self.slot().sleep.cell();
        let is_unbounded = planted("process: a sleep has no bound");
        let bound = if is_unbounded { Duration::from_secs(3600) } else { duration.min(SLEEP_MAX) };
        sleep_on(word, ticket, |asleep| os::sleep_while(word, asleep, bound)) == Wait::Woken
    }

    /// As [`Session::sleep_on`], but sleeps up to `duration`, even if that is longer than [`SLEEP_MAX`]. Only for a
    /// session that waits for its turn and that no other session waits for.
    pub fn sleep_long(&self, ticket: Ticket, duration: Duration) -> bool {
        self.leave_if_broken();
        self.leave_if_late();
        let word = self.slot().sleep.cell();
        sleep_on(word, ticket, |asleep| os::sleep_while(word, asleep, duration)) == Wait::Woken
    }

    /// Sleeps until woken, at most `duration` and never longer than [`SLEEP_MAX`]. Misses a wake sent before the
    /// call; take a ticket first if that matters. Returns whether the session was woken.
    pub fn sleep(&self, duration: Duration) -> bool {
        self.sleep_on(self.prepare_sleep(), duration)
    }

    /// Sleeps until `ready` returns true. Calls `ready` at every wake and at least every [`SLEEP_MAX`]. Returns false
    /// if the deadline passes first. A call without a deadline may wait for ever, so `ready` must then also return true
    /// if the awaited session is dead.
    pub fn sleep_until(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        loop {
            let ticket = self.prepare_sleep();
            if ready() {
                return true;
            }
            let left = deadline.map_or(SLEEP_MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            self.sleep_on(ticket, left);
        }
    }

    /// Wakes another session, like [`ProcessManager::wake`](crate::ProcessManager::wake).
    #[inline]
    pub fn wake(&self, session: SessionId) {
        self.processes().wake(session);
    }
}

/// Wakes the tenant of a slot.
#[inline]
pub(crate) fn wake(slot: &SessionSlot) {
    let word = slot.sleep.cell();
    add_wake(word, || os::wake_all(word));
}

/// The atomic word that a session sleeps on: a real atomic, or loom's model of an atomic.
pub(crate) trait SleepWord {
    fn look(&self) -> u32;
    fn swap_if(&self, old: u32, new: u32) -> bool;
    fn add(&self, value: u32) -> u32;
    fn and(&self, bits: u32) -> u32;
}

impl SleepWord for AtomicU32 {
    #[inline]
    fn look(&self) -> u32 {
        // Acquire: pairs with `add`. A sleeper whose ticket includes the wake sees the condition that was made true
        // before the wake.
        self.load(Ordering::Acquire)
    }
    #[inline]
    fn swap_if(&self, old: u32, new: u32) -> bool {
        // If the waker's `add` on the same word comes before this swap, the swap fails. If the `add` comes after the
        // swap, the waker sees bit 0.
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    #[inline]
    fn add(&self, value: u32) -> u32 {
        // Release: publishes the condition made true before the wake. Pairs with `look` and `and`.
        self.fetch_add(value, Ordering::AcqRel)
    }
    #[inline]
    fn and(&self, bits: u32) -> u32 {
        // Acquire: pairs with `add`, like `look`.
        self.fetch_and(bits, Ordering::AcqRel)
    }
}

#[inline]
fn take_ticket(word: &impl SleepWord) -> Ticket {
    Ticket(word.look() & !ASLEEP)
}

fn sleep_on(word: &impl SleepWord, ticket: Ticket, park: impl FnOnce(u32) -> Wait) -> Wait {
    let asleep = ticket.0 | ASLEEP;
    if !word.swap_if(ticket.0, asleep) {
        return Wait::Woken;
    }
    park(asleep);
    let now = word.and(!ASLEEP) & !ASLEEP;
    if now == ticket.0 {
        Wait::TimedOut
    } else {
        Wait::Woken
    }
}

#[inline]
fn add_wake(word: &impl SleepWord, unpark: impl FnOnce()) {
    if word.add(ONE_WAKE) & ASLEEP != 0 {
        // If the sleeper has already resumed and sleeps again, this wake is needless.
        word.and(!ASLEEP);
        unpark();
    }
}

#[cfg(test)]
#[path = "sleep/loom_tests.rs"]
mod loom_tests;
