//! Changes of a bucket's chain, each one log record: moves records between pages, adds a page, removes an empty page.

use libtp_buffer::ExclusivePage;
use libtp_process::Rank;
use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::log_records::append_cell;
use crate::hash::bucket::PinnedPages;
use crate::hash::chain::Chain;
use crate::hash::log_records::{Extend, Move, Shrink, EXTEND, MOVE, SHRINK};
use crate::hash::page::bucket_page;
use crate::log_body::short;
use crate::pages::{Candidate, Pages};
use crate::Result;

/// Moves the records at some slots from one page to another, with a log record. Both pages are latched.
pub(crate) fn move_cells<'a>(
    pages: &Pages<'a>,
    (from_number, from): (u32, &mut ExclusivePage<'a>),
    (to_number, to): (u32, &mut ExclusivePage<'a>),
    slots: &[usize],
) -> Result<()> {
    let node = bucket_page(pages, from_number, from)?;
    let head = Move {
        page: pages.id(from_number).raw().into(),
        to: to_number.into(),
        count: short(slots.len()),
        unused: 0.into(),
        deleter_lsn: node.deleter_lsn().raw().into(),
    };
    let mut body = pages.change.txn.scratch();
    body.writer().extend_from_slice(head.as_bytes());
    for &slot in slots {
        body.writer().extend_from_slice(short(slot).as_bytes());
    }
    for &slot in slots {
        append_cell(&node, slot, body.writer())
            .ok_or_else(|| pages.corrupt(from_number, format!("the cell at slot {slot} is outside the page's heap")))?;
    }
    failpoint("hash: records about to move");
    pages.change.apply_redo_only(MOVE, body.body(), &mut [from, to]);
    failpoint("hash: records moved");
    Ok(())
}

/// The outcome of an attempt to extend a chain.
pub(crate) enum Extended {
    Done,
    /// The chain has a page that is not in memory.
    Read(u32),
    /// Another session has taken the page.
    Taken,
}

/// Extends the chain of a bucket whose first page is latched.
pub(crate) fn extend_latched<'a>(
    pages: &Pages<'a>,
    (first_number, first): &mut (u32, ExclusivePage<'a>),
    kept: &PinnedPages<'a>,
    candidate: &Candidate<'a>,
) -> Result<Extended> {
    let node = bucket_page(pages, *first_number, first)?;
    let (bucket, mut chain) = (node.bucket(), Chain::after(pages, *first_number, &node)?);
    let mut last: Option<(u32, ExclusivePage<'a>)> = None;
    while let Some(number) = chain.next() {
        drop(last.take());
        let Some(page) = kept.latch::<ExclusivePage<'a>>(pages, number) else { return Ok(Extended::Read(number)) };
        chain.pass(pages, number, &page)?;
        last = Some((number, page));
    }
    let Some(mut new) = pages.allocate(candidate)? else { return Ok(Extended::Taken) };
    let (number, page) = match &mut last {
        Some((number, page)) => (*number, page),
        None => (*first_number, first),
    };
    let record = Extend {
        page: pages.id(number).raw().into(),
        new: new.number.into(),
        bucket: bucket.into(),
        free_head: new.free_head.into(),
        page_count: new.page_count.into(),
    };
    failpoint("hash: chain about to be extended");
    pages.change.apply_redo_only(EXTEND, record.as_bytes(), &mut [page, &mut new.page, &mut new.meta]);
    failpoint("hash: chain extended");
    Ok(Extended::Done)
}

/// Removes an empty page from its chain. The page before it and the bucket's first page are latched, too. `meta_pin`
/// keeps the meta page in memory.
pub(crate) fn shrink_latched<'a>(
    pages: &Pages<'a>,
    (before_number, before): (u32, &mut ExclusivePage<'a>),
    (gone, page): (u32, &mut ExclusivePage<'a>),
    meta_pin: &libtp_buffer::Pin<'a>,
) -> Result<()> {
    let node = bucket_page(pages, gone, page)?;
    let (after, deleter) = (node.next().unwrap_or_default(), node.deleter_lsn());
    let mut meta = meta_pin.exclusive(Rank::META);
    let record = Shrink {
        page: pages.id(before_number).raw().into(),
        gone: gone.into(),
        after: after.into(),
        next: pages.meta_of(&meta)?.free_head,
        unused: 0.into(),
        deleter_lsn: deleter.raw().into(),
    };
    failpoint("hash: chain about to be shortened");
    pages.change.apply_redo_only(SHRINK, record.as_bytes(), &mut [before, page, &mut meta]);
    failpoint("hash: chain shortened");
    Ok(())
}
