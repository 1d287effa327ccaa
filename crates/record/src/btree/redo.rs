//! The redo of each B-tree log record on each page that the record names. The functions are pure: they read a record
//! and change the bytes of a page.
//!
//! Paper: LIBTP 3.2.6. The same functions make a change the first time and repeat it after a crash. The driver in the
//! transaction manager latches, compares and stamps LSNs. The session that logged a record checked that the pages can
//! take it, so a refusal here means that page and log do not belong together.

use rio::{planted, Store};
use zerocopy::little_endian::U32;
use zerocopy::IntoBytes;

use crate::btree::log_records::{
    take_cell, Absorb, DropChain, FreeUnlinked, Post, Reclaim, ReclaimEntry, Restore, RootSplit, Split, Unlink,
    RECLAIM_REMOVE,
};
use crate::changed::{Changed, Edit};
use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::node::{LeafCell, Node, Record, INNER_CELL_HEAD, LEAF_CELL_HEAD};
use crate::page::overflow::{self, ChainRef, CHAIN_REF_BYTES};
use crate::page::rebuild::{close, compact, make_new, rebuild, Cell, Frame};
use crate::page::record_lsn::{pack_lsn, unpack_lsn, RecordFlags};
use crate::page::slotted::{
    close_slot, head_of, open_slot, store_header, store_slot, store_slots, Flags, Slot, SlottedHeader, SplitKey,
    HEADER_AT, SLOT_BYTES,
};
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

fn node_of<'p>(page: &'p PageMut<'_, '_>) -> Result<Node<'p>, Damage> {
    Node::over_records(page.bytes())
        .ok_or_else(|| Damage("it holds no records in key order, or its header contradicts itself".into()))
}

fn record_of<'p>(node: &Node<'p>, slot: usize) -> Result<Record<'p>, Damage> {
    node.record(slot).ok_or_else(|| Damage(format!("it has no record at slot {slot}")))
}

/// Returns the number of garbage bytes of the page when `bytes` more become garbage.
fn with_garbage(header: &SlottedHeader, bytes: usize) -> Result<U32, Damage> {
    let sum = u32::try_from(bytes).ok().and_then(|bytes| header.garbage_bytes.get().checked_add(bytes));
    sum.map(U32::new).ok_or_else(|| Damage("its heap is outside the page".into()))
}

#[inline]
fn number(value: usize) -> Result<u16, Damage> {
    u16::try_from(value).map_err(|_| Damage("a length does not fit the page".into()))
}

/// Redoes an insertion.
pub fn insert(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    inserted(page, lsn, &Changed::read(body)?)
}

/// Makes an insertion.
#[inline]
pub(crate) fn inserted(page: &mut PageMut<'_, '_>, lsn: Lsn, change: &Changed<'_, '_>) -> Redone {
    let stored_bytes = number(change.put.len())?.into();
    let lsn_and_flags = pack_lsn(lsn, change.flags_after).into();
    let head = LeafCell { lsn_and_flags, stored_bytes, room: stored_bytes };
    add_cell(page, change.slot, change.key, head.as_bytes(), change.put)
}

