//! The work of a transaction on plain files, as the transaction sees it.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use crate::region::inner::Inner;
use crate::{Durability, Result, Txn};

/// The work of one transaction on plain files. The floor of plain files implements it.
pub(crate) trait FileWork: Any + Send {
    /// Does the steps that may fail before the commit.
    ///
    /// # Errors
    /// The reason why the transaction cannot commit.
    fn prepare(&self, txn: &Txn<'_>) -> Result<Box<dyn PreparedFiles>>;

    /// Removes the transaction's files after an undo.
    fn discard(&self);

    /// Returns the work as a value of any type, to get its own type back.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The files of a transaction that is about to commit.
pub(crate) trait PreparedFiles {
    /// Returns the durability to use: other programs must not see files before the disk has the commit.
    fn durability(&self, asked: Durability) -> Durability;

    /// Puts the files of the committed transaction in their places.
    ///
    /// # Errors
    /// `FilesWaiting`.
    fn finish(self: Box<Self>, env: &Arc<Inner>) -> Result<()>;
}

/// A transaction's work on plain files, if it has begun any.
#[derive(Default)]
pub(crate) struct Files(RefCell<Option<Box<dyn FileWork>>>);

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }

    /// Runs `work` with the transaction's work on files; `begin` makes that when there is none yet.
    pub(crate) fn with<W: FileWork, T>(
        &self,
        begin: impl FnOnce() -> Result<W>,
        work: impl FnOnce(&mut W) -> Result<T>,
    ) -> Result<T> {
        let mut own = self.0.borrow_mut();
        let own = match &mut *own {
            Some(own) => own,
            empty => empty.insert(Box::new(begin()?)),
        };
        work(own.as_any().downcast_mut().expect("all work on plain files has one type"))
    }

    /// As [`FileWork::prepare`]; returns `None` for a transaction without files.
    pub(crate) fn prepare(&self, txn: &Txn<'_>) -> Result<Option<Box<dyn PreparedFiles>>> {
        self.0.borrow().as_ref().map(|work| work.prepare(txn)).transpose()
    }

    pub(super) fn discard(&self) {
        if let Some(work) = self.0.take() {
            work.discard();
        }
    }
}
