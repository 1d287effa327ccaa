//! The state machine of a latch: which words there are and who may change which into which.
//!
//! Paper: LIBTP section 4.3: test-and-set first, a system call only when that fails. Departure: shared and exclusive.
//!
//! ```text
//!   63            38 37            18 17     16      15      14      13                0
//!  +----------------+----------------+------+-------+-------+-------+-------------------+
//!  | owner's        | owner's slot   |FREEZE|PENDING|WRITERS|READERS| shared holders    |
//!  | generation, 26 | index, 20      |      |       |       |       | 14 (bit 13: full) |
//!  +----------------+----------------+------+-------+-------+-------+-------------------+
//! ```
//! * `READERS`, `WRITERS`: somebody who wants it shared, or exclusive, sleeps on the word. Whoever lets the last hold
//!   go clears both and wakes all such readers and one such writer. That writer, whether it gets the latch or sleeps
//!   again, sets `WRITERS`, because others may still sleep: so one wake is enough.
//! * `PENDING`: a writer waits for shared holders to leave; no new ones come in. So writers do not starve.
//! * `FREEZE`: a reaper is counting (PROTOCOLS D7); neither acquired nor released until it is gone.
//!
//! Invariants ([`check`])
//! 1. Never both an owner and shared holders.
//! 2. `PENDING` only while nobody owns the word.
//! 3. The three waiting bits are advice: a sleeper that times out goes by the holders alone, and clears `PENDING`.
//!
//! 4. A reaper freezes only a word with shared holders, so never an owned one. (PROTOCOLS D7 has every release a swap; by
//!    this invariant an owner's need not be.)
//!
//! If we die here: with a bit set and not asleep, or having cleared it and not woken anyone: whoever is concerned
//! wakes by itself, after as long again as it has slept so far, [`SLEEP_MAX`](crate::SLEEP_MAX) at most.
//!
//! Everything is generic over the word and over how to wait, so that loom can run it.

use rio::failpoint;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared holders.
pub(crate) const COUNT: u64 = (1 << 14) - 1;
/// The count's highest bit: no more shared holders fit.
const FULL: u64 = 1 << 13;
/// Readers sleep.
pub(crate) const READERS: u64 = 1 << 14;
/// Writers sleep.
pub(crate) const WRITERS: u64 = 1 << 15;
/// A writer waits for shared holders to leave.
pub(crate) const PENDING: u64 = 1 << 16;
/// A reaper counts.
pub(crate) const FREEZE: u64 = 1 << 17;
/// Where the owner begins.
pub(crate) const OWNER_SHIFT: u32 = 18;
/// The owner's bits.
pub(crate) const OWNER: u64 = !((1 << OWNER_SHIFT) - 1);

const SHARED_BLOCKED: u64 = FULL | PENDING | FREEZE | OWNER;
const EXCLUSIVE_BLOCKED: u64 = COUNT | FREEZE | OWNER;
const ASLEEP: u64 = READERS | WRITERS;

/// The atomic a latch is made of: the real one, or loom's.
pub(crate) trait StateWord {
    /// Loads; only ever the expected value of a swap, or a hint.
    fn look(&self) -> u64;
    /// Swaps if it holds `old`; the error is what it holds.
    fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64>;
    /// Stores zero.
    fn free(&self);
}

impl StateWord for AtomicU64 {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed: what is decided with it is confirmed by a swap.
        self.load(Ordering::Relaxed)
    }
    #[inline]
    fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64> {
        // AcqRel, both ways: acquiring pairs with the release by the last holder; releasing publishes what was done
        // under the latch; and either publishes the note the session wrote before it to the reaper's freezing swap.
        rio::schedule::point();
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
    }
    #[inline]
    fn free(&self) {
        // Release: publishes what was done under the latch to the next swap that acquires it.
        rio::schedule::point();
        self.store(0, Ordering::Release);
    }
}

/// Who sleeps, and so who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Wants the latch shared: all of them are woken together.
    Reader,
    /// Wants it exclusive: one is woken.
    Writer,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Woken, or the word had changed before sleep, or too little time has passed to draw a conclusion.
    Woken,
    /// The whole bound passed: whoever should have woken us may be dead.
    TimedOut,
}

