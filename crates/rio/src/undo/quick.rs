//! What a transaction of Vista's keeps in the processor's registers, from its beginning to its end.
//!
//! Paper: a departure in what is done where, not in what is done. A store to a place that is not in the cache takes as long as
//! the processor needs to bring it there, and it goes on with the next transactions meanwhile, as many as it has room for.
//! What it looks up in memory for each of them is what the room is used up by: a transaction of eight bytes that looked
//! up fourteen words took half as long again as one that looked up six (docs/performance.md).

use std::ops::Deref;
use std::ptr::NonNull;

use super::{no_room, Undo, RECORD_BYTES_MAX};
use crate::{planted, ExclusiveHold, ForkMark, Offset, View, Word};

/// Who has a view, and the undo log of what is changed through it.
///
/// # Safety
/// As long as nobody borrows it mutably, its view and its undo log are the same ones and as they are; and who borrows it
/// mutably has all that the view shows to himself.
pub unsafe trait Parts {
    /// Proof of having what the view shows.
    type Hold: ExclusiveHold;

    /// The view, the log, and the proof.
    fn parts(&mut self) -> (&View, &Undo, &mut Self::Hold);
}

/// Somebody's mutable borrow, and copies of what is needed of it most.
pub struct Quick<'s, T: Parts> {
    whole: &'s mut T,
    copies: Copies,
}

/// Where the flat part of the view lies, and the log.
#[derive(Clone, Copy)]
struct Copies {
    base: NonNull<u8>,
    from: u64,
    bytes: u64,
    log: Option<NonNull<[Word<u64>; WORDS]>>,
    mark: ForkMark,
}

/// Words of a log that are used without looking up how long it is: those that Vista makes have so many.
const WORDS: usize = 6 << 10;

/// The start of a log, if images may be saved in it without asking, by the process that opened it.
pub(super) struct Start {
    log: Option<NonNull<[Word<u64>; WORDS]>>,
    /// A child of the process has the log mapped, too, and a copy of everything here.
    pub(super) mark: ForkMark,
    /// Room for a longer log, and its words, that could not be made ready: for the next that asks.
    pub(super) spare: Option<(Offset<Word<u64>>, u64)>,
}

// SAFETY: an address in a log, as much one thread's as the `Undo` that it is kept in.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

impl Start {
    /// None, yet, of this process.
    pub(super) fn none() -> Start {
        Start { log: None, mark: ForkMark::of_this_process(), spare: None }
    }

    /// The start of a log of the same process.
    pub(super) fn lead_to(&mut self, log: &[Word<u64>]) {
        self.log = log.first_chunk().map(NonNull::from);
    }
}

// SAFETY: the addresses lie in mappings that `whole`, which goes with them, keeps; they are as much one thread's as it is.
unsafe impl<T: Parts + Send> Send for Quick<'_, T> {}
// SAFETY: as above; through a shared borrow nobody uses them.
unsafe impl<T: Parts + Sync> Sync for Quick<'_, T> {}

impl Copies {
    #[inline(always)]
    fn of(whole: &mut impl Parts) -> Copies {
        let (view, undo, _) = whole.parts();
        let flat = view.flat();
        Copies { base: flat.base, from: flat.from, bytes: flat.bytes, log: undo.start.log, mark: undo.start.mark }
    }
}

impl<'s, T: Parts> Quick<'s, T> {
    /// Takes the copies.
    #[inline(always)]
    pub fn new(whole: &'s mut T) -> Quick<'s, T> {
        Quick { copies: Copies::of(whole), whole }
    }

    #[inline(always)]
    fn log(&self) -> Option<&[Word<u64>; WORDS]> {
        // SAFETY: the log is `whole`'s, which has not been borrowed mutably since the copy was taken, and lives as long.
        self.copies.log.map(|start| unsafe { start.as_ref() })
    }

    #[inline(always)]
    fn room(&self, top: usize, bytes: usize) -> Option<&[Word<u64>]> {
        self.log().and_then(|log| Undo::room_in(log, top, bytes))
    }

    /// Whether images may be saved without asking, and there are none.
    #[inline(always)]
    pub fn is_at_rest(&self) -> bool {
        self.log().is_some_and(|log| log[0].get() == 0)
    }

    /// Whether nobody has to be asked before `bytes` at the position `at` are lent, if the log ends at `top`: not in a child of the
    /// process that has it.
    #[inline(always)]
    pub fn is_quick(&self, at: u64, bytes: usize, top: usize) -> bool {
        self.has(at, bytes, top) && self.copies.mark.is_certain()
    }

    #[inline(always)]
    fn has(&self, at: u64, bytes: usize, top: usize) -> bool {
        let is_flat = at.checked_add(bytes as u64).is_some_and(|end| end <= self.copies.bytes);
        // Also nothing at all is a record.
        is_flat && bytes.wrapping_sub(1) < RECORD_BYTES_MAX && self.room(top, bytes).is_some()
    }

    /// Permission to store to `bytes` at the position `at`, whose before-image is saved first, in a log that ends at `top`;
    /// and where it ends then.
    ///
    /// # Panics
    /// If it is not quick.
    #[inline(always)]
    pub fn range(&mut self, at: u64, bytes: usize, top: usize) -> (&mut [u8], usize) {
        // The process is asked once: each look at its mark is a load.
        if !self.has(at, bytes, top) {
            no_room();
        }
        let words = self.room(top, bytes).unwrap_or_else(|| no_room());
        // What is mapped has positions far below 2^64.
        let place = self.copies.base.as_ptr().wrapping_add(usize::try_from(at).unwrap_or(usize::MAX));
        // SAFETY: the flat part is mapped, readable and writable (`View::set_shown`), as long as the view, which is `whole`'s
        // and the same; `whole` is borrowed mutably, so nobody else has these bytes, and we are while they are lent.
        let area = unsafe { std::slice::from_raw_parts_mut(place, bytes) };
        if planted("rio: areas change without before-images") {
            return (area, top);
        }
        let saved = Undo::save_in(words, self.copies.from + at, area);
        (area, top + saved)
    }

    /// As [`Quick::range`], of anything that the view shows. None if it does not show it.
    ///
    /// # Panics
    /// If the undo log has no room for it.
    #[inline(always)]
    pub fn range_slowly(&mut self, at: u64, bytes: usize, top: usize) -> Option<(&mut [u8], usize)> {
        // Not of `self`, which would have to be in memory for it.
        range_slowly(self.whole, at, bytes, top)
    }

    /// Empties the log: what was changed stands. Whether it was done: not if somebody has to be asked first, nor in a child of the
    /// process that has it.
    #[inline(always)]
    pub fn discard(&self) -> bool {
        let Some(log) = self.log().filter(|_| self.copies.mark.is_certain()) else { return false };
        Undo::end_at(&log[0]);
        true
    }

    /// Does something that may change what was copied.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // If it panics there is nothing that could be used.
        (self.copies.bytes, self.copies.log) = (0, None);
        let done = work(self.whole);
        self.copies = Copies::of(self.whole);
        done
    }

    /// The borrow.
    #[inline(always)]
    pub fn whole(self) -> &'s mut T {
        self.whole
    }
}

impl<T: Parts> Deref for Quick<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.whole
    }
}

#[inline(never)]
fn range_slowly<T: Parts>(whole: &mut T, at: u64, bytes: usize, top: usize) -> Option<(&mut [u8], usize)> {
    let (view, undo, hold) = whole.parts();
    view.look(at, bytes).map(|shown| shown.range(hold, undo, top))
}
