//! Repair of the frames that one dead session left, while other sessions live (PROTOCOLS D4, D5, D7).
//!
//! Three steps come before the dead session's latches are given back. Its section is rolled back. A page that it had
//! read to the end is taken out of its hand ([`BufferManager::settle_hand`]). The noted record is redone on the pages
//! that the dead session holds, which are reached through its latches ([`BufferManager::held_by`]). Any other frame in
//! its hand, and its pins, are repaired later, by a session that holds no latch and takes the latches it needs.
//!
//! If the repairing session dies here: a frame leaves the dead session's hand in the section that puts it on the free
//! list; a count of pins is stored before the dead session's notes are forgotten. The next session to repair goes on.

use std::time::Duration;

use libtp_process::{DeadSession, Session};
use rio::{failpoint, planted};

use crate::content::Body;
use crate::frame::{FrameSlot, ANY_PAGE};
use crate::pool::FrameInHand;
use crate::version::State;
use crate::{BufferManager, ExclusivePage, PageId};

/// Tries of a busy frame, and the pause between two of them: a few milliseconds in all. The next session to repair
/// tries again; until then a pin in doubt only keeps its frame from being replaced (PROTOCOLS D7).
const TRIES: u32 = 40;
const MOMENT: Duration = Duration::from_micros(50);

impl BufferManager {
    /// Returns the page if `session` has it latched exclusively. The guard is a second guard of the same latch, for the
    /// repair of a dead session, whose latches are given back elsewhere: the caller forgets the page instead of
    /// dropping it.
    pub fn held_by<'s>(&'s self, session: &'s Session, id: PageId) -> Option<ExclusivePage<'s>> {
        for latch in session.latched_alone() {
            let Some(slot) = self.frame_at(latch.raw()) else { continue };
            if slot.page.get() == id && slot.state() == State::Resident {
                let guard = slot.latch.adopt_exclusive(session)?;
                return Some(ExclusivePage::new(&self.region, slot, Body::taken(slot), guard, id));
            }
        }
        None
    }

    /// Makes the counts of changes even of all pages that the dead session has latched alone. The last step before its
    /// latches are given back: its section is rolled back, and its noted record redone (docs/design/0022).
    pub fn end_changes(&self, dead_session: &DeadSession<'_>) {
        let latched = dead_session.session().latched_alone().filter_map(|latch| self.frame_at(latch.raw()));
        latched.filter(|_| !planted("buffer: a repair leaves counts odd")).for_each(FrameSlot::end_change);
        failpoint("repair: counts even, latches held");
    }

    /// Takes the frame of a page that the dead session had read and made available (`settle`) out of its hand. Called
    /// after the roll-back of its section and before its latches are given back: afterwards other sessions may change
    /// the page and replace it.
    pub fn settle_hand(&self, dead_session: &DeadSession<'_>) {
        let Some(slot) = self.frame_at(dead_session.in_hand()) else { return };
        let is_there = slot.latch.owner() == Some(dead_session.id()) && slot.state() == State::Resident;
        if is_there && !planted("buffer: a resident page stays in a dead session's hand") {
            dead_session.put_back();
        }
    }

    /// Repairs the frame that the dead session had in hand. Called first, because the repairer, which ends the dead
    /// session's transactions, may need the very page that the dead session was reading. The caller holds no latch.
    /// Returns false if the frame stayed busy all the time: call again later.
    pub fn repair_hand(&self, session: &Session, dead_session: &DeadSession<'_>) -> bool {
        let held = self
            .frame_at(dead_session.in_hand())
            .filter(|_| !planted("buffer: a dead session keeps the frame in hand"));
        held.is_none_or(|slot| self.empty_hand(session, dead_session, slot))
    }

