//! Replacement: in which order frames should make room.
//!
//! Paper: LIBTP 3.2.2, "although the current library provides an LRU cache, it would be simple to add alternate
//! replacement policies as suggested by [CHOU85]". Here both are: second chance, the default, and exact LRU.
//!
//! A policy only says whom to ask next. Whether a frame can go (not latched, not pinned, clean) is asked in `get`.
//!
//! If we die here: a hand, a stamp or a mark is one word; any value of it is as good as another.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use crate::frame::{FrameSlot, HOT};
use crate::pool::Shelf;
use crate::settings::Policy;

/// The first time of the LRU policy: 0 is "never", 1 is [`HOT`].
pub(crate) const STAMP_FIRST: u32 = 2;
const LRU_QUEUE_MIN: usize = 8;
const LRU_QUEUE_MAX: usize = 1024;

/// A replacement policy, one per shelf and process; what processes must agree on lies in the slots.
pub(crate) trait Replace: Send + Sync {
    /// A page was put into the frame.
    fn loaded(&self, shelf: &Shelf, slot: &FrameSlot);

    /// The page was used, and the frame is not marked [`HOT`].
    fn used(&self, shelf: &Shelf, slot: &FrameSlot);

    /// Shows frames, those that should go first first, until `visit` breaks off. Every frame is shown at least once
    /// unless it is used meanwhile.
    fn offer<'s>(&self, shelf: &'s Shelf, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>);

    /// The frames whose turn is next, about `count` of them, without taking any turn.
    fn next<'s>(&self, shelf: &'s Shelf, count: u32) -> Vec<&'s FrameSlot>;
}

/// The policy of that name.
pub(crate) fn of(policy: Policy) -> Box<dyn Replace> {
    match policy {
        Policy::Clock => Box::new(Clock),
        Policy::Lru => Box::new(Lru::default()),
    }
}

/// Second chance. A page that was used only once, as in a scan, has no mark and goes the first time the hand comes by.
struct Clock;

impl Replace for Clock {
    fn loaded(&self, _: &Shelf, slot: &FrameSlot) {
        slot.used.publish(0);
    }

    fn used(&self, _: &Shelf, slot: &FrameSlot) {
        slot.used.publish(HOT);
    }

    fn offer<'s>(&self, shelf: &'s Shelf, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>) {
        let count = shelf.frame_count();
        // One round takes the marks away, the next finds frames without.
        for _ in 0..count.saturating_mul(2) {
            let slot = shelf.slab.at(1 + shelf.slot.hand.fetch_add(1) % count);
            if slot.used.get() == HOT {
                slot.used.publish(0);
            } else if visit(slot).is_break() {
                return;
            }
        }
    }

    fn next<'s>(&self, shelf: &'s Shelf, count: u32) -> Vec<&'s FrameSlot> {
        let all = shelf.frame_count();
        let hand = shelf.slot.hand.get();
        let numbers = (0..count.min(all)).map(|ahead| 1 + hand.wrapping_add(ahead) % all);
        numbers.map(|number| shelf.slab.at(number)).filter(|slot| slot.used.get() != HOT).collect()
    }
}

/// Least recently used. Every use stores the shelf's time; the oldest frames are found a queue at a time. A frame whose
/// stamp is still the one in the queue is older than every frame that was not in it, so the order is exact.
#[derive(Default)]
struct Lru {
    /// Frame numbers with the stamps they had, oldest first.
    oldest: Mutex<VecDeque<(u32, u32)>>,
}

impl Replace for Lru {
    fn loaded(&self, shelf: &Shelf, slot: &FrameSlot) {
        slot.used.publish(tick(shelf));
    }

    fn used(&self, shelf: &Shelf, slot: &FrameSlot) {
        // The same page again and again needs no new time.
        if slot.used.get() != shelf.slot.now.get() {
            slot.used.publish(tick(shelf));
        }
    }

    fn offer<'s>(&self, shelf: &'s Shelf, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>) {
        for _ in 0..2 {
            while let Some((number, stamp)) = self.pop() {
                let slot = shelf.slab.at(number);
                if slot.used.get() == stamp && visit(slot).is_break() {
                    return;
                }
            }
            self.refill(shelf);
        }
        // So many are dirty, pinned or latched that the queue had none: show all, in order of their numbers.
        for slot in shelf.frames() {
            if visit(slot).is_break() {
                return;
            }
        }
    }

    fn next<'s>(&self, shelf: &'s Shelf, count: u32) -> Vec<&'s FrameSlot> {
        oldest(shelf, count as usize).into_iter().map(|(number, _)| shelf.slab.at(number)).collect()
    }
}

impl Lru {
    fn pop(&self) -> Option<(u32, u32)> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn refill(&self, shelf: &Shelf) {
        let count = (shelf.frame_count() as usize / 16).clamp(LRU_QUEUE_MIN, LRU_QUEUE_MAX);
        *self.oldest.lock().unwrap_or_else(PoisonError::into_inner) = oldest(shelf, count).into();
    }
}

/// The `count` oldest frames with their stamps, the oldest first.
fn oldest(shelf: &Shelf, count: usize) -> Vec<(u32, u32)> {
    let now = shelf.slot.now.load();
    let mut all: Vec<(u32, u32)> = (1..).zip(shelf.frames()).map(|(number, slot)| (number, slot.used.get())).collect();
    // Age, not stamp: the time may wrap.
    all.sort_unstable_by_key(|&(_, stamp)| std::cmp::Reverse(now.wrapping_sub(stamp)));
    all.truncate(count);
    all
}

/// The next time of a shelf, never 0 or [`HOT`].
fn tick(shelf: &Shelf) -> u32 {
    loop {
        let now = shelf.slot.now.fetch_add(1).wrapping_add(1);
        if now >= STAMP_FIRST {
            return now;
        }
    }
}
