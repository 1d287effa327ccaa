//! Tells whether this thread unwinds because the library has panicked (PROTOCOLS D10).
//!
//! A guard dropped by a panic of the library leaves everything to the repair, so that a panic leaves the same state
//! as a kill at the same place. The panic of a caller's function does not count, and neither does a panic that was
//! already under way when a destructor called the library.

use std::cell::Cell;

use rio::{planted, Region};

thread_local! {
    /// Whether the panic under way is not the library's.
    static IS_FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of the library is under way in this thread.
#[inline]
pub(crate) fn unwinds() -> bool {
    std::thread::panicking() && !IS_FOREIGN.get()
}

/// Returns whether a role that this thread drops now stays taken, so that others take it over as from a dead session:
/// its work may be half done (PROTOCOLS D10). In a broken region the role is given back, because other sessions wait
/// for it (PROTOCOLS D13).
pub fn leaves_roles(region: &Region) -> bool {
    unwinds() && !region.is_broken() && !planted("process: a panic returns the session's roles")
}

/// States that the panic that begins now is the caller's: until [`Call`] ends, dropped guards release what they hold.
pub fn is_callers_panic() {
    IS_FOREIGN.set(true);
}

/// States that the panic that begins now is the library's, even if another panic is under way in this thread.
pub(crate) fn mark_library_panic() {
    IS_FOREIGN.set(false);
}

/// A call of the library. Made before any guard of the library is held, and dropped when the call is over, also by a
/// panic.
#[must_use = "the call ends when this is dropped"]
pub struct Call {
    was_foreign: bool,
}

impl Call {
    /// Begins a call.
    #[inline]
    pub fn begin() -> Call {
        Call { was_foreign: std::thread::panicking() && IS_FOREIGN.replace(true) }
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        // Without a panic nothing is written: every call comes here.
        if std::thread::panicking() || IS_FOREIGN.get() {
            IS_FOREIGN.set(self.was_foreign);
        }
    }
}
