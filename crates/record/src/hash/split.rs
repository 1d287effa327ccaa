//! Adds a bucket to a hash file. The new bucket gets its records from one older bucket, the *giving* bucket.
//!
//! The first action makes the new bucket, and raises the number of buckets in the file's header. It also moves those
//! records of the giving bucket's first page whose keys belong to the new bucket. This action is one log record,
//! changes at most four pages, and is complete in itself. If the giving bucket has further pages, both buckets are
//! marked. While they are marked, a search for a key of the new bucket also searches the giving bucket's pages. For
//! each further page, another action moves the records whose keys belong to the new bucket. Empty pages are removed
//! from the chain. The last action removes the marks. A session that needs room in a marked bucket, or wants to split a
//! marked bucket, first finishes the present split. In this way other sessions finish the split of a session that died.
//!
//! The session holds latches on pages of the two buckets. For the first action it also holds the header's latch. An
//! action that begins an extent, or takes or frees a page, also holds the meta page's latch.

use libtp_buffer::ExclusivePage;
use libtp_log::Lsn;
use libtp_process::Rank;
use rio::{failpoint, planted};
use zerocopy::IntoBytes;

use crate::btree::log_records::append_cell;
use crate::database::geometry::{extent_of, low_bits, parent_of, BUCKETS_MAX};
use crate::hash::bucket::{read_header, Buckets, Latched, PinnedPages, HEADER_LEVEL};
use crate::hash::chain::Chain;
use crate::hash::chain_changes::{extend_latched, move_cells, shrink_latched, Extended};
use crate::hash::log_records::{Finish, Split, FINISH, SPLIT};
use crate::hash::page::{bucket_page, BucketPage, HashHeader, HEADER_PAGE};
use crate::key_hash::hash_of;
use crate::log_body::short;
use crate::page::free_pages::META_PAGE;
use crate::pages::{rank, wait_for_new, Pages, ROUNDS_MAX};
use crate::Result;

/// Returns the slots of a page whose keys belong to a bucket.
fn slots_of(node: &BucketPage<'_>, bucket: u32, bits: u32) -> Vec<usize> {
    (0..node.count()).filter(|&slot| low_bits(hash_of(node.key(slot)), bits) == bucket).collect()
}

/// Adds a bucket to the file. Does nothing if another session adds the same bucket at this moment, or if the file has
/// the largest possible number of buckets.
pub(crate) fn split_next(buckets: &Buckets<'_>) -> Result<()> {
    let pages = &buckets.pages;
    let page_bytes = pages.page_bytes()?;
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(page_bytes, page_bytes + size_of::<Split>())?;
        let header_now = read_header(pages)?;
        let new = header_now.buckets.get();
        if new >= BUCKETS_MAX {
            return Ok(());
        }
        let (parent, bits) = parent_of(new);
        let (index, at, count) = extent_of(new);
        let begins = at == 0;
        let number =
            if begins { pages.meta()?.page_count.get() } else { header_now.extents[index].get().saturating_add(at) };
        if number > u32::MAX - count {
            return Ok(());
        }
        if !begins && number <= HEADER_PAGE + at {
            return Err(pages.corrupt(HEADER_PAGE, format!("it has no page for bucket {new}")));
        }
        let Some(parent_page) = buckets.page_of(parent)? else {
            return Err(pages.corrupt(HEADER_PAGE, format!("it has no page for bucket {parent}")));
        };
        let new_pin = pages.change.managers.buffers.pin_new(pages.session(), pages.id(number))?;
        let (header_pin, meta_pin) = (pages.pin(HEADER_PAGE)?, pages.pin(META_PAGE)?);
        let mut old = ExclusivePage::first(pages, parent_page)?;
        let node = bucket_page(pages, parent_page, &old)?;
        if node.bits() + 1 != bits || node.bucket() != parent || node.is_further() {
            // Another session split the bucket first.
            return Ok(());
        }
        if node.is_giving() || node.is_taking() {
            let giving = if node.is_giving() { parent } else { parent_of(parent).0 };
            drop(old);
            finish(buckets, giving)?;
            continue;
        }
        // A wait for the new page's latch could become a deadlock. If the page begins an extent, it is still an unused
        // page at the file's end, which another session may be taking at this moment. That session may have this page
        // latched, and may wait for a page that we have latched. So the latch is only tried.
        let Some(mut fresh) = new_pin.try_exclusive(rank(0)) else {
            drop(old);
            wait_for_new(&new_pin);
            continue;
        };
        failpoint("hash: buckets of a split latched");
        let mut header = header_pin.exclusive(rank(HEADER_LEVEL));
        let header_now =
            HashHeader::of(&header).ok_or_else(|| pages.corrupt(HEADER_PAGE, "it is not the header of a hash file"))?;
        if header_now.buckets.get() != new {
            return Ok(());
        }
        let mut meta = if begins { Some(meta_pin.exclusive(Rank::META)) } else { None };
        let meta_latched = meta.as_ref().map(|meta| pages.meta_of(meta)).transpose()?;
        if meta_latched.is_some_and(|meta| meta.page_count.get() != number) {
            continue;
        }
        let slots = slots_of(&node, new, bits);
        let record = Split {
            page: pages.id(parent_page).raw().into(),
            new: number.into(),
            header: HEADER_PAGE.into(),
            bucket: new.into(),
            page_count: meta_latched.map_or(0, |_| number + count).into(),
            free_head: meta_latched.map_or(0, |meta| meta.free_head.get()).into(),
            count: short(slots.len()),
            is_marked: u8::from(node.next().is_some() && !planted("record: a bucket split ignores overflow pages")),
            unused: 0,
            deleter_lsn: node.deleter_lsn().raw().into(),
        };
        let mut body = pages.change.txn.scratch();
        body.writer().extend_from_slice(record.as_bytes());
        for &slot in &slots {
            append_cell(&node, slot, body.writer()).ok_or_else(|| {
                pages.corrupt(parent_page, format!("the cell at slot {slot} is outside the page's heap"))
            })?;
        }
        failpoint("hash: split, all latched");
        match &mut meta {
            Some(meta) => {
                pages.change.apply_redo_only(SPLIT, body.body(), &mut [&mut old, &mut fresh, &mut header, meta])
            }
            None => pages.change.apply_redo_only(SPLIT, body.body(), &mut [&mut old, &mut fresh, &mut header]),
        };
        failpoint("hash: split, pages latched");
        drop((body, old, fresh, header, meta));
        failpoint("hash: split, not finished");
        return finish(buckets, parent);
    }
    Err(pages.corrupt(HEADER_PAGE, "the file could not get another bucket"))
}