/// Adds a cell and its slot. Compacts the page if its free bytes are scattered.
fn add_cell(page: &mut PageMut<'_, '_>, index: usize, key: &[u8], head: &[u8], stored: &[u8]) -> Redone {
    let node = node_of(page)?;
    let prefix = usize::from(node.header().prefix_bytes.get());
    let suffix = key.get(prefix..).ok_or_else(|| Damage("the key is shorter than the page's prefix".into()))?;
    let bytes = head.len() + suffix.len() + stored.len();
    if node.count() < index || node.free_bytes() < bytes + SLOT_BYTES {
        return Err(Damage(format!("it has no room for {bytes} bytes at slot {index}")));
    }
    if node.contiguous_bytes() < bytes + SLOT_BYTES {
        compact(page)?;
        // The bytes of the new cell were not all free before the change, so they need before-images.
        return add_cell(&mut page.saved(), index, key, head, stored);
    }
    let (mut header, count) = (*node.header(), node.count());
    let is_last = index == count;
    let skip = node.skip_with(suffix);
    if skip != usize::from(header.skip_bytes.get()) {
        let slots = node.with_heads_after(skip);
        header.skip_bytes = number(skip)?.into();
        store_slots(page, &header, &slots);
    }
    let at = header.heap_start.get() as usize - bytes;
    let slot_head = head_of(suffix.get(skip..).unwrap_or_default());
    let slot = Slot { offset: number(at)?.into(), key_bytes: number(suffix.len())?.into(), head: slot_head.into() };
    let slot_count = number(count + 1)?.into();
    let heap_start = u32::try_from(at).map_err(|_| Damage("its heap is outside the page".into()))?.into();
    // The cell is stored in free bytes, which have no meaning, and so is a slot after the last slot. Neither needs a
    // before-image: the header leads to both, and the header has a before-image.
    let (key_at, stored_at) = (at + head.len(), at + head.len() + suffix.len());
    let cell = [Store::Bytes(at, head), Store::Bytes(key_at, suffix), Store::Bytes(stored_at, stored)];
    if is_last {
        let [head, key, stored] = cell;
        let slot_at = header.slots_at() + SLOT_BYTES * index;
        page.again([head, key, stored, Store::Bytes(slot_at, slot.as_bytes())]);
    } else {
        page.again(cell);
        open_slot(page, &header, index, slot);
    }
    (header.slot_count, header.heap_start) = (slot_count, heap_start);
    if planted("record: the header of an insertion has no before-image") {
        page.again([Store::Bytes(HEADER_AT, header.as_bytes())]);
    }
    store_header(page, header);
    Ok(())
}

/// Redoes an update or a deletion.
#[inline]
pub fn update(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let changed = Changed::read(body)?;
    let seat = Seat::find(page, changed.slot)?;
    edited(page, seat, changed.edit(), pack_lsn(lsn, changed.flags_after))
}

/// Redoes the compensation of an insertion, an update or a deletion.
pub fn restore(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, edit) = restore_edit(body)?;
    let mut word = record.lsn_and_flags.get();
    if planted("record: an undo makes a new version") {
        word = pack_lsn(lsn, unpack_lsn(word).1);
    }
    let seat = Seat::find(page, record.slot.get().into())?;
    edited(page, seat, edit, word)
}

/// Checks that [`restore`] can be applied to the page. An outdated image of the page may have no room.
pub(crate) fn check_restore(page: &[u8], body: &[u8]) -> Redone {
    let (record, edit) = restore_edit(body)?;
    let slot = record.slot.get().into();
    let node = Node::over_records(page).ok_or_else(|| Damage("it holds no records in key order".into()))?;
    let there = record_of(&node, slot)?;
    let new_bytes = edit.offset + edit.put.len() + edit.tail(slot, there.stored.len())?;
    if new_bytes > there.room && !node.fits_change(slot, new_bytes) {
        return Err(Damage(format!("it has no room for the record at slot {slot} to grow to {new_bytes} bytes")));
    }
    Ok(())
}

fn restore_edit(body: &[u8]) -> Result<(&Restore, Edit<'_>), Damage> {
    let (record, mut rest) = read::<Restore>(body)?;
    let put = take(&mut rest, usize::from(record.put_bytes.get()))?;
    Ok((record, Edit { offset: record.offset.get().into(), cut: record.cut_bytes.get().into(), put }))
}

/// The place of a record on its page. A change in place does not move the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) slot: usize,
    cell_at: usize,
    stored_at: usize,
    stored_bytes: usize,
    room: usize,
}

impl Seat {
    /// Returns the seat of the record that was found at a slot.
    #[inline]
    pub(crate) fn of(slot: usize, record: &Record<'_>) -> Seat {
        let Record { cell_at, stored_at, stored, room, .. } = *record;
        Seat { slot, cell_at, stored_at, stored_bytes: stored.len(), room }
    }

