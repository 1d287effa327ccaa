//! The records that a snapshot's cursor has copied, and their buffers.
//!
//! Copying a short range of a B-tree takes hardly longer than allocating memory for the copy. So a thread keeps the
//! buffers of its last cursor for its next cursor, until the thread ends. It keeps the buffers of only one batch,
//! because a short range is on one leaf.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use libtp_log::Lsn;

use crate::page::node::{Node, Record, LEAF_CELL_HEAD};
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::SplitKey;

/// The largest number of bytes of kept buffers: enough for a leaf of the largest page size, its keys, and their
/// positions.
const KEPT_MAX: usize = 256 << 10;

/// The place of a value in a batch.
#[derive(Debug)]
pub(super) enum Stored {
    /// On the copy of the leaf.
    OnPage(Range<usize>),
    /// In `bytes`: after its key, or where an older version was appended.
    InBytes(Range<usize>),
    Chain(ChainRef),
    /// The snapshot shows no record.
    NoRecord,
}

/// A record of a batch that was copied from its leaf and is not settled yet: the snapshot may show another version, or
/// the stored bytes are not the value.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) entry: usize,
    pub(super) lsn: Lsn,
    pub(super) flags: RecordFlags,
}

/// The records with keys from `low` up to `high` that the snapshot shows and that are in the cursor's range, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The lower bound. It may be below the range's beginning; then the batch begins at the range's beginning.
    pub(super) low: Vec<u8>,
    /// The upper bound; `None` if the batch reaches to the end.
    pub(super) high: Option<Vec<u8>>,
    /// A copy of the leaf, if the batch was copied as a whole leaf.
    pub(super) page: Vec<u8>,
    /// The keys, each in one piece, and the values that are not on `page`.
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<(Range<usize>, Stored)>,
    /// Entries that are not settled yet, in order; empty when the batch is settled.
    pub(super) unsettled: Vec<Unsettled>,
}

impl Batch {
    /// Empties the batch, and sets its bounds.
    pub(super) fn begin(&mut self, low: Vec<u8>, high: Option<Vec<u8>>) {
        (self.low, self.high) = (low, high);
        self.page.clear();
        self.bytes.clear();
        self.entries.clear();
        self.unsettled.clear();
    }

    /// Returns the bytes of a value that is in the batch.
    pub(super) fn value(&self, stored: &Stored) -> Option<&[u8]> {
        match stored {
            Stored::OnPage(range) => self.page.get(range.clone()),
            Stored::InBytes(range) => self.bytes.get(range.clone()),
            Stored::Chain(_) | Stored::NoRecord => None,
        }
    }

    /// Copies a record. `is_plain` states that the snapshot shows the stored value unchanged.
    pub(super) fn push(&mut self, key: SplitKey<'_>, (lsn, flags): (Lsn, RecordFlags), stored: &[u8], is_plain: bool) {
        self.note((lsn, flags), is_plain);
        let key_at = self.bytes.len();
        key.append_to(&mut self.bytes);
        let stored_at = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.entries.push((key_at..stored_at, Stored::InBytes(stored_at..self.bytes.len())));
    }

    /// Copies a record of a page, on which key and stored value are adjacent.
    pub(super) fn push_from(&mut self, node: &Node<'_>, record: &Record<'_>, is_plain: bool) {
        self.note((record.lsn, record.flags), is_plain);
        let (prefix, key_at) = (node.prefix(), self.bytes.len());
        let suffix_at = record.cell_at + LEAF_CELL_HEAD;
        let rest = &node.bytes()[suffix_at..record.stored_at + record.stored.len()];
        self.bytes.reserve(prefix.len() + rest.len());
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(rest);
        let stored_at = key_at + prefix.len() + (record.stored_at - suffix_at);
        self.entries.push((key_at..stored_at, Stored::InBytes(stored_at..self.bytes.len())));
    }

    /// Copies only the key of a record of the batch's page. The value stays on the page.
    pub(super) fn push_on_page(&mut self, node: &Node<'_>, record: &Record<'_>, is_plain: bool) {
        self.note((record.lsn, record.flags), is_plain);
        let (suffix_at, key_at) = (record.cell_at + LEAF_CELL_HEAD, self.bytes.len());
        self.bytes.extend_from_slice(node.prefix());
        self.bytes.extend_from_slice(&node.bytes()[suffix_at..record.stored_at]);
        let stored = record.stored_at..record.stored_at + record.stored.len();
        self.entries.push((key_at..self.bytes.len(), Stored::OnPage(stored)));
    }

