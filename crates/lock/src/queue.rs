//! The object of locks: the queue of the requests for one name.
//!
//! Paper: LIBTP 3.2.3.
//!
//! An object has no slot. Its queue is a chain of requests, and the bucket's chain leads to the first of them, the
//! *head*. So an object that only one locker wants costs one slot: the request of that locker.
//!
//! Invariants (asserted by `check.rs`)
//! 1. A queue has first the granted requests, including those that wait for a stronger mode; then the waiting requests
//!    in the order of their arrival. The head is granted.
//! 2. The head's summary has the bit of every mode granted in the queue (and may have bits of modes that were
//!    released). Its `WAITING` bit is set exactly if a request waits, for a lock or for a stronger mode.
//! 3. The queue is read and changed under the latch of the object's bucket.

use libtp_process::SessionId;
use rio::failpoint;

use crate::change::Change;
use crate::mode::Mode;
use crate::name::LockName;
use crate::request::{Place, Request, State, Summary};
use crate::table::{goes_in_a_circle, Bucket, Table, CHAIN_MAX};

/// A queue, found under its bucket's latch.
#[derive(Clone, Copy)]
pub(crate) struct Queue<'t> {
    table: &'t Table,
    /// The head's place.
    pub(crate) place: Place,
    /// The head.
    pub(crate) head: &'t Request,
}

/// The sessions whose requests a change has granted. They are woken after the change.
#[derive(Default)]
pub(crate) struct Granted {
    pub(crate) sessions: Vec<SessionId>,
    /// Whether the grants must not be overtaken (`overtake.rs`).
    pub(crate) not_overtakable: bool,
}

impl Granted {
    #[inline]
    pub(crate) fn new() -> Granted {
        Granted::default()
    }
}

