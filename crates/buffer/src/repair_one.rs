//! Repair of the frames that one dead session left, while other sessions live (PROTOCOLS D4, D5, D7).
//!
//! The repair makes three steps before it releases the dead session's latches. First, the dead session's section is
//! rolled back. Second, if the session had completely read a page, its note of the taken frame is cleared
//! ([`BufferManager::settle_hand`]). Third, the noted record is redone on the pages that the dead session has latched
//! ([`BufferManager::held_by`]). Any other frame that the session had taken, and its pins, are repaired later, by a
//! session that holds no latch and takes the latches that it needs.
//!
//! If the repairing session dies here: the note of a taken frame is cleared in the same section that puts the frame on
//! the free list; a count of pins is stored before the dead session's notes are cleared. The next session continues the
//! repair.

use std::time::Duration;

use libtp_process::{DeadSession, Session};
use rio::{failpoint, planted};

use crate::content::Body;
use crate::frame::{FrameSlot, ANY_PAGE};
use crate::pool::FrameInHand;
use crate::version::State;
use crate::{BufferManager, ExclusivePage, PageId};

/// The number of attempts to latch a busy frame, and the pause between two attempts: a few milliseconds in all. The
/// next repair tries again. Until then a superfluous pin only prevents the replacement of its frame (PROTOCOLS D7).
const TRIES: u32 = 40;
const MOMENT: Duration = Duration::from_micros(50);

impl BufferManager {
    /// Returns the page if `session` has it latched exclusively. The result contains a second guard of the same latch,
    /// for the repair of a dead session. Other code releases the dead session's latches, so the caller must `forget`
    /// the page and not drop it.
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

    /// Makes the count of changes even on each page that the dead session has latched alone. This is the last step
    /// before the latches of the dead session are released: its section has been rolled back, and its noted record has
    /// been redone (docs/design/0022).
    pub fn end_changes(&self, dead_session: &DeadSession<'_>) {
        let latched = dead_session.session().latched_alone().filter_map(|latch| self.frame_at(latch.raw()));
        latched.filter(|_| !planted("buffer: a repair leaves counts odd")).for_each(FrameSlot::end_change);
        failpoint("repair: counts even, latches held");
    }

    /// Clears the dead session's note of a taken frame, if the session had read the frame's page and made it available
    /// (`settle`). Called after the roll-back of the session's section and before its latches are released: afterwards
    /// other sessions may change the page and replace it.
    pub fn settle_hand(&self, dead_session: &DeadSession<'_>) {
        let Some(slot) = self.frame_at(dead_session.in_hand()) else { return };
        let is_there = slot.latch.owner() == Some(dead_session.id()) && slot.state() == State::Resident;
        if is_there && !planted("buffer: a resident page stays in a dead session's hand") {
            dead_session.put_back();
        }
    }

    /// Repairs the frame that the dead session had taken. Called first, because the repairer ends the dead session's
    /// transactions, and may need the page that the dead session was reading. The caller holds no latch. Returns false
    /// if the frame was busy at every attempt; the caller then calls again later.
    pub fn repair_hand(&self, session: &Session, dead_session: &DeadSession<'_>) -> bool {
        let held = self
            .frame_at(dead_session.in_hand())
            .filter(|_| !planted("buffer: a dead session keeps the frame in hand"));
        held.is_none_or(|slot| self.empty_hand(session, dead_session, slot))
    }

    /// Repairs the dead session's pins, and the frame that it had taken. The caller holds no latch. Returns false if a
    /// frame was busy at every attempt; the caller then calls again later.
    pub fn repair_frames(&self, session: &Session, dead_session: &DeadSession<'_>) -> bool {
        let hand = self.repair_hand(session, dead_session);
        let mut pins = true;
        let parts = self.pools.parts();
        let all = parts.iter().flat_map(|(_, part)| part.frames()).filter(|slot| slot.is_pinned());
        let unnoted = all.filter(|_| dead_session.has_unnoted_pins());
        let noted = dead_session.pins().filter_map(|place| self.frame_at(place));
        for slot in noted.chain(unnoted).filter(|_| !planted("buffer: pins of dead sessions are not removed")) {
            pins &= self.recount_pins(session, slot);
        }
        failpoint("repair: pins recounted, not forgotten");
        if pins {
            dead_session.forget_pins();
        }
        hand && pins
    }

    /// Returns the pages that have more pins than the living sessions have noted: the frames of these pages could never
    /// be replaced. Called while no session is dead. For tests, while other sessions work.
    pub fn pinned_by_nobody(&self, session: &Session) -> Vec<PageId> {
        let parts = self.pools.parts();
        let pinned = parts.iter().flat_map(|(_, part)| part.frames()).filter(|slot| slot.is_pinned());
        let is_leak = |slot: &&FrameSlot| {
            let place = self.region.offset_of(*slot).raw();
            // The check is repeated for a while, because a session may be between a pin and its note. A session that
            // has more pins than it can note may have pinned this frame.
            let explained = try_long(session, || {
                let pins = slot.pins.load();
                let living = session.processes().pinned_by(place);
                living.is_none_or(|living| living >= pins).then_some(())
            });
            explained.is_none()
        };
        pinned.filter(is_leak).map(|slot| slot.page.load()).collect()
    }

    /// Returns the page in the frame whose latch is at the offset `latch`, at this moment. `None` if no frame has this
    /// latch, or the frame is empty.
    pub fn page_at(&self, latch: u64) -> Option<PageId> {
        self.frame_at(latch).map(|slot| slot.page.load()).filter(|page| !page.is_none())
    }

    /// Returns the frame whose slot, which begins with the latch, is at the offset `place`.
    fn frame_at(&self, place: u64) -> Option<&FrameSlot> {
        if place == 0 {
            return None;
        }
        self.pools.parts().into_iter().find_map(|(_, part)| {
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

    /// Stores the number of pins that living sessions have on the frame.
    fn recount_pins(&self, session: &Session, slot: &FrameSlot) -> bool {
        let place = self.region.offset_of(slot).raw();
        let counted = try_long(session, || {
            // Takes the latches of the frame and of its bucket, so that no session takes a pin meanwhile. Sessions
            // release pins without a latch.
            let _frame = slot.latch.try_exclusive(session, ANY_PAGE)?;
            let _bucket = self.table.latch_of(session, slot);
            let before = slot.pins.load();
            // `before` is read before the pins are counted, so that the swap fails if a pin is released in between.
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
