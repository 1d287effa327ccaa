//! Notes of pins. A session notes which pin counts in the region include, or may include, a pin of its own.
//!
//! A pin adds one to a count in a slot of some manager. A count does not name its sessions, so a session notes each of
//! its pins, in the same three states as a latch held shared (PROTOCOLS D7): `wanting` before the session adds one to
//! the count, `holding` after that, and `releasing` before it subtracts one.
//!
//! If we die here: the repairing session stores into the count the number of pins that living sessions have there
//! (`ProcessManager::pinned_by`).

use crate::notes::Note;
use crate::slot::PINS;
use crate::{ProcessManager, Session};
use rio::failpoint;

/// The note of a pin.
#[derive(Clone, Copy, Debug)]
#[must_use = "a pin's note is cleared when the pin is released"]
pub struct PinNote(usize);

impl Session {
    /// Notes that a pin is about to be counted at `place`, a multiple of eight. Call [`Session::has_pinned`]
    /// afterwards.
    #[inline]
    pub fn note_pin(&self, place: u64) -> PinNote {
        let used = self.pins_used().get();
        let note = used.trailing_ones() as usize;
        if note >= PINS {
            return self.count_unnoted_pin();
        }
        self.pins_used().set(used | 1 << note);
        self.slot().pins[note].init(Note::wanting(place));
        failpoint("pin: noted, not counted");
        PinNote(note)
    }

    #[cold]
    fn count_unnoted_pin(&self) -> PinNote {
        let count = &self.slot().pins_unnoted;
        count.init(count.get() + 1);
        PinNote(PINS)
    }

    /// Notes that the pin is counted.
    #[inline]
    pub fn has_pinned(&self, note: PinNote, place: u64) {
        failpoint("pin: counted, not noted as held");
        if let Some(word) = self.slot().pins.get(note.0) {
            word.init(Note::holding(place));
        }
    }

    /// Notes that the pin is about to be taken off the count. Call [`Session::has_unpinned`] afterwards.
    #[inline]
    pub fn note_unpin(&self, note: PinNote, place: u64) {
        failpoint("pin: held, about to be taken off");
        if let Some(word) = self.slot().pins.get(note.0) {
            word.init(Note::releasing(place));
        }
    }

    /// Clears the note: the pin is no longer counted.
    #[inline]
    pub fn has_unpinned(&self, note: PinNote) {
        failpoint("pin: taken off, still noted");
        match self.slot().pins.get(note.0) {
            Some(word) => {
                word.init(Note::NONE);
                self.pins_used().set(self.pins_used().get() & !(1 << note.0));
            }
            None => {
                let count = &self.slot().pins_unnoted;
                count.init(count.get() - 1);
            }
        }
    }
}

impl ProcessManager {
    /// Returns the number of pins that living sessions have at `place`, or `None` if the number is uncertain at this
    /// moment. The caller prevents new pins; existing pins may be released meanwhile.
    pub fn pinned_by(&self, place: u64) -> Option<u32> {
        let mut count = 0;
        for (_, slot) in self.slots() {
            let has_unnoted = slot.pins_unnoted.load() != 0;
            let (mut sure, mut is_unsure) = (0, has_unnoted);
            for note in slot.pins.iter().map(|note| note.load()).filter(|note| note.is_about(place)) {
                is_unsure |= note.is_unsure();
                sure += 1;
            }
            // Whether the session lives is checked last, and only if it matters: the check may be a system call, and
            // the caller holds latches.
            if (sure == 0 && !is_unsure) || !self.tenant_lives(slot) {
                continue;
            }
            if is_unsure {
                return None;
            }
            count += sure;
        }
        Some(count)
    }
}
