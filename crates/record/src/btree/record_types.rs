//! The B-tree's record types, for the table of log-record types: the pages, redo, undo and description of each.

use libtp_buffer::PageId;
use libtp_txn::{PageList, RecordType};

use crate::btree::log_records::{
    Absorb, DropChain, FreeUnlinked, Insert, Load, LoadRoot, Merge, Post, Reclaim, Restore, RootSplit, Split, Unlink,
    Update, ABSORB, DELETE, DROP_CHAIN, FREE_UNLINKED, INSERT, LOAD, LOAD_ROOT, MERGE, POST, RECLAIM, RESTORE,
    ROOT_SPLIT, SPLIT, UNLINK, UPDATE,
};
use crate::btree::{redo, redo_load, redo_merge, undo};
use crate::free_pages::META_PAGE;
use crate::log_body::{file_number, page_number, read, take};
use crate::page::record_lsn::{unpack_lsn, RecordFlags};

/// Returns the packed identifier of another page of the same file; `None` for page zero.
pub(crate) fn sibling(packed: u64, number: u32) -> Option<PageId> {
    (number != 0).then(|| PageId::from_u64((packed & !u64::from(u32::MAX)) | u64::from(number)))
}

/// Returns the page that every body begins with.
pub(crate) fn first_page(body: &[u8]) -> PageList {
    let Some(packed) = body.first_chunk::<8>() else { return PageList::NONE };
    PageList::one(PageId::from_u64(u64::from_le_bytes(*packed)))
}

fn page_name(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

/// Description of a body that is shorter than its type.
pub(crate) const UNREADABLE: &str = "unreadable";

/// Formats some bytes for people.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    let more = if bytes.len() > SHOWN { ".." } else { "" };
    format!("\"{}{more}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

fn split_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Split>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.right.get(), META_PAGE, record.neighbour.get()].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn root_split_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<RootSplit>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.left.get(), record.right.get(), META_PAGE].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn post_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Post>(body) else { return PageList::NONE };
    let page = record.page.get();
    PageList::of([Some(PageId::from_u64(page)), sibling(page, record.parent.get()), None, None])
}

fn unlink_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Unlink>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.gone.get(), record.parent.get(), record.neighbour.get()].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn merge_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Merge>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.gone.get(), record.parent.get(), record.neighbour.get()].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn absorb_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Absorb>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.gone.get(), record.parent.get(), record.neighbour.get()].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn free_unlinked_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<FreeUnlinked>(body) else { return PageList::NONE };
    let page = record.page.get();
    PageList::of([Some(PageId::from_u64(page)), sibling(page, record.gone.get()), sibling(page, META_PAGE), None])
}

fn load_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Load>(body) else { return PageList::NONE };
    let page = record.page.get();
    let (meta, left) = (sibling(page, META_PAGE), sibling(page, record.left.get()));
    PageList::of([Some(PageId::from_u64(page)), meta, left, None])
}

pub(crate) fn drop_chain_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<DropChain>(body) else { return PageList::NONE };
    let page = record.page.get();
    let others = [record.last.get(), META_PAGE, record.live.get()].map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

pub(crate) fn describe_insert(body: &[u8]) -> String {
    let Ok((record, mut rest)) = read::<Insert>(body) else { return UNREADABLE.into() };
    let key = take(&mut rest, record.key_bytes.get().into()).unwrap_or_default();
    let (page, slot) = (page_name(record.page.get()), record.slot);
    format!("{page} slot {slot} key {} value {} bytes {:?}", show(key), record.stored_bytes, RecordFlags(record.flags))
}

pub(crate) fn describe_update(body: &[u8]) -> String {
    let Ok((record, mut rest)) = read::<Update>(body) else { return UNREADABLE.into() };
    let key = show(take(&mut rest, record.key_bytes.get().into()).unwrap_or_default());
    let (page, slot, offset) = (page_name(record.page.get()), record.slot, record.offset);
    let (before, after) = (RecordFlags(record.flags_before), RecordFlags(record.flags_after));
    let (cut, put, lsn) = (record.cut_bytes, record.put_bytes, record.lsn_before);
    format!("{page} slot {slot} key {key} at {offset} {cut} bytes out {put} in, {before:?} to {after:?}, was LSN {lsn}")
}

pub(crate) fn describe_restore(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Restore>(body) else { return UNREADABLE.into() };
    let (lsn, flags) = unpack_lsn(record.lsn_and_flags.get());
    let (page, slot, offset) = (page_name(record.page.get()), record.slot, record.offset);
    format!(
        "{page} slot {slot} at {offset} {} bytes out {} in, {flags:?} LSN {lsn} again",
        record.cut_bytes, record.put_bytes
    )
}

fn describe_split(body: &[u8]) -> String {
    let Ok((record, mut rest)) = read::<Split>(body) else { return UNREADABLE.into() };
    let separator = show(take(&mut rest, record.separator_bytes.get().into()).unwrap_or_default());
    let (page, count) = (page_name(record.page.get()), record.count);
    format!("{page} level {} gives {count} cells from {separator} on to page {}", record.level, record.right)
}