/// The outcome of an attempt to continue a split.
enum Step {
    /// The split is finished.
    Finished,
    /// The records of one more page were moved, or an empty page was removed.
    Further,
    /// A chain has a page that is not in memory.
    Read(u32),
    /// The new bucket needs another page.
    Extend,
    /// The candidate page is used up: it now belongs to the new bucket's chain, or another session took it.
    Taken,
}

/// Finishes a split: moves the records of the new bucket that are still on further pages of bucket `giving`.
pub(crate) fn finish(buckets: &Buckets<'_>, giving: u32) -> Result<()> {
    let pages = &buckets.pages;
    let page_bytes = pages.page_bytes()?;
    let (mut kept, mut candidate) = (PinnedPages::default(), None);
    let meta_pin = pages.pin(META_PAGE)?;
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(page_bytes, page_bytes + 1024)?;
        let Some(old_number) = buckets.page_of(giving)? else { return Ok(()) };
        let new = {
            let old = <libtp_buffer::SharedPage<'_> as Latched<'_>>::first(pages, old_number)?;
            let node = bucket_page(pages, old_number, &old)?;
            if node.bucket() != giving || !node.is_giving() || node.bits() == 0 {
                return Ok(());
            }
            giving + (1 << (node.bits() - 1))
        };
        let Some(new_number) = buckets.page_of(new)? else {
            return Err(pages.corrupt(HEADER_PAGE, format!("it has no page for bucket {new}")));
        };
        let pins = (pages.pin(old_number)?, pages.pin(new_number)?);
        let mut old = (old_number, pins.0.exclusive(rank(0)));
        let mut own = (new_number, pins.1.exclusive(rank(0)));
        let step = step(pages, (&mut old, &mut own), &kept, &meta_pin, candidate.as_ref())?;
        drop((old, own));
        match step {
            Step::Finished => return Ok(()),
            Step::Further => {}
            Step::Read(page) => kept.keep(pages, page)?,
            Step::Extend => candidate = Some(pages.candidate(false)?),
            Step::Taken => {
                if let Some(taken) = candidate.take() {
                    taken.wait();
                }
            }
        }
    }
    Err(pages.corrupt(HEADER_PAGE, "the split of a bucket could not be finished"))
}

