//! Undo: restores each changed record, by key, in whatever bucket and on whatever page the record is by now.
//!
//! As in a B-tree (../btree/undo.rs), the record gets its old bytes, flags and LSN back, in its own room. Undo leaves
//! an unfinished split as it is: undo needs no room, and must not wait for an action that might.

use libtp_buffer::{ExclusivePage, FileId};
use libtp_log::{Lsn, RecordRef};
use libtp_txn::{Change, Damage};
use rio::{failpoint, planted};

use crate::btree::encode;
use crate::btree::log_records::{Insert, Update};
use crate::btree::redo::check_restore;
use crate::hash::bucket::{Buckets, PinnedPages, SearchResult, Which};
use crate::hash::log_records::RESTORE;
use crate::hash::page::HEADER_PAGE;
use crate::key_hash::key_hash;
use crate::log_body::{file_number, page_number, read, take};
use crate::page::record_lsn::check_lsn;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

type Undone = libtp_txn::Result<()>;

fn damaged(lsn: Lsn, damage: Damage) -> libtp_txn::Error {
    libtp_txn::Error::Undo { lsn, what: damage.0 }
}

fn pages_of<'a>(change: &Change<'a>, packed: u64) -> Pages<'a> {
    Pages::new(*change, FileId::new(file_number(packed)))
}

/// Finds the record of a key and compensates its change with the body that `encode` makes for its place.
fn restore(
    pages: &Pages<'_>,
    (key, then): (&[u8], (u64, usize)),
    logged: &RecordRef<'_>,
    encode: impl Fn(&mut Vec<u8>, u64, usize),
) -> Result<()> {
    let (buckets, mut kept) = (Buckets::new(*pages, None), PinnedPages::default());
    for _ in 0..ROUNDS_MAX {
        pages.reserve_undo(pages.page_bytes()?, logged.body.len())?;
        let mut bucket = buckets.latch::<ExclusivePage<'_>>(key_hash(key))?;
        let (mut which, slot) = match bucket.find(pages, &kept, key)? {
            SearchResult::Found(which, slot) => (which, slot),
            SearchResult::Read(page) => {
                drop(bucket);
                kept.keep(pages, page)?;
                continue;
            }
            SearchResult::Missing => {
                let what = "a record that a transaction changed, and that is to be changed back, is not there";
                return Err(pages.corrupt(bucket.own.0, what));
            }
        };
        let (number, page) = if planted("record: a change of a hash file undone where it was made") {
            drop((which, bucket));
            which = Which::Further(page_number(then.0), pages.exclusive(page_number(then.0), 0)?);
            match &mut which {
                Which::Further(number, page) => (*number, page),
                _ => continue,
            }
        } else {
            bucket.page_mut(&mut which)
        };
        let slot = if planted("record: a change of a hash file undone where it was made") { then.1 } else { slot };
        let mut body = pages.change.txn.scratch();
        encode(body.writer(), pages.id(number).raw(), slot);
        check_restore(page, body.body()).map_err(|damage| pages.corrupt(number, damage.0))?;
        failpoint("hash: record to undo found");
        pages.change.compensate(RESTORE, body.body(), &mut [page], logged.header.prev());
        failpoint("hash: record undone");
        return Ok(());
    }
    Err(pages.corrupt(HEADER_PAGE, "a change could not be taken back"))
}

/// Undoes an insertion.
pub fn insert(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let parsed = read::<Insert>(logged.body)
        .and_then(|(record, mut rest)| take(&mut rest, usize::from(record.key_bytes.get())).map(|key| (record, key)));
    let (record, key) = parsed.map_err(|damage| damaged(logged.lsn, damage))?;
    let pages = pages_of(change, record.page.get());
    let stored_bytes = usize::from(record.stored_bytes.get());
    let then = (record.page.get(), usize::from(record.slot.get()));
    restore(&pages, (key, then), logged, |body, page, slot| encode::restore_insert(body, page, slot, stored_bytes))
        .map_err(|error| error.during_undo(logged.lsn))
}

/// Undoes an update or a deletion.
pub fn update(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let parsed = read::<Update>(logged.body).and_then(|(record, mut rest)| {
        let key = take(&mut rest, usize::from(record.key_bytes.get()))?;
        let cut_out = take(&mut rest, usize::from(record.cut_bytes.get()))?;
        check_lsn(record.lsn_before)?;
        Ok((record, key, cut_out))
    });
    let (record, key, cut_out) = parsed.map_err(|damage| damaged(logged.lsn, damage))?;
    let pages = pages_of(change, record.page.get());
    let then = (record.page.get(), usize::from(record.slot.get()));
    restore(&pages, (key, then), logged, |body, page, slot| encode::restore_update(body, page, slot, record, cut_out))
        .map_err(|error| error.during_undo(logged.lsn))
}