fn describe_root_split(body: &[u8]) -> String {
    let Ok((record, _)) = read::<RootSplit>(body) else { return UNREADABLE.into() };
    let (page, left, right) = (page_name(record.page.get()), record.left, record.right);
    format!("{page} gives all {} cells to pages {left} and {right}, level {}", record.count, record.level)
}

fn describe_post(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Post>(body) else { return UNREADABLE.into() };
    let (page, child, slot) = (page_name(record.page.get()), record.child, record.slot);
    format!("{page} has neighbour {child}, known to parent {} at slot {slot}", record.parent)
}

pub(crate) fn describe_reclaim(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Reclaim>(body) else { return UNREADABLE.into() };
    format!("{} {} slots, up to the ghost of LSN {}", page_name(record.page.get()), record.count, record.deleter_lsn)
}

fn describe_unlink(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Unlink>(body) else { return UNREADABLE.into() };
    let (page, gone) = (page_name(record.page.get()), record.gone);
    format!("{page} takes over from page {gone}, parent {} slot {}", record.parent, record.slot)
}

fn describe_merge(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Merge>(body) else { return UNREADABLE.into() };
    let (page, gone, count) = (page_name(record.page.get()), record.gone, record.count);
    format!("{page} takes over {count} cells from page {gone}, parent {} slot {}", record.parent, record.slot)
}

fn describe_absorb(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Absorb>(body) else { return UNREADABLE.into() };
    let (page, gone, child) = (page_name(record.page.get()), record.gone, record.child);
    format!("{page} takes over from page {gone} with child {child}, parent {} slot {}", record.parent, record.slot)
}

fn describe_free_unlinked(body: &[u8]) -> String {
    let Ok((record, _)) = read::<FreeUnlinked>(body) else { return UNREADABLE.into() };
    format!("{} lets page {} go", page_name(record.page.get()), record.gone)
}

fn describe_load(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Load>(body) else { return UNREADABLE.into() };
    let (page, left, count) = (page_name(record.page.get()), record.left, record.count);
    format!("{page} level {} takes {count} cells behind page {left}", record.level)
}

fn describe_load_root(body: &[u8]) -> String {
    let Ok((record, _)) = read::<LoadRoot>(body) else { return UNREADABLE.into() };
    format!("{} level {} leads to {} loaded pages", page_name(record.page.get()), record.level, record.count)
}

pub(crate) fn describe_drop_chain(body: &[u8]) -> String {
    let Ok((record, _)) = read::<DropChain>(body) else { return UNREADABLE.into() };
    let (page, slot) = (page_name(record.page.get()), record.slot);
    format!("{page} slot {slot} lets the value on pages {} to {} go", record.first, record.last)
}

/// Returns the B-tree's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: INSERT, name: "btree insert", pages: first_page, redo: redo::insert, undo: Some(undo::insert), describe: describe_insert },
        RecordType { code: UPDATE, name: "btree update", pages: first_page, redo: redo::update, undo: Some(undo::update), describe: describe_update },
        RecordType { code: DELETE, name: "btree delete", pages: first_page, redo: redo::update, undo: Some(undo::update), describe: describe_update },
        RecordType { code: RESTORE, name: "btree restore", pages: first_page, redo: redo::restore, undo: None, describe: describe_restore },
        RecordType { code: SPLIT, name: "btree split", pages: split_pages, redo: redo::split, undo: None, describe: describe_split },
        RecordType { code: ROOT_SPLIT, name: "btree root split", pages: root_split_pages, redo: redo::root_split, undo: None, describe: describe_root_split },
        RecordType { code: POST, name: "btree post", pages: post_pages, redo: redo::post, undo: None, describe: describe_post },
        RecordType { code: RECLAIM, name: "btree reclaim", pages: first_page, redo: redo::reclaim, undo: None, describe: describe_reclaim },
        RecordType { code: UNLINK, name: "btree unlink", pages: unlink_pages, redo: redo::unlink, undo: None, describe: describe_unlink },
        RecordType { code: FREE_UNLINKED, name: "btree free unlinked", pages: free_unlinked_pages, redo: redo::free_unlinked, undo: None, describe: describe_free_unlinked },
        RecordType { code: DROP_CHAIN, name: "btree drop chain", pages: drop_chain_pages, redo: redo::drop_chain, undo: None, describe: describe_drop_chain },
        RecordType { code: ABSORB, name: "btree absorb", pages: absorb_pages, redo: redo::absorb, undo: None, describe: describe_absorb },
        RecordType { code: LOAD, name: "btree load", pages: load_pages, redo: redo_load::load, undo: Some(undo::load), describe: describe_load },
        RecordType { code: LOAD_ROOT, name: "btree load root", pages: first_page, redo: redo_load::load_root, undo: None, describe: describe_load_root },
        RecordType { code: MERGE, name: "btree merge", pages: merge_pages, redo: redo_merge::merge, undo: None, describe: describe_merge },
    ]
}
