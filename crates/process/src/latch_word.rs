//! The state machine of a latch: its words, and the allowed changes between them.
//!
//! Paper: LIBTP section 4.3: test-and-set first, a system call only when that fails. Departure: a latch can be held
//! shared or exclusively.
//!
//! ```text
//!   63            38 37            18 17     16      15      14      13                0
//!  +----------------+----------------+------+-------+-------+-------+-------------------+
//!  | owner's        | owner's slot   |FREEZE|PENDING|WRITERS|READERS| shared holders    |
//!  | generation, 26 | index, 20      |      |       |       |       | 14 (bit 13: full) |
//!  +----------------+----------------+------+-------+-------+-------+-------------------+
//! ```
//! * `READERS`: a session that wants the latch shared sleeps on the word. `WRITERS`: a session that wants the latch
//!   exclusively sleeps. The last holder clears both bits at its release, and wakes all sleeping readers and one
//!   sleeping writer. The woken writer sets `WRITERS` again, whether it gets the latch or sleeps again, because other
//!   writers may still sleep. So a release need not wake more than one writer.
//! * `PENDING`: a writer waits for shared holders to leave; no new shared holders are admitted. So writers do not
//!   starve.
//! * `FREEZE`: a reaper is counting the holders (PROTOCOLS D7); until it is done, no session acquires or releases.
//!
//! Invariants ([`check`])
//! 1. The word never has both an owner and shared holders.
//! 2. `PENDING` is set only while the word has no owner.
//! 3. The three waiting bits are advice: a sleeper that times out considers only the holders, and clears `PENDING`.
//!
//! 4. A reaper freezes only a word with shared holders, so never a word with an owner. (PROTOCOLS D7 requires that a
//!    release is a swap. Because of this invariant, the owner's release need not be a swap.)
//!
//! If we die here: a waiting bit may be set without a sleeper, or cleared without a wake. A sleeper also wakes by
//! itself: a lost wake at most doubles the time that the sleeper has slept, and costs at most
//! [`SLEEP_MAX`](crate::SLEEP_MAX).
//!
//! Everything is generic over the word and over the way to wait, so that loom can run it.

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
/// The lowest bit of the owner.
pub(crate) const OWNER_SHIFT: u32 = 18;
/// The owner's bits.
pub(crate) const OWNER: u64 = !((1 << OWNER_SHIFT) - 1);

const SHARED_BLOCKED: u64 = FULL | PENDING | FREEZE | OWNER;
const EXCLUSIVE_BLOCKED: u64 = COUNT | FREEZE | OWNER;
const ASLEEP: u64 = READERS | WRITERS;

/// The atomic word of a latch: a real atomic, or loom's model of an atomic.
pub(crate) trait StateWord {
    /// Loads the word. The caller uses the value only as the expected value of a swap, or as a hint.
    fn look(&self) -> u64;
    /// Swaps if the word holds `old`; the error is the value found.
    fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64>;
    /// Stores zero.
    fn free(&self);
}

impl StateWord for AtomicU64 {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed: a swap confirms each decision based on the value.
        self.load(Ordering::Relaxed)
    }
    #[inline]
    fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64> {
        // AcqRel, for an acquiring swap and for a releasing swap. An acquiring swap pairs with the release by the last
        // holder. A releasing swap publishes the stores made under the latch. Both kinds of swap also publish the note
        // that the session wrote before the swap: the reaper's freezing swap sees the note.
        rio::schedule::point();
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
    }
    #[inline]
    fn free(&self) {
        // Release: publishes the stores made under the latch to the next swap that acquires it.
        rio::schedule::point();
        self.store(0, Ordering::Release);
    }
}

/// The kind of a sleeper. The kind decides how the sleeper is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Wants the latch shared: all readers are woken together.
    Reader,
    /// Wants the latch exclusively: one writer is woken.
    Writer,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Woken, or the word had changed before the sleep, or the sleep was too short for a conclusion.
    Woken,
    /// The whole bound passed: the session that should have woken us may be dead.
    TimedOut,
}

/// The way a session waits and wakes others: spinning, the kernel, or loom's model of it.
pub(crate) trait Waiter<W> {
    /// The number of further checks of the word before a sleep.
    const SPINS: u32;
    /// Waits a moment between two checks; `round` counts the checks.
    fn pause(&self, round: u32);
    /// Sleeps while the word is `seen`. `round` counts the sleeps from 0.
    fn wait(&self, word: &W, seen: u64, class: Class, round: u32) -> Wait;
    /// Waits a moment for a reaper to unfreeze a word that the session wants to release. Returns false if the session
    /// must give the release up.
    fn thaw(&self, word: &W) -> bool;
    /// Wakes all readers, or one writer.
    fn wake(&self, word: &W, class: Class);
}