    /// Notes that the next entry is not settled yet, unless it is plain.
    #[inline]
    pub(super) fn note(&mut self, (lsn, flags): (Lsn, RecordFlags), is_plain: bool) {
        if !is_plain {
            self.unsettled.push(Unsettled { entry: self.entries.len(), lsn, flags });
        }
    }

    /// Returns the number of bytes of the batch's buffers, without the bounds and `unsettled`, which are small.
    fn kept_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(Range<usize>, Stored)>();
        self.page.capacity() + self.bytes.capacity() + entries
    }
}

thread_local! {
    static KEPT: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

/// A batch whose buffers return to the thread when it is dropped. The default has no buffers yet.
#[derive(Default)]
pub(super) struct LentBatch(Option<Box<Batch>>);

impl LentBatch {
    /// Takes the buffers of this value, or the thread's buffers if this value has no buffers. Their contents are
    /// arbitrary.
    pub(super) fn take(&mut self) -> LentBatch {
        // A thread that is ending keeps no buffers.
        let kept = || KEPT.try_with(Cell::take).ok().flatten();
        LentBatch(self.0.take().or_else(kept))
    }
}

impl Deref for LentBatch {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        static EMPTY: Batch = Batch {
            low: Vec::new(),
            high: None,
            page: Vec::new(),
            bytes: Vec::new(),
            entries: Vec::new(),
            unsettled: Vec::new(),
        };
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for LentBatch {
    fn deref_mut(&mut self) -> &mut Batch {
        self.0.get_or_insert_default()
    }
}

impl Drop for LentBatch {
    fn drop(&mut self) {
        if let Some(batch) = self.0.take().filter(|batch| batch.kept_bytes() <= KEPT_MAX) {
            let _ = KEPT.try_with(|kept| kept.set(Some(batch)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the capacity of the buffers that this thread's next cursor gets.
    fn kept() -> usize {
        LentBatch::default().take().bytes.capacity()
    }

    fn with(bytes: usize) -> LentBatch {
        let mut lent = LentBatch::default().take();
        lent.begin(b"low".to_vec(), Some(b"high".to_vec()));
        lent.bytes.reserve_exact(bytes);
        lent
    }

    #[test]
    fn the_next_cursor_gets_the_buffers_of_a_dropped_cursor() {
        assert_eq!(kept(), 0);
        drop(with(1000));
        assert_eq!(kept(), 1000, "buffers return to the thread when a batch is taken and dropped");
        let outer = LentBatch::default().take();
        assert_eq!(kept(), 0, "no two cursors have the same buffers");
        drop(outer);
        assert_eq!(kept(), 1000);
    }

    #[test]
    fn large_buffers_are_not_kept() {
        drop(with(KEPT_MAX + 1));
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_reused_batch_begins_empty() {
        let mut lent = with(10);
        lent.page.push(1);
        lent.push(SplitKey::whole(b"key"), (Lsn::new(8), RecordFlags::NONE), b"value", false);
        drop(lent);
        let mut lent = LentBatch::default().take();
        assert_eq!(lent.entries.len(), 1);
        lent.begin(Vec::new(), None);
        assert_eq!((&lent.low[..], &lent.high, &lent.page[..], &lent.bytes[..]), (&b""[..], &None, &b""[..], &b""[..]));
        assert!(lent.entries.is_empty() && lent.unsettled.is_empty());
    }

    /// Uses a cursor in the destructor of another thread-local value.
    #[test]
    fn a_thread_that_ends_keeps_no_buffers_and_can_still_get_new_ones() {
        struct AtEnd;
        impl Drop for AtEnd {
            fn drop(&mut self) {
                drop(with(1000));
                assert_eq!(kept(), 0);
            }
        }
        thread_local! { static AT_END: AtEnd = const { AtEnd } }
        let ended = std::thread::spawn(|| {
            AT_END.with(|_| drop(with(1000)));
        });
        ended.join().unwrap();
    }
}
