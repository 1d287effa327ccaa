//! Replacement: the order in which the pages of frames are replaced.
//!
//! Paper: LIBTP 3.2.2, "although the current library provides an LRU cache, it would be simple to add alternate
//! replacement policies as suggested by [CHOU85]". Here both are: second chance, the default, and exact LRU.
//!
//! A policy only names the next candidate. `evict` checks whether the frame can be replaced (not latched, not pinned,
//! clean).
//!
//! If a session dies here: a hand, a stamp or a mark is one word, and every value of this word is valid.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::part::{PoolPart, Replace};
use crate::frame::{FrameSlot, HOT};
use crate::settings::Policy;

/// The first stamp of the LRU policy: 0 is "never used", 1 is [`HOT`].
pub(crate) const STAMP_FIRST: u32 = 2;
const LRU_QUEUE_MIN: usize = 8;
const LRU_QUEUE_MAX: usize = 1024;

/// Returns the implementation of a policy.
pub(crate) fn of(policy: Policy) -> Box<dyn Replace> {
    match policy {
        Policy::Clock => Box::new(Clock),
        Policy::Lru => Box::new(Lru::default()),
    }
}

/// Second chance. A page that was used only once, as in a scan, has no mark, and is replaced the first time that the
/// hand passes it.
struct Clock;

impl Replace for Clock {
    fn loaded(&self, _: &PoolPart, slot: &FrameSlot) {
        slot.used.publish(0);
    }

    fn used(&self, _: &PoolPart, slot: &FrameSlot) {
        slot.used.publish(HOT);
    }

    fn offer<'s>(&self, part: &'s PoolPart, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>) {
        let count = part.frame_count();
        // The first round removes the marks, and the second finds frames without marks.
        for _ in 0..count.saturating_mul(2) {
            let slot = part.slab.at(1 + part.slot.hand.fetch_add(1) % count);
            if slot.used.get() == HOT {
                slot.used.publish(0);
            } else if visit(slot).is_break() {
                return;
            }
        }
    }

    fn next<'s>(&self, part: &'s PoolPart, count: u32) -> Vec<&'s FrameSlot> {
        let all = part.frame_count();
        let hand = part.slot.hand.get();
        let numbers = (0..count.min(all)).map(|ahead| 1 + hand.wrapping_add(ahead) % all);
        numbers.map(|number| part.slab.at(number)).filter(|slot| slot.used.get() != HOT).collect()
    }
}

/// Least recently used. Every use stores the pool part's time as the frame's stamp. The oldest frames are collected in
/// a queue: a frame whose stamp is still the stamp in the queue is older than every frame outside the queue. So the
/// order is exact.
#[derive(Default)]
struct Lru {
    /// The frame numbers, with the stamps that the frames had, oldest first.
    oldest: Mutex<VecDeque<(u32, u32)>>,
}

impl Replace for Lru {
    fn loaded(&self, part: &PoolPart, slot: &FrameSlot) {
        slot.used.publish(tick(part));
    }

    fn used(&self, part: &PoolPart, slot: &FrameSlot) {
        // The page that was used last needs no new stamp.
        if slot.used.get() != part.slot.now.get() {
            slot.used.publish(tick(part));
        }
    }

    fn offer<'s>(&self, part: &'s PoolPart, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>) {
        for _ in 0..2 {
            while let Some((number, stamp)) = self.pop() {
                let slot = part.slab.at(number);
                if slot.used.get() == stamp && visit(slot).is_break() {
                    return;
                }
            }
            self.refill(part);
        }
        // Every frame in the queue was dirty, pinned or latched: pass all frames, in the order of their numbers.
        for slot in part.frames() {
            if visit(slot).is_break() {
                return;
            }
        }
    }

    fn next<'s>(&self, part: &'s PoolPart, count: u32) -> Vec<&'s FrameSlot> {
        oldest(part, count as usize).into_iter().map(|(number, _)| part.slab.at(number)).collect()
    }
}

impl Lru {
    fn pop(&self) -> Option<(u32, u32)> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn refill(&self, part: &PoolPart) {
        let count = (part.frame_count() as usize / 16).clamp(LRU_QUEUE_MIN, LRU_QUEUE_MAX);
        *self.oldest.lock().unwrap_or_else(PoisonError::into_inner) = oldest(part, count).into();
    }
}

/// Returns the `count` oldest frames with their stamps, the oldest first.
fn oldest(part: &PoolPart, count: usize) -> Vec<(u32, u32)> {
    let now = part.slot.now.load();
    let mut all: Vec<(u32, u32)> = (1..).zip(part.frames()).map(|(number, slot)| (number, slot.used.get())).collect();
    // The frames are sorted by age, not by stamp, because the time may wrap around.
    all.sort_unstable_by_key(|&(_, stamp)| std::cmp::Reverse(now.wrapping_sub(stamp)));
    all.truncate(count);
    all
}

/// Advances the time of a pool part, and returns it. It is never 0 or [`HOT`].
fn tick(part: &PoolPart) -> u32 {
    loop {
        let now = part.slot.now.fetch_add(1).wrapping_add(1);
        if now >= STAMP_FIRST {
            return now;
        }
    }
}