type First<'a> = (u32, ExclusivePage<'a>);

fn step<'a>(
    pages: &Pages<'a>,
    (old, own): (&mut First<'a>, &mut First<'a>),
    kept: &PinnedPages<'a>,
    meta_pin: &libtp_buffer::Pin<'a>,
    candidate: Option<&crate::pages::Candidate<'a>>,
) -> Result<Step> {
    let node = bucket_page(pages, old.0, &old.1)?;
    let taking = bucket_page(pages, own.0, &own.1)?;
    let (giving, bits, bucket) = (node.bucket(), node.bits(), taking.bucket());
    if !node.is_giving() || !taking.is_taking() || (giving, bits) != parent_of(bucket) {
        return Ok(Step::Finished);
    }
    let (mut deleter, mut chain) = (node.deleter_lsn(), Chain::after(pages, old.0, &node)?);
    let mut before: Option<First<'a>> = None;
    while let Some(number) = chain.next() {
        refuse_latched(pages, number, own.0)?;
        let Some(mut page) = kept.latch::<ExclusivePage<'a>>(pages, number) else { return Ok(Step::Read(number)) };
        let node = chain.pass(pages, number, &page)?;
        deleter = deleter.max(node.deleter_lsn());
        let slots = slots_of(&node, bucket, bits);
        if !slots.is_empty() {
            drop(before);
            return move_on(pages, (old.0, (number, &mut page)), own, &slots, (kept, candidate));
        }
        if node.count() == 0 {
            let (number_before, page_before) = match &mut before {
                Some((number, page)) => (*number, page),
                None => (old.0, &mut old.1),
            };
            shrink_latched(pages, (number_before, page_before), (number, &mut page), meta_pin)?;
            return Ok(Step::Further);
        }
        before = Some((number, page));
    }
    drop(before);
    take_marks_away(pages, (old, own), deleter);
    Ok(Step::Finished)
}

/// Moves the records at these slots of a page to a page of the new bucket that has room for all of them.
fn move_on<'a>(
    pages: &Pages<'a>,
    (giving, (from, page)): (u32, (u32, &mut ExclusivePage<'a>)),
    own: &mut First<'a>,
    slots: &[usize],
    (kept, candidate): (&PinnedPages<'a>, Option<&crate::pages::Candidate<'a>>),
) -> Result<Step> {
    let node = bucket_page(pages, from, page)?;
    let need: usize = slots.iter().map(|&slot| crate::page::slotted::SLOT_BYTES + node.cell_bytes(slot)).sum();
    let target = bucket_page(pages, own.0, &own.1)?;
    let mut chain = Chain::after(pages, own.0, &target)?;
    if need <= target.free_bytes() {
        move_cells(pages, (from, page), (own.0, &mut own.1), slots)?;
        return Ok(Step::Further);
    }
    while let Some(number) = chain.next() {
        refuse_latched(pages, number, from)?;
        refuse_latched(pages, number, giving)?;
        let Some(mut to) = kept.latch::<ExclusivePage<'a>>(pages, number) else { return Ok(Step::Read(number)) };
        if need <= chain.pass(pages, number, &to)?.free_bytes() {
            move_cells(pages, (from, page), (number, &mut to), slots)?;
            return Ok(Step::Further);
        }
    }
    let Some(candidate) = candidate else { return Ok(Step::Extend) };
    Ok(match extend_latched(pages, own, kept, candidate)? {
        // The candidate is in the chain, and the next round moves the records.
        Extended::Done => Step::Taken,
        Extended::Read(page) => Step::Read(page),
        Extended::Taken => Step::Taken,
    })
}

/// Returns an error if this session has already latched the page: the chains of two buckets then lead to the same page.
fn refuse_latched(pages: &Pages<'_>, number: u32, latched: u32) -> Result<()> {
    match number == latched {
        true => Err(pages.corrupt(number, "the pages of two buckets lead to it")),
        false => Ok(()),
    }
}

fn take_marks_away<'a>(pages: &Pages<'a>, (old, own): (&mut First<'a>, &mut First<'a>), deleter: Lsn) {
    let record = Finish {
        page: pages.id(old.0).raw().into(),
        new: own.0.into(),
        unused: 0.into(),
        deleter_lsn: deleter.raw().into(),
    };
    failpoint("hash: split about to be finished");
    pages.change.apply_redo_only(FINISH, record.as_bytes(), &mut [&mut old.1, &mut own.1]);
    failpoint("hash: split finished, pages latched");
}
