//! The ranges of keys and the single leaves in which a transaction has deleted all records. After the commit their
//! pages are freed.
//!
//! If this freeing fails, nothing is lost: a later reader that passes such pages frees them (`record/btree/unlink.rs`).

use std::cell::RefCell;
use std::sync::Arc;

use libtp_lock::Wait;
use libtp_record::{Access, KeyRange};
use libtp_txn::TxnSession;

use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;

/// The largest number of ranges that are noted; readers free the pages of other ranges.
const RANGES_MAX: usize = 64;

/// The emptied ranges of keys, with their databases.
#[derive(Default)]
pub(crate) struct Emptied(RefCell<Vec<(Arc<OpenDatabase>, KeyRange)>>);

/// The emptied ranges of a transaction that has ended, with the keys whose deletion left an empty leaf.
pub(crate) struct Cleared {
    ranges: Vec<(Arc<OpenDatabase>, KeyRange)>,
    leaves: Vec<(u32, Vec<u8>)>,
}

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
}

impl Cleared {
    /// Takes the notes of a transaction that has ended, and the notes that its session made.
    #[cold]
    pub(crate) fn new(emptied: Option<&Emptied>, session: &TxnSession) -> Cleared {
        let ranges = emptied.map(|emptied| emptied.0.take()).unwrap_or_default();
        Cleared { ranges, leaves: session.take_for_later() }
    }

    /// Frees the pages, outside of any transaction.
    #[cold]
    pub(crate) fn clear_away(self, env: &Arc<Inner>) {
        for (database, range) in self.ranges {
            clear(env, &database, |access| access.clear_away(&range));
        }
        for (file, key) in self.leaves {
            let database = env.databases().values().find(|database| database.id().raw() == file).cloned();
            // The database is missing if it was dropped meanwhile.
            if let Some(database) = database {
                clear(env, &database, |access| access.clear_around(&key));
            }
        }
    }
}

fn clear(env: &Arc<Inner>, database: &OpenDatabase, what: impl Fn(&Access<'_>) -> libtp_record::Result<u64>) {
    let cleared = env.with_session(|managers, txn| Ok(what(&Access::new(managers, txn, database, Wait::No))?));
    if let Err(error) = cleared {
        tracing::debug!(%error, database = database.name(), "emptied pages were not freed yet");
    }
}
