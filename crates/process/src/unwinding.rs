//! Whether this thread unwinds because the library has panicked (PROTOCOLS D10).
//!
//! A guard that is dropped by a panic of the library leaves everything to the repair, so that a panic leaves what a kill at
//! the same place leaves. The panic of a function of the caller's is none of ours, and neither is one that was under way
//! when the library was called, by a destructor.

use std::cell::Cell;

use rio::{planted, Region};

thread_local! {
    /// The panic that is under way is not the library's.
    static IS_FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of the library is under way in this thread.
#[inline]
pub(crate) fn unwinds() -> bool {
    std::thread::panicking() && !IS_FOREIGN.get()
}

/// Whether a role that is dropped now by this thread stays taken, for others to take it over as from the dead: what was done in
/// it may be half done (PROTOCOLS D10). In a broken region it is given back, because it is waited for (PROTOCOLS D13).
pub fn leaves_roles(region: &Region) -> bool {
    unwinds() && !region.is_broken() && !planted("process: a panic gives roles back")
}

/// The panic that begins now is a caller's: until [`Call`] ends, what unwinds gives back what it holds.
pub fn is_callers_panic() {
    IS_FOREIGN.set(true);
}

/// The panic that begins now is the library's, whatever other is under way in this thread.
pub(crate) fn is_ours() {
    IS_FOREIGN.set(false);
}

/// A call of the library, to be made before anything of it is held. Dropped when the call is over, also by a panic.
#[must_use = "the call ends when this is dropped"]
pub struct Call {
    was_foreign: bool,
}

impl Call {
    /// Begins one.
    #[inline]
    pub fn begin() -> Call {
        Call { was_foreign: std::thread::panicking() && IS_FOREIGN.replace(true) }
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        // Nothing was written if nobody panics: every call comes here.
        if std::thread::panicking() || IS_FOREIGN.get() {
            IS_FOREIGN.set(self.was_foreign);
        }
    }
}