impl<'t> Queue<'t> {
    #[inline]
    pub(crate) fn new(table: &'t Table, place: Place) -> Queue<'t> {
        Queue { table, place, head: table.request(place) }
    }

    /// Returns every request of the queue, from the head on.
    #[inline]
    pub(crate) fn requests(self) -> impl Iterator<Item = (Place, &'t Request)> {
        let table = self.table;
        let mut next = self.place;
        let mut passed = 0;
        std::iter::from_fn(move || {
            let place = next.some()?;
            let request = table.request(place);
            next = request.queue_next.get();
            passed += 1;
            if passed == CHAIN_MAX {
                goes_in_a_circle();
            }
            Some((place, request))
        })
    }

    /// Returns the locker's own request, if it has one.
    #[inline]
    pub(crate) fn of_locker(self, locker: u32) -> Option<(Place, &'t Request)> {
        self.requests().find(|(_, request)| request.locker.get() == locker)
    }

    /// Returns the set of modes granted to other lockers.
    #[inline]
    pub(crate) fn granted_to_others(self, locker: u32) -> u32 {
        let others = self.requests().filter(|(_, request)| request.locker.get() != locker);
        others.fold(0, |set, (_, request)| set | request.state.get().granted_bit())
    }

    /// Returns the set of modes granted.
    #[inline]
    pub(crate) fn granted(self) -> u32 {
        self.requests().fold(0, |set, (_, request)| set | request.state.get().granted_bit())
    }

    /// Returns the bit of the mode that a request has in force; zero if the request only waits, or is kept and idle.
    #[inline]
    pub(crate) fn held_bit(self, place: Place, request: &Request) -> u32 {
        let state = request.state.get();
        match state.is_kept() && !self.table.is_active(place, request) {
            true => 0,
            false => state.granted_bit(),
        }
    }

    /// Returns the last request.
    pub(crate) fn last(self) -> (Place, &'t Request) {
        self.requests().last().unwrap_or((self.place, self.head))
    }

    /// Grants all that can be granted now: conversions first, then the waiting requests in the order of their arrival,
    /// up to the first request that must continue to wait. Updates the summary. Returns through `granted` the sessions
    /// to wake.
    ///
    /// If we die before `change` is closed, nothing was granted. If we die between the close and the wakes, the waiters
    /// see their grants when their sleep times out (PROTOCOLS D8).
    pub(crate) fn grant(self, change: &mut Change<'_>, granted: &mut Granted) {
        let mut held = HeldModes::of(self);
        let limit = granted.sessions.len() + GRANTS_MAX;
        let nobody_waits = self.grant_conversions(&mut held, change, granted, limit)
            && self.grant_waiting(&mut held, change, granted, limit);
        failpoint("lock: granted, summary old");
        change.set(&self.head.summary, Summary::new(held.set(), !nobody_waits));
    }

    /// Grants the conversions that can be granted. Returns whether no conversion waits any more.
    fn grant_conversions(
        self,
        held: &mut HeldModes,
        change: &mut Change<'_>,
        granted: &mut Granted,
        limit: usize,
    ) -> bool {
        let mut all = true;
        for (_, request) in self.requests() {
            let state = request.state.get();
            let (Some(mode), Some(wanted)) = (state.granted(), state.wanted()) else { continue };
            held.remove(mode);
            if held.set() & wanted.conflicts() == 0 && granted.sessions.len() < limit {
                held.add(wanted);
                self.give(request, State::granted_in(wanted), change, granted);
            } else {
                held.add(mode);
                all = false;
            }
        }
        all
    }

    /// Grants the waiting requests in their order, up to the first request that must continue to wait. Returns whether
    /// no request waits any more.
    fn grant_waiting(self, held: &mut HeldModes, change: &mut Change<'_>, granted: &mut Granted, limit: usize) -> bool {
        for (_, request) in self.requests() {
            let state = request.state.get();
            let (None, Some(wanted)) = (state.granted(), state.wanted()) else { continue };
            if held.set() & wanted.conflicts() != 0 || granted.sessions.len() >= limit {
                return false;
            }
            held.add(wanted);
            let state =
                if granted.not_overtakable { State::granted_in(wanted) } else { state.granted_after_wait(wanted) };
            self.give(request, state, change, granted);
        }
        true
    }

    fn give(self, request: &Request, state: State, change: &mut Change<'_>, granted: &mut Granted) {
        change.set(&request.state, state);
        failpoint("lock: a waiter granted");
        granted.sessions.push(self.table.locker(request.locker.get()).session.get());
    }
}

impl Table {
    /// Returns the queue of a name, under the latch of its bucket. If there is no queue, returns the number of objects
    /// in the chain as the error.
    #[inline]
    pub(crate) fn find(&self, bucket: &Bucket, name: LockName, mixed: u64) -> Result<Queue<'_>, u32> {
        let mut next = bucket.chain(mixed).get();
        let mut passed = 0;
        while let Some(place) = next.some() {
            let queue = Queue::new(self, place);
            queue.head.assert_undamaged();
            if queue.head.is_for(name) {
                return Ok(queue);
            }
            next = queue.head.chain_next.get();
            passed += 1;
            if passed == CHAIN_MAX {
                goes_in_a_circle();
            }
        }
        Err(passed)
    }
}

/// The largest number of grants in one section. Further waiters grant their requests themselves when they next check.
const GRANTS_MAX: usize = 512;

/// The number of holders of an object in each mode.
struct HeldModes([u32; 7]);

impl HeldModes {
    fn of(queue: Queue<'_>) -> HeldModes {
        let mut held = HeldModes([0; 7]);
        queue.requests().filter_map(|(_, request)| request.state.get().granted()).for_each(|mode| held.add(mode));
        held
    }

    fn add(&mut self, mode: Mode) {
        self.0[mode as usize] += 1;
    }

    fn remove(&mut self, mode: Mode) {
        self.0[mode as usize] -= 1;
    }

    fn set(&self) -> u32 {
        let modes = Mode::ALL.into_iter().filter(|&mode| self.0[mode as usize] != 0);
        modes.fold(0, |set, mode| set | mode.bit())
    }
}
