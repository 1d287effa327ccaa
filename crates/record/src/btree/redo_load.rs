//! The redo of a load's log records on each page that they name. The functions are pure, like those in `redo`.

use rio::planted;

use crate::btree::log_records::{take_cell, Load, LoadRoot};
use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::node::Node;
use crate::page::rebuild::{make_new, Cell, Frame, PageWriter};
use crate::page::record_lsn::{pack_lsn, unpack_lsn};
use crate::page::slotted::store_header;
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

/// Redoes the loading of a page.
pub fn load(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Load>(body)?;
    match role {
        0 => {
            let low = take(&mut rest, record.low_bytes.get().into())?;
            let high = take(&mut rest, record.high_bytes.get().into())?;
            let prefix = high
                .get(..usize::from(record.prefix_bytes.get()))
                .ok_or_else(|| Damage("its keys begin with more bytes than its high key has".into()))?;
            let frame = Frame { left: record.left.get(), low: low.to_vec(), high: high.to_vec(), ..Frame::default() };
            let packed = record.page.get();
            let id = (file_number(packed), page_number(packed));
            let mut writer = make_new(page, id, record.level, &frame)?;
            for _ in 0..record.count.get() {
                let cell = match take_cell(&mut rest, record.level, prefix)? {
                    Cell::Record { key, mut head, stored } => {
                        // The log record that makes the page also makes all its records, so they have its LSN.
                        head.lsn_and_flags = pack_lsn(lsn, unpack_lsn(head.lsn_and_flags.get()).1).into();
                        Cell::Record { key, head, stored }
                    }
                    child @ Cell::Child { .. } => child,
                };
                writer.push(cell)?;
            }
            writer.finish()?;
            page_header::set_deleter_lsn(page, Lsn::new(record.deleter_lsn.get()));
            Ok(())
        }
        1 => free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        2 => {
            if planted("record: a loaded page has no link to the next") {
                return Ok(());
            }
            let node = Node::over(page.bytes()).ok_or_else(|| Damage("it is not a page of a B-tree".into()))?;
            let mut header = *node.header();
            header.right = page_number(record.page.get()).into();
            store_header(page, header);
            Ok(())
        }
        _ => no_role(role),
    }
}

/// Redoes the end of a load: the root gets the loaded pages as children.
pub fn load_root(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<LoadRoot>(body)?;
    let length = page.bytes().len();
    let bytes = page.range(0..length);
    page_header::set_level(bytes, record.level);
    let mut writer = PageWriter::begin(bytes, &Frame::default())?;
    for _ in 0..record.count.get() {
        writer.push(take_cell(&mut rest, record.level, &[])?)?;
    }
    writer.finish()
}
