//! A model of kept intent locks: every interleaving of a locker that uses a kept lock again and again and of another
//! locker that wants to lock the whole database. The processors delay stores, and a locker may die between any two
//! steps.
//!
//! A store of the first locker goes into a buffer, as on x86, and reaches memory at any later time; a locked
//! instruction, a barrier and a system call empty the buffer. Each rule of the protocol has a variant of the model that
//! breaks it, and the search finds the interleaving that gives both lockers the database.

use std::collections::{HashSet, VecDeque};

/// A rule of the protocol that a variant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The locker that revokes waits for no barrier.
    Barrier,
    /// The epoch is read before the bit is set.
    Order,
    /// A contended request is learnt.
    Learning,
    /// The request is marked contended before the epoch ends. If the locker dies in between, the next locker that
    /// revokes trusts the mark and ends no epoch.
    Mark,
    /// The epoch does not end.
    Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Kept,
    Contended,
    Revoked,
}

/// The next step of the locker that uses the kept lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum User {
    Begin,
    /// The bit is to be set.
    Set,
    /// The epoch is to be read.
    Read,
    /// The variant of [`Broken::Order`]: the bit is to be set, and the epoch was read.
    SetLate,
    Latch,
    Look,
    Works,
    /// The request went out of force, and the locker queues like any other: outside the model.
    Done,
}

/// The next step of the locker that wants to lock the whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whole {
    Latch,
    Raise,
    Fence,
    /// The variant of [`Broken::Mark`]: the request is to be marked before the epoch ends.
    MarkEarly,
    Look,
    Works,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The bit in memory, and the stores to it that are in the buffer.
    bit: bool,
    buffer: VecDeque<bool>,
    epoch: u8,
    /// Whether the locker that wants the whole database holds the latch.
    latch: Option<bool>,
    request: Request,
    /// The epoch in which the user learnt the request.
    learnt: Option<u8>,
    user: User,
    transactions: u8,
    whole: Whole,
    deaths: u8,
}

/// The limits of the model: more raises of the epoch, more transactions and more deaths show nothing new.
const EPOCHS: u8 = 4;
const TRANSACTIONS: u8 = 3;
const DEATHS: u8 = 2;

impl State {
    fn first() -> State {
        State {
            bit: false,
            buffer: VecDeque::new(),
            epoch: 0,
            latch: None,
            request: Request::Kept,
            learnt: None,
            user: User::Begin,
            transactions: 0,
            whole: Whole::Latch,
            deaths: 0,
        }
    }

    fn drain(&mut self) {
        if let Some(last) = self.buffer.pop_back() {
            self.bit = last;
        }
        self.buffer.clear();
    }

    /// Returns every state that one step leads to.
    fn next(&self, broken: Broken) -> Vec<State> {
        let mut next = Vec::new();
        next.extend(self.user_step(broken));
        next.extend(self.whole_step(broken));
        if let Some(&first) = self.buffer.front() {
            let mut state = self.clone();
            state.buffer.pop_front();
            state.bit = first;
            next.push(state);
        }
        if self.deaths < DEATHS {
            next.extend(self.deaths_now());
        }
        next
    }

    fn with(&self, change: impl FnOnce(&mut State)) -> State {
        let mut state = self.clone();
        change(&mut state);
        state
    }

