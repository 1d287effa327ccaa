//! A reader reads the number of a child in the parent page without the parent's latch. Meanwhile another session
//! empties the child, unlinks it, and uses it for other keys (PROTOCOLS T2).
//!
//! The record for which the reader searches exists all the time: in the child, and after the unlinking in the child's
//! left neighbour. So a reader that reports its absence, or damage, is wrong.

use super::machine::{Memory, State};

/// The variants of the protocol. Most of them omit a step, or make the steps in another order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// The remover executes a barrier after it has raised the epoch and before it checks the sessions.
    Barrier,
    /// The reader enters the tree by a locked instruction, and the remover needs no barrier.
    EnteredBySwap,
    /// Planted: no barrier, and the reader enters without a locked instruction.
    NoBarrier,
    /// Planted: the barrier comes after the checks of the sessions.
    BarrierAfterLooks,
    /// Planted: the epoch is raised before the page is unlinked.
    EpochBeforeUnlinking,
    /// Planted: the reader enters the tree after it has read the parent.
    EnteredLate,
    /// Planted: no barrier, and readers compare the key with the leaf's low fence.
    LowFenceAlone,
}

const READER: usize = 0;
const REMOVER: usize = 1;

// The indices of the words of the memory.
const EPOCH: usize = 0;
const ENTERED: usize = 1;
const COUNT: usize = 2;
const DOWNLINK: usize = 3;
const LATCH: usize = 4;
const MARK: usize = 5;
const USE: usize = 6;

/// The values of the parent's downlink.
const CHILD: u8 = 1;
const LEFT: u8 = 2;

/// The states of the child page.
const LEAF: u8 = 0;
const EMPTIED: u8 = 1;
const FREE: u8 = 2;
const OTHER_LEAF: u8 = 3;

/// The step at which a thread has finished.
const DONE: u8 = 99;

/// The two sessions and the memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FreedChild {
    variant: Variant,
    memory: Memory<7, 2>,
    reader: u8,
    /// The epoch, the count and the downlink as the reader has seen them.
    seen: [u8; 3],
    remover: u8,
    verdict: Option<&'static str>,
}

impl FreedChild {
    /// Returns the state before both sessions begin.
    pub fn new(variant: Variant) -> FreedChild {
        let memory = Memory::new([1, 0, 0, CHILD, 0, 0, LEAF]);
        FreedChild { variant, memory, reader: 0, seen: [0; 3], remover: 0, verdict: None }
    }

    /// Executes the reader's next instruction. Returns `None` if it must wait.
    fn read(&self) -> Option<FreedChild> {
        let mut s = self.clone();
        let load = |word| self.memory.load(READER, word);
        let (enter, look) =
            if self.variant == Variant::EnteredLate { ([3, 4], [0, 1, 2]) } else { ([0, 1], [2, 3, 4]) };
        s.reader += 1;
        match self.reader {
            at if at == enter[0] => s.seen[0] = load(EPOCH),
            at if at == enter[1] && self.variant == Variant::EnteredBySwap => {
                if !self.memory.is_drained(READER) {
                    return None;
                }
                s.memory.swap(READER, ENTERED, 0, self.seen[0]);
            }
            at if at == enter[1] => s.memory.store(READER, ENTERED, self.seen[0]),
            at if at == look[0] => {
                s.seen[1] = load(COUNT);
                if s.seen[1] % 2 != 0 {
                    s.reader = DONE;
                }
            }
            at if at == look[1] => s.seen[2] = load(DOWNLINK),
            at if at == look[2] => {
                // If the count has changed, or the page is the left neighbour, the record is found with latches.
                if load(COUNT) != self.seen[1] || self.seen[2] == LEFT {
                    s.reader = DONE;
                }
            }
            5 => {
                if !self.memory.is_drained(READER) || !s.memory.swap(READER, LATCH, 0, 1) {
                    return None;
                }
            }
            6 => {
                s.verdict = match (load(MARK), load(USE)) {
                    // The reader begins again.
                    (1, _) | (_, LEAF) => None,
                    (_, FREE) => Some("a free page is reported as damage"),
                    (_, OTHER_LEAF) if self.variant == Variant::LowFenceAlone => None,
                    (_, OTHER_LEAF) => Some("an existing record is not found"),
                    _ => Some("an emptied page has no mark"),
                };
                s.memory.store(READER, LATCH, 0);
            }
            7 => s.memory.store(READER, ENTERED, 0),
            _ => return None,
        }
        Some(s)
    }

    /// Executes the remover's next instruction. Returns `None` if it must wait.
    fn remove(&self) -> Option<FreedChild> {
        let mut s = self.clone();
        // Step 7 raises the epoch. In one variant step 0 raises it, and all other steps are one later.
        let raise = if self.variant == Variant::EpochBeforeUnlinking { 0 } else { 7 };
        let step = match self.remover {
            at if at == raise => 7,
            at if at < 8 && raise == 0 => at - 1,
            at => at,
        };
        let (barrier, look) = if self.variant == Variant::BarrierAfterLooks { (9, 8) } else { (8, 9) };
        s.remover += 1;
        let mut store = |word, value| s.memory.store(REMOVER, word, value);
        match step {
            0 | 10 | 14 => {
                if !self.memory.is_drained(REMOVER) || !s.memory.swap(REMOVER, LATCH, 0, 2) {
                    return None;
                }
            }
            1 => store(COUNT, 1),
            2 => store(DOWNLINK, LEFT),
            3 => store(MARK, 1),
            4 => store(USE, EMPTIED),
            5 => store(COUNT, 2),
            6 | 13 | 16 => store(LATCH, 0),
            7 => {
                if !self.memory.is_drained(REMOVER) || !s.memory.swap(REMOVER, EPOCH, 1, 2) {
                    return None;
                }
            }
            at if at == barrier => {
                if matches!(self.variant, Variant::Barrier | Variant::BarrierAfterLooks)
                    || matches!(self.variant, Variant::EpochBeforeUnlinking | Variant::EnteredLate)
                {
                    s.memory.barrier_everywhere();
                }
            }
            at if at == look => {
                let entered = self.memory.load(REMOVER, ENTERED);
                if entered != 0 && entered < 2 {
                    // The page stays unused: a reader may still be on its way to it.
                    s.remover = DONE;
                }
            }
            11 => store(USE, FREE),
            12 => store(MARK, 0),
            15 => store(USE, OTHER_LEAF),
            _ => return None,
        }
        Some(s)
    }
}

impl State for FreedChild {
    fn next(&self) -> Vec<(String, FreedChild)> {
        let mut all = Vec::new();
        all.extend(self.read().map(|next| (format!("reader {}", self.reader), next)));
        all.extend(self.remove().map(|next| (format!("remover {}", self.remover), next)));
        for thread in [READER, REMOVER] {
            let mut next = self.clone();
            if next.memory.drain_one(thread) {
                all.push((format!("a store of {} arrives", ["the reader", "the remover"][thread]), next));
            }
        }
        all
    }

    fn broken(&self) -> Option<&'static str> {
        self.verdict
    }
}
