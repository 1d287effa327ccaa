//! Counting the holders of a shared latch anew when one of them has died (PROTOCOLS D7).
//!
//! The word's count does not say whether the dead one is in it. So the word is frozen: every acquire and release is a
//! compare-and-swap, fails, and looks again. Then the notes of the living are read until none of them is unsure, and their
//! number is stored.
//!
//! One session at a time freezes; its name and the latch are in the header.
//! If we die here: the next to freeze a latch first finishes ours. Until then, whoever wants it waits, finds a word that is
//! frozen by a dead session, and has it repaired.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rio::{failpoint, planted, Offset};

use crate::latch_word::{self, StateWord, Waiter, COUNT, FREEZE, OWNER, READERS, WRITERS};
use crate::{Latch, ProcessManager, SessionId};

/// How long to wait for one who is about to say whether it is counted.
const MOMENT: Duration = Duration::from_micros(20);

/// Whoever runs has long said by then; who is stopped, or paused with its container, says it when it goes on.
const UNSURE_ROUNDS: u64 = 1 << 17;
/// So often that long, and who is not seen at all, in another container say, is waited for no more: what it is said to be about
/// may be what a wild store has left in its notes, and then it will never say. (If it is paused, all that is lost is the region.)
const UNSEEN_TIMES: u64 = 8;

impl ProcessManager {
    /// Stores how many living sessions hold the latch at `place` shared. `by` does it.
    pub(crate) fn recount(&self, by: SessionId, place: u64, waiter: &impl Waiter<AtomicU64>) {
        self.become_freezer(by);
        failpoint("recount: is the freezer");
        self.finish_recount(waiter);
        let Some(word) = self.latch_word(place) else { return self.stop_freezing(by) };
        // First the header: a word that is frozen is always named there.
        self.0.header.frozen.publish(place);
        failpoint("recount: latch named, not frozen");
        if freeze(word) {
            failpoint("recount: frozen");
            self.thaw(place, word, waiter);
        }
        self.0.header.frozen.publish(0);
        failpoint("recount: counted, still the freezer");
        self.stop_freezing(by);
    }

    /// Whether the latch at `place` is frozen by a session that is dead, and which.
    pub(crate) fn dead_freezer(&self, place: u64) -> Option<SessionId> {
        let freezer = self.0.header.freezer.load();
        let is_it = self.0.header.frozen.load() == place && freezer != SessionId::NONE;
        (is_it && !self.is_alive(freezer)).then_some(freezer)
    }

    /// Whether somebody living has frozen the latch at `place`, or is about to free it.
    pub(crate) fn is_freezing(&self, place: u64) -> bool {
        let freezer = self.0.header.freezer.load();
        self.0.header.frozen.load() == place && self.is_alive(freezer)
    }

    /// Whether so many living sessions have noted that they hold the latch at `place` shared, or one is about to say.
    pub(crate) fn holders_are(&self, place: u64, count: u64) -> bool {
        self.holders(place).is_none_or(|holders| holders == count)
    }

    /// Finishes what a dead freezer left, for who finds its latch frozen.
    pub(crate) fn thaw_for_the_dead(&self, by: SessionId, waiter: &impl Waiter<AtomicU64>) {
        self.become_freezer(by);
        self.finish_recount(waiter);
        self.stop_freezing(by);
    }

    fn become_freezer(&self, by: SessionId) {
        let word = &self.0.header.freezer;
        loop {
            let holder = word.load();
            let is_free = holder == SessionId::NONE || holder == by || !self.is_alive(holder);
            if is_free && word.compare_exchange(holder, by).is_ok() {
                return;
            }
            if self.0.region.is_broken() {
                return;
            }
            self.leave_if_late();
            std::thread::sleep(MOMENT);
        }
    }

    fn stop_freezing(&self, by: SessionId) {
        // Refused means that we were taken for dead: the role is another's.
        let _ = self.0.header.freezer.compare_exchange(by, SessionId::NONE);
    }

