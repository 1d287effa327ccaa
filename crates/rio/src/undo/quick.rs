//! The values that a Vista transaction keeps in the processor's registers, from its beginning to its end.
//!
//! Paper: a departure only in the place of these values. A store to memory outside the cache takes as long as the
//! processor needs to fetch the line. Meanwhile the processor runs as many instructions of the next transactions as it
//! has room for. Every memory access of a transaction takes some of that room: a transaction of eight bytes that loaded
//! fourteen words took 1.5 times as long as a transaction that loaded six (docs/performance.md).

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Undo, RECORD_BYTES_MAX};
use crate::gate::Gate;
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

/// Copies of the places of the view's flat part, of the log and of the gate.
#[derive(Clone, Copy)]
struct Copies {
    base: NonNull<u8>,
    from: u64,
    log: NonNull<Word<u64>>,
    gate: &'static AtomicU64,
}

/// The number of words of a log that are used without a load of the log's length: Vista's logs are at least that
/// long.
const WORDS: usize = 6 << 10;

/// The start of a log. Valid for the process that opened the log.
pub(super) struct Start {
    /// The log's first word.
    log: NonNull<Word<u64>>,
    /// Open only while the quick path is on and `log` has at least `WORDS` words.
    pub(super) gate: Gate,
    /// The mark of that process. A child also has the log mapped, and a copy of this value.
    pub(super) mark: ForkMark,
    /// The place and length of a longer log that was allocated and could not be made ready: the next attempt uses it.
    pub(super) spare: Option<(Offset<Word<u64>>, u64)>,
}

// SAFETY: an address in a log; the log belongs to one thread, as does the `Undo` that holds this value.
unsafe impl Send for Start {}

impl Start {
    /// Makes the start of a log for this process.
    pub(super) fn of(log: &[Word<u64>]) -> Start {
        assert!(!log.is_empty(), "an undo log has a word that ends it");
        Start { log: NonNull::from(log).cast(), gate: Gate::shut(), mark: ForkMark::of_this_process(), spare: None }
    }

    /// Replaces the log by a longer log. The process that opened the log calls this.
    pub(super) fn lead_to(&mut self, log: &[Word<u64>]) {
        self.gate.close();
        self.log = NonNull::from(log).cast();
    }
}

// SAFETY: the addresses are in mappings that `owner` keeps alive, and `owner` moves together with this value. The
// addresses belong to the thread that has `owner`.
unsafe impl<T: Parts + Send> Send for Quick<'_, T> {}
// SAFETY: as above; a shared borrow of this value gives no access through the addresses.
unsafe impl<T: Parts + Sync> Sync for Quick<'_, T> {}

impl Copies {
    #[inline(always)]
    fn of(owner: &mut impl Parts) -> Copies {
        let (view, undo, _) = owner.parts();
        let flat = view.flat();
        Copies { base: flat.base, from: flat.from, log: undo.start.log, gate: undo.start.gate.word() }
    }
}

