//! Makes room in a bucket: removes ghosts and slack, moves a growing record to another page, extends the chain by a
//! page.
//!
//! Ghosts, slack and replaced chains are removed under the conditions of a B-tree (../btree/ghosts.rs; PROTOCOLS K1,
//! S3, T4), except that keys of a hash file have no gaps of their own. Each action is redo-only: it is kept even if the
//! transaction that needed the room aborts.

use libtp_buffer::{ExclusivePage, SharedPage};
use libtp_log::Lsn;
use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::change::drop_replaced;
use crate::btree::ghosts::plan;
use crate::btree::horizon::{first_own_lsn, Horizon};
use crate::btree::log_records::Reclaim;
use crate::hash::bucket::{Bucket, ChangedBucket, HeldPage, PinnedPages, SearchResult};
use crate::hash::chain::Chain;
use crate::hash::chain_changes::{extend_latched, move_cells, Extended};
use crate::hash::get::record_lock;
use crate::hash::log_records::{Extend, RECLAIM};
use crate::hash::page::{bucket_page, HEADER_PAGE};
use crate::hash::split;
use crate::key_hash::hash_of;
use crate::locking::Access;
use crate::log_body::short;
use crate::page::free_pages::META_PAGE;
use crate::page::slotted::SLOT_BYTES;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// A record that will be inserted or will grow in a bucket.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) hash: u64,
    /// The bytes of a new record with its slot, or the bytes of the new stored value of an existing record.
    pub(crate) bytes: usize,
    pub(crate) is_new: bool,
}

/// Tries to make room in a bucket. The caller then tries its change again. If the bucket gets another page, the file
/// also gets another bucket by a split.
pub(crate) fn make_room(access: &Access<'_>, incoming: Incoming<'_>) -> Result<()> {
    if reclaim(access, incoming)? || (!incoming.is_new && relocate(access, incoming)?) {
        return Ok(());
    }
    extend(access, incoming.hash)?;
    // The incoming record does not need the split, so an error of the split is not returned here. A session that needs
    // the split gets the error again.
    let _ = split::split_next(&access.buckets());
    Ok(())
}

/// Frees the replaced chains of a bucket's records, except those that a transaction has locked or a snapshot may need.
fn free_chains<'a>(access: &Access<'a>, (hash, incoming): (u64, &[u8]), own: Lsn) -> Result<()> {
    let horizon = Horizon::default();
    let (pages, mut kept) = (&access.pages, PinnedPages::default());
    for _ in 0..ROUNDS_MAX {
        let mut keys: Vec<(Vec<u8>, u64)> = Vec::new();
        let bucket = access.buckets().latch::<SharedPage<'_>>(hash)?;
        let sought = bucket.look(pages, &kept, |_, node, _| {
            for slot in 0..node.count() {
                let is_due = node.record(slot).is_some_and(|record| {
                    record.replaced().is_some() && record.lsn < own && horizon.has_passed(access, record.lsn)
                });
                if is_due {
                    keys.push((node.key(slot).to_vec(), hash_of(node.key(slot))));
                }
            }
            Ok(None::<()>)
        })?;
        drop(bucket);
        if let SearchResult::Read(page) = sought {
            kept.keep(pages, page)?;
            continue;
        }
        // The chain that the incoming value replaces stays until the record names the new chain.
        for (key, hash) in keys.into_iter().filter(|(key, _)| key != incoming) {
            drop_replaced::<ChangedBucket<'a>>(access, &key, |_| access.is_free(record_lock(access, hash)))?;
        }
        return Ok(());
    }
    Err(pages.corrupt(HEADER_PAGE, "a bucket could not be read to its end"))
}

/// Removes all removable ghosts and slack from the pages of a bucket. Returns whether that made room.
fn reclaim(access: &Access<'_>, incoming: Incoming<'_>) -> Result<bool> {
    let (pages, own, mut kept) = (&access.pages, first_own_lsn(access), PinnedPages::default());
    free_chains(access, (incoming.hash, incoming.key), own)?;
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), access.database.page_bytes())?;
        let mut bucket = access.buckets().latch::<ExclusivePage<'_>>(incoming.hash)?;
        let sought = bucket.look(pages, &kept, |number, node, is_own| {
            let (entries, deleter) =
                if is_own { plan(access, number, node, own, |_| true)? } else { Default::default() };
            Ok((!entries.is_empty()).then_some((entries, deleter.max(node.deleter_lsn()))))
        })?;
        match sought {
            SearchResult::Missing => return Ok(false),
            SearchResult::Read(page) => {
                drop(bucket);
                kept.keep(pages, page)?;
            }
            SearchResult::Found(mut which, (entries, deleter)) => {
                let (number, page) = bucket.page_mut(&mut which);
                let head = Reclaim {
                    page: pages.id(number).raw().into(),
                    deleter_lsn: deleter.raw().into(),
                    count: short(entries.len()),
                    ..Reclaim::default()
                };
                let mut body = pages.change.txn.scratch();
                body.writer().extend_from_slice(head.as_bytes());
                body.writer().extend_from_slice(entries.as_bytes());
                failpoint("hash: ghosts about to be removed");
                pages.change.apply_redo_only(RECLAIM, body.body(), &mut [page]);
                failpoint("hash: ghosts removed");
                let node = bucket_page(pages, number, page)?;
                let (slot, found) = node.find(incoming.key);
                let fits = match (incoming.is_new, found) {
                    (true, _) => incoming.bytes <= node.free_bytes(),
                    (false, true) => node.fits_change(slot, incoming.bytes),
                    (false, false) => false,
                };
                if fits {
                    return Ok(true);
                }
            }
        }
    }
    Err(pages.corrupt(HEADER_PAGE, "ghosts could not be removed"))
}