    /// Returns the stored value of the record, on the page where it was found.
    #[inline]
    pub(crate) fn stored<'p>(&self, page: &'p [u8]) -> Option<&'p [u8]> {
        page.get(self.stored_at..)?.get(..self.stored_bytes)
    }

    fn find(page: &PageMut<'_, '_>, slot: usize) -> Result<Seat, Damage> {
        Ok(Seat::of(slot, &record_of(&node_of(page)?, slot)?))
    }
}

impl Edit<'_> {
    /// Returns the number of the record's bytes after the cut.
    fn tail(&self, slot: usize, old_bytes: usize) -> Result<usize, Damage> {
        let tail = old_bytes.checked_sub(self.offset).and_then(|rest| rest.checked_sub(self.cut));
        tail.ok_or_else(|| Damage(format!("the record at slot {slot} has {old_bytes} bytes, too few for the change")))
    }
}

/// Changes a record's stored value, LSN and flags. The change is in place if the record's room is sufficient.
#[inline]
pub(crate) fn edited(page: &mut PageMut<'_, '_>, seat: Seat, edit: Edit<'_>, lsn_and_flags: u64) -> Redone {
    let Seat { slot, cell_at, stored_at, stored_bytes: old_bytes, room } = seat;
    let tail = edit.tail(slot, old_bytes)?;
    let new_bytes = edit.offset + edit.put.len() + tail;
    if new_bytes > room {
        return grow(page, slot, edit, lsn_and_flags);
    }
    if new_bytes == old_bytes {
        edited_in_place(page, seat, edit.offset, edit.put, lsn_and_flags);
        return Ok(());
    }
    let at = stored_at + edit.offset;
    let word = lsn_and_flags.to_le_bytes();
    let length = number(new_bytes)?.to_le_bytes();
    page.range(cell_at..cell_at + 8).copy_from_slice(&word);
    if planted("record: a changed length has no before-image") {
        page.again([Store::Bytes(cell_at + 8, &length)]);
    }
    page.range(cell_at + 8..cell_at + 10).copy_from_slice(&length);
    let end = stored_at + old_bytes.max(new_bytes);
    let bytes = page.range(at..end);
    bytes.copy_within(edit.cut..edit.cut + tail, edit.put.len());
    bytes[..edit.put.len()].copy_from_slice(edit.put);
    // The bytes after the value become slack. They are zeroed, so that an image depends only on the records.
    bytes[edit.put.len() + tail..].fill(0);
    if planted("record: slack is released before the commit") {
        page.range(cell_at + 10..cell_at + 12).copy_from_slice(&number(new_bytes)?.to_le_bytes());
    }
    Ok(())
}

/// Like [`edited`], for a change within the stored value that inserts as many bytes as it removes.
#[inline(always)]
pub(crate) fn edited_in_place(page: &mut PageMut<'_, '_>, seat: Seat, offset: usize, put: &[u8], lsn_and_flags: u64) {
    let (at, word) = (seat.stored_at + offset, lsn_and_flags.to_le_bytes());
    // Redo finds the place by slot, key length and stored length, which this change does not touch. The LSN comes
    // first: a reader that finds the new LSN takes the bytes from the log (PROTOCOLS S2).
    if planted("txn: repair releases latches before the redo of an update") {
        page.again([Store::Bytes(at, put), Store::Bytes(seat.cell_at, &word)]);
        return;
    }
    page.again([Store::Bytes(seat.cell_at, &word), Store::Bytes(at, put)]);
}

