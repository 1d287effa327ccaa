//! The object of locks: an opaque name, and the queue of its requests.
//!
//! Paper: LIBTP 3.2.3. Departure: the paper's object is a file id and a page number; here it is sixteen bytes whose
//! meaning the lock manager does not know, so databases, pages, records and gaps are alike.
//!
//! An object has no slot of its own. Its queue is a chain of requests, and the bucket's chain leads to the first of
//! them, the *head*. So an object that no other locker wants costs one slot: its holder's request.
//!
//! Invariants (asserted by `check.rs`)
//! 1. A queue has first the granted requests, including those that wait for a stronger mode; then the waiting requests
//!    in the order of their arrival. The head is granted.
//! 2. The head's summary has the bit of every mode granted in the queue (and may have bits of modes that are gone). Its
//!    `WAITING` bit is set exactly if a request waits, for a lock or for a stronger mode.
//! 3. The queue is read and changed under the latch of the object's bucket.

use std::fmt;

use libtp_process::SessionId;
use rio::failpoint;

use crate::change::Change;
use crate::mode::Mode;
use crate::request::{Place, Request, State, Summary};
use crate::table::{goes_in_a_circle, Table, CHAIN_MAX};

/// The name of an object: sixteen bytes that the lock manager does not interpret.
///
/// By convention `kind` is 1 for a database, 2 for a page, 3 for a record, 4 for the gap below it, 5 for a segment of
/// memory, 6 for an object that the program names, and 7 for the one right to put plain files in their places. `space`
/// is the database or segment. `hash` is a page number or a hash of the key, fixed in the file format (PROTOCOLS K2).
/// Two keys with the same hash share their lock, which only costs concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    /// Which database.
    pub space: u32,
    /// What kind of object.
    pub kind: u32,
    /// Which object of that kind.
    pub hash: u64,
}

impl LockName {
    /// Returns the first of the two words that store the name.
    #[inline]
    pub(crate) fn low(self) -> u64 {
        u64::from(self.space) | (u64::from(self.kind) << 32)
    }

    /// Makes a name from its two words.
    #[inline]
    pub(crate) fn from_words(low: u64, hash: u64) -> LockName {
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).expect("masked to 32 bits");
        LockName { space: half(low), kind: half(low >> 32), hash }
    }

    /// Mixes the whole name into 64 bits, which choose its place in the table. Not stored anywhere that outlives the
    /// region.
    #[inline]
    pub(crate) fn mixed(self) -> u64 {
        let seed = self.hash ^ self.low().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let wide = u128::from(seed) * 0xD6E8_FEB8_6659_FD93;
        // Both halves, so that every bit of the name reaches the low bits and the high ones.
        #[allow(clippy::cast_possible_truncation, reason = "the halves of the product are wanted")]
        let halves = (wide as u64, (wide >> 64) as u64);
        halves.0 ^ halves.1
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            1 => write!(f, "database {}", self.space),
            2 => write!(f, "page {} of database {}", self.hash, self.space),
            3 => write!(f, "record {:#x} of database {}", self.hash, self.space),
            4 => write!(f, "gap {:#x} of database {}", self.hash, self.space),
            5 => write!(f, "segment {}", self.space),
            6 => write!(f, "the program's object {:#x}", self.hash),
            7 => f.write_str("the right to put plain files in their places"),
            kind => write!(f, "object {:#x} of kind {kind} in {}", self.hash, self.space),
        }
    }
}

/// A queue, found under its bucket's latch.
#[derive(Clone, Copy)]
pub(crate) struct Queue<'t> {
    table: &'t Table,
    /// The head's place.
    pub(crate) place: Place,
    /// The head.
    pub(crate) head: &'t Request,
}

/// The sessions that a change granted a lock, to be woken after it.
#[derive(Default)]
pub(crate) struct Granted {
    pub(crate) sessions: Vec<SessionId>,
    /// The grants may not be overtaken (`overtake.rs`).
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

    /// Returns the last request.
    pub(crate) fn last(self) -> (Place, &'t Request) {
        self.requests().last().unwrap_or((self.place, self.head))
    }

    /// Grants all that can be granted now: conversions first, then the waiting requests in the order of their arrival,
    /// up to the first that must go on waiting. Updates the summary. Returns through `granted` the sessions to wake.
    ///
    /// If we die before `change` is closed, nothing was granted; between that and the wakes, the waiters look by
    /// themselves (PROTOCOLS D8).
    pub(crate) fn grant(self, change: &mut Change<'_>, granted: &mut Granted) {
        let mut held = HeldModes::of(self);
        let limit = granted.sessions.len() + GRANTS_MAX;
        let nobody_waits = self.grant_conversions(&mut held, change, granted, limit)
            && self.grant_waiting(&mut held, change, granted, limit);
        failpoint("lock: granted, summary old");
        change.set(&self.head.summary, Summary::new(held.set(), !nobody_waits));
    }

    /// Returns whether no conversion waits any more.
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

    /// Returns whether no request waits any more.
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
        failpoint("lock: granted one of the waiting");
        granted.sessions.push(self.table.locker(request.locker.get()).session.get());
    }
}

/// The most grants in one section; further waiters find out by themselves when they next look.
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

#[cfg(test)]
mod tests {
    use super::LockName;

    #[test]
    fn a_name_survives_its_two_words() {
        let name = LockName { space: u32::MAX, kind: 4, hash: 0x0123_4567_89AB_CDEF };
        assert_eq!(LockName::from_words(name.low(), name.hash), name);
    }

    #[test]
    fn names_that_differ_in_little_are_spread_over_buckets_and_chains() {
        for vary in 0..3 {
            let mut low = [0_u32; 64];
            let mut high = [0_u32; 8];
            for n in 0..6400_u32 {
                let name = match vary {
                    0 => LockName { space: 1, kind: 2, hash: u64::from(n) },
                    1 => LockName { space: n, kind: 1, hash: 0 },
                    _ => LockName { space: 7, kind: 3, hash: u64::from(n) << 40 },
                };
                low[usize::try_from(name.mixed() % 64).unwrap()] += 1;
                high[usize::try_from(name.mixed() >> 61).unwrap()] += 1;
            }
            assert!(low.iter().all(|&count| (50..200).contains(&count)), "{vary}: {low:?}");
            assert!(high.iter().all(|&count| (400..1600).contains(&count)), "{vary}: {high:?}");
        }
    }
}
