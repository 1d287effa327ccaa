//! Tells whether this thread unwinds because the library has panicked (PROTOCOLS D10).
//!
//! A guard dropped by a panic of the library leaves everything to the repair, so that a panic leaves the same state
//! as a kill at the same place. Two panics are not the library's: the panic of a caller's function, and a panic that
//! was already under way when a destructor called the library.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

use rio::{planted, Region};

thread_local! {
    /// Whether the panic under way began outside of the library.
    static IS_FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of the library is under way in this thread.
#[inline]
pub(crate) fn unwinds() -> bool {
    std::thread::panicking() && !IS_FOREIGN.get()
}

/// Returns whether this thread must keep a role instead of releasing it, because a panic may have left the role's work
/// half done (PROTOCOLS D10). Another session then takes the role over, as from a dead session. In a broken region the
/// role is released, because other sessions wait for it (PROTOCOLS D13).
pub fn leaves_roles(region: &Region) -> bool {
    unwinds() && !region.is_broken() && !planted("process: a panic returns the session's roles")
}

/// Marks the panic that begins now as the caller's: until it has left the call ([`catch_call`]), dropped guards
/// release what they hold.
pub fn is_callers_panic() {
    IS_FOREIGN.set(true);
}

/// Marks the panic that begins now as the library's, even if another panic is under way in this thread.
pub(crate) fn mark_library_panic() {
    IS_FOREIGN.set(false);
}

/// Runs a call of the library, and catches a panic that leaves it. The session holds no guard of the library before the
/// call.
// Always inlined: the result then needs no room in memory.
#[inline(always)]
pub fn catch_call<T>(call: impl FnOnce() -> T) -> std::thread::Result<T> {
    // A panic that is under way is the program's: one of its destructors makes this call.
    let before = std::thread::panicking().then(|| IS_FOREIGN.replace(true));
    let done = catch_unwind(AssertUnwindSafe(call));
    // If no panic was under way and no panic has come out of this call, the mark is unchanged: calls within this call
    // have restored it.
    if before.is_some()
        || (done.is_err()
            && !planted("process: after a panic of the program, the library's panics count as the program's"))
    {
        IS_FOREIGN.set(before.unwrap_or(false));
    }
    done
}