/// How a session waits and wakes others: spinning, the kernel, or loom's model of it.
pub(crate) trait Waiter<W> {
    /// How often to look again before sleeping.
    const SPINS: u32;
    /// Passes a moment between looks; `round` counts them.
    fn pause(&self, round: u32);
    /// Sleeps while the word is `seen`. The first time `round` is 0.
    fn wait(&self, word: &W, seen: u64, class: Class, round: u32) -> Wait;
    /// Waits a moment for a reaper to unfreeze the word, which is to be released. False if it is not worth it any more.
    fn thaw(&self, word: &W) -> bool;
    /// Wakes all readers, or one writer.
    fn wake(&self, word: &W, class: Class);
}

/// One attempt to become a shared holder; fails also if another changed the word meanwhile.
#[inline]
pub(crate) fn acquire_shared(word: &impl StateWord) -> bool {
    let seen = word.look();
    seen & SHARED_BLOCKED == 0 && word.swap_if(seen, seen + 1).is_ok()
}

/// Becomes a shared holder if nothing stands against it.
pub(crate) fn try_shared(word: &impl StateWord) -> bool {
    let mut seen = word.look();
    while seen & SHARED_BLOCKED == 0 {
        match word.swap_if(seen, seen + 1) {
            Ok(_) => return true,
            Err(found) => seen = found,
        }
    }
    false
}

/// One attempt to become the owner of a word nobody wants; `owner` has owner bits only.
#[inline]
pub(crate) fn acquire_exclusive(word: &impl StateWord, owner: u64) -> bool {
    word.swap_if(0, owner).is_ok()
}

/// Becomes the owner if nobody holds the word; sleepers' bits are kept.
pub(crate) fn try_exclusive(word: &impl StateWord, owner: u64) -> bool {
    take_exclusive(word, owner, 0)
}

/// Becomes the owner if nobody holds the word, adding `bits`. It takes `PENDING` away: a writer who still wants it
/// sets it again.
fn take_exclusive(word: &impl StateWord, owner: u64, bits: u64) -> bool {
    let mut seen = word.look();
    while seen & EXCLUSIVE_BLOCKED == 0 {
        match word.swap_if(seen, owner | (seen & ASLEEP) | bits) {
            Ok(_) => return true,
            Err(found) => seen = found,
        }
    }
    false
}

/// Waits until it is a shared holder.
pub(crate) fn wait_shared<W: StateWord>(word: &W, waiter: &impl Waiter<W>) {
    let mut round = 0;
    loop {
        if spin(word, waiter, || try_shared(word)) {
            return;
        }
        let Some(asleep) = announce_reader(word) else { continue };
        if waiter.wait(word, asleep, Class::Reader, round) == Wait::TimedOut && enter_past_pending(word) {
            return;
        }
        round += 1;
    }
}

/// Sets `READERS`. Returns the word to sleep on, or none if it changed and deserves another look.
fn announce_reader(word: &impl StateWord) -> Option<u64> {
    let seen = word.look();
    if seen & SHARED_BLOCKED == 0 {
        return None;
    }
    if seen & READERS != 0 {
        return Some(seen);
    }
    word.swap_if(seen, seen | READERS).ok().map(|_| seen | READERS)
}

/// After a whole time-out: the writer that set `PENDING` may be dead, so it counts no longer.
fn enter_past_pending(word: &impl StateWord) -> bool {
    let mut seen = word.look();
    while seen & (SHARED_BLOCKED & !PENDING) == 0 {
        match word.swap_if(seen, (seen & !PENDING) + 1) {
            Ok(_) => return true,
            Err(found) => seen = found,
        }
    }
    false
}

/// Waits until it is the owner.
pub(crate) fn wait_exclusive<W: StateWord>(word: &W, owner: u64, waiter: &impl Waiter<W>) {
    // Once we have slept we may have had the only wake, so we pass it on: see `WRITERS` above.
    let (mut round, mut pass_on) = (0, 0);
    loop {
        let taken = spin(word, waiter, || {
            hold_readers_off(word);
            take_exclusive(word, owner, pass_on)
        });
        failpoint("latch: spun for it");
        if taken {
            return;
        }
        let Some(asleep) = announce_writer(word) else { continue };
        waiter.wait(word, asleep, Class::Writer, round);
        (round, pass_on) = (round + 1, WRITERS);
    }
}

/// Sets `PENDING` if there are shared holders.
fn hold_readers_off(word: &impl StateWord) {
    let seen = word.look();
    if seen & COUNT != 0 && seen & (PENDING | FREEZE) == 0 {
        // Refused means the word moves; the next round looks again.
        let _ = word.swap_if(seen, seen | PENDING);
    }
}

