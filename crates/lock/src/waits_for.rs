//! The waits-for graph.
//!
//! Paper: LIBTP 4.1: "the lock table can be thought of as a representation of a directed graph. The nodes in the graph
//! are transactions. Edges represent the *waits-for* relation". The graph is read from the queues, with one bucket
//! latched at a time. So the reads are not simultaneous, and `detector.rs` reads each wait twice.
//!
//! A locker that waits for a new lock waits for two kinds of requests before its own in the queue: requests that hold a
//! conflicting mode, and requests that themselves wait for a lock or a conversion, because waiters are granted in
//! order. A locker that waits for a conversion waits only for the other requests that hold a conflicting mode.

use libtp_process::{Session, SessionId};

use crate::name::LockName;
use crate::queue::Queue;
use crate::request::{Place, Request};
use crate::{LockManager, LockerId, Mode};

/// An edge of the waits-for graph: one locker waits for another locker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The locker that waits.
    pub waiter: LockerId,
    /// The session that waits.
    pub session: SessionId,
    /// The locker waited for.
    pub holder: LockerId,
    /// The object.
    pub name: LockName,
    /// The mode waited for.
    pub wanted: Mode,
}

/// A wait as it was seen under the latch of its object.
#[derive(Clone, Debug)]
pub(crate) struct SeenWait {
    /// The number of the locker's wait.
    pub(crate) number: u32,
    pub(crate) name: LockName,
    pub(crate) wanted: Mode,
    /// The lockers waited for.
    pub(crate) blockers: Vec<u32>,
}

impl LockManager {
    /// Returns every edge, for the tools.
    pub fn waits_for(&self, session: &Session) -> Vec<Edge> {
        let mut edges = Vec::new();
        for waiter in self.lockers() {
            let Some(seen) = self.seen_wait(session, waiter) else { continue };
            let waits_in = self.table.locker(waiter).session.load();
            edges.extend(seen.blockers.iter().map(|&holder| Edge {
                waiter: LockerId(waiter),
                session: waits_in,
                holder: LockerId(holder),
                name: seen.name,
                wanted: seen.wanted,
            }));
        }
        edges
    }

    /// Returns the other lockers that hold the object in a mode that conflicts with `mode`, and then the lockers that
    /// wait for the object: for messages. The caller holds no latch.
    pub fn in_the_way(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode) -> Vec<LockerId> {
        let mixed = name.mixed();
        let latched = self.table.latch(session, mixed);
        let Ok(queue) = self.table.queue_of(session, latched.bucket, name, mixed) else { return Vec::new() };
        let others = || queue.requests().filter(|(_, other)| other.locker.get() != locker.0);
        let holders = others().filter(|&(place, other)| queue.held_bit(place, other) & mode.conflicts() != 0);
        let waiters = others().filter(|&(place, other)| queue.held_bit(place, other) == 0 && other.state.get().waits());
        holders.chain(waiters).map(|(_, other)| LockerId(other.locker.get())).collect()
    }

    /// Returns the numbers of all locker slots.
    pub(crate) fn lockers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.table.lockers.capacity()
    }

    /// Returns the locker's wait at this moment, if it waits.
    pub(crate) fn seen_wait(&self, session: &Session, locker: u32) -> Option<SeenWait> {
        let slot = self.table.locker(locker);
        let waiting = slot.waiting.load();
        let place = waiting.request()?;
        // Read without the latch, so the slot may already have another request. Then the search below does not find it.
        let request = self.table.request(place);
        let (name, mixed) = (request.lock_name(), request.mixed.get());
        let latched = self.table.latch(session, mixed);
        let queue = self.table.find(latched.bucket, name, mixed).ok()?;
        let (_, own) = queue.requests().find(|&(at, own)| at == place && own.locker.get() == locker)?;
        let wanted = own.state.get().wanted()?;
        // No other session can grant the request while this session holds the latch. So if the locker still has the
        // wait that was read first, all values read since then belong to that wait.
        (slot.waiting.load() == waiting).then(|| SeenWait {
            number: waiting.number(),
            name,
            wanted,
            blockers: blockers(queue, own, wanted),
        })
    }
}

fn blockers(queue: Queue<'_>, own: &Request, wanted: Mode) -> Vec<u32> {
    let converts = own.state.get().granted().is_some();
    let own_locker = own.locker.get();
    let conflicts = |place: Place, request: &Request| queue.held_bit(place, request) & wanted.conflicts() != 0;
    let is_others = |request: &Request| request.locker.get() != own_locker;
    let is_in_the_way = |&(place, request): &(Place, &Request)| match converts {
        true => is_others(request) && conflicts(place, request),
        false => conflicts(place, request) || request.state.get().waits(),
    };
    let before = queue.requests().take_while(|(_, request)| converts || is_others(request));
    before.filter(is_in_the_way).map(|(_, request)| request.locker.get()).collect()
}
