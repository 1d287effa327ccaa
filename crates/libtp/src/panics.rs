//! What a panic of the library comes to (PROTOCOLS D10): first the death of one session, then of the region, then the caller's.
//!
//! | the same panic | what follows |
//! |---|---|
//! | for the first time in a life | the session is dead and repaired; the call answers with [`Error::Panicked`], everybody else goes on |
//! | again in the same life | the region is taken to be nonsense: it is made anew (PROTOCOLS D13) |
//! | again in the next life | it was not the region: the panic goes on to the caller |
//!
//! Panics are the same if their texts are, but for the numbers in them: the place in the code is known only to the process's
//! panic hook, which is the program's and not a library's.
//!
//! A panic of a function that the caller gave to the library is the caller's, whatever the region is like.
//!
//! [`Error::Panicked`]: crate::Error::Panicked

use std::any::Any;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Mutex;

use rio::planted;

use crate::environment::lock;

/// So many panics of one life, each at another place, are no bugs of the library any more.
const PLACES: usize = 16;

/// What a panic comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// The death of the session that met it.
    Session,
    /// The end of the region.
    Region,
    /// The caller's to know.
    Caller,
}

/// The panics of the library that one handle has seen.
#[derive(Default)]
pub(crate) struct Panics(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The life that `places` is about.
    life: u64,
    places: HashSet<String>,
    /// What ended a life, and which.
    fatal: Option<(u64, String)>,
}

impl Panics {
    /// Takes note of a panic in that life, and says what it comes to.
    pub(crate) fn climb(&self, life: u64, text: &str) -> Rung {
        let place = place_of(text);
        let mut seen = lock(&self.0);
        if seen.fatal.as_ref().is_some_and(|(ended, fatal)| ended + 1 == life && *fatal == place) {
            return Rung::Caller;
        }
        if seen.life != life {
            seen.life = life;
            seen.places.clear();
        }
        let is_new = seen.places.insert(place.clone()) || planted("libtp: a panic that comes again is the first");
        let is_first = is_new && seen.places.len() <= PLACES && !planted("libtp: a panic is the end of the region");
        if is_first {
            return Rung::Session;
        }
        seen.fatal = Some((life, place));
        Rung::Region
    }
}

fn place_of(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// What a panic says.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => payload.downcast_ref::<&str>().map_or_else(|| "a panic".into(), |text| (*text).into()),
    }
}

thread_local! {
    /// The panic that is under way began in a function of the caller's.
    static IS_CALLERS: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of the caller's inside the library: its panic is not ours.
#[inline]
pub(crate) fn callers<T>(work: impl FnOnce() -> T) -> T {
    struct Unwinds;
    impl Drop for Unwinds {
        fn drop(&mut self) {
            IS_CALLERS.set(true);
            libtp_process::is_callers_panic();
        }
    }
    let unwinds = Unwinds;
    let done = work();
    std::mem::forget(unwinds);
    done
}

/// Whether the panic that was caught just now is a caller's.
pub(crate) fn is_callers() -> bool {
    IS_CALLERS.get()
}

/// As [`is_callers`], and forgets it.
pub(crate) fn take_callers() -> bool {
    IS_CALLERS.take()
}

#[cfg(test)]
mod tests;