    /// Whoever froze before us died.
    fn finish_recount(&self, waiter: &impl Waiter<AtomicU64>) {
        let place = self.0.header.frozen.load();
        if let Some(word) = self.latch_word(place).filter(|word| word.look() & FREEZE != 0) {
            self.thaw(place, word, waiter);
        }
        self.0.header.frozen.publish(0);
    }

    fn latch_word(&self, place: u64) -> Option<&AtomicU64> {
        let latch = self.0.region.try_at(Offset::<Latch>::from_raw(place)?)?;
        Some(latch.cell())
    }

    /// Stores the number of holders into a frozen word, and unfreezes it.
    fn thaw(&self, place: u64, word: &AtomicU64, waiter: &impl Waiter<AtomicU64>) {
        let mut round = 0_u64;
        let count = loop {
            match self.holders(place) {
                Some(count) => break count,
                None if self.0.region.is_broken() => return,
                None => std::thread::sleep(MOMENT),
            }
            self.leave_if_late();
            round += 1;
            if round % UNSURE_ROUNDS == 0 && !self.unsure_may_stand_still(place, round / UNSURE_ROUNDS) {
                self.give_up(&format!("a session has been about to hold the latch at {place} for very long"));
            }
        };
        failpoint("recount: holders counted, not stored");
        if planted("process: counts without freezing") {
            rio::planted::linger_until(|| word.look() & COUNT > count + 1);
        }
        loop {
            let seen = word.look();
            if seen & OWNER != 0 {
                self.give_up(&format!("the latch at {place} is frozen and has an owner: {seen:#x}"));
            }
            // The waiting bits are advice: whoever still sleeps sets them again.
            if word.swap_if(seen, count).is_ok() {
                break;
            }
        }
        failpoint("recount: stored, nobody woken");
        latch_word::wake_sleepers(word, READERS | WRITERS, waiter);
    }

    /// Whether one of those who are about to say whether they hold the latch may stand still, after that many long waits.
    fn unsure_may_stand_still(&self, place: u64, times: u64) -> bool {
        let unsure = |slot: &crate::slot::SessionSlot| {
            slot.notes.iter().map(|note| note.load()).any(|note| note.is_about(place) && note.is_unsure())
        };
        let id = |index: u32, slot: &crate::slot::SessionSlot| SessionId::new(index, slot.status.load().generation());
        let mut living = self.slots().filter(|(_, slot)| unsure(slot) && self.tenant_lives(slot));
        living.any(|(index, slot)| match id(index, slot) {
            session if times < UNSEEN_TIMES => !self.is_seen_running(session),
            session => self.is_stopped(session),
        })
    }

    /// How many living sessions hold the latch at `place` shared; none while one of them is about to change that.
    fn holders(&self, place: u64) -> Option<u64> {
        let mut count = 0;
        for (_, slot) in self.slots() {
            let (mut sure, mut is_unsure) = (0, false);
            for note in slot.notes.iter().map(|note| note.load()) {
                if note.is_about(place) && !note.is_exclusive() {
                    is_unsure |= note.is_unsure();
                    sure += 1;
                }
            }
            if sure == 0 || !self.tenant_lives(slot) {
                continue;
            }
            if is_unsure && !planted("process: who wants a latch holds it") {
                return None;
            }
            count += sure;
        }
        Some(count)
    }
}

/// Freezes a word with shared holders. False if it has none: then nobody is counted who should not be.
fn freeze(word: &AtomicU64) -> bool {
    loop {
        let seen = word.look();
        if seen & OWNER != 0 || seen & COUNT == 0 {
            return false;
        }
        let is_frozen = seen & FREEZE != 0 || planted("process: counts without freezing");
        if is_frozen || word.swap_if(seen, seen | FREEZE).is_ok() {
            return true;
        }
    }
}
