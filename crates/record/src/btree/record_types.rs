//! The B-tree's record types, for the table of log-record types: the pages, redo, undo and description of each.

use libtp_txn::RecordType;

use crate::btree::log_records::{
    Absorb, DropChain, FreeUnlinked, Load, LoadRoot, Merge, Post, Reclaim, Restore, RootSplit, Split, Unlink, ABSORB,
    DELETE, DROP_CHAIN, FREE_UNLINKED, INSERT, LOAD, LOAD_ROOT, MERGE, POST, RECLAIM, RESTORE, ROOT_SPLIT, SPLIT,
    UNLINK, UPDATE,
};
use crate::btree::{redo, redo_load, redo_merge, undo};
use crate::changed::{self, page_list};
use crate::log_body::{describe, first_page, pages_of, show, show_first};
use crate::page::free_pages::META_PAGE;
use crate::page::record_lsn::unpack_lsn;

fn describe_insert(body: &[u8]) -> String {
    changed::describe(body, |r, page| {
        let (slot, key, bytes, flags) = (r.slot, show(r.key), r.put.len(), r.flags_after);
        format!("{page} slot {slot} key {key} value {bytes} bytes {flags:?}")
    })
}

fn describe_update(body: &[u8]) -> String {
    changed::describe(body, |r, page| format!("{page} slot {} key {} {}", r.slot, show(r.key), r.describe()))
}

fn describe_restore(body: &[u8]) -> String {
    describe(body, |r: &Restore, page, _| {
        let (lsn, flags) = unpack_lsn(r.lsn_and_flags.get());
        let (slot, offset, cut, put) = (r.slot, r.offset, r.cut_bytes, r.put_bytes);
        format!("{page} slot {slot} at {offset} {cut} bytes out {put} in, {flags:?} LSN {lsn} again")
    })
}

/// Returns the types of the log records that change records on a page: insertion, update, deletion, their compensation,
/// reclamation, and the freeing of a replaced chain. Their format is the same for B-trees and hash files.
#[rustfmt::skip]
pub(crate) fn of_records(codes: [u16; 6], names: [&'static str; 6], undo: [libtp_txn::UndoFn; 2]) -> [RecordType; 6] {
    let [insert, update] = undo.map(Some);
    [
        RecordType { code: codes[0], name: names[0], redo: redo::insert, undo: insert, pages: page_list, describe: describe_insert },
        RecordType { code: codes[1], name: names[1], redo: redo::update, undo: update, pages: page_list, describe: describe_update },
        RecordType { code: codes[2], name: names[2], redo: redo::update, undo: update, pages: page_list, describe: describe_update },
        RecordType { code: codes[3], name: names[3], redo: redo::restore, undo: None, pages: first_page, describe: describe_restore },
        RecordType { code: codes[4], name: names[4], redo: redo::reclaim, undo: None, pages: first_page,
            describe: |body| describe(body, |r: &Reclaim, page, _| format!("{page} {} slots, up to the ghost of LSN {}", r.count, r.deleter_lsn)) },
        RecordType { code: codes[5], name: names[5], redo: redo::drop_chain, undo: None,
            pages: |body| pages_of(body, |r: &DropChain| [r.last.get(), META_PAGE, r.live.get()]),
            describe: |body| describe(body, |r: &DropChain, page, _| format!("{page} slot {} frees the replaced value on pages {} to {}", r.slot, r.first, r.last)) },
    ]
}

/// Returns the B-tree's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    let codes = [INSERT, UPDATE, DELETE, RESTORE, RECLAIM, DROP_CHAIN];
    let names = ["btree insert", "btree update", "btree delete", "btree restore", "btree reclaim", "btree drop chain"];
    let mut types = of_records(codes, names, [undo::insert, undo::update]).to_vec();
    types.extend([
        RecordType { code: SPLIT, name: "btree split", redo: redo::split, undo: None,
            pages: |body| pages_of(body, |r: &Split| [r.right.get(), META_PAGE, r.neighbour.get()]),
            describe: |body| describe(body, |r: &Split, page, rest| format!("{page} level {}: {} cells from key {} on move to page {}", r.level, r.count, show_first(rest, r.separator_bytes), r.right)) },
        RecordType { code: ROOT_SPLIT, name: "btree root split", redo: redo::root_split, undo: None,
            pages: |body| pages_of(body, |r: &RootSplit| [r.left.get(), r.right.get(), META_PAGE]),
            describe: |body| describe(body, |r: &RootSplit, page, _| format!("{page}: all {} cells move to pages {} and {}, level {}", r.count, r.left, r.right, r.level)) },
        RecordType { code: POST, name: "btree post", redo: redo::post, undo: None,
            pages: |body| pages_of(body, |r: &Post| [r.parent.get(), 0, 0]),
            describe: |body| describe(body, |r: &Post, page, _| format!("{page} has neighbour {}, posted in parent {} at slot {}", r.child, r.parent, r.slot)) },
        RecordType { code: UNLINK, name: "btree unlink", redo: redo::unlink, undo: None,
            pages: |body| pages_of(body, |r: &Unlink| [r.gone.get(), r.parent.get(), r.neighbour.get()]),
            describe: |body| describe(body, |r: &Unlink, page, _| format!("{page} takes over the range of page {}, parent {} slot {}", r.gone, r.parent, r.slot)) },
        RecordType { code: FREE_UNLINKED, name: "btree free unlinked", redo: redo::free_unlinked, undo: None,
            pages: |body| pages_of(body, |r: &FreeUnlinked| [r.gone.get(), META_PAGE, 0]),
            describe: |body| describe(body, |r: &FreeUnlinked, page, _| format!("{page} frees unlinked page {}", r.gone)) },
        RecordType { code: ABSORB, name: "btree absorb", redo: redo::absorb, undo: None,
            pages: |body| pages_of(body, |r: &Absorb| [r.gone.get(), r.parent.get(), r.neighbour.get()]),
            describe: |body| describe(body, |r: &Absorb, page, _| format!("{page} takes over the range of page {} with child {}, parent {} slot {}", r.gone, r.child, r.parent, r.slot)) },
        RecordType { code: LOAD, name: "btree load", redo: redo_load::load, undo: Some(undo::load),
            pages: |body| pages_of(body, |r: &Load| [META_PAGE, r.left.get(), 0]),
            describe: |body| describe(body, |r: &Load, page, _| format!("{page} level {} gets {} cells, right of page {}", r.level, r.count, r.left)) },
        RecordType { code: LOAD_ROOT, name: "btree load root", redo: redo_load::load_root, undo: None, pages: first_page,
            describe: |body| describe(body, |r: &LoadRoot, page, _| format!("{page} level {} gets {} loaded pages as children", r.level, r.count)) },
        RecordType { code: MERGE, name: "btree merge", redo: redo_merge::merge, undo: None,
            pages: |body| pages_of(body, |r: &Merge| [r.gone.get(), r.parent.get(), r.neighbour.get()]),
            describe: |body| describe(body, |r: &Merge, page, _| format!("{page} takes over {} cells from page {}, parent {} slot {}", r.count, r.gone, r.parent, r.slot)) },
    ]);
    types.sort_by_key(|of| of.code);
    types
}
