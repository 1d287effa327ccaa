//! The idle sessions of a handle: each thread's slot has at most one.
//!
//! A transaction takes a session and returns it. Each of these steps is one atomic swap, on a cache line that other
//! threads seldom touch: a thread's number selects its slot. If the slot is occupied when a session is returned, the
//! former session goes to the list of the present generation, which a mutex protects. A thread that finds its slot
//! empty takes a session from that list, or else from another slot.
//!
//! A session that is returned while the next generation begins may stay here although its generation has ended. The
//! next thread that takes this session drops it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::atomic::AtomicCell;

/// The number of slots. If there are more threads, several threads share a slot.
const SLOTS: usize = 16;

/// A slot for one session, on a cache line of its own.
#[repr(align(64))]
struct Slot<S>(AtomicCell<Option<Box<S>>>);

/// The idle sessions, in the slots of their threads.
pub(super) struct IdleSessions<S>([Slot<S>; SLOTS]);

impl<S> Default for IdleSessions<S> {
    fn default() -> IdleSessions<S> {
        IdleSessions(std::array::from_fn(|_| Slot(AtomicCell::new(None))))
    }
}

impl<S> IdleSessions<S> {
    /// Takes the session in the calling thread's slot.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<S>> {
        self.own_slot().0.take()
    }

    /// Puts a session into the calling thread's slot. Returns the session that was there.
    #[inline]
    pub(super) fn put(&self, session: Box<S>) -> Option<Box<S>> {
        self.own_slot().0.swap(Some(session))
    }

    /// Takes the sessions of all threads, one by one.
    pub(super) fn take_all(&self) -> impl Iterator<Item = Box<S>> + use<'_, S> {
        self.0.iter().filter_map(|slot| slot.0.take())
    }

    #[inline]
    fn own_slot(&self) -> &Slot<S> {
        &self.0[thread_number() % SLOTS]
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

const _: () = assert!(AtomicCell::<Option<Box<u8>>>::is_lock_free(), "a slot is one word");
