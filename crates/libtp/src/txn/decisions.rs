//! The decisions of a transaction about whole databases: to drop or to rename a database (`db/databases.rs`).

use std::cell::RefCell;
use std::sync::Arc;

use libtp_buffer::{Fate, FileId};
use libtp_record::lock_names;
use libtp_txn::{Committed, Managers, TxnSession};

use crate::region::open_database::OpenDatabase;
use crate::Result;

/// A transaction's decisions about databases.
#[derive(Clone, Default)]
pub(crate) struct DatabaseDecisions(pub(crate) RefCell<Vec<Decision>>);

/// A transaction's decision about one database: its names, and the open database, which is locked.
#[derive(Clone)]
pub(crate) struct Decision {
    pub(crate) open: Arc<OpenDatabase>,
    pub(crate) fate: Fate,
}

impl DatabaseDecisions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(crate) fn go_back(&self, to: &DatabaseDecisions) {
        *self.0.borrow_mut() = to.0.borrow().clone();
    }

    /// Commits the session's transaction and carries out its decisions. Waits for backups that copy the files.
    pub(crate) fn commit(&self, managers: &Managers, session: &TxnSession) -> Result<Committed> {
        let fates: Vec<Fate> = self.0.borrow().iter().map(|one| one.fate.clone()).collect();
        Ok(session.commit_databases(managers, lock_names::files(), &fates)?)
    }

    /// Returns the database to which the transaction has given that name.
    pub(crate) fn of_name(&self, name: &str) -> Option<Arc<OpenDatabase>> {
        self.find(|fate| fate.new_name.as_deref() == Some(name))
    }

    /// Returns the database with that number, if the transaction decided about it.
    pub(crate) fn of_number(&self, file: FileId) -> Option<Arc<OpenDatabase>> {
        self.find(|fate| fate.id == file)
    }

    fn find(&self, is_it: impl Fn(&Fate) -> bool) -> Option<Arc<OpenDatabase>> {
        self.0.borrow().iter().find(|one| is_it(&one.fate)).map(|one| Arc::clone(&one.open))
    }

    /// Returns whether the transaction takes that name from the database that had it.
    pub(crate) fn frees(&self, name: &str) -> bool {
        self.0.borrow().iter().any(|one| one.fate.name == name)
    }

    /// Returns whether databases exchange names in a circle.
    pub(crate) fn is_circle(&self) -> bool {
        let decided = self.0.borrow();
        let fates: Vec<&Fate> = decided.iter().map(|one| &one.fate).collect();
        fates.iter().any(|&first| {
            let mut at = first;
            let next = |at: &Fate| fates.iter().copied().find(|fate| Some(&fate.name) == at.new_name.as_ref());
            for _ in 0..fates.len() {
                match next(at) {
                    Some(other) if other.name == first.name => return true,
                    Some(other) => at = other,
                    None => return false,
                }
            }
            true
        })
    }
}
