//! The stack of a locker's own request slots.
//!
//! Paper: LIBTP 3.2.3, locks are "chained both by object and by transaction". Departure: the chain by transaction also
//! keeps free slots, so a lock is taken and released by a change of one word:
//!
//! ```text
//!   first                        top                       last
//!     |                           |                          |
//!     v                           v                          v
//!   [held] <-> [held] <-> ... <-> [held] <-> [free] <-> ... [free]
//! ```
//! Invariants
//! 1. From `first` to `top` are the locker's requests. At most one request waits, and it is the request at `top`. Above
//!    `top` are the locker's free slots. If the locker has no request, `top` is [`Place::NONE`].
//! 2. A kept intent lock (`kept.rs`) is not on the stack.

use crate::change::Change;
use crate::locker::LockerSlot;
use crate::request::{Place, Request};
use crate::table::{goes_in_a_circle, Table};

impl LockerSlot {
    /// Returns the slot for the locker's next request, if it has a free slot.
    #[inline]
    pub(crate) fn next_free_slot(&self, table: &Table) -> Option<Place> {
        match self.top.get().some() {
            None => self.first.get().some(),
            Some(top) => table.request(top).own_next.get().some(),
        }
    }

    /// Makes the free slot `next` the locker's newest request.
    #[inline]
    pub(crate) fn push(&self, change: &mut Change<'_>, next: Place) {
        change.set(&self.top, next);
    }

    /// Makes `request`, which has left its queue, a free slot of the locker.
    #[inline]
    pub(crate) fn drop_request(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        if self.top.get() == place {
            change.set(&self.top, request.own_prev.get());
        } else {
            self.move_above_top(table, change, place, request);
        }
    }

    fn move_above_top(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        let (below, above) = (request.own_prev.get(), request.own_next.get());
        self.set_upward_link(table, change, below, above);
        change.set(&table.request(above).own_prev, below);
        let top = self.top.get();
        let top_request = table.request(top);
        let free = top_request.own_next.get();
        change.set(&request.own_prev, top);
        change.set(&request.own_next, free);
        change.set(&top_request.own_next, place);
        self.set_downward_link(table, change, free, place);
    }

    /// Sets the upward link of `below` to `to`. If `below` is `Place::NONE`, sets `first` to `to`.
    #[inline]
    fn set_upward_link(&self, table: &Table, change: &mut Change<'_>, below: Place, to: Place) {
        match below.some() {
            None => change.set(&self.first, to),
            Some(below) => change.set(&table.request(below).own_next, to),
        }
    }

    /// Sets the downward link of `above` to `to`. If `above` is `Place::NONE`, sets `last` to `to`.
    #[inline]
    fn set_downward_link(&self, table: &Table, change: &mut Change<'_>, above: Place, to: Place) {
        match above.some() {
            None => change.set(&self.last, to),
            Some(above) => change.set(&table.request(above).own_prev, to),
        }
    }

    /// Takes the locker's lowest free slot off the stack.
    pub(crate) fn take_slot(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        debug_assert_eq!(self.next_free_slot(table), Some(place), "only the lowest free slot is taken");
        let (top, above) = (self.top.get(), request.own_next.get());
        self.set_upward_link(table, change, top, above);
        self.set_downward_link(table, change, above, top);
        change.set(&self.slots, self.slots.get() - 1);
    }

    /// Puts a slot of the locker on the stack, as its lowest free slot.
    pub(crate) fn return_slot(&self, table: &Table, change: &mut Change<'_>, place: Place, request: &Request) {
        let (top, above) = (self.top.get(), self.next_free_slot(table).unwrap_or(Place::NONE));
        change.set(&request.own_prev, top);
        change.set(&request.own_next, above);
        self.set_upward_link(table, change, top, place);
        self.set_downward_link(table, change, above, place);
        change.set(&self.slots, self.slots.get() + 1);
    }

    /// Returns the locker's requests, newest first.
    pub(crate) fn requests<'t>(&self, table: &'t Table) -> impl Iterator<Item = (Place, &'t Request)> {
        let mut next = self.top.get();
        let mut left = table.requests.capacity();
        std::iter::from_fn(move || {
            let place = next.some()?;
            let request = table.request(place);
            next = request.own_prev.get();
            left = left.checked_sub(1).unwrap_or_else(|| goes_in_a_circle());
            Some((place, request))
        })
    }
}
