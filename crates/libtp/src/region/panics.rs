//! The effect of a panic of the library (PROTOCOLS D10): a first panic kills one session, a second panic kills the
//! region, and a third panic reaches the caller.
//!
//! |the same panic|effect|
//! |---|---|
//! |for the first time in a generation|the session is dead, and is repaired; the call returns [`Error::Panicked`]|
//! |again in the same generation|the region is taken to be damaged: it is rebuilt (PROTOCOLS D13)|
//! |again in the next generation|the region was not the cause: the panic continues in the caller|
//!
//! Two panics are the same if their texts are equal apart from numbers. The place in the code is not compared: only the
//! process's panic hook knows it, and that hook belongs to the program, not to a library.
//!
//! A panic of a function that the caller gave to the library counts as the caller's panic, whatever the state of the
//! region.
//!
//! [`Error::Panicked`]: crate::Error::Panicked

use std::any::Any;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Mutex;

use rio::planted;

use crate::ground::mutex::lock;

/// More different panics than this in one generation are a sign of a damaged region rather than of bugs.
const PLACES: usize = 16;

/// The effect of a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PanicEffect {
    /// The session that panicked is dead.
    Session,
    /// The region is given up.
    Region,
    /// The panic continues in the caller.
    Caller,
}

/// The panics of the library that one handle has seen.
#[derive(Default)]
pub(crate) struct Panics(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The generation in which the panics in `places` occurred.
    generation: u64,
    places: HashSet<String>,
    /// The panic that ended a generation, and that generation's number.
    fatal: Option<(u64, String)>,
}

impl Panics {
    /// Notes a panic in a generation; returns its effect.
    pub(crate) fn note_panic(&self, generation: u64, text: &str) -> PanicEffect {
        let place = place_of(text);
        let mut seen = lock(&self.0);
        if seen.fatal.as_ref().is_some_and(|(ended, fatal)| ended + 1 == generation && *fatal == place) {
            return PanicEffect::Caller;
        }
        if seen.generation != generation {
            seen.generation = generation;
            seen.places.clear();
        }
        let is_new = seen.places.insert(place.clone()) || planted("libtp: a repeated panic counts as the first");
        let is_first = is_new && seen.places.len() <= PLACES && !planted("libtp: a first panic breaks the region");
        if is_first {
            return PanicEffect::Session;
        }
        seen.fatal = Some((generation, place));
        PanicEffect::Region
    }
}

fn place_of(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Returns a panic's message.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => payload.downcast_ref::<&str>().map_or_else(|| "a panic".into(), |text| (*text).into()),
    }
}

thread_local! {
    /// Whether the present panic began in a function of the caller's.
    static IS_CALLERS: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of the caller's inside the library: its panic is not the library's.
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

/// Returns whether the panic that was caught just now is the caller's.
pub(crate) fn is_callers() -> bool {
    IS_CALLERS.get()
}

/// As [`is_callers`], and clears the note.
pub(crate) fn take_callers() -> bool {
    IS_CALLERS.take()
}

#[cfg(test)]
mod tests;
