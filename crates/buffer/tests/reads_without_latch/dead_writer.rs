//! A reader reads two bytes of a page between two loads of the page's count of changes. Meanwhile a writer changes both
//! bytes under the page's latch and dies, its repairer dies too, a second repairer finishes the repair (PROTOCOLS D4),
//! and another writer changes the page.
//!
//! Both bytes are equal before and after each change. So a reader that accepts unequal bytes is wrong.

use super::machine::{Memory, State};

/// The variants of the protocol. Most of them omit a step, or make the steps in another order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// The protocol: the writer, and the redo of the repair, make the count odd before their first store.
    Right,
    /// The repair makes the count odd before its other steps.
    OddFirst,
    /// The repair makes the count odd first, and the writer makes the count even before its section closes.
    EvenBeforeClose,
    /// Planted: the redo does not make the count odd.
    RepairLeavesCount,
    /// Planted: the redo does not make the count odd, and the writer makes it even before its section closes.
    RepairLeavesEarlyCount,
    /// Planted: the repair makes the count even before it redoes the noted record.
    EvenBeforeRedo,
    /// Planted: the repair makes the count even after it has released the latch.
    EvenAfterLatch,
    /// Planted: the redo makes the count odd, and the writer makes it even before its section closes.
    RightEarlyCount,
    /// Planted: the repair adds one to the count where it must set the lowest bit.
    RepairAddsOne,
    /// Planted: the repair ends with a count of zero.
    RepairResetsCount,
    /// Planted: the section saves the count, and its rollback restores the count.
    CountInSection,
    /// Planted: the writer makes the count even after it has released the latch.
    WriterEvenAfterLatch,
    /// Planted: the reader does not load the count again.
    OneLook,
    /// Planted: the reader accepts an odd count.
    OddBelieved,
}

const READER: usize = 0;
const WRITER: usize = 1;
const REPAIRERS: [usize; 2] = [2, 3];
const FOLLOWER: usize = 4;

// The indices of the words of the memory.
const LATCH: usize = 0;
const COUNT: usize = 1;
const BYTES: [usize; 2] = [2, 3];
/// The number of before-images in the dead session's undo log. If the count is saved, its before-image is the first.
/// The before-images of the bytes follow.
const IMAGES: usize = 4;
/// The noted record.
const NOTE: usize = 5;
/// Represents the page's LSN, from which the repair learns whether the page has the change of the noted record.
const REDONE: usize = 6;

const DONE: u8 = 99;

/// The sessions and the memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DeadWriter {
    variant: Variant,
    memory: Memory<7, 5>,
    at: [u8; 5],
    is_dead: [bool; 5],
    /// The count, and both bytes, as the reader has seen them.
    seen: [u8; 3],
    /// The count that each session is about to store.
    count: [u8; 5],
    verdict: Option<&'static str>,
}

impl DeadWriter {
    /// Returns the state before all sessions begin.
    pub fn new(variant: Variant) -> DeadWriter {
        DeadWriter {
            variant,
            memory: Memory::new([0; 7]),
            at: [0; 5],
            is_dead: [false; 5],
            seen: [0; 3],
            count: [0; 5],
            verdict: None,
        }
    }

    fn load(&self, thread: usize, word: usize) -> u8 {
        self.memory.load(thread, word)
    }

    fn read(&self) -> Option<DeadWriter> {
        let mut s = self.clone();
        s.at[READER] += 1;
        match self.at[READER] {
            0 => {
                s.seen[0] = self.load(READER, COUNT);
                if s.seen[0] % 2 != 0 && self.variant != Variant::OddBelieved {
                    s.at[READER] = DONE;
                }
            }
            step @ 1..=2 => s.seen[usize::from(step)] = self.load(READER, BYTES[usize::from(step) - 1]),
            3 => {
                let is_same = self.variant == Variant::OneLook || self.load(READER, COUNT) == self.seen[0];
                if is_same && self.seen[1] != self.seen[2] {
                    s.verdict = Some("half a change is accepted");
                }
            }
            _ => return None,
        }
        Some(s)
    }

