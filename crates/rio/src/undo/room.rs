//! The room in an undo log, the log's growth, and the *quick path*. On the quick path, an image is saved or the log is
//! emptied without a further step (no checksum, no guard to open, no block to free).
//!
//! Paper: a departure; Vista's records come from the heap. Here the log is one area, and a larger area can replace it
//! even while sections are open.

use std::sync::atomic::Ordering;

use super::{no_room, words_of, Undo, RECORD_BYTES_MAX};
use crate::{failpoint, planted, Result, Word, WriteBack};

/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

impl Undo {
    /// Makes room for `bytes` of before-images and their headers. Called before the first latch (PROTOCOLS D11).
    ///
    /// # Errors
    /// The region cannot grow; the log is as it was.
    pub fn ensure(&mut self, bytes: u64) -> Result<()> {
        let words = bytes / 8 + 16;
        if words <= self.words.len() as u64 {
            return Ok(());
        }
        self.lengthen(words.next_power_of_two(), |_, _| Ok(()))
    }

    /// As [`Undo::ensure`], for the only owner of the log's region. `ready` gets the place and the length of the longer
    /// log before the log is used; the length is rounded up to a multiple of `unit`. If `ready` fails, the next call
    /// uses the same memory again.
    ///
    /// # Errors
    /// As [`Undo::ensure`]; `Forked` in a child of the process that opened the log; the errors of `ready`.
    pub fn ensure_ready(&mut self, bytes: u64, unit: u64, ready: impl FnOnce(u64, u64) -> Result<()>) -> Result<()> {
        let words = bytes / 8 + 16;
        self.start.mark.refuse_child(self.region.path())?;
        if words <= self.words.len() as u64 {
            return Ok(());
        }
        self.lengthen(words.next_power_of_two(), |at, bytes| ready(at, bytes.next_multiple_of(unit)))
    }

    fn lengthen(&mut self, words: u64, ready: impl FnOnce(u64, u64) -> Result<()>) -> Result<()> {
        let (area, words) = match self.start.spare.filter(|(_, spare)| *spare >= words) {
            Some(spare) => spare,
            None => (self.region.allocate::<Word<u64>>(words)?, words),
        };
        self.start.spare = Some((area, words));
        ready(area.raw(), words * 8)?;
        self.start.spare = None;
        // The images of open sections are copied too, with the zero after the last record.
        let new = self.region.slice(area, self.top.get() + 1);
        for (to, from) in new.iter().zip(self.words.iter()) {
            to.init(from.get());
        }
        // The images get to memory before the link to the new area.
        if !planted("undo: a longer log is linked before its images are in memory") {
            self.region.write_back_and_fence((area.raw(), size_of_val(new) as u64));
        }
        let header = self.region.at(self.log);
        // If we die here: both areas hold the records, and the records fit the smaller length, so the new area with the
        // old length loses no image. The area is stored first, so that a survivor that still reads the old, smaller
        // length stays inside the new area.
        failpoint("rio: larger undo log allocated, not used");
        header.area.publish(Some(area));
        failpoint("rio: undo log moved, length old");
        header.words.publish(words);
        // The link gets to memory before any record that is saved in the new area.
        self.region.write_back_and_fence(self.header_place());
        self.words = Undo::area(&self.region, self.log);
        self.start.lead_to(&self.words);
        if self.is_quick() {
            self.be_quick(true);
        }
        Ok(())
    }

    /// Returns the words for an image, if the image can take the quick path: it takes one record without a checksum,
    /// and the log has room for that record.
    #[inline(always)]
    pub(super) fn quick_room(&self, top: usize, bytes: usize) -> Option<&[Word<u64>]> {
        // A length of zero wraps around and is refused: an empty image would still be a record.
        if bytes.wrapping_sub(1) >= RECORD_BYTES_MAX {
            return None;
        }
        Undo::room_in(&self.quick, top, bytes)
    }

    #[inline(always)]
    pub(super) fn room_in(words: &[Word<u64>], top: usize, bytes: usize) -> Option<&[Word<u64>]> {
        words.get(top..top.checked_add(bytes.div_ceil(8) + 2)?)
    }

    /// Returns whether an image of `bytes` can take the quick path in a log that ends at `top`. Always false in a child
    /// of the process that opened the log.
    #[inline(always)]
    pub fn has_quick_room(&self, top: usize, bytes: usize) -> bool {
        self.quick_room(top, bytes).is_some() && self.start.mark.is_certain()
    }

    /// Turns the quick path on or off ([`Undo::has_quick_room`]).
    pub fn set_quick(&mut self, is_quick: bool) {
        let is_quick = is_quick && self.write_back == WriteBack::None;
        if is_quick != self.is_quick() {
            self.be_quick(is_quick);
        }
    }

