//! The redo of a merge's log record on each page that it names. The function is pure, like those in `redo`.

use rio::planted;

use crate::btree::log_records::{take_cell, Merge};
use crate::btree::redo::{inherit_deleter, remove_child, set_left};
use crate::log_body::{no_role, page_number, read, take, Redone};
use crate::page::node::Node;
use crate::page::rebuild::{rebuild, Frame};
use crate::page::slotted::Flags;
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

/// Redoes the merging of a leaf into its left neighbour.
pub fn merge(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Merge>(body)?;
    let high = take(&mut rest, record.high_bytes.get().into())?;
    let node = || Node::over(page.bytes()).ok_or_else(|| Damage("it is not a page of a B-tree".into()));
    match role {
        0 => {
            let prefix = high.get(..usize::from(record.prefix_bytes.get())).unwrap_or_default();
            let node = node()?;
            let (mut frame, last) = (Frame::of(&node), node.count().checked_sub(1));
            frame.high = high.to_vec();
            frame.right = record.neighbour.get();
            frame.unlinked = record.gone.get();
            rebuild(page, &frame, |slot, cell, writer| {
                writer.push(cell)?;
                let count = if Some(slot) == last { record.count.get() } else { 0 };
                (0..count).try_for_each(|_| writer.push(take_cell(&mut rest, 0, prefix)?))
            })?;
            inherit_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        1 => {
            let mut frame = Frame::of(&node()?);
            if !planted("record: a merged leaf is not marked as deleted") {
                frame.flags |= Flags::DELETED;
            }
            rebuild(page, &frame, |_, _, _| Ok(()))
        }
        2 => remove_child(page, record.slot.get().into()),
        3 => set_left(page, page_number(record.page.get())),
        _ => no_role(role),
    }
}
