//! The parts that few transactions have: joined memory, savepoints, emptied ranges, plain files, and decisions about
//! databases. They are made at the first use, so a plain transaction carries one empty pointer.

use std::cell::OnceCell;

use crate::txn::decisions::DatabaseDecisions;
use crate::txn::emptied::Emptied;
use crate::txn::file_work::Files;
use crate::txn::parts::Parts;
use crate::txn::savepoints::Savepoints;

/// The extras of a transaction, if it has any.
#[derive(Default)]
pub(crate) struct Extras(OnceCell<Box<Extra>>);

#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) joined: Parts,
    pub(crate) savepoints: Savepoints,
    pub(crate) emptied: Emptied,
    pub(crate) files: Files,
    pub(crate) decided: DatabaseDecisions,
}

impl Extras {
    /// Returns the extras; makes them first if the transaction has none.
    pub(crate) fn make(&self) -> &Extra {
        self.0.get_or_init(Box::default)
    }

    /// Returns the extras, if the transaction has any.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Extra> {
        self.0.get().map(Box::as_ref)
    }

    /// As [`Extras::get`], to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Extra> {
        self.0.get_mut().map(Box::as_mut)
    }
}
