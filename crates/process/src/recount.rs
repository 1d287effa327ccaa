//! A new count of the holders of a shared latch after one of them has died (PROTOCOLS D7).
//!
//! The count in the word does not show whether it includes the dead session. So the reaper freezes the word: an acquire
//! or release of a shared latch is a compare-and-swap, which fails on a frozen word and is repeated. Then the reaper
//! reads the notes of the living sessions until each note states whether its session holds the latch, and stores the
//! number of holders.
//!
//! One session at a time freezes a latch; the header names the session and the latch. If we die here: before another
//! session freezes a latch, it finishes our count. A waiter that finds our latch frozen by a dead session finishes the
//! count, too.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rio::{failpoint, planted, Offset};

use crate::latch_word::{self, StateWord, Waiter, COUNT, FREEZE, OWNER, READERS, WRITERS};
use crate::{Latch, ProcessManager, SessionId};

/// How long to wait for a session whose note is unsure.
const MOMENT: Duration = Duration::from_micros(20);

/// After this number of rounds, the note of every running session is no longer unsure. A stopped or paused session
/// changes its note when it continues.
const UNSURE_ROUNDS: u64 = 1 << 17;
/// After this number of [`UNSURE_ROUNDS`], the reaper no longer waits for a session that cannot be seen to run, for
/// example in another container. The note may come from a wild store, and would then stay unsure for ever. So the
/// reaper gives up the region, which is then rebuilt. If the session was only paused, the rebuild was needless, but no
/// acknowledged commit is lost.
const UNSEEN_TIMES: u64 = 8;

impl ProcessManager {
    /// Stores the number of living sessions that hold the latch at `place` shared. `by` is the calling session.
    pub(crate) fn recount(&self, by: SessionId, place: u64, waiter: &impl Waiter<AtomicU64>) {
        self.become_freezer(by);
        failpoint("recount: freezer role taken");
        self.finish_recount(waiter);
        let Some(word) = self.latch_word(place) else { return self.stop_freezing(by) };
        // The header is stored before the word is frozen, so the header names every frozen word.
        self.0.header.frozen.publish(place);
        failpoint("recount: latch named, not frozen");
        if freeze(word) {
            failpoint("recount: frozen");
            self.thaw(place, word, waiter);
        }
        self.0.header.frozen.publish(0);
        failpoint("recount: counted, freezer role held");
        self.stop_freezing(by);
    }

    /// Returns the dead session that froze the latch at `place`, if there is one.
    pub(crate) fn dead_freezer(&self, place: u64) -> Option<SessionId> {
        let freezer = self.0.header.freezer.load();
        let is_it = self.0.header.frozen.load() == place && freezer != SessionId::NONE;
        (is_it && !self.is_alive(freezer)).then_some(freezer)
    }

    /// Returns whether a living session is about to freeze the latch at `place`, has frozen it, or has just unfrozen
    /// it.
    pub(crate) fn is_freezing(&self, place: u64) -> bool {
        let freezer = self.0.header.freezer.load();
        self.0.header.frozen.load() == place && self.is_alive(freezer)
    }

    /// Returns whether `count` living sessions have noted that they hold the latch at `place` shared. Also true while
    /// a note is unsure.
    pub(crate) fn holders_are(&self, place: u64, count: u64) -> bool {
        self.holders(place).is_none_or(|holders| holders == count)
    }

    /// Finishes the count of a dead freezer, for a session that finds its latch frozen.
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
        // A failure means that another session considered this session dead, and now has the role.
        let _ = self.0.header.freezer.compare_exchange(by, SessionId::NONE);
    }

    /// Finishes the count of the freezer that died, if there is one.
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
                self.give_up(&format!(
                    "a session has noted for very long that it is about to hold the latch at {place}"
                ));
            }
        };
        failpoint("recount: holders counted, not stored");
        if planted("process: a recount does not freeze the latch") {
            rio::planted::linger_until(|| word.look() & COUNT > count + 1);
        }
        loop {
            let seen = word.look();
            if seen & OWNER != 0 {
                self.give_up(&format!("the latch at {place} is frozen and has an owner: {seen:#x}"));
            }
            // The waiting bits are advice: a session that goes back to sleep sets them again.
            if word.swap_if(seen, count).is_ok() {
                break;
            }
        }
        failpoint("recount: stored, no waiter woken");
        latch_word::wake_sleepers(word, READERS | WRITERS, waiter);
    }

    /// Returns whether a session with an unsure note about the latch may be stopped or paused. `times` is the number of
    /// [`UNSURE_ROUNDS`] that the caller has waited.
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

    /// Returns the number of living sessions that hold the latch at `place` shared, or `None` while a note is unsure.
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
            if is_unsure && !planted("process: a waiter counts as a holder of the latch") {
                return None;
            }
            count += sure;
        }
        Some(count)
    }
}

/// Freezes a word with shared holders. Returns false if the word has no shared holders: then its count includes no dead
/// session.
fn freeze(word: &AtomicU64) -> bool {
    loop {
        let seen = word.look();
        if seen & OWNER != 0 || seen & COUNT == 0 {
            return false;
        }
        let is_frozen = seen & FREEZE != 0 || planted("process: a recount does not freeze the latch");
        if is_frozen || word.swap_if(seen, seen | FREEZE).is_ok() {
            return true;
        }
    }
}