/// Moves a record to another cell, because it needs more room than its cell has.
#[cold]
#[inline(never)]
fn grow(page: &mut PageMut<'_, '_>, slot: usize, edit: Edit<'_>, lsn_and_flags: u64) -> Redone {
    let node = node_of(page)?;
    let record = record_of(&node, slot)?;
    let mut stored = Vec::with_capacity(record.stored.len() + edit.put.len());
    stored.extend_from_slice(&record.stored[..edit.offset]);
    stored.extend_from_slice(edit.put);
    stored.extend_from_slice(&record.stored[edit.offset + edit.cut..]);
    let length = number(stored.len())?;
    let head = LeafCell { lsn_and_flags: lsn_and_flags.into(), stored_bytes: length.into(), room: length.into() };
    if !node.fits_change(slot, stored.len()) {
        return Err(Damage(format!("it has no room for the record at slot {slot} to grow to {length} bytes")));
    }
    let (key_bytes, old_bytes) = (record.stored_at - record.cell_at - LEAF_CELL_HEAD, record.cell_bytes());
    let new_bytes = LEAF_CELL_HEAD + key_bytes + stored.len();
    if node.contiguous_bytes() < new_bytes {
        let frame = Frame::of(&node);
        return rebuild(page, &frame, |index, cell, writer| match cell {
            Cell::Record { key, .. } if index == slot => writer.push(Cell::Record { key, head, stored: &stored }),
            other => writer.push(other),
        });
    }
    let suffix = node.key(slot).suffix.to_vec();
    let (mut header, mut entry) = (*node.header(), node.slots()[slot]);
    let at = header.heap_start.get() as usize - new_bytes;
    let cell = page.range(at..at + new_bytes);
    cell[..LEAF_CELL_HEAD].copy_from_slice(head.as_bytes());
    cell[LEAF_CELL_HEAD..LEAF_CELL_HEAD + key_bytes].copy_from_slice(&suffix);
    cell[LEAF_CELL_HEAD + key_bytes..].copy_from_slice(&stored);
    entry.offset = number(at)?.into();
    store_slot(page, &header, slot, entry);
    header.heap_start = u32::try_from(at).map_err(|_| Damage("its heap is outside the page".into()))?.into();
    header.garbage_bytes = with_garbage(&header, old_bytes)?;
    store_header(page, header);
    Ok(())
}