    /// Repairs the dead session's pins and the frame that it had in hand. The caller holds no latch. Returns false if a
    /// frame stayed busy all the time: call again later.
    pub fn repair_frames(&self, session: &Session, dead_session: &DeadSession<'_>) -> bool {
        let hand = self.repair_hand(session, dead_session);
        let mut pins = true;
        let shelves = self.pools.shelves();
        let all = shelves.iter().flat_map(|(_, part)| part.frames()).filter(|slot| slot.is_pinned());
        let unnoted = all.filter(|_| dead_session.has_unnoted_pins());
        let noted = dead_session.pins().filter_map(|place| self.frame_at(place));
        for slot in noted.chain(unnoted).filter(|_| !planted("buffer: pins of dead sessions stay")) {
            pins &= self.recount_pins(session, slot);
        }
        failpoint("repair: pins recounted, not forgotten");
        if pins {
            dead_session.forget_pins();
        }
        hand && pins
    }

    /// Returns the pages with more pins than living sessions note, when no session is dead: their frames can never be
    /// replaced. For tests, while other sessions work.
    pub fn pinned_by_nobody(&self, session: &Session) -> Vec<PageId> {
        let shelves = self.pools.shelves();
        let pinned = shelves.iter().flat_map(|(_, part)| part.frames()).filter(|slot| slot.is_pinned());
        let is_leak = |slot: &&FrameSlot| {
            let place = self.region.offset_of(*slot).raw();
            // A look may fall between a pin and its note. A session with more pins than notes may have any pin.
            let explained = try_long(session, || {
                let pins = slot.pins.load();
                let living = session.processes().pinned_by(place);
                living.is_none_or(|living| living >= pins).then_some(())
            });
            explained.is_none()
        };
        pinned.filter(is_leak).map(|slot| slot.page.load()).collect()
    }

    /// Returns the page whose frame's latch lies at `latch`, at this moment. `None` if no frame's latch lies there, or
    /// the frame is empty.
    pub fn page_at(&self, latch: u64) -> Option<PageId> {
        self.frame_at(latch).map(|slot| slot.page.load()).filter(|page| !page.is_none())
    }

    /// Returns the frame whose slot, and so whose latch, lies at `place`.
    fn frame_at(&self, place: u64) -> Option<&FrameSlot> {
        if place == 0 {
            return None;
        }
        self.pools.shelves().into_iter().find_map(|(_, part)| {
            let number = part.slab.index_of(place)?;
            (number <= part.frame_count()).then(|| part.slab.at(number))
        })
    }

    fn empty_hand(&self, session: &Session, dead_session: &DeadSession<'_>, slot: &FrameSlot) -> bool {
        let Some(guard) = try_long(session, || slot.latch.try_exclusive(session, ANY_PAGE)) else { return false };
        failpoint("repair: frame in hand latched");
        if slot.state() == State::Loading && !planted("buffer: a partly read page stays in the table") {
            self.table.remove_for_the_dead(session, slot);
        }
        failpoint("repair: frame in hand, out of the table");
        let part = self.pools.shelf_of(slot);
        part.push_free_of(session, FrameInHand { slot, guard }, |section| dead_session.put_back_in(section));
        true
    }

    /// Stores how many living sessions have the frame pinned.
    fn recount_pins(&self, session: &Session, slot: &FrameSlot) -> bool {
        let place = self.region.offset_of(slot).raw();
        let counted = try_long(session, || {
            // Takes both latches, so that no session takes a pin meanwhile. Pins are given back without a latch.
            let _frame = slot.latch.try_exclusive(session, ANY_PAGE)?;
            let _bucket = self.table.latch_of(session, slot);
            let before = slot.pins.load();
            // `before` is read before the pins are counted, so that a pin given back in between makes the swap fail.
            let living = session.processes().pinned_by(place)?;
            failpoint("repair: pins counted, not stored");
            slot.pins.compare_exchange(before, living).ok()
        });
        counted.is_some()
    }
}

/// Tries for a few milliseconds.
fn try_long<T>(session: &Session, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(done) = attempt() {
            return Some(done);
        }
        session.sleep(MOMENT);
    }
    None
}