impl<'s, T: Parts> Quick<'s, T> {
    /// Borrows an owner and copies the values.
    #[inline(always)]
    pub fn new(owner: &'s mut T) -> Quick<'s, T> {
        Quick { copies: Copies::of(owner), owner }
    }

    #[inline(always)]
    fn first(&self) -> &Word<u64> {
        // SAFETY: the log is `owner`'s and has at least one word. `owner` was not borrowed mutably since the copy was
        // taken, and lives as long as `self`.
        unsafe { self.copies.log.as_ref() }
    }

    /// Returns whether the log has no images.
    #[inline(always)]
    pub fn is_at_rest(&self) -> bool {
        self.first().get() == 0
    }

    /// Returns the number of bytes that the open gate lets through, or 0. Always 0 in a child of the process that has
    /// the log.
    #[inline(always)]
    fn limit(&self) -> u64 {
        // Relaxed: the same thread opens and closes the gate. The kernel closes it before a child runs.
        self.copies.gate.load(Ordering::Relaxed)
    }

    /// Returns whether an image of `bytes` at the position `at` can take the quick path in the log that ends at `top`.
    #[inline(always)]
    fn is_quick(&self, at: u64, bytes: usize, top: usize) -> bool {
        // A length of zero wraps around and is refused: an empty image would still be a record.
        let is_one_record = bytes.wrapping_sub(1) < RECORD_BYTES_MAX;
        let is_flat = at.checked_add(bytes as u64).is_some_and(|end| end <= self.limit());
        is_one_record && is_flat && top.checked_add(Undo::words_to_save(bytes)).is_some_and(|last| last < WORDS)
    }

    /// Saves the before-image of `bytes` at the position `at` in the log that ends at `top`. Returns the bytes, to be
    /// stored to. Calls `prepare` with these numbers first if the image cannot take the quick path. Adds the length of
    /// the image's records to `top` in any case, so that the compiler knows `top`. So if `prepare` fails, `top` is
    /// ahead of the log's end from then on; the gate then stays shut. If the memory outlives the cache, the log's
    /// handle has the end, and `top` means nothing.
    ///
    /// # Errors
    /// Errors of `prepare`.
    ///
    /// # Panics
    /// If the view does not show the bytes, or the log has no room for their image, after `prepare`.
    #[inline(always)]
    pub fn range<E>(
        &mut self,
        at: u64,
        bytes: usize,
        top: &mut usize,
        prepare: impl FnOnce(&mut T, u64, usize, usize) -> Result<(), E>,
    ) -> Result<&mut [u8], E> {
        let (end, more) = (*top, Undo::words_to_save(bytes));
        // A range that fails may have any length, so the sum may wrap around.
        *top = end.wrapping_add(more);
        // Mapped positions are far below 2^64.
        let offset = usize::try_from(at).unwrap_or(usize::MAX);
        if self.is_quick(at, bytes, end) {
            let place = self.copies.base.as_ptr().wrapping_add(offset);
            // SAFETY: the gate is open for these bytes, so the flat part has them. The flat part is mapped for as long
            // as the view, which is still `owner`'s view. `owner` is borrowed mutably, so no other code has these
            // bytes.
            let old = unsafe { std::slice::from_raw_parts(place, bytes) };
            // SAFETY: the gate is open, so the log has `WORDS` words, and `end` is one of them.
            let first = unsafe { self.copies.log.as_ptr().add(end) };
            // SAFETY: as above, and the image's words end before the last of the `WORDS` words. `owner` was not
            // borrowed mutably since the copy was taken, and lives as long as `self`.
            let words = unsafe { std::slice::from_raw_parts(first, more + 1) };
            if !planted("rio: changes of areas save no before-images") {
                Undo::save_in(words, self.copies.from + at, old);
            }
        } else {
            // No closure here: its captures would force the copies out of the registers into memory.
            let prepared = prepare(self.owner, at, bytes, end);
            save_slowly(self.owner, at, bytes, end, prepared.is_ok());
            self.copy_anew();
            prepared?;
        }
        let place = self.copies.base.as_ptr().wrapping_add(offset);
        // SAFETY: as above, or `save_slowly` has looked at these bytes of the view. `self` stays borrowed while they
        // are lent.
        Ok(unsafe { std::slice::from_raw_parts_mut(place, bytes) })
    }

    /// Empties the log, so that the changes are kept. Returns false, and changes nothing, if the quick path is off, or
    /// in a child of the process that has the log.
    #[inline(always)]
    pub fn discard(&self) -> bool {
        if self.limit() == 0 {
            return false;
        }
        Undo::end_at(self.first());
        true
    }

    /// Runs `work`, which may change the copied values.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let done = work(self.owner);
        self.copy_anew();
        done
    }

    #[inline(always)]
    fn copy_anew(&mut self) {
        set_gate(self.owner);
        self.copies = Copies::of(self.owner);
    }

    /// Runs `work` as the last use of the owner: the copied values are not renewed.
    #[inline(always)]
    pub fn at_last(&mut self, work: impl FnOnce(&mut T)) {
        work(self.owner);
    }
}

impl<T: Parts> Deref for Quick<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.owner
    }
}

/// Opens the gate if the quick path is on, and shuts it otherwise. The gate is opened only here, where view and log are
/// known together. Every change of the log shuts the gate.
#[inline(never)]
fn set_gate<T: Parts>(owner: &mut T) {
    let (view, undo, _) = owner.parts();
    let is_on = undo.quick.len() >= WORDS || planted("rio: the gate is open though the quick path is off");
    let is_up = undo.ahead.get() == 0 || planted("rio: the gate is open after a range has failed");
    if is_on && is_up && undo.start.mark.is_certain() {
        undo.start.gate.open(view.flat().bytes);
    } else {
        undo.start.gate.close();
    }
}

/// Saves the before-image of bytes of the view, for a transaction that keeps the log's end `top`. If the bytes could
/// not be prepared, saves nothing.
#[inline(never)]
fn save_slowly<T: Parts>(owner: &mut T, at: u64, bytes: usize, top: usize, is_prepared: bool) {
    let (view, undo, hold) = owner.parts();
    if top == 0 {
        undo.ahead.set(0);
    }
    if !is_prepared {
        return undo.ahead.set(undo.ahead.get().wrapping_add(Undo::words_to_save(bytes)));
    }
    let shown = view.look(at, bytes).unwrap_or_else(|| not_shown());
    let end = undo.end_of(top);
    let _ = shown.saved(hold, |place, old| undo.save_after(end, place, old));
}

#[cold]
#[inline(never)]
fn not_shown() -> ! {
    panic!("the prepared view is shown")
}
