//! Values too long for a leaf: writes, reads and frees chains of overflow pages.
//!
//! A chain is written from its end to its beginning, each page with one log record of the transaction, which also
//! allocates the page. The leaf gets the reference last. Undo frees each page. A replaced or deleted chain stays until
//! the transaction has ended, for undo may want it back (PROTOCOLS S3). The record keeps a reference to it. The next
//! session that changes the record, or makes room on its leaf, frees the chain in one action. Several changes in one
//! transaction make a list: the record names the chain replaced last, that chain's first page names the one replaced
//! before, and so on. Invariant: if the value itself lies in a chain, that chain's first page names the same replaced
//! chain as the record.
//!
//! A reader of a chain holds no latch on the leaf: the lock on the record (or leaf) keeps the chain from being freed.

use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::get::Value;
use crate::btree::log_records::{DropChain, DROP_CHAIN};
use crate::btree::search::{self, node_of};
use crate::locking::Access;
use crate::page::free_pages::META_PAGE;
use crate::page::log_records::{WritePiece, WRITE_PIECE};
use crate::page::node::Node;
use crate::page::overflow::{self, ChainRef};
use crate::pages::{loose_rank, Pages, ROUNDS_MAX};
use crate::{Error, Result};

/// The longest value, in bytes: 2^40. The pages that a file has left also limit a value.
pub(crate) const VALUE_BYTES_MAX: u64 = 1 << 40;

/// Reads a chain into one piece.
pub(crate) fn read(pages: &Pages<'_>, chain: ChainRef) -> Result<Vec<u8>> {
    let total = usize::try_from(chain.bytes.get()).ok().filter(|_| chain.bytes.get() <= VALUE_BYTES_MAX);
    let total =
        total.ok_or_else(|| pages.corrupt(chain.first.get(), "the value that begins there cannot be that long"))?;
    let mut value = Vec::new();
    let mut number = chain.first.get();
    while number != 0 {
        let page = pages.change.managers.buffers.shared(pages.session(), pages.id(number), loose_rank())?;
        let (header, piece) = match (overflow::header(&page), overflow::piece(&page)) {
            (Some(header), Some(piece)) if !piece.is_empty() => (header, piece),
            _ => return Err(pages.corrupt(number, "it is no part of the long value that leads to it")),
        };
        value.extend_from_slice(piece);
        if value.len() > total {
            return Err(pages.corrupt(number, "the long value it is a part of is longer than it should be"));
        }
        number = if number == chain.last.get() { 0 } else { header.next.get() };
    }
    if value.len() != total {
        return Err(pages.corrupt(chain.first.get(), "the long value that begins there is shorter than it should be"));
    }
    Ok(value)
}

/// Writes a value as a chain that replaces `older`, if there is one.
pub(crate) fn write(access: &Access<'_>, value: &[u8], older: Option<ChainRef>) -> Result<ChainRef> {
    if value.len() as u64 > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong { bytes: value.len(), limit: VALUE_BYTES_MAX });
    }
    let pages = &access.pages;
    let capacity = overflow::piece_capacity(access.database.page_bytes());
    let (mut next, mut last) = (0, 0);
    let count = value.len().div_ceil(capacity);
    for (index, piece) in value.chunks(capacity).enumerate().rev() {
        let older = if index == 0 { older.unwrap_or_default() } else { ChainRef::default() };
        next = write_piece(pages, access.database.page_bytes(), piece, next, older)?;
        if index + 1 == count {
            last = next;
        }
    }
    Ok(ChainRef { first: next.into(), last: last.into(), bytes: (value.len() as u64).into() })
}

fn write_piece(pages: &Pages<'_>, page_bytes: usize, piece: &[u8], next: u32, older: ChainRef) -> Result<u32> {
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(page_bytes, page_bytes + 64)?;
        pages.reserve_own(page_bytes, 64)?;
        let candidate = pages.candidate(false)?;
        let Some(mut new) = pages.allocate(&candidate)? else {
            candidate.wait();
            continue;
        };
        let record = WritePiece {
            page: pages.id(new.number).raw().into(),
            free_head: new.free_head.into(),
            page_count: new.page_count.into(),
            next: next.into(),
            older_first: older.first,
            older_last: older.last,
            unused: 0.into(),
            older_bytes: older.bytes,
        };
        let mut body = pages.change.txn.scratch();
        body.writer().extend_from_slice(record.as_bytes());
        body.writer().extend_from_slice(piece);
        failpoint("long value: about to write a piece");
        pages.change.apply(WRITE_PIECE, &mut body, &mut [&mut new.page, &mut new.meta]);
        failpoint("long value: piece written");
        return Ok(new.number);
    }
    Err(pages.corrupt(META_PAGE, "no page could be taken for a long value"))
}

