//! The redo of each log record of a hash file, on each page that the log record names. Pure.
//!
//! Changes of one record are redone as on a leaf of a B-tree (../btree/redo.rs), because the pages have the same
//! layout.

use rio::planted;

use crate::btree::log_records::take_cell;
use crate::database::geometry::{extent_of, low_bits, parent_of, BUCKETS_MAX};
use crate::hash::log_records::{Create, Extend, Finish, Move, Shrink, Split};
use crate::hash::page::{make_header, set_buckets, BucketFlags, BucketFrame, BucketPage};
use crate::key_hash::key_hash;
use crate::log_body::{file_number, no_role, read, take, Redone};
use crate::page::free_pages::{self, Meta};
use crate::page::overflow;
use crate::page::rebuild::{rebuild, Cell, Frame, PageWriter};
use crate::page::slotted::{store_header, SlottedHeader, HEADER_AT};
use crate::page::PageKind;
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

fn bucket_of<'p>(page: &'p PageMut<'_, '_>) -> Result<BucketPage<'p>, Damage> {
    BucketPage::over(page.bytes())
        .ok_or_else(|| Damage("it is not a page of a bucket, or its header contradicts itself".into()))
}

/// Changes the header fields of a bucket's page.
fn set(page: &mut PageMut<'_, '_>, edit: impl FnOnce(&mut SlottedHeader)) -> Redone {
    let mut header = *bucket_of(page)?.header();
    edit(&mut header);
    store_header(page, header);
    Ok(())
}

/// Makes a new page of a bucket with these cells.
fn make_new(
    page: &mut PageMut<'_, '_>,
    (file, number): (u32, u32),
    frame: BucketFrame,
    cells: &mut dyn Iterator<Item = Result<Cell<'_>, Damage>>,
) -> Redone {
    let bytes = page.fresh();
    page_header::make_new(&mut bytes[..HEADER_AT], file, number, PageKind::Hash as u8, 0);
    let mut writer = PageWriter::begin(bytes, &frame.to_frame())?;
    for cell in cells {
        writer.push(cell?)?;
    }
    writer.finish()
}

fn raise_deleter(page: &mut PageMut<'_, '_>, lsn: u64) {
    let before = page_header::deleter_lsn(page.bytes());
    if lsn > before.raw() {
        page_header::set_deleter_lsn(page, Lsn::new(lsn));
    }
}

/// Redoes the creation of a file.
pub fn create(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<Create>(body)?;
    let file = file_number(record.page.get());
    let page_count = record.bucket.get().checked_add(1).ok_or_else(|| Damage("the file has too many pages".into()))?;
    match role {
        0 => {
            let meta = Meta { page_count: page_count.into(), ..Meta::default() };
            free_pages::make_new(page, file, meta);
            Ok(())
        }
        1 => {
            make_header(page, file);
            Ok(())
        }
        2 => make_new(page, (file, record.bucket.get()), BucketFrame::default(), &mut std::iter::empty()),
        _ => no_role(role),
    }
}