/// Sets `WRITERS`, and `PENDING` if there are shared holders. Returns the word to sleep on, or none if it is worth
/// another look.
fn announce_writer(word: &impl StateWord) -> Option<u64> {
    let seen = word.look();
    if seen & EXCLUSIVE_BLOCKED == 0 {
        return None;
    }
    let wanted = seen | WRITERS | if seen & COUNT == 0 { 0 } else { PENDING };
    if wanted == seen {
        return Some(seen);
    }
    word.swap_if(seen, wanted).ok().map(|_| wanted)
}

/// Not on a frozen word: the note of a session that spins says that the session is about to hold the latch, and the reaper counts when
/// no note says so.
fn spin<W: StateWord>(word: &W, waiter: &impl Waiter<W>, mut attempt: impl FnMut() -> bool) -> bool {
    for round in 0..=waiter_rounds(waiter) {
        if attempt() {
            return true;
        }
        if round < waiter_rounds(waiter) {
            if word.look() & FREEZE != 0 {
                return false;
            }
            waiter.pause(round);
        }
    }
    false
}

fn waiter_rounds<W, T: Waiter<W>>(_: &T) -> u32 {
    T::SPINS
}

/// One attempt to stop being a shared holder of a word nobody waits for.
#[inline]
pub(crate) fn leave_shared(word: &impl StateWord) -> bool {
    let seen = word.look();
    seen & (ASLEEP | PENDING | FREEZE) == 0 && word.swap_if(seen, seen - 1).is_ok()
}

/// Stops being a shared holder; the last one wakes the sleepers.
pub(crate) fn release_shared<W: StateWord>(word: &W, waiter: &impl Waiter<W>) {
    loop {
        let seen = word.look();
        check(seen);
        if seen & COUNT == 0 {
            return demand(false, "a shared latch was released that nobody held", seen);
        }
        if seen & FREEZE != 0 {
            if !waiter.thaw(word) {
                return;
            }
            continue;
        }
        let last = seen & COUNT == 1;
        let left = if last { 0 } else { seen - 1 };
        if word.swap_if(seen, left).is_ok() {
            failpoint("latch: shared let go, nobody woken");
            if last {
                wake_sleepers(word, seen, waiter);
            }
            return;
        }
    }
}

/// One attempt to stop being the owner of a word nobody waits for. A look and a store, at half the price of two swaps.
///
/// A sleeper's bit that is set between the two is lost; nothing else can be, because nobody else changes an owned word
/// otherwise. The sleeper's kernel call compares the word once more, hundreds of nanoseconds later, so it sleeps in vain
/// only if we lose the processor between two instructions; then it wakes by itself (invariant 3).
#[inline]
pub(crate) fn leave_exclusive(word: &impl StateWord, owner: u64) -> bool {
    let alone = word.look() == owner;
    if alone {
        word.free();
    }
    alone
}

/// Stops being the owner; wakes the sleepers.
pub(crate) fn release_exclusive<W: StateWord>(word: &W, owner: u64, waiter: &impl Waiter<W>) {
    loop {
        let seen = word.look();
        check(seen);
        if seen & OWNER != owner {
            return demand(false, "an exclusive latch was released by another than its owner", seen);
        }
        if seen & FREEZE != 0 {
            if !waiter.thaw(word) {
                return;
            }
            continue;
        }
        if word.swap_if(seen, 0).is_ok() {
            failpoint("latch: free, nobody woken");
            wake_sleepers(word, seen, waiter);
            return;
        }
    }
}

pub(crate) fn wake_sleepers<W: StateWord>(word: &W, seen: u64, waiter: &impl Waiter<W>) {
    if seen & WRITERS != 0 {
        waiter.wake(word, Class::Writer);
    }
    if seen & READERS != 0 {
        waiter.wake(word, Class::Reader);
    }
}

/// Asserts the invariants at the top of this file.
pub(crate) fn check(word: u64) {
    demand(word & OWNER == 0 || word & COUNT == 0, "a latch has an owner and shared holders", word);
    demand(word & OWNER == 0 || word & PENDING == 0, "a writer is pending on an owned latch", word);
}

/// Asserts what a wild store can break. Not while unwinding, where latches are let go and a second panic would end the
/// process: whoever waits for the latch finds the same.
fn demand(holds: bool, what: &str, word: u64) {
    assert!(holds || std::thread::panicking(), "{what}: {word:#x}");
}

#[cfg(test)]
#[path = "latch_word/loom_tests.rs"]
mod loom_tests;
