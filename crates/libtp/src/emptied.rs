//! Ranges of keys that a transaction has emptied: when it has committed, their pages are given back.
//!
//! A service, and never more than tried: who reads past such pages later does the same (`record/btree/unlink.rs`).

use std::cell::RefCell;
use std::sync::Arc;

use libtp_lock::Wait;
use libtp_record::{Access, KeyRange};

use crate::database::OpenDatabase;
use crate::environment::Inner;

/// More ranges than these are left to who passes them.
const RANGES_MAX: usize = 64;

/// Which keys of which databases.
#[derive(Default)]
pub(crate) struct Emptied(RefCell<Vec<(Arc<OpenDatabase>, KeyRange)>>);

impl Emptied {
    pub(crate) fn note(&self, database: &Arc<OpenDatabase>, range: &KeyRange) {
        let mut ranges = self.0.borrow_mut();
        if let Some((_, last)) = ranges.last_mut().filter(|(last, _)| Arc::ptr_eq(last, database)) {
            if let Some(both) = last.joined_with(range) {
                *last = both;
                return;
            }
        }
        if ranges.len() < RANGES_MAX {
            ranges.push((Arc::clone(database), range.clone()));
        }
    }

    /// What was noted, for who ends the transaction.
    pub(crate) fn take(&self) -> Emptied {
        Emptied(RefCell::new(self.0.take()))
    }

    /// Gives back the pages, in no transaction.
    pub(crate) fn clear_away(self, env: &Arc<Inner>) {
        for (database, range) in self.0.into_inner() {
            let cleared = env
                .with_session(|managers, who| Ok(Access::new(managers, who, &database, Wait::No).clear_away(&range)?));
            if let Err(error) = cleared {
                tracing::debug!(%error, database = database.name(), "emptied pages were not given back yet");
            }
        }
    }
}
