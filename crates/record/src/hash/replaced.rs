//! Frees replaced long values of a hash file, as in a B-tree (../btree/long_value.rs).

use libtp_buffer::{ExclusivePage, SharedPage};
use libtp_log::Lsn;
use libtp_process::Rank;
use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::ghosts::Horizon;
use crate::btree::insert::hash_of;
use crate::btree::log_records::DropChain;
use crate::btree::long_value::{older_on, replaced_record, Replaced};
use crate::hash::bucket::{bucket_page, Bucket, Latched, PinnedPages, SearchResult, Which};
use crate::hash::get::record_lock;
use crate::hash::log_records::DROP_CHAIN;
use crate::hash::page::HEADER_PAGE;
use crate::key_hash::key_hash;
use crate::locking::Access;
use crate::page::free_pages::META_PAGE;
use crate::pages::{loose_rank, ROUNDS_MAX};
use crate::Result;

/// The page of a record with a replaced chain, and the chain.
type Place<L> = (Which<L>, Replaced);

fn find<'a, L: Latched<'a>>(
    access: &Access<'a>,
    bucket: &Bucket<'a, L>,
    kept: &PinnedPages<'a>,
    key: &[u8],
) -> Result<std::result::Result<Option<Place<L>>, u32>> {
    match bucket.find(&access.pages, kept, key)? {
        SearchResult::Read(page) => Ok(Err(page)),
        SearchResult::Missing => Ok(Ok(None)),
        SearchResult::Found(which, slot) => {
            let (number, page) = bucket.page(&which);
            let replaced = replaced_record(access, number, &*bucket_page(&access.pages, number, page)?, slot)?;
            Ok(Ok(replaced.map(|replaced| (which, replaced))))
        }
    }
}

/// As [`long_value::drop_replaced`](crate::btree::long_value), in a hash file.
pub(crate) fn drop_replaced(access: &Access<'_>, key: &[u8], still_free: impl Fn() -> bool) -> Result<()> {
    let (pages, hash) = (&access.pages, key_hash(key));
    let mut kept = PinnedPages::default();
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), 64)?;
        let replaced = {
            let bucket = access.buckets().latch::<SharedPage<'_>>(hash)?;
            match find(access, &bucket, &kept, key)? {
                Ok(None) => return Ok(()),
                Ok(Some((_, replaced))) => replaced,
                Err(page) => {
                    drop(bucket);
                    kept.keep(pages, page)?;
                    continue;
                }
            }
        };
        let (first, last) = (replaced.chain.first.get(), replaced.chain.last.get());
        pages.check_apart(&[first, replaced.live.unwrap_or_default()])?;
        pages.check_apart(&[last, replaced.live.unwrap_or_default()])?;
        let meta_pin = pages.pin(META_PAGE)?;
        let (first_pin, last_pin) = (pages.pin(first)?, pages.pin(last)?);
        let live_pin = replaced.live.map(|live| pages.pin(live)).transpose()?;
        let mut bucket = access.buckets().latch::<ExclusivePage<'_>>(hash)?;
        let mut which = match find(access, &bucket, &kept, key)? {
            Ok(Some((which, found))) if found.is_same(&replaced) => (which, found.slot),
            Ok(_) => continue,
            Err(page) => {
                drop(bucket);
                kept.keep(pages, page)?;
                continue;
            }
        };
        failpoint("hash: chain to be dropped, bucket latched");
        if !still_free() {
            return Ok(());
        }
        let slot = which.1;
        let (number, leaf) = bucket.page_mut(&mut which.0);
        let older = if first == last { None } else { Some(older_on(pages, first, &first_pin.shared(loose_rank()))?) };
        let mut last_page = last_pin.exclusive(loose_rank());
        let older = older.map_or_else(|| older_on(pages, last, &last_page), Ok)?;
        let mut live_page = live_pin.as_ref().map(|pin| pin.exclusive(loose_rank()));
        let mut meta = meta_pin.exclusive(Rank::META);
        let record = DropChain {
            page: pages.id(number).raw().into(),
            slot: crate::log_body::short(slot),
            first: replaced.chain.first,
            last: replaced.chain.last,
            next: pages.meta_of(&meta)?.free_head,
            live: replaced.live.unwrap_or_default().into(),
            older_bytes: older.bytes,
            older_first: older.first,
            older_last: older.last,
            ..DropChain::default()
        };
        let body = record.as_bytes();
        failpoint("hash: about to drop a chain");
        match &mut live_page {
            None => pages.apply_checked(DROP_CHAIN, body, &mut [leaf, &mut last_page, &mut meta]),
            Some(live) => pages.apply_checked(DROP_CHAIN, body, &mut [leaf, &mut last_page, &mut meta, live]),
        }?;
    }
    Err(pages.corrupt(HEADER_PAGE, "the long values a record replaced lead in a circle"))
}

/// Frees the replaced chains of a bucket's records that no transaction locks and no snapshot looks for.
pub(crate) fn free_chains(access: &Access<'_>, (hash, incoming): (u64, &[u8]), own: Lsn) -> Result<()> {
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
            drop_replaced(access, &key, || access.is_free(record_lock(access, hash)))?;
        }
        return Ok(());
    }
    Err(pages.corrupt(HEADER_PAGE, "a bucket could not be gone through"))
}
