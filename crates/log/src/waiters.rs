//! Who waits for a flush: a table in the region, and the promise that its leader sees those who sleep.
//!
//! Invariants
//! 1. A place is its waiter's from the swap that took it to the swap that gives it back: by the waiter itself, or by a
//!    leader that wakes it because its record is durable.
//! 2. Whoever has a place and sleeps is woken by the leader that makes its record durable; of those whose records are
//!    not yet, one is woken to lead the next flush.
//!
//! Why no wake is lost: a waiter takes its place, then looks at `durable`, `poison` and `leader`; a leader stores
//! `durable`, gives up `leader`, then looks at the places. A full fence stands between, on both sides, so at least one
//! of the two sees what the other did. (Lost all the same, it would cost a sleep of 5 ms: PROTOCOLS D8.)
//!
//! If a waiter dies: its place is given back when the log is durable beyond what it waited for.
//!
//! Generic over the words, so that loom runs this very code.

use std::sync::atomic::{fence, Ordering};

use libtp_process::SessionId;
use rio::failpoint;

use crate::tail::WAITERS;
use crate::{LogManager, Lsn};

/// How many places a waiter tries.
const PROBES: usize = 8;

/// The words of the table, and those a waiter looks at.
pub(crate) trait Board {
    /// How many places there are.
    const PLACES: usize;
    /// How far the log is durable, and whether it will never be further; with acquire.
    fn durable(&self) -> Lsn;
    fn is_poisoned(&self) -> bool;
    /// Who has a place.
    fn tenant(&self, place: usize) -> SessionId;
    /// Swaps the tenant; acquire and release.
    fn swap_tenant(&self, place: usize, old: SessionId, new: SessionId) -> bool;
    /// What the tenant waits for.
    fn wanted(&self, place: usize) -> Lsn;
    fn set_wanted(&self, place: usize, lsn: Lsn);
    /// One more than the highest place ever used.
    fn high(&self) -> usize;
    fn raise_high(&self, high: usize);
    fn full_fence(&self);
    fn wake(&self, session: SessionId);
}

/// Takes a place, and sleeps unless the record at `lsn` is durable, can never be, or `is_over`. The ticket for the
/// sleep was taken before.
pub(crate) fn wait(board: &impl Board, me: SessionId, lsn: Lsn, is_over: impl Fn() -> bool, sleep: impl FnOnce()) {
    let place = enter(board, me, lsn);
    failpoint("log: waits for a flush, has a place");
    board.full_fence();
    if board.durable() <= lsn && !board.is_poisoned() && !is_over() {
        sleep();
    }
    failpoint("log: woken, still has its place");
    if let Some(place) = place {
        // A failure means that a leader gave the place back for us.
        let _ = board.swap_tenant(place, me, SessionId::NONE);
    }
}

/// Takes a place, or none if the nearest are all taken: then its session sleeps without being woken.
fn enter<B: Board>(board: &B, me: SessionId, lsn: Lsn) -> Option<usize> {
    let wanted = me.index() as usize;
    let mut places = (0..PROBES.min(B::PLACES)).map(|probe| (wanted + probe) % B::PLACES);
    let place = places.find(|&place| board.swap_tenant(place, SessionId::NONE, me))?;
    failpoint("log: place taken, not said for what");
    board.set_wanted(place, lsn);
    failpoint("log: place not counted");
    board.raise_high(place + 1);
    Some(place)
}

/// Wakes everyone whose record is durable, and one of the others to lead the next flush.
pub(crate) fn wake(board: &impl Board, durable: Lsn) {
    board.full_fence();
    let mut next_leader = SessionId::NONE;
    for place in 0..board.high() {
        let session = board.tenant(place);
        if session == SessionId::NONE {
            continue;
        }
        // A newcomer that has not yet said what it wants may be taken for an older one: it is woken for nothing, and
        // enters again.
        if board.wanted(place) < durable {
            if board.swap_tenant(place, session, SessionId::NONE) {
                failpoint("log: place given back, waiter not woken");
                board.wake(session);
            }
        } else if next_leader == SessionId::NONE {
            next_leader = session;
        }
    }
    if next_leader != SessionId::NONE {
        board.wake(next_leader);
    }
}

/// How many wait.
pub(crate) fn count(board: &impl Board) -> u64 {
    (0..board.high()).filter(|&place| board.tenant(place) != SessionId::NONE).count() as u64
}

impl Board for LogManager {
    const PLACES: usize = WAITERS;

    fn durable(&self) -> Lsn {
        LogManager::durable(self)
    }
    fn is_poisoned(&self) -> bool {
        LogManager::is_poisoned(self)
    }
    fn tenant(&self, place: usize) -> SessionId {
        self.header.waiters[place].session.load()
    }
    fn swap_tenant(&self, place: usize, old: SessionId, new: SessionId) -> bool {
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
        // SeqCst: orders our stores before our loads against the other side's; see the top of the file.
        fence(Ordering::SeqCst);
    }
    fn wake(&self, session: SessionId) {
        self.processes.wake(session);
    }
}

#[cfg(test)]
#[path = "waiters/loom_tests.rs"]
mod loom_tests;
