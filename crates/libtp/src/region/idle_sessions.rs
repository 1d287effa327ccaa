//! The idle sessions of a handle, one at hand for each thread.
//!
//! A transaction takes a session and gives it back. Each of the two is one atomic swap, on a cache line that other
//! threads seldom touch: a thread has a place by its number. Sessions that find their place taken go into the list of
//! the present life, behind a mutex; a thread that finds its place empty looks there, and then at the other places.
//!
//! A session that is given back while the next life begins may stay here although its life has ended. The next taker
//! drops that session.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::atomic::AtomicCell;

/// More threads than these share places.
const PLACES: usize = 16;

/// A place for one session, on a cache line of its own.
#[repr(align(64))]
struct Place<S>(AtomicCell<Option<Box<S>>>);

/// A place for each thread.
pub(super) struct IdleSessions<S>([Place<S>; PLACES]);

impl<S> Default for IdleSessions<S> {
    fn default() -> IdleSessions<S> {
        IdleSessions(std::array::from_fn(|_| Place(AtomicCell::new(None))))
    }
}

impl<S> IdleSessions<S> {
    /// Takes the session in the calling thread's place.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<S>> {
        self.own_place().0.take()
    }

    /// Puts a session into the calling thread's place. Returns the session that was there.
    #[inline]
    pub(super) fn put(&self, session: Box<S>) -> Option<Box<S>> {
        self.own_place().0.swap(Some(session))
    }

    /// Takes the sessions of all threads, one by one.
    pub(super) fn take_all(&self) -> impl Iterator<Item = Box<S>> + use<'_, S> {
        self.0.iter().filter_map(|place| place.0.take())
    }

    #[inline]
    fn own_place(&self) -> &Place<S> {
        &self.0[thread_number() % PLACES]
    }
}

/// Returns the calling thread's number. Threads get numbers in the order of their first calls.
#[inline]
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            // Relaxed: a number publishes nothing.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

const _: () = assert!(AtomicCell::<Option<Box<u8>>>::is_lock_free(), "a place is one word");