/// Redoes a split.
pub fn split(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Split>(body)?;
    let bucket = record.bucket.get();
    if bucket >= BUCKETS_MAX {
        return Err(Damage(format!("a file cannot have a bucket {bucket}")));
    }
    let (_, bits) = parent_of(bucket);
    let is_marked = record.is_marked != 0;
    match role {
        0 => {
            let mut frame = Frame::of(&*bucket_of(page)?);
            frame.unlinked = bits;
            frame.flags |= if is_marked { BucketFlags::GIVING } else { 0 };
            rebuild(page, &frame, |_, cell, writer| match cell {
                Cell::Record { key, .. } if low_bits(key_hash(&key.to_vec()), bits) == bucket => Ok(()),
                stays => writer.push(stays),
            })
        }
        1 => {
            let flags = if is_marked { BucketFlags::TAKING } else { 0 };
            let frame = BucketFrame { bucket, bits, flags, next: 0 };
            let mut cells = (0..record.count.get()).map(|_| take_cell(&mut rest, 0, &[]));
            make_new(page, (file_number(record.page.get()), record.new.get()), frame, &mut cells)?;
            raise_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        2 => {
            let extent = (record.page_count.get() != 0).then(|| (extent_of(bucket).0, record.new.get()));
            let too_early = u32::from(planted("record: a bucket is counted before it exists"));
            set_buckets(page, bucket + 1 + too_early, extent);
            Ok(())
        }
        3 => free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        _ => no_role(role),
    }
}

/// Redoes the moving of records.
pub fn move_records(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Move>(body)?;
    let count = usize::from(record.count.get());
    let slots = take(&mut rest, 2 * count)?;
    match role {
        0 => {
            let mut slots =
                slots.chunks_exact(2).map(|slot| usize::from(u16::from_le_bytes([slot[0], slot[1]]))).peekable();
            let frame = Frame::of(&*bucket_of(page)?);
            rebuild(page, &frame, |slot, cell, writer| match slots.next_if_eq(&slot) {
                Some(_) => Ok(()),
                None => writer.push(cell),
            })
        }
        1 => {
            let mut cells = Vec::with_capacity(count);
            for _ in 0..count {
                cells.push(take_cell(&mut rest, 0, &[])?);
            }
            merge(page, &cells)?;
            raise_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        _ => no_role(role),
    }
}

fn key_of(cell: &Cell<'_>) -> Vec<u8> {
    match cell {
        Cell::Record { key, .. } | Cell::Child { key, .. } => key.to_vec(),
    }
}

/// Merges `cells` with the page's own cells, and writes the page again. `cells` are in key order.
fn merge(page: &mut PageMut<'_, '_>, cells: &[Cell<'_>]) -> Redone {
    let old = page.bytes().to_vec();
    let there = BucketPage::over(&old).ok_or_else(|| Damage("it is not a page of a bucket".into()))?;
    let length = old.len();
    let mut writer = PageWriter::begin(page.range(0..length), &Frame::of(&there))?;
    let mut coming = cells.iter().peekable();
    for slot in 0..there.count() {
        let own = Cell::at(&there, slot)
            .ok_or_else(|| Damage(format!("the cell at slot {slot} is outside the page's heap")))?;
        let own_key = key_of(&own);
        while let Some(cell) = coming.next_if(|cell| key_of(cell) < own_key) {
            writer.push(*cell)?;
        }
        writer.push(own)?;
    }
    for cell in coming {
        writer.push(*cell)?;
    }
    writer.finish()
}

/// Redoes the end of a split.
pub fn finish(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<Finish>(body)?;
    let flag = match role {
        0 => BucketFlags::GIVING,
        1 => BucketFlags::TAKING,
        _ => return no_role(role),
    };
    set(page, |header| header.flags = (header.flags.get() & !flag).into())?;
    if role == 1 {
        raise_deleter(page, record.deleter_lsn.get());
    }
    Ok(())
}

/// Redoes the extension of a chain by a page.
pub fn extend(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<Extend>(body)?;
    match role {
        0 => set(page, |header| header.right = record.new),
        1 => {
            let frame =
                BucketFrame { bucket: record.bucket.get(), flags: BucketFlags::FURTHER, ..BucketFrame::default() };
            make_new(page, (file_number(record.page.get()), record.new.get()), frame, &mut std::iter::empty())
        }
        2 => free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        _ => no_role(role),
    }
}

/// Redoes the removal of a page from a chain.
pub fn shrink(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<Shrink>(body)?;
    match role {
        0 => {
            set(page, |header| header.right = record.after)?;
            raise_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        1 => {
            overflow::make_free(page, (file_number(record.page.get()), record.gone.get()), record.next.get());
            Ok(())
        }
        2 => free_pages::set_free_head(page, record.gone.get()),
        _ => no_role(role),
    }
}