    fn user_step(&self, broken: Broken) -> Option<State> {
        let is_known = self.learnt == Some(self.epoch);
        Some(match self.user {
            User::Begin if self.transactions == TRANSACTIONS => return None,
            User::Begin => self.with(|state| {
                state.transactions += 1;
                state.user = match (self.learnt, broken) {
                    (None, _) => User::Latch,
                    (_, Broken::Order) if is_known => User::SetLate,
                    (_, Broken::Order) => User::Latch,
                    _ => User::Set,
                };
            }),
            User::Set => self.with(|state| {
                state.buffer.push_back(true);
                state.user = User::Read;
            }),
            User::SetLate => self.with(|state| {
                state.buffer.push_back(true);
                state.user = User::Works;
            }),
            User::Read if is_known => self.with(|state| state.user = User::Works),
            User::Read => self.with(|state| {
                state.buffer.push_back(false);
                state.learnt = None;
                state.user = User::Latch;
            }),
            User::Latch if self.latch.is_some() => return None,
            User::Latch => self.with(|state| {
                state.drain();
                state.latch = Some(false);
                state.user = User::Look;
            }),
            User::Look => self.with(|state| {
                let may_learn =
                    self.request == Request::Kept || self.request == Request::Contended && broken == Broken::Learning;
                // The release of the latch is a plain store after the store of the bit, so the bit reaches memory
                // first.
                if may_learn {
                    state.bit = true;
                    state.learnt = Some(self.epoch);
                    state.user = User::Works;
                } else {
                    state.request = Request::Revoked;
                    state.user = User::Done;
                }
                state.latch = None;
            }),
            User::Works => self.with(|state| {
                state.buffer.push_back(false);
                state.user = User::Begin;
            }),
            User::Done => return None,
        })
    }

    fn whole_step(&self, broken: Broken) -> Option<State> {
        Some(match self.whole {
            Whole::Latch if self.latch.is_some() || self.epoch == EPOCHS => return None,
            Whole::Latch => self.with(|state| {
                state.latch = Some(true);
                state.whole = match self.request {
                    Request::Kept if broken == Broken::Epoch => Whole::Fence,
                    Request::Kept if broken == Broken::Mark => Whole::MarkEarly,
                    Request::Kept => Whole::Raise,
                    Request::Contended | Request::Revoked => Whole::Look,
                };
            }),
            Whole::MarkEarly => self.with(|state| {
                state.request = Request::Contended;
                state.whole = Whole::Raise;
            }),
            Whole::Raise => self.with(|state| {
                state.epoch += 1;
                state.whole = if broken == Broken::Barrier { Whole::Look } else { Whole::Fence };
            }),
            Whole::Fence => self.with(|state| {
                state.drain();
                state.whole = Whole::Look;
            }),
            Whole::Look => self.with(|state| {
                state.latch = None;
                if self.request == Request::Revoked || !self.bit {
                    state.request = Request::Revoked;
                    state.whole = Whole::Works;
                } else {
                    state.request = Request::Contended;
                    state.whole = Whole::Latch;
                }
            }),
            Whole::Works => return None,
        })
    }

    /// Returns the states after a death and its repair. A dead processor's stores reach memory.
    fn deaths_now(&self) -> Vec<State> {
        // The repair ends the user's transaction. A new locker would queue like any other.
        let user = self.with(|state| {
            state.drain();
            state.bit = false;
            state.user = User::Done;
            state.latch = self.latch.filter(|&is_whole| is_whole);
            state.deaths += 1;
        });
        // Another locker wants the whole database instead.
        let whole = self.with(|state| {
            state.whole = Whole::Latch;
            state.latch = self.latch.filter(|&is_whole| !is_whole);
            state.deaths += 1;
        });
        vec![user, whole]
    }

    fn is_wrong(&self) -> bool {
        self.user == User::Works && self.whole == Whole::Works
    }
}

/// Searches all states. Returns their number, and whether one gives both lockers the database.
fn search(broken: Broken) -> (usize, bool) {
    let (mut seen, mut open) = (HashSet::from([State::first()]), vec![State::first()]);
    while let Some(state) = open.pop() {
        if state.is_wrong() {
            return (seen.len(), true);
        }
        open.extend(state.next(broken).into_iter().filter(|next| seen.insert(next.clone())));
    }
    (seen.len(), false)
}

#[test]
fn no_interleaving_gives_both_lockers_the_database() {
    let (states, is_wrong) = search(Broken::Nothing);
    assert!(!is_wrong, "both lockers have the database");
    assert!(states > 1000, "the model has {states} states");
}

#[test]
fn each_broken_rule_is_found() {
    for broken in [Broken::Barrier, Broken::Order, Broken::Learning, Broken::Mark, Broken::Epoch] {
        assert!(search(broken).1, "{broken:?} is not found");
    }
}