/// Returns the chain that the one beginning on this page replaced.
pub(crate) fn older_on(pages: &Pages<'_>, number: u32, page: &[u8]) -> Result<ChainRef> {
    let header = overflow::header(page).ok_or_else(|| pages.corrupt(number, "it is no part of a long value"))?;
    Ok(ChainRef { first: header.older_first, last: header.older_last, bytes: header.older_bytes })
}

/// Frees the chains that earlier, ended transactions replaced at the record of `key`. No transaction can want them
/// back: either the caller holds the record's lock and has not changed the record, or no transaction holds it, which
/// `still_free` checks again under the leaf's latch.
pub(crate) fn drop_replaced(access: &Access<'_>, key: &[u8], still_free: impl Fn(u32) -> bool) -> Result<()> {
    let pages = &access.pages;
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), 64)?;
        let (number, found) = {
            let leaf = search::shared(pages, key, 0)?;
            let number = leaf.id().page().raw();
            (number, replaced_at(access, number, &leaf, key)?)
        };
        let Some(replaced) = found else { return Ok(()) };
        let (first, last) = (replaced.chain.first.get(), replaced.chain.last.get());
        pages.check_apart(&[number, first, replaced.live.unwrap_or_default()])?;
        pages.check_apart(&[number, last, replaced.live.unwrap_or_default()])?;
        let (leaf_pin, meta_pin) = (pages.pin(number)?, pages.pin(META_PAGE)?);
        let (first_pin, last_pin) = (pages.pin(first)?, pages.pin(last)?);
        let live_pin = replaced.live.map(|live| pages.pin(live)).transpose()?;
        let mut leaf = leaf_pin.exclusive(crate::pages::rank(0));
        let node = node_of(pages, number, &leaf)?;
        if node.is_deleted() || node.belongs_right(key) || replaced_at(access, number, &leaf, key)? != Some(replaced) {
            continue;
        }
        failpoint("long value: chain to be dropped, leaf latched");
        if !still_free(number) {
            return Ok(());
        }
        let older = if first == last { None } else { Some(older_on(pages, first, &first_pin.shared(loose_rank()))?) };
        let mut last_page = last_pin.exclusive(loose_rank());
        let older = older.map_or_else(|| older_on(pages, last, &last_page), Ok)?;
        let mut live_page = live_pin.as_ref().map(|pin| pin.exclusive(loose_rank()));
        let mut meta = meta_pin.exclusive(libtp_process::Rank::META);
        let record = DropChain {
            page: pages.id(number).raw().into(),
            slot: crate::log_body::short(replaced.slot),
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
        failpoint("long value: about to drop a chain");
        match &mut live_page {
            None => pages.apply_checked(DROP_CHAIN, body, &mut [&mut leaf, &mut last_page, &mut meta]),
            Some(live) => pages.apply_checked(DROP_CHAIN, body, &mut [&mut leaf, &mut last_page, &mut meta, live]),
        }?;
    }
    Err(pages.corrupt(search::ROOT, "the long values a record replaced lead in a circle"))
}

/// A replaced chain of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) slot: usize,
    pub(crate) chain: ChainRef,
    /// The first page of the record's value, if the value lies in a chain.
    pub(crate) live: Option<u32>,
}

impl Replaced {
    /// Whether both are the same chain of the same record, on whatever page and slot.
    pub(crate) fn is_same(&self, other: &Replaced) -> bool {
        (self.chain, self.live) == (other.chain, other.live)
    }
}

/// Returns the replaced chain of the record of `key` on a leaf; `None` if there is no such record or chain.
fn replaced_at(access: &Access<'_>, number: u32, leaf: &[u8], key: &[u8]) -> Result<Option<Replaced>> {
    let node = node_of(&access.pages, number, leaf)?;
    let (slot, found) = node.find(key);
    if !found {
        return Ok(None);
    }
    replaced_record(access, number, &node, slot)
}

/// Returns the replaced chain of the record at a slot; `None` if there is no such chain.
pub(crate) fn replaced_record(
    access: &Access<'_>,
    number: u32,
    node: &Node<'_>,
    slot: usize,
) -> Result<Option<Replaced>> {
    let record = access.record_at(number, node, slot)?;
    let live = match access.value_of(number, slot, &record)? {
        Value::Chain(chain) => Some(chain.first.get()),
        Value::Here(_) => None,
    };
    Ok(record.replaced().map(|chain| Replaced { slot, chain, live }))
}
