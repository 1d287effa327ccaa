//! Undo: finds each changed record by its key, and restores it in the bucket and on the page where it is now.
//!
//! As in a B-tree (../btree/undo.rs), undo restores the record's old bytes, flags and LSN, in the record's own room. It
//! does not finish an unfinished split: undo needs no room, and must not wait for an action that may need room.

use libtp_buffer::ExclusivePage;
use libtp_log::RecordRef;
use libtp_txn::Change;
use rio::{failpoint, planted};

use crate::btree::log_records::Restore;
use crate::btree::redo::check_restore;
use crate::btree::undo::{insert_by, not_there, update_by, Restoring};
use crate::hash::bucket::{Buckets, HeldPage, PinnedPages, SearchResult};
use crate::hash::log_records::RESTORE;
use crate::hash::page::HEADER_PAGE;
use crate::key_hash::key_hash;
use crate::log_body::page_number;
use crate::pages::undo::Undone;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

fn restore(pages: &Pages<'_>, logged: &RecordRef<'_>, wanted: &Restoring<'_>) -> Result<()> {
    let (buckets, mut kept) = (Buckets::new(*pages, None), PinnedPages::default());
    for _ in 0..ROUNDS_MAX {
        pages.reserve_undo(pages.page_bytes()?, size_of::<Restore>() + logged.body.len())?;
        let mut bucket = buckets.latch::<ExclusivePage<'_>>(key_hash(wanted.key))?;
        let (mut which, mut slot) = match bucket.find(pages, &kept, wanted.key)? {
            SearchResult::Found(which, slot) => (which, slot),
            SearchResult::Read(page) => {
                drop(bucket);
                kept.keep(pages, page)?;
                continue;
            }
            SearchResult::Missing => return Err(not_there(pages, bucket.own.0)),
        };
        let (number, page) = if planted("record: an undo in a hash file does not search for the record") {
            drop((which, bucket));
            let number = page_number(wanted.then.0);
            (which, slot) = (HeldPage::Further(number, pages.exclusive(number, 0)?), wanted.then.1);
            match &mut which {
                HeldPage::Further(number, page) => (*number, page),
                _ => continue,
            }
        } else {
            bucket.page_mut(&mut which)
        };
        let mut body = pages.change.txn.scratch();
        (wanted.encode)(body.writer(), pages.id(number).raw(), slot);
        check_restore(page, body.body()).map_err(|damage| pages.corrupt(number, damage.0))?;
        failpoint("hash: record to undo found");
        pages.change.compensate(RESTORE, body.body(), &mut [page], logged.header.prev());
        failpoint("hash: record undone");
        return Ok(());
    }
    Err(pages.corrupt(HEADER_PAGE, "a change could not be undone"))
}

/// Undoes an insertion.
pub fn insert(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    insert_by(change, logged, restore)
}

/// Undoes an update or a deletion.
pub fn update(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    update_by(change, logged, restore)
}