/// Moves a record that will grow to another page of its bucket. Returns false if no page has room.
fn relocate(access: &Access<'_>, incoming: Incoming<'_>) -> Result<bool> {
    let (pages, mut kept) = (&access.pages, PinnedPages::default());
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), access.database.page_bytes())?;
        let mut bucket = access.buckets().latch::<ExclusivePage<'_>>(incoming.hash)?;
        let read = match relocate_latched(pages, &mut bucket, &kept, incoming)? {
            Ok(done) => return Ok(done),
            Err(page) => page,
        };
        drop(bucket);
        kept.keep(pages, read)?;
    }
    Err(pages.corrupt(HEADER_PAGE, "a record could not be moved"))
}

fn relocate_latched<'a>(
    pages: &Pages<'a>,
    bucket: &mut Bucket<'a, ExclusivePage<'a>>,
    kept: &PinnedPages<'a>,
    incoming: Incoming<'_>,
) -> Result<std::result::Result<bool, u32>> {
    if bucket.giving.is_some() {
        // The caller first finishes the split.
        return Ok(Ok(true));
    }
    let (mut which, slot) = match bucket.find(pages, kept, incoming.key)? {
        SearchResult::Found(which, slot) => (which, slot),
        SearchResult::Missing => return Ok(Ok(true)),
        SearchResult::Read(page) => return Ok(Err(page)),
    };
    let (number, page) = bucket.page(&which);
    let node = bucket_page(pages, number, page)?;
    if node.fits_change(slot, incoming.bytes) {
        return Ok(Ok(true));
    }
    let room = node.record(slot).map_or(0, |record| record.room);
    // The record moves with its cell. The growth then makes a second, larger cell on the new page.
    let need = SLOT_BYTES + node.cell_bytes(slot) - room + incoming.bytes.max(room);
    let HeldPage::Further(..) = which else { return relocate_from_first(pages, bucket, kept, slot, need) };
    // The record is on a further page. The bucket's first page is tried first, then the other further pages in the
    // chain's order.
    let own = bucket_page(pages, bucket.own.0, &bucket.own.1)?;
    if need <= own.free_bytes() {
        let (from, page) = match &mut which {
            HeldPage::Further(number, page) => (*number, page),
            _ => return Ok(Ok(true)),
        };
        let (to, first) = &mut bucket.own;
        move_cells(pages, (from, page), (*to, first), &[slot])?;
        return Ok(Ok(true));
    }
    let HeldPage::Further(from, mut page) = which else { return Ok(Ok(true)) };
    let mut chain = Chain::after(pages, bucket.own.0, &own)?;
    while let Some(to) = chain.next() {
        if to == from {
            chain.pass(pages, from, &page)?;
            continue;
        }
        let Some(mut target) = kept.latch::<ExclusivePage<'a>>(pages, to) else { return Ok(Err(to)) };
        if need <= chain.pass(pages, to, &target)?.free_bytes() {
            move_cells(pages, (from, &mut page), (to, &mut target), &[slot])?;
            return Ok(Ok(true));
        }
    }
    Ok(Ok(false))
}

fn relocate_from_first<'a>(
    pages: &Pages<'a>,
    bucket: &mut Bucket<'a, ExclusivePage<'a>>,
    kept: &PinnedPages<'a>,
    slot: usize,
    need: usize,
) -> Result<std::result::Result<bool, u32>> {
    let (number, first) = &mut bucket.own;
    let node = bucket_page(pages, *number, first)?;
    let mut chain = Chain::after(pages, *number, &node)?;
    while let Some(to) = chain.next() {
        let Some(mut target) = kept.latch::<ExclusivePage<'a>>(pages, to) else { return Ok(Err(to)) };
        if need <= chain.pass(pages, to, &target)?.free_bytes() {
            move_cells(pages, (*number, first), (to, &mut target), &[slot])?;
            return Ok(Ok(true));
        }
    }
    Ok(Ok(false))
}

/// Adds a page to the bucket of a hash.
fn extend(access: &Access<'_>, hash: u64) -> Result<()> {
    let (pages, mut kept) = (&access.pages, PinnedPages::default());
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), size_of::<Extend>())?;
        let candidate = pages.candidate(false)?;
        let mut bucket = access.buckets().latch::<ExclusivePage<'_>>(hash)?;
        if bucket.giving.is_some() {
            return Ok(());
        }
        match extend_latched(pages, &mut bucket.own, &kept, &candidate)? {
            Extended::Done => return Ok(()),
            Extended::Read(page) => {
                drop(bucket);
                kept.keep(pages, page)?;
            }
            Extended::Taken => {
                drop(bucket);
                candidate.wait();
            }
        }
    }
    Err(pages.corrupt(META_PAGE, "no page could be taken for a bucket"))
}
