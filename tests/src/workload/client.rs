//! A client of the workload: a simulated process and its present transaction.

use std::ops::Bound;
use std::rc::Rc;

use crate::library::{Process, Running, Trouble, Way};
use crate::oracle::{Effects, Place, Value};

/// How a transaction ends if no operation fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Sync,
    Relaxed,
    Async,
    Abort,
}

pub(super) struct Client<'p> {
    pub(super) process: &'p Process,
    /// The present transaction. A nested part of the transaction holds a second reference.
    pub(super) txn: Option<Rc<Running<'p>>>,
    pub(super) number: u64,
    pub(super) effects: Effects,
    /// The number of the last commit whose effects the transaction has read.
    pub(super) seen: usize,
    /// The places that the transaction has read. No other transaction may change them before this transaction ends.
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

    /// Records the key range that a scan has read: from `from` to the last key found, or to the table's end.
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