    /// Stores both bytes and the page's LSN, with before-images, as steps 0 to 5.
    fn change(&mut self, thread: usize, step: u8, value: u8) {
        let saved = u8::from(self.variant == Variant::CountInSection);
        match step {
            0 => self.memory.store(thread, IMAGES, saved + 1),
            1 => self.memory.store(thread, BYTES[0], value),
            2 => self.memory.store(thread, IMAGES, saved + 2),
            3 => self.memory.store(thread, BYTES[1], value),
            4 => self.memory.store(thread, REDONE, 1),
            _ => self.memory.store(thread, IMAGES, 0),
        }
    }

    fn write(&self) -> Option<DeadWriter> {
        let mut s = self.clone();
        let (early, late) = match self.variant {
            Variant::EvenBeforeClose | Variant::RepairLeavesEarlyCount | Variant::RightEarlyCount => (true, false),
            Variant::WriterEvenAfterLatch => (false, true),
            _ => (false, false),
        };
        s.at[WRITER] += 1;
        match self.at[WRITER] {
            0 => {
                if !self.memory.is_drained(WRITER) || !s.memory.swap(WRITER, LATCH, 0, 1) {
                    return None;
                }
            }
            1 => s.memory.store(WRITER, NOTE, 1),
            2 if self.variant == Variant::CountInSection => s.memory.store(WRITER, IMAGES, 1),
            3 => s.memory.store(WRITER, COUNT, self.load(WRITER, COUNT) | 1),
            step @ 4..=8 => s.change(WRITER, step - 4, 1),
            9 if early => s.memory.store(WRITER, COUNT, self.load(WRITER, COUNT) + 1),
            10 => s.change(WRITER, 5, 1),
            11 => s.memory.store(WRITER, NOTE, 0),
            12 if !early && !late => s.memory.store(WRITER, COUNT, self.load(WRITER, COUNT) + 1),
            13 => s.memory.store(WRITER, LATCH, 0),
            14 if late => s.count[WRITER] = self.load(WRITER, COUNT),
            15 if late => s.memory.store(WRITER, COUNT, self.count[WRITER] + 1),
            2 | 9 | 12 | 14 | 15 => {}
            _ => return None,
        }
        Some(s)
    }

    /// Executes the next instruction of a repairer of the writer. The previous session (the writer, or the first
    /// repairer) is dead, and its stores have reached the memory.
    fn repair(&self, thread: usize) -> Option<DeadWriter> {
        if self.at[thread] == DONE || !self.is_dead[WRITER] || (thread == REPAIRERS[1] && !self.is_dead[REPAIRERS[0]]) {
            return None;
        }
        let mut s = self.clone();
        s.at[thread] += 1;
        let mut step = self.at[thread];
        // The protocol makes the count even before it releases the latch. This variant releases the latch first.
        if self.variant == Variant::EvenAfterLatch && step >= 13 {
            step = [15, 13, 14, 16][usize::from(step - 13).min(3)];
        }
        if self.variant == Variant::EvenBeforeRedo {
            step = match step {
                5 | 6 => step + 8,
                7..=14 => step - 2,
                _ => step,
            };
        }
        let is_held = self.load(thread, LATCH) == 1;
        let images = self.load(thread, IMAGES);
        let saved = u8::from(self.variant == Variant::CountInSection);
        let leaves = matches!(self.variant, Variant::RepairLeavesCount | Variant::RepairLeavesEarlyCount);
        let by_redo = matches!(self.variant, Variant::Right | Variant::RightEarlyCount);
        match step {
            // The latch is free: the earlier repair is complete, or the writer has completed its own work.
            0 if !is_held => s.at[thread] = DONE,
            0 if leaves || by_redo => {}
            0 if self.variant == Variant::RepairAddsOne => s.memory.store(thread, COUNT, self.load(thread, COUNT) + 1),
            0 => s.memory.store(thread, COUNT, self.load(thread, COUNT) | 1),
            // The before-images are restored, from the last to the first: the bytes were zero.
            1 if images >= saved + 2 => s.memory.store(thread, BYTES[1], 0),
            2 if images > saved => s.memory.store(thread, BYTES[0], 0),
            3 if saved == 1 && images > 0 => s.memory.store(thread, COUNT, 0),
            4 => {
                s.memory.store(thread, IMAGES, 0);
                // The page's LSN has a before-image, too.
                if images > saved {
                    s.memory.store(thread, REDONE, 0);
                }
            }
            // The noted record is redone. The before-images of the redo go to the dead session's undo log.
            5 if by_redo && self.load(thread, NOTE) == 1 && self.needs_redo(thread, step) => {
                s.memory.store(thread, COUNT, self.load(thread, COUNT) | 1);
            }
            5 | 6 => {}
            7..=11 if self.load(thread, NOTE) == 1 && self.needs_redo(thread, step) => s.change(thread, step - 7, 1),
            12 if self.load(thread, IMAGES) != 0 => s.change(thread, 5, 1),
            13 => s.count[thread] = self.load(thread, COUNT),
            14 if self.variant == Variant::RepairResetsCount => s.memory.store(thread, COUNT, 0),
            14 => s.memory.store(thread, COUNT, self.count[thread] + self.count[thread] % 2),
            15 => s.memory.store(thread, LATCH, 0),
            16 => s.at[thread] = DONE,
            1..=12 => {}
            _ => return None,
        }
        Some(s)
    }

