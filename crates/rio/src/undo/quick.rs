//! The values that a Vista transaction keeps in the processor's registers, from its beginning to its end.
//!
//! Paper: a departure only in where values are kept. A store to a place outside the cache takes as long as the
//! processor needs to fetch the line. Meanwhile the processor runs as many of the next transactions as it has room for.
//! Every memory access of a transaction takes some of that room: a transaction of eight bytes that loaded fourteen
//! words took half as long again as a transaction that loaded six (docs/performance.md).

use std::ops::Deref;
use std::ptr::NonNull;

use super::{no_room, Undo, RECORD_BYTES_MAX};
use crate::{planted, ExclusiveHold, ForkMark, Offset, View, Word};

/// An owner of a view and of the undo log for changes made through that view.
///
/// # Safety
/// While the value is not borrowed mutably, its view and its undo log stay the same and unchanged. A mutable borrow of
/// the value gives exclusive access to all bytes that the view shows.
pub unsafe trait Parts {
    /// Proof of exclusive access to the bytes that the view shows.
    type Hold: ExclusiveHold;

    /// Returns the view, the log, and the proof.
    fn parts(&mut self) -> (&View, &Undo, &mut Self::Hold);
}

/// A mutable borrow of an owner, with copies of its most used values.
pub struct Quick<'s, T: Parts> {
    owner: &'s mut T,
    copies: Copies,
}

/// Copies of two places: of the flat part of the view, and of the log.
#[derive(Clone, Copy)]
struct Copies {
    base: NonNull<u8>,
    from: u64,
    bytes: u64,
    log: Option<NonNull<[Word<u64>; WORDS]>>,
    mark: ForkMark,
}

/// The number of words of a log that are used without reading the log's length: Vista makes its logs at least that
/// long.
const WORDS: usize = 6 << 10;

/// The start of a log whose quick path is on. Valid for the process that opened the log.
pub(super) struct Start {
    log: Option<NonNull<[Word<u64>; WORDS]>>,
    /// The mark of that process. A child also has the log mapped, and a copy of this value.
    pub(super) mark: ForkMark,
    /// The place and length of a longer log that was allocated and could not be made ready: the next attempt uses it.
    pub(super) spare: Option<(Offset<Word<u64>>, u64)>,
}

// SAFETY: an address in a log; the log belongs to one thread, as does the `Undo` that holds this value.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

impl Start {
    /// Makes an empty start for this process.
    pub(super) fn none() -> Start {
        Start { log: None, mark: ForkMark::of_this_process(), spare: None }
    }

    /// Sets the start of the log. The process that opened the log calls this.
    pub(super) fn lead_to(&mut self, log: &[Word<u64>]) {
        self.log = log.first_chunk().map(NonNull::from);
    }
}

// SAFETY: the addresses lie in mappings that `owner` keeps alive, and `owner` moves together with this value. The
// addresses belong to the thread that has `owner`.
unsafe impl<T: Parts + Send> Send for Quick<'_, T> {}
// SAFETY: as above; a shared borrow of this value gives no access through the addresses.
unsafe impl<T: Parts + Sync> Sync for Quick<'_, T> {}

impl Copies {
    #[inline(always)]
    fn of(owner: &mut impl Parts) -> Copies {
        let (view, undo, _) = owner.parts();
        let flat = view.flat();
        Copies { base: flat.base, from: flat.from, bytes: flat.bytes, log: undo.start.log, mark: undo.start.mark }
    }
}