    fn be_quick(&mut self, is_quick: bool) {
        self.start.gate.close();
        self.quick = self.words.part(0..if is_quick { self.words.len() - self.kept_back } else { 0 });
    }

    /// Returns whether the quick path is on.
    #[inline(always)]
    pub fn is_quick(&self) -> bool {
        !self.quick.is_empty()
    }

    /// Returns whether the quick path is on and the log has no images.
    #[inline(always)]
    pub fn is_at_rest(&self) -> bool {
        self.quick.first().is_some_and(|first| first.get() == 0)
    }

    /// As [`Undo::discard`] on the quick path, for a caller that keeps the log's end itself. Returns false, and
    /// discards nothing, if the quick path is off, or in a child of the process that opened the log.
    #[inline(always)]
    pub fn discard_quickly(&self) -> bool {
        let Some(first) = self.quick.first().filter(|_| self.start.mark.is_certain()) else { return false };
        Undo::end_at(first);
        true
    }

    /// Returns the log's end. Only for a log whose end is kept in this handle, not in a transaction's copy.
    pub fn top(&self) -> usize {
        self.top.get()
    }

    /// Sets the log's end, where the next section saves, to the end `top` that a transaction keeps. Does nothing if the
    /// memory outlives the cache: this handle always has the end of such a log.
    pub fn set_top(&self, top: usize) {
        self.top.set(self.end_of(top));
    }

    /// Returns the log's end for a transaction that keeps the end `top`.
    pub fn end_of(&self, top: usize) -> usize {
        match self.write_back {
            // This transaction has saved nothing. A transaction that was forgotten may have left a number in `ahead`.
            WriteBack::None if top == 0 => 0,
            WriteBack::None => top.wrapping_sub(self.ahead.get()),
            _ => self.top.get(),
        }
    }

    /// Forgets the log's end, because a transaction keeps it.
    pub fn leave_top(&self) {
        if self.write_back == WriteBack::None {
            self.top.set(0);
        }
    }

    /// Returns the log's end to a caller that keeps it from now on. If this handle does not have the end, finds it in
    /// the records.
    pub fn take_top(&self) -> usize {
        let mut top = self.top.get();
        if self.words.get(top).is_none_or(|word| word.get() != 0) {
            top = self.records(0).last().map_or(0, |&record| record + 1 + words_of(self.words[record].get()));
            self.top.set(top);
        }
        self.ahead.set(0);
        self.leave_top();
        top
    }

    /// Saves the cache line that contains the address.
    pub(crate) fn save_line(&self, address: usize) {
        let place = self.region.offset_of_address(address) / LINE as u64 * LINE as u64;
        let mut old = [0; LINE];
        for (bytes, word) in old.chunks_exact_mut(8).zip(self.region.undo_words(place, LINE)) {
            // Relaxed: the thread that changes the words has exclusive access to them.
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        self.save_bytes(place, &old);
    }

    /// Saves an image that takes several records or needs a checksum. Returns the log's new end.
    #[inline(never)]
    pub(super) fn save_parts(&self, mut top: usize, place: u64, old: &[u8]) -> usize {
        for (part, place) in old.chunks(RECORD_BYTES_MAX).zip((place..).step_by(RECORD_BYTES_MAX)) {
            if self.write_back != WriteBack::None {
                top = self.save_checked(top, place, part);
                self.top.set(top);
            } else {
                let words = Undo::room_in(&self.words, top, part.len()).unwrap_or_else(|| no_room());
                top += Undo::save_in(words, place, part);
            }
        }
        top
    }

    /// Returns whether the log has room for one image of `bytes`. Always false in a child of the process that opened
    /// the log.
    pub fn has_room(&self, bytes: usize) -> bool {
        // The image may take several records, with their headers and checksums; the zero needs a word too.
        let words = bytes.div_ceil(8) + bytes / RECORD_BYTES_MAX * 2 + 3;
        let offered = self.top.get()..self.words.len() - self.kept_back;
        self.words.get(offered).is_some_and(|rest| rest.len() >= words) && self.start.mark.is_current()
    }

    /// Reserves the last `bytes` of the log: [`Undo::has_room`] offers only the room before these bytes, but a section
    /// may still save images in them.
    pub fn keep_back(&mut self, bytes: u64) {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).min(self.words.len());
        if words != self.kept_back {
            self.kept_back = words;
            if self.is_quick() {
                self.be_quick(true);
            }
        }
    }

    /// Returns the place of the log's area, and its length in bytes.
    pub fn area_range(&self) -> (u64, u64) {
        let header = self.region.at(self.log);
        let area = header.area.load().expect("an undo log was created before it is opened");
        // The values come from the log's header: another process may have made the log larger than this handle knows.
        (area.raw(), header.words.load().saturating_mul(8))
    }

    /// Returns the bytes of before-images, including their headers, that the log can take.
    pub fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}
