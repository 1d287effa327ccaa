//! Values too long for a leaf: writes, reads and frees chains of overflow pages.
//!
//! A chain is written from its end to its beginning, each page with one log record of the transaction; this record also
//! allocates the page. The leaf gets the reference last. Undo frees each page. A replaced or deleted chain stays until
//! the transaction has ended, because undo may need it (PROTOCOLS S3). The record has a reference to the chain. The
//! next session that changes the record, or makes room on its leaf, frees the chain in one action. Several changes in
//! one transaction make a list: the record names the chain that was replaced last, the first page of that chain names
//! the chain that was replaced before, and so on. Invariant: if the record's value is in a chain, the first page of
//! this chain names the same replaced chain as the record.
//!
//! A reader of a chain holds no latch on the leaf: the lock on the record (or leaf) keeps the chain from being freed.

use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::value::Value;
use crate::copies::append_copy;
use crate::locking::Access;
use crate::page::free_pages::META_PAGE;
use crate::page::log_records::{WritePiece, WRITE_PIECE};
use crate::page::node::Node;
use crate::page::overflow::{self, ChainRef};
use crate::pages::undo::FREE_BODY_BYTES;
use crate::pages::{loose_rank, Pages, ROUNDS_MAX};
use crate::{Error, Result};

/// The length of the longest value, in bytes: 2^40. The number of pages that the file can still get also limits a
/// value.
pub(crate) const VALUE_BYTES_MAX: u64 = 1 << 40;

/// Reads the value in a chain.
pub(crate) fn read(pages: &Pages<'_>, chain: ChainRef) -> Result<Vec<u8>> {
    let total = usize::try_from(chain.bytes.get()).ok().filter(|_| chain.bytes.get() <= VALUE_BYTES_MAX);
    let total = total
        .ok_or_else(|| pages.corrupt(chain.first.get(), "the value that begins there has an impossible length"))?;
    let mut value = Vec::new();
    let mut number = chain.first.get();
    while number != 0 {
        let page = pages.change.managers.buffers.shared(pages.session(), pages.id(number), loose_rank())?;
        let (header, piece) = match (overflow::header(&page), overflow::piece(&page)) {
            (Some(header), Some(piece)) if !piece.is_empty() => (header, piece),
            _ => return Err(pages.corrupt(number, "it is not a part of the long value that leads to it")),
        };
        append_copy(&mut value, piece).map_err(|_| Error::NoMemory { bytes: total })?;
        if value.len() > total {
            return Err(pages.corrupt(number, "its long value is longer than it should be"));
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
        pages.reserve_own(page_bytes, FREE_BODY_BYTES)?;
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
        let changed: &mut [_] = &mut [&mut new.page, &mut new.meta];
        pages.change.apply_undone_by(WRITE_PIECE, &mut body, changed, FREE_BODY_BYTES);
        failpoint("long value: piece written");
        return Ok(new.number);
    }
    Err(pages.corrupt(META_PAGE, "no page could be taken for a long value"))
}

/// Returns the chain that was replaced by the chain beginning on this page.
pub(crate) fn older_on(pages: &Pages<'_>, number: u32, page: &[u8]) -> Result<ChainRef> {
    let header = overflow::header(page).ok_or_else(|| pages.corrupt(number, "it is not a part of a long value"))?;
    Ok(ChainRef { first: header.older_first, last: header.older_last, bytes: header.older_bytes })
}

/// A replaced chain of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) slot: usize,
    pub(crate) chain: ChainRef,
    /// The first page of the record's value, if the value is in a chain.
    pub(crate) live: Option<u32>,
}

impl Replaced {
    /// Returns whether both are the same chain of the same record. The record may be on another page or slot.
    pub(crate) fn is_same(&self, other: &Replaced) -> bool {
        (self.chain, self.live) == (other.chain, other.live)
    }
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