impl<'s, T: Parts> Quick<'s, T> {
    /// Borrows an owner and copies the values.
    #[inline(always)]
    pub fn new(owner: &'s mut T) -> Quick<'s, T> {
        Quick { copies: Copies::of(owner), owner }
    }

    #[inline(always)]
    fn log(&self) -> Option<&[Word<u64>; WORDS]> {
        // SAFETY: the log is `owner`'s. `owner` was not borrowed mutably since the copy was taken, and lives as long
        // as `self`.
        self.copies.log.map(|start| unsafe { start.as_ref() })
    }

    #[inline(always)]
    fn room(&self, top: usize, bytes: usize) -> Option<&[Word<u64>]> {
        self.log().and_then(|log| Undo::room_in(log, top, bytes))
    }

    /// Returns whether the quick path is on and the log has no images.
    #[inline(always)]
    pub fn is_at_rest(&self) -> bool {
        self.log().is_some_and(|log| log[0].get() == 0)
    }

    /// Returns whether [`Quick::range`] can lend `bytes` at the position `at`, if the log ends at `top`. Always false
    /// in a child of the process that has the log.
    #[inline(always)]
    pub fn is_quick(&self, at: u64, bytes: usize, top: usize) -> bool {
        self.has(at, bytes, top) && self.copies.mark.is_certain()
    }

    #[inline(always)]
    fn has(&self, at: u64, bytes: usize, top: usize) -> bool {
        let is_flat = at.checked_add(bytes as u64).is_some_and(|end| end <= self.copies.bytes);
        // A length of zero wraps around and is refused: an empty image would still be a record.
        is_flat && bytes.wrapping_sub(1) < RECORD_BYTES_MAX && self.room(top, bytes).is_some()
    }

    /// Saves the before-image of `bytes` at the position `at` in the log that ends at `top`. Returns the bytes, to be
    /// stored to, and the log's new end.
    ///
    /// # Panics
    /// If [`Quick::is_quick`] is false for the range and the log.
    #[inline(always)]
    pub fn range(&mut self, at: u64, bytes: usize, top: usize) -> (&mut [u8], usize) {
        // The fork mark is not checked here, because each check is a load: the caller has checked it with `is_quick`.
        if !self.has(at, bytes, top) {
            no_room();
        }
        let words = self.room(top, bytes).unwrap_or_else(|| no_room());
        // Mapped positions lie far below 2^64.
        let place = self.copies.base.as_ptr().wrapping_add(usize::try_from(at).unwrap_or(usize::MAX));
        // SAFETY: the flat part is mapped, readable and writable (`View::set_shown`) for as long as the view, which is
        // still `owner`'s view. `owner` is borrowed mutably, so no other code has these bytes, and `self` stays
        // borrowed while they are lent.
        let area = unsafe { std::slice::from_raw_parts_mut(place, bytes) };
        if planted("rio: changes of areas save no before-images") {
            return (area, top);
        }
        let saved = Undo::save_in(words, self.copies.from + at, area);
        (area, top + saved)
    }

    /// As [`Quick::range`], for any bytes that the view shows. `None` if the view does not show them.
    ///
    /// # Panics
    /// If the undo log has no room for it.
    #[inline(always)]
    pub fn range_slowly(&mut self, at: u64, bytes: usize, top: usize) -> Option<(&mut [u8], usize)> {
        // A method with `self` would force the copies out of the registers into memory.
        range_slowly(self.owner, at, bytes, top)
    }

    /// Empties the log, so that the changes stand. Returns whether it did: it does not if the quick path is off, or in
    /// a child of the process that has the log.
    #[inline(always)]
    pub fn discard(&self) -> bool {
        let Some(log) = self.log().filter(|_| self.copies.mark.is_certain()) else { return false };
        Undo::end_at(&log[0]);
        true
    }

    /// Runs `work`, which may change the copied values.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // The copies are cleared first: if `work` panics, no stale copy can be used.
        (self.copies.bytes, self.copies.log) = (0, None);
        let done = work(self.owner);
        self.copies = Copies::of(self.owner);
        done
    }

    /// Returns the mutable borrow of the owner.
    #[inline(always)]
    pub fn owner(self) -> &'s mut T {
        self.owner
    }
}

impl<T: Parts> Deref for Quick<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.owner
    }
}

#[inline(never)]
fn range_slowly<T: Parts>(owner: &mut T, at: u64, bytes: usize, top: usize) -> Option<(&mut [u8], usize)> {
    let (view, undo, hold) = owner.parts();
    view.look(at, bytes).map(|shown| shown.saved(hold, |place, old| undo.save_behind(top, place, old)))
}