/// Tries once to become a shared holder. Fails also if another session changes the word meanwhile.
#[inline]
pub(crate) fn acquire_shared(word: &impl StateWord) -> bool {
    let seen = word.look();
    seen & SHARED_BLOCKED == 0 && word.swap_if(seen, seen + 1).is_ok()
}

/// Becomes a shared holder if the word allows it.
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

/// Tries once to become the owner of a word that no session holds or wants; `owner` has owner bits only.
#[inline]
pub(crate) fn acquire_exclusive(word: &impl StateWord, owner: u64) -> bool {
    word.swap_if(0, owner).is_ok()
}

/// Becomes the owner if no session holds the word; keeps the sleepers' bits.
pub(crate) fn try_exclusive(word: &impl StateWord, owner: u64) -> bool {
    take_exclusive(word, owner, 0)
}

/// Becomes the owner if no session holds the word, and adds `bits`. Clears `PENDING`: a writer that still wants the
/// latch sets it again.
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

/// Waits until the caller is a shared holder.
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

/// Sets `READERS`. Returns the word to sleep on, or `None` if the word changed, so that the caller checks it again.
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

/// Tries to become a shared holder in spite of `PENDING`, after a whole time-out: the writer that set the bit may be
/// dead.
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

/// Waits until the caller is the owner.
pub(crate) fn wait_exclusive<W: StateWord>(word: &W, owner: u64, waiter: &impl Waiter<W>) {
    // A writer that has slept may have consumed the only wake, so it sets `WRITERS` again: see the top of the file.
    let (mut round, mut pass_on) = (0, 0);
    loop {
        let taken = spin(word, waiter, || {
            hold_readers_off(word);
            take_exclusive(word, owner, pass_on)
        });
        failpoint("latch: spun for the latch");
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
        // A failure means that the word changed; the next round checks it again.
        let _ = word.swap_if(seen, seen | PENDING);
    }
}

/// Sets `WRITERS`, and `PENDING` if there are shared holders. Returns the word to sleep on, or `None` if the caller
/// must check the word again.
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

/// Spins until `attempt` succeeds. Returns false after `SPINS` pauses, or at once on a frozen word: the note of a
/// spinning session states that it is about to hold the latch, and the reaper waits until no session has such a note.
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

/// Tries once to stop being a shared holder of a word without waiters.
#[inline]
pub(crate) fn leave_shared(word: &impl StateWord) -> bool {
    let seen = word.look();
    seen & (ASLEEP | PENDING | FREEZE) == 0 && word.swap_if(seen, seen - 1).is_ok()
}

/// Stops being a shared holder; the last holder wakes the sleepers.
pub(crate) fn release_shared<W: StateWord>(word: &W, waiter: &impl Waiter<W>) {
    loop {
        let seen = word.look();
        check(seen);
        if seen & COUNT == 0 {
            return demand(false, "a shared latch was released that no session held", seen);
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
            failpoint("latch: shared released, no waiter woken");
            if last {
                wake_sleepers(word, seen, waiter);
            }
            return;
        }
    }
}

/// Tries once to stop being the owner of a word without waiters, by a load and a store, at half the cost of two swaps.
///
/// A sleeper's bit that is set between the load and the store is lost. Nothing else can be lost, because other sessions
/// change only the sleepers' bits of an owned word. The sleeper's kernel call compares the word again, hundreds of
/// nanoseconds later. So the sleeper misses its wake only if this thread loses the processor between the two
/// instructions. Then the sleeper wakes by itself (invariant 3).
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
            return demand(false, "an exclusive latch was released by a session that is not its owner", seen);
        }
        if seen & FREEZE != 0 {
            if !waiter.thaw(word) {
                return;
            }
            continue;
        }
        if word.swap_if(seen, 0).is_ok() {
            failpoint("latch: free, no waiter woken");
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

/// Asserts an invariant that a wild store can break. Does nothing while the thread unwinds, because a second panic
/// would end the process. The next session that waits for the latch finds the broken invariant.
fn demand(holds: bool, what: &str, word: u64) {
    assert!(holds || std::thread::panicking(), "{what}: {word:#x}");
}

#[cfg(test)]
#[path = "latch_word/loom_tests.rs"]
mod loom_tests;