/// Redoes a split.
pub fn split(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Split>(body)?;
    let separator = take(&mut rest, usize::from(record.separator_bytes.get()))?;
    let high = take(&mut rest, usize::from(record.high_bytes.get()))?;
    let left = page_number(record.page.get());
    match role {
        0 => {
            let node = node_of(page)?;
            let mut frame = Frame::of(&node);
            frame.high = separator.to_vec();
            frame.right = record.right.get();
            frame.flags |= Flags::INCOMPLETE;
            let at = usize::from(record.at.get());
            if at == node.count() {
                return close(page, &frame);
            }
            rebuild(page, &frame, |slot, cell, writer| if slot < at { writer.push(cell) } else { Ok(()) })
        }
        1 => {
            let frame = Frame {
                left,
                right: record.neighbour.get(),
                flags: u16::from(record.flags),
                unlinked: 0,
                low: separator.to_vec(),
                high: high.to_vec(),
            };
            let prefix = high.get(..usize::from(record.prefix_bytes.get())).unwrap_or_default();
            let id = (file_number(record.page.get()), record.right.get());
            let mut writer = make_new(page, id, record.level, &frame)?;
            for _ in 0..record.count.get() {
                writer.push(take_cell(&mut rest, record.level, prefix)?)?;
            }
            writer.finish()?;
            inherit_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        2 => free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        3 => set_left(page, record.right.get()),
        _ => no_role(role),
    }
}

pub(super) fn set_left(page: &mut PageMut<'_, '_>, left: u32) -> Redone {
    if planted("record: the left link of the old right neighbour is not set") {
        return Ok(());
    }
    let mut header = *node_of(page)?.header();
    header.left = left.into();
    store_header(page, header);
    Ok(())
}

/// Redoes a split of the root.
pub fn root_split(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<RootSplit>(body)?;
    let separator = take(&mut rest, usize::from(record.separator_bytes.get()))?;
    let (file, root) = (file_number(record.page.get()), page_number(record.page.get()));
    let (left, right) = (record.left.get(), record.right.get());
    let empty = Frame::default();
    let at = usize::from(record.at.get());
    let (id, frame, mine) = match role {
        0 => {
            let length = page.bytes().len();
            let bytes = page.range(0..length);
            let level = record.level.checked_add(1).ok_or_else(|| Damage("the tree has too many levels".into()))?;
            page_header::set_level(bytes, level);
            let mut writer = crate::page::rebuild::PageWriter::begin(bytes, &empty)?;
            writer.push(Cell::Child { key: SplitKey::whole(&[]), child: left })?;
            writer.push(Cell::Child { key: SplitKey::whole(separator), child: right })?;
            return writer.finish();
        }
        1 => ((file, left), Frame { right, high: separator.to_vec(), ..empty }, 0..at),
        2 => ((file, right), Frame { left, low: separator.to_vec(), ..empty }, at..usize::from(record.count.get())),
        3 => return free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        _ => return no_role(role),
    };
    if root == left || root == right {
        return Err(Damage("it is the root, which always has the same number".into()));
    }
    let mut writer = make_new(page, id, record.level, &frame)?;
    for slot in 0..usize::from(record.count.get()) {
        let cell = take_cell(&mut rest, record.level, &[])?;
        if mine.contains(&slot) {
            writer.push(cell)?;
        }
    }
    writer.finish()?;
    inherit_deleter(page, record.deleter_lsn.get());
    Ok(())
}

/// Raises the page's deleter LSN to `lsn`, the deleter LSN of a page whose key range it takes over.
pub(super) fn inherit_deleter(page: &mut PageMut<'_, '_>, lsn: u64) {
    if !planted("record: a split drops the mark of removed versions") {
        page_header::set_deleter_lsn(page, Lsn::new(lsn));
    }
}

/// Redoes the posting of a right neighbour in the parent.
pub fn post(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Post>(body)?;
    let separator = take(&mut rest, usize::from(record.separator_bytes.get()))?;
    match role {
        0 => {
            let mut header = *node_of(page)?.header();
            if !planted("record: the mark of an incomplete split is not cleared") {
                header.flags = (header.flags.get() & !Flags::INCOMPLETE).into();
            }
            store_header(page, header);
            Ok(())
        }
        1 => add_cell(page, record.slot.get().into(), separator, &record.child.get().to_le_bytes(), &[]),
        _ => no_role(role),
    }
}

/// Redoes the removal of ghosts and slack.
pub fn reclaim(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<Reclaim>(body)?;
    let mut entries = Vec::with_capacity(record.count.get().into());
    for _ in 0..record.count.get() {
        entries.push(*read::<ReclaimEntry>(take(&mut rest, size_of::<ReclaimEntry>())?)?.0);
    }
    let frame = Frame::of(&node_of(page)?);
    let mut next = entries.iter().peekable();
    rebuild(page, &frame, |slot, cell, writer| {
        let Some(entry) = next.next_if(|entry| usize::from(entry.slot.get()) == slot) else {
            return writer.push(cell);
        };
        match cell {
            Cell::Record { key, mut head, stored } if entry.action.get() != RECLAIM_REMOVE => {
                head.room = head.stored_bytes;
                writer.push(Cell::Record { key, head, stored })
            }
            _ => Ok(()),
        }
    })?;
    page_header::set_deleter_lsn(page, Lsn::new(record.deleter_lsn.get()));
    Ok(())
}

/// Redoes the unlinking of an empty page.
pub fn unlink(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Unlink>(body)?;
    let high = take(&mut rest, usize::from(record.high_bytes.get()))?;
    match role {
        0 => {
            let mut frame = Frame::of(&node_of(page)?);
            frame.high = high.to_vec();
            frame.right = record.neighbour.get();
            frame.unlinked = record.gone.get();
            rebuild(page, &frame, |_, cell, writer| writer.push(cell))?;
            inherit_deleter(page, record.deleter_lsn.get());
            Ok(())
        }
        1 => mark_deleted(page),
        2 => remove_child(page, record.slot.get().into()),
        3 => set_left(page, page_number(record.page.get())),
        _ => no_role(role),
    }
}

/// Redoes the absorption of a page above the leaves.
pub fn absorb(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, mut rest) = read::<Absorb>(body)?;
    let high = take(&mut rest, usize::from(record.high_bytes.get()))?;
    match role {
        0 => {
            let node = node_of(page)?;
            let (mut frame, last) = (Frame::of(&node), node.count().checked_sub(1));
            let separator = std::mem::replace(&mut frame.high, high.to_vec());
            frame.right = record.neighbour.get();
            frame.unlinked = record.gone.get();
            let child = Cell::Child { key: SplitKey::whole(&separator), child: record.child.get() };
            rebuild(page, &frame, |slot, cell, writer| {
                writer.push(cell)?;
                match Some(slot) == last {
                    true => writer.push(child),
                    false => Ok(()),
                }
            })
        }
        1 => mark_deleted(page),
        2 => remove_child(page, record.slot.get().into()),
        3 => set_left(page, page_number(record.page.get())),
        _ => no_role(role),
    }
}

