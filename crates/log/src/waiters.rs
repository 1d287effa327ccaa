//! The sessions that wait for a flush: a table of slots in the region. The leader of the flush sees every sleeping
//! waiter that has a slot.
//!
//! Invariants
//! 1. A slot belongs to its waiter from the swap that takes it to the swap that frees it. The slot is freed by the
//!    waiter, or by a leader that wakes the waiter because the waiter's record is durable.
//! 2. A sleeping waiter with a slot is woken by the leader that makes its record durable. Of the waiters whose records
//!    are not yet durable, one is woken to lead the next flush.
//!
//! Why no wake is lost: a waiter takes its slot, then loads `durable`, `poison` and `leader`. A leader stores
//! `durable`, frees `leader`, then loads the slots. On both sides a full fence separates the stores from the loads. So
//! the waiter sees the leader's stores, or the leader sees the waiter's slot. (A lost wake would only cost a sleep of 5
//! ms: PROTOCOLS D8.)
//!
//! If a waiter dies: a leader frees its slot when the log is durable beyond the waiter's LSN.
//!
//! The code is generic over the words, so that loom runs the same code.

use std::sync::atomic::{fence, Ordering};

use libtp_process::SessionId;
use rio::failpoint;

use crate::tail::WAITERS;
use crate::{LogManager, Lsn};

/// The number of slots that a waiter tries.
const PROBES: usize = 8;

/// The words of the table, and the other words that a waiter reads.
pub(crate) trait WaiterTable {
    /// The number of slots.
    const PLACES: usize;
    /// Returns the durable end of the log, by an acquire load.
    fn durable(&self) -> Lsn;
    fn is_poisoned(&self) -> bool;
    /// Returns the session that has the slot `place`.
    fn waiter_at(&self, place: usize) -> SessionId;
    /// Replaces the session that has the slot `place`, with acquire and release. Returns whether it was `old`.
    fn swap_waiter(&self, place: usize, old: SessionId, new: SessionId) -> bool;
    /// Returns the LSN that the waiter in the slot `place` waits for.
    fn wanted(&self, place: usize) -> Lsn;
    fn set_wanted(&self, place: usize, lsn: Lsn);
    /// Returns one more than the highest slot that was ever used.
    fn high(&self) -> usize;
    fn raise_high(&self, high: usize);
    fn full_fence(&self);
    fn wake(&self, session: SessionId);
}

/// Takes a slot and sleeps. Does not sleep if the record at `lsn` is durable, if it can never become durable, or if
/// `is_over` returns true. The caller has taken the ticket for the sleep before this call.
pub(crate) fn wait(
    table: &impl WaiterTable,
    me: SessionId,
    lsn: Lsn,
    is_over: impl Fn() -> bool,
    sleep: impl FnOnce(),
) {
    let place = enter(table, me, lsn);
    failpoint("log: waits for a flush, has a place");
    table.full_fence();
    if table.durable() <= lsn && !table.is_poisoned() && !is_over() {
        sleep();
    }
    failpoint("log: woken, still has its place");
    if let Some(place) = place {
        // The swap fails if a leader has freed the slot already.
        let _ = table.swap_waiter(place, me, SessionId::NONE);
    }
}

/// Takes a slot. Returns `None` if all slots that it tries are taken: then the session sleeps until its time is over.
fn enter<B: WaiterTable>(table: &B, me: SessionId, lsn: Lsn) -> Option<usize> {
    let wanted = me.index() as usize;
    let mut places = (0..PROBES.min(B::PLACES)).map(|probe| (wanted + probe) % B::PLACES);
    let place = places.find(|&place| table.swap_waiter(place, SessionId::NONE, me))?;
    failpoint("log: place taken, LSN not set");
    table.set_wanted(place, lsn);
    failpoint("log: place not counted");
    table.raise_high(place + 1);
    Some(place)
}

/// Wakes every waiter whose record is durable, and one other waiter to lead the next flush.
pub(crate) fn wake(table: &impl WaiterTable, durable: Lsn) {
    table.full_fence();
    let mut next_leader = SessionId::NONE;
    for place in 0..table.high() {
        let session = table.waiter_at(place);
        if session == SessionId::NONE {
            continue;
        }
        // A waiter that has not yet stored its LSN may have the LSN of the slot's previous waiter. It is woken without
        // need, and takes a slot again.
        if table.wanted(place) < durable {
            if table.swap_waiter(place, session, SessionId::NONE) {
                failpoint("log: place given back, waiter not woken");
                table.wake(session);
            }
        } else if next_leader == SessionId::NONE {
            next_leader = session;
        }
    }
    if next_leader != SessionId::NONE {
        table.wake(next_leader);
    }
}

/// Returns the number of waiters.
pub(crate) fn count(table: &impl WaiterTable) -> u64 {
    (0..table.high()).filter(|&place| table.waiter_at(place) != SessionId::NONE).count() as u64
}

impl WaiterTable for LogManager {
    const PLACES: usize = WAITERS;

    fn durable(&self) -> Lsn {
        LogManager::durable(self)
    }
    fn is_poisoned(&self) -> bool {
        LogManager::is_poisoned(self)
    }
    fn waiter_at(&self, place: usize) -> SessionId {
        self.header.waiters[place].session.load()
    }
    fn swap_waiter(&self, place: usize, old: SessionId, new: SessionId) -> bool {
        self.header.waiters[place].session.compare_exchange(old, new).is_ok()
    }
    fn wanted(&self, place: usize) -> Lsn {
        self.header.waiters[place].lsn.load()
    }
    fn set_wanted(&self, place: usize, lsn: Lsn) {
        self.header.waiters[place].lsn.publish(lsn);
    }
    fn high(&self) -> usize {
        usize::try_from(self.header.waiter_high.load()).unwrap_or(WAITERS).min(WAITERS)
    }
    fn raise_high(&self, high: usize) {
        self.header.waiter_high.fetch_max(high as u64);
    }
    fn full_fence(&self) {
        // SeqCst: orders this session's stores before its loads, as the other session's fence does; see the top of the
        // file.
        fence(Ordering::SeqCst);
    }
    fn wake(&self, session: SessionId) {
        self.processes.wake(session);
    }
}

#[cfg(test)]
#[path = "waiters/loom_tests.rs"]
mod loom_tests;
