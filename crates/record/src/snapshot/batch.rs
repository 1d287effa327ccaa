//! What a cursor of a snapshot has copied, and the room it has for that.
//!
//! A short range takes less time to copy than a C library takes to find memory for it, so a thread keeps the room that its last
//! cursor had for the next.

use std::cell::Cell;
use std::ops::{Deref, Range};

use libtp_log::Lsn;

use crate::btree::node::{Node, Record, LEAF_CELL_HEAD};
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::SplitKey;

/// Room with more bytes than this is not kept.
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
    const EMPTY: Batch = Batch {
        low: Vec::new(),
        high: None,
        page: Vec::new(),
        bytes: Vec::new(),
        entries: Vec::new(),
        unsettled: Vec::new(),
    };

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

    /// Notes that the entry that comes next is to be settled, unless it is plain.
    #[inline]
    pub(super) fn note(&mut self, (lsn, flags): (Lsn, RecordFlags), is_plain: bool) {
        if !is_plain {
            self.unsettled.push(Unsettled { entry: self.entries.len(), lsn, flags });
        }
    }

    /// The bytes of memory it has, most of them.
    fn kept_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(Range<usize>, Stored)>();
        self.page.capacity() + self.bytes.capacity() + entries
    }
}

thread_local! {
    static KEPT: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

/// Room for a batch, and what is in it; empty until there is one.
#[derive(Default)]
pub(super) struct Room(Option<Box<Batch>>);

impl Room {
    /// Takes the batch, that of the thread if there is none; what is in it is anything.
    pub(super) fn take(&mut self) -> Box<Batch> {
        // A thread that ends has none any more.
        let kept = || KEPT.try_with(Cell::take).ok().flatten();
        self.0.take().or_else(kept).unwrap_or_default()
    }
}

impl From<Box<Batch>> for Room {
    fn from(batch: Box<Batch>) -> Room {
        Room(Some(batch))
    }
}

impl Deref for Room {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        static EMPTY: Batch = Batch::EMPTY;
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(batch) = self.0.take().filter(|batch| batch.kept_bytes() <= KEPT_MAX) {
            let _ = KEPT.try_with(|kept| kept.set(Some(batch)));
        }
    }
}