    /// Returns whether the page is older than the noted record. A redo that was begun continues to its end.
    fn needs_redo(&self, thread: usize, step: u8) -> bool {
        self.load(thread, REDONE) == 0 || step > 7 && self.load(thread, IMAGES) != 0
    }

    /// Executes the thread's next instruction. Returns `None` if it must wait.
    fn step(&self, thread: usize) -> Option<DeadWriter> {
        match thread {
            READER => self.read(),
            WRITER => self.write(),
            FOLLOWER => self.follow(),
            _ => self.repair(thread),
        }
    }

    /// Returns the state after the step that began at `before`. If the step changed nothing, the variant does not have
    /// its instruction, and the thread also does the next step.
    fn past_idle_steps(self, before: &DeadWriter, thread: usize) -> Option<DeadWriter> {
        let mut idle = before.clone();
        idle.at[thread] = self.at[thread];
        if self != idle {
            return Some(self);
        }
        self.step(thread).and_then(|next| next.past_idle_steps(&self, thread))
    }

    /// Executes the next instruction of the next writer.
    fn follow(&self) -> Option<DeadWriter> {
        let mut s = self.clone();
        s.at[FOLLOWER] += 1;
        match self.at[FOLLOWER] {
            0 => {
                if !self.memory.is_drained(FOLLOWER) || !s.memory.swap(FOLLOWER, LATCH, 0, 2) {
                    return None;
                }
            }
            1 => s.memory.store(FOLLOWER, COUNT, self.load(FOLLOWER, COUNT) | 1),
            2 => s.memory.store(FOLLOWER, BYTES[0], 2),
            3 => s.memory.store(FOLLOWER, BYTES[1], 2),
            4 => s.count[FOLLOWER] = self.load(FOLLOWER, COUNT),
            5 => s.memory.store(FOLLOWER, COUNT, self.count[FOLLOWER] + 1),
            6 => s.memory.store(FOLLOWER, LATCH, 0),
            _ => return None,
        }
        Some(s)
    }
}

impl State for DeadWriter {
    fn next(&self) -> Vec<(String, DeadWriter)> {
        const NAMES: [&str; 5] = ["reader", "writer", "first repairer", "second repairer", "next writer"];
        let mut all = Vec::new();
        for (thread, name) in NAMES.into_iter().enumerate() {
            if self.is_dead[thread] {
                continue;
            }
            let next = self.step(thread);
            let next = next.and_then(|next| next.past_idle_steps(self, thread));
            all.extend(next.map(|next| (format!("{name} {}", self.at[thread]), next)));
            let mut drained = self.clone();
            if drained.memory.drain_one(thread) {
                all.push((format!("a store of the {name} arrives"), drained));
            }
            if thread == WRITER || thread == REPAIRERS[0] && self.at[thread] != DONE && self.at[thread] != 0 {
                let mut dead = self.clone();
                dead.memory.drain(thread);
                dead.is_dead[thread] = true;
                all.push((format!("the {name} dies"), dead));
            }
        }
        all
    }

    fn broken(&self) -> Option<&'static str> {
        self.verdict
    }
}