fn mark_deleted(page: &mut PageMut<'_, '_>) -> Redone {
    let mut header = *node_of(page)?.header();
    header.flags |= Flags::DELETED;
    store_header(page, header);
    Ok(())
}

pub(super) fn remove_child(page: &mut PageMut<'_, '_>, slot: usize) -> Redone {
    let node = node_of(page)?;
    if node.is_leaf() || slot == 0 || slot >= node.count() {
        return Err(Damage(format!("it has no downlink at slot {slot} that could be removed")));
    }
    let bytes = INNER_CELL_HEAD + usize::from(node.slots()[slot].key_bytes.get());
    let (mut header, count) = (*node.header(), node.count());
    close_slot(page, &header, slot);
    header.slot_count = number(count - 1)?.into();
    header.garbage_bytes = with_garbage(&header, bytes)?;
    store_header(page, header);
    Ok(())
}

/// Redoes the freeing of an unlinked page.
pub fn free_unlinked(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<FreeUnlinked>(body)?;
    match role {
        0 => {
            let mut header = *node_of(page)?.header();
            header.unlinked = 0.into();
            store_header(page, header);
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

/// Redoes the freeing of a replaced chain.
pub fn drop_chain(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<DropChain>(body)?;
    match role {
        0 => {
            let node = node_of(page)?;
            let slot = usize::from(record.slot.get());
            let at = record_of(&node, slot)?;
            let seat = Seat::of(slot, &at);
            let offset = at.stored.len().checked_sub(CHAIN_REF_BYTES);
            let offset = offset.ok_or_else(|| Damage(format!("the record at slot {slot} names no chain")))?;
            let older = ChainRef { first: record.older_first, last: record.older_last, bytes: record.older_bytes };
            let (put, flags) = if record.older_first.get() == 0 {
                (&[][..], RecordFlags(at.flags.0 & !RecordFlags::REPLACED.0))
            } else {
                (older.as_bytes(), at.flags)
            };
            let (word, replaced_by) = (pack_lsn(at.lsn, flags), at.lsn);
            // The record's LSN is read from the page, not from the log record.
            edited(&mut page.saved(), seat, Edit { offset, cut: CHAIN_REF_BYTES, put }, word)?;
            // Older versions of the record led to the freed pages. Because of the page's deleter LSN, a snapshot's read
            // that needs those versions fails.
            let deleter = page_header::deleter_lsn(page.bytes()).max(replaced_by);
            if !planted("record: the release of a chain sets no mark of removed versions") {
                page_header::set_deleter_lsn(page, deleter);
            }
            Ok(())
        }
        1 => {
            overflow::set_next(page, record.next.get());
            Ok(())
        }
        2 => free_pages::set_free_head(page, record.first.get()),
        3 => {
            let older = ChainRef { first: record.older_first, last: record.older_last, bytes: record.older_bytes };
            overflow::set_older(page, older);
            Ok(())
        }
        _ => no_role(role),
    }
}
