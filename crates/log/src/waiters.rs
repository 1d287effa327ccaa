//! The sessions that wait for a flush: a table in the region, and the promise that its leader sees the sleeping
//! waiters.
//!
//! Invariants
//! 1. A place belongs to its waiter from the swap that takes it to the swap that gives it back. The waiter itself gives
//!    it back, or a leader that wakes the waiter because its record is durable.
//! 2. A sleeping waiter with a place is woken by the leader that makes its record durable. Of the waiters whose records
//!    are not yet durable, one is woken to lead the next flush.
//!
//! Why no wake is lost: a waiter takes its place, then looks at `durable`, `poison` and `leader`; a leader stores
//! `durable`, gives up `leader`, then looks at the places. On both sides a full fence stands between the two, so the
//! waiter sees the leader's stores, or the leader sees the waiter's place. (A lost wake would only cost a sleep of 5
//! ms: PROTOCOLS D8.)
//!
//! If a waiter dies: its place is given back when the log is durable beyond the waiter's LSN.
//!
//! Generic over the words, so that loom runs this very code.

use std::sync::atomic::{fence, Ordering};

use libtp_process::SessionId;
use rio::failpoint;

use crate::tail::WAITERS;
use crate::{LogManager, Lsn};

/// The number of places that a waiter tries.
const PROBES: usize = 8;

/// The words of the table, and the other words that a waiter looks at.
pub(crate) trait WaiterTable {
    /// The number of places.
    const PLACES: usize;
    /// Returns how far the log is durable; with acquire.
    fn durable(&self) -> Lsn;
    fn is_poisoned(&self) -> bool;
    /// Returns the session that has a place.
    fn waiter_at(&self, place: usize) -> SessionId;
    /// Replaces the session that has a place; acquire and release.
    fn swap_waiter(&self, place: usize, old: SessionId, new: SessionId) -> bool;
    /// Returns the LSN that the waiter in a place waits for.
    fn wanted(&self, place: usize) -> Lsn;
    fn set_wanted(&self, place: usize, lsn: Lsn);
    /// Returns one more than the highest place ever used.
    fn high(&self) -> usize;
    fn raise_high(&self, high: usize);
    fn full_fence(&self);
    fn wake(&self, session: SessionId);
}

/// Takes a place, and sleeps unless the record at `lsn` is durable, can never become durable, or `is_over`. The ticket
/// for the sleep was taken before.
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
        // The swap fails if a leader has given the place back already.
        let _ = table.swap_waiter(place, me, SessionId::NONE);
    }
}

/// Takes a place; `None` if the nearest places are all taken: then the session sleeps without a wake.
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

/// Wakes every waiter whose record is durable, and one of the others to lead the next flush.
pub(crate) fn wake(table: &impl WaiterTable, durable: Lsn) {
    table.full_fence();
    let mut next_leader = SessionId::NONE;
    for place in 0..table.high() {
        let session = table.waiter_at(place);
        if session == SessionId::NONE {
            continue;
        }
        // A newcomer that has not yet stored its LSN may be taken for an older waiter: it is woken for nothing, and
        // enters again.
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
        // SeqCst: orders this side's stores before its loads, against the other side's; see the top of the file.
        fence(Ordering::SeqCst);
    }
    fn wake(&self, session: SessionId) {
        self.processes.wake(session);
    }
}

#[cfg(test)]
#[path = "waiters/loom_tests.rs"]
mod loom_tests;
