//! A client of the workload: one of the simulated processes, in the middle of a transaction.

use std::ops::Bound;
use std::rc::Rc;

use crate::library::{Process, Running, Trouble, Way};
use crate::oracle::{Effects, Place, Value};

/// How a transaction is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Sync,
    Relaxed,
    Async,
    Abort,
}

pub(super) struct Client<'p> {
    pub(super) process: &'p Process,
    /// Shared with the open part of the transaction, if there is one.
    pub(super) txn: Option<Rc<Running<'p>>>,
    pub(super) number: u64,
    pub(super) effects: Effects,
    /// The highest commit whose effects were read.
    pub(super) seen: usize,
    /// The read places: no other transaction may change them before this one ends.
    pub(super) reads: Vec<(Place, Bound<Place>)>,
    pub(super) ending: Ending,
    pub(super) reads_only: bool,
    pub(super) left: usize,
}

/// The reason that an operation failed.
pub(super) enum Problem {
    Trouble(Trouble),
    Wrong(String),
}

impl From<Trouble> for Problem {
    fn from(trouble: Trouble) -> Problem {
        Problem::Trouble(trouble)
    }
}

impl<'p> Client<'p> {
    pub(super) fn new(process: &'p Process) -> Client<'p> {
        Client {
            process,
            txn: None,
            number: 0,
            effects: Effects::new(),
            seen: 0,
            reads: Vec::new(),
            ending: Ending::Abort,
            reads_only: false,
            left: 0,
        }
    }

    pub(super) fn has_read(&mut self, place: &Place) {
        self.reads.push((place.clone(), Bound::Included(place.clone())));
    }

    /// Records the keys that a scan has passed: from `from` to the last key found, or to the table's end.
    pub(super) fn has_scanned(&mut self, from: &Place, way: Way, last: Option<&(Vec<u8>, Value)>) {
        let last = last.map(|(key, _)| (from.0, key.clone()));
        let range = match (way, last) {
            (Way::Up, Some(last)) => (from.clone(), Bound::Included(last)),
            (Way::Up, None) => (from.clone(), Bound::Unbounded),
            (Way::Down, Some(last)) => (last, Bound::Included(from.clone())),
            (Way::Down, None) => ((from.0, Vec::new()), Bound::Included(from.clone())),
        };
        self.reads.push(range);
    }

    pub(super) fn take_txn(&mut self) -> Option<Running<'p>> {
        self.txn.take().and_then(Rc::into_inner)
    }

    pub(super) fn txn(&self) -> &Running<'p> {
        self.txn.as_ref().expect("operations are made between begin and end")
    }
}
