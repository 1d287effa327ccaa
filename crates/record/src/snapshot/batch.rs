//! What a cursor of a snapshot has copied, and the room it has for that.
//!
//! A short range of a B-tree takes hardly longer to copy than the C library takes to find memory for it, so a thread keeps the room that
//! its last cursor had for the next, until it ends: one batch, for a short range is of one leaf.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use libtp_log::Lsn;

use crate::btree::node::{Node, Record, LEAF_CELL_HEAD};
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::SplitKey;

/// Room with more bytes than this is not kept: it has that of a leaf of the longest pages, its keys, and where they are.
const KEPT_MAX: usize = 256 << 10;

/// A value in a batch.
#[derive(Debug)]
pub(super) enum Stored {
    /// On the copy of the leaf.
    OnPage(Range<usize>),
    /// Behind its key, or where it was found.
    Here(Range<usize>),
    Chain(ChainRef),
    /// No record is seen there.
    Nothing,
}

/// A record of a batch that was copied as it stands on its leaf, and is not, or not as it stands, what is seen.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) entry: usize,
    pub(super) lsn: Lsn,
    pub(super) flags: RecordFlags,
}

/// What is seen of the keys from `low` up to `high`, in order, as far as they are in the cursor's range.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// May be below the range's beginning: then what is seen begins there.
    pub(super) low: Vec<u8>,
    /// None: to the end.
    pub(super) high: Option<Vec<u8>>,
    /// A copy of the leaf, if they are of one.
    pub(super) page: Vec<u8>,
    /// Keys, in one piece each, and values that are not on the page.
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<(Range<usize>, Stored)>,
    /// In the order of the entries; empty once the batch is settled.
    pub(super) unsettled: Vec<Unsettled>,
}

impl Batch {
    /// Forgets what is in it: what comes is of these keys.
    pub(super) fn begin(&mut self, low: Vec<u8>, high: Option<Vec<u8>>) {
        (self.low, self.high) = (low, high);
        self.page.clear();
        self.bytes.clear();
        self.entries.clear();
        self.unsettled.clear();
    }

    /// The bytes of a value that is in the batch.
    pub(super) fn value(&self, stored: &Stored) -> Option<&[u8]> {
        match stored {
            Stored::OnPage(range) => self.page.get(range.clone()),
            Stored::Here(range) => self.bytes.get(range.clone()),
            Stored::Chain(_) | Stored::Nothing => None,
        }
    }

    /// Copies a record, whose stored value is what is seen as it stands if `is_plain`.
    pub(super) fn push(&mut self, key: SplitKey<'_>, (lsn, flags): (Lsn, RecordFlags), stored: &[u8], is_plain: bool) {
        self.note((lsn, flags), is_plain);
        let key_at = self.bytes.len();
        key.append_to(&mut self.bytes);
        let stored_at = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.entries.push((key_at..stored_at, Stored::Here(stored_at..self.bytes.len())));
    }

    /// The same of a record of a page, whose key and stored value stand side by side there.
    pub(super) fn push_from(&mut self, node: &Node<'_>, record: &Record<'_>, is_plain: bool) {
        self.note((record.lsn, record.flags), is_plain);
        let (prefix, key_at) = (node.prefix(), self.bytes.len());
        let suffix_at = record.cell_at + LEAF_CELL_HEAD;
        let rest = &node.bytes()[suffix_at..record.stored_at + record.stored.len()];
        self.bytes.reserve(prefix.len() + rest.len());
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(rest);
        let stored_at = key_at + prefix.len() + (record.stored_at - suffix_at);
        self.entries.push((key_at..stored_at, Stored::Here(stored_at..self.bytes.len())));
    }

    /// Copies the key of a record of the batch's page. The value stays on the page.
    pub(super) fn push_on_page(&mut self, node: &Node<'_>, record: &Record<'_>, is_plain: bool) {
        self.note((record.lsn, record.flags), is_plain);
        let (suffix_at, key_at) = (record.cell_at + LEAF_CELL_HEAD, self.bytes.len());
        self.bytes.extend_from_slice(node.prefix());
        self.bytes.extend_from_slice(&node.bytes()[suffix_at..record.stored_at]);
        let stored = record.stored_at..record.stored_at + record.stored.len();
        self.entries.push((key_at..self.bytes.len(), Stored::OnPage(stored)));
    }

    /// Notes that the entry that comes next is to be settled, unless it is plain.
    #[inline]
    pub(super) fn note(&mut self, (lsn, flags): (Lsn, RecordFlags), is_plain: bool) {
        if !is_plain {
            self.unsettled.push(Unsettled { entry: self.entries.len(), lsn, flags });
        }
    }

    /// The bytes of memory it has, but for where it begins and ends and what is unsettled, which are few.
    fn kept_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(Range<usize>, Stored)>();
        self.page.capacity() + self.bytes.capacity() + entries
    }
}

thread_local! {
    static KEPT: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

/// A batch, in room that the thread keeps when it is done with; an empty one has none yet.
#[derive(Default)]
pub(super) struct Room(Option<Box<Batch>>);

impl Room {
    /// Takes the room, that of the thread if this has none; what is in it is anything.
    pub(super) fn take(&mut self) -> Room {
        // A thread that ends keeps nothing any more.
        let kept = || KEPT.try_with(Cell::take).ok().flatten();
        Room(self.0.take().or_else(kept))
    }
}

impl Deref for Room {
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

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut Batch {
        self.0.get_or_insert_default()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(batch) = self.0.take().filter(|batch| batch.kept_bytes() <= KEPT_MAX) {
            let _ = KEPT.try_with(|kept| kept.set(Some(batch)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capacity of what a new cursor of this thread begins with.
    fn kept() -> usize {
        Room::default().take().bytes.capacity()
    }

    fn with(bytes: usize) -> Room {
        let mut room = Room::default().take();
        room.begin(b"low".to_vec(), Some(b"high".to_vec()));
        room.bytes.reserve_exact(bytes);
        room
    }

    #[test]
    fn the_room_of_a_cursor_that_is_gone_is_the_next_ones() {
        assert_eq!(kept(), 0);
        drop(with(1000));
        assert_eq!(kept(), 1000, "and whoever looks gives it back");
        let outer = Room::default().take();
        assert_eq!(kept(), 0, "no two have the same");
        drop(outer);
        assert_eq!(kept(), 1000);
    }

    #[test]
    fn much_room_is_not_kept() {
        drop(with(KEPT_MAX + 1));
        assert_eq!(kept(), 0);
    }

    #[test]
    fn what_was_in_it_is_forgotten() {
        let mut room = with(10);
        room.page.push(1);
        room.push(SplitKey::whole(b"key"), (Lsn::new(8), RecordFlags::NONE), b"value", false);
        drop(room);
        let mut room = Room::default().take();
        assert_eq!(room.entries.len(), 1);
        room.begin(Vec::new(), None);
        assert_eq!((&room.low[..], &room.high, &room.page[..], &room.bytes[..]), (&b""[..], &None, &b""[..], &b""[..]));
        assert!(room.entries.is_empty() && room.unsettled.is_empty());
    }

    /// As of a cursor that the destructor of another thing of the thread makes.
    #[test]
    fn a_thread_that_ends_keeps_nothing_and_gets_new_room() {
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
