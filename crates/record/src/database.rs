//! A process's handle to a database: its file, its access method, its limits.

pub(crate) mod geometry;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_buffer::{FileId, PoolId};
use libtp_log::Lsn;

use crate::database::geometry::Geometry;
use crate::order::OrderName;
use crate::page::recno::Arithmetic;

/// The access method: how the file organises records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Keys and values in key order.
    Btree,
    /// Records of one length, by number from 1.
    Recno {
        /// Bytes of every record.
        record_bytes: u32,
    },
    /// Keys and values without an order.
    Hash,
    /// Pages by number, whose contents the program defines.
    Pages,
}

impl Method {
    /// Returns the method's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Method::Btree => "btree",
            Method::Recno { .. } => "recno",
            Method::Hash => "hash",
            Method::Pages => "pages",
        }
    }
}

/// Whether a key of a B-tree may have several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// A key has one value.
    #[default]
    None,
    /// A key has a set of values, in the order of their bytes.
    Sorted,
    /// A key has a list of values, in the order of their insertion.
    AsTheyCame,
}

/// How a B-tree encodes a program's keys. Page 0 of the file states this format. The tree itself has each encoded key
/// once, in the order of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyFormat {
    /// Whether a key may have several values.
    pub duplicates: Duplicates,
    /// The order of the keys; `None` for the order of their bytes.
    pub order: Option<OrderName>,
    /// Whether the tree has the entries of a list (`list`). The library makes the keys of such a tree.
    pub is_list: bool,
    /// The file that this index belongs to; `None` if the database is no index.
    pub index_of: Option<FileId>,
}

impl KeyFormat {
    /// Returns whether the tree stores the program's keys unchanged.
    pub fn is_plain(&self) -> bool {
        *self == KeyFormat::default()
    }
}

/// The objects that a transaction locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Records, and gaps between them.
    #[default]
    Record,
    /// Leaf pages, as in the paper (LIBTP 3.1.2).
    Page,
}

/// A page that was unlinked, and the tree epoch after which no session can still reach the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unlinked {
    /// The left neighbour, which records `gone` as unlinked.
    pub(crate) left: u32,
    /// The unlinked page, which will become free.
    pub(crate) gone: u32,
    /// The LSN of the log record that unlinked the page. The page keeps this page LSN until it is used again.
    pub(crate) lsn: Lsn,
    /// The tree epoch; see `ProcessManager::tree_epoch_passed`.
    pub(crate) epoch: u64,
    /// Whether every processor has passed a fence since `epoch` began.
    pub(crate) is_fenced: bool,
}

/// An open database. Threads can share it.
#[derive(Debug)]
pub struct Database {
    id: FileId,
    name: String,
    page_bytes: u32,
    method: Method,
    pool: PoolId,
    granularity: Granularity,
    /// The granularity of the locks that transactions take: records in every hash file.
    lock_granularity: Granularity,
    /// Whether full leaves share with their left neighbours before they split.
    is_dense: bool,
    /// Whether a transaction with very many locks may replace its locks on records by one lock on the database.
    escalates: bool,
    arithmetic: Arithmetic,
    /// The places of the buckets of a hash file, as this process last saw them.
    geometry: Option<Box<Geometry>>,
    key_format: KeyFormat,
    /// Whether the database has indices, as this process knows it: see `indices`.
    has_indices: Arc<AtomicBool>,
    /// The last page of a recno file, as this process last saw it; zero if the process has not seen it.
    tail_hint: AtomicU32,
    /// Whether the root of a B-tree was its only leaf when this process last latched the root.
    root_is_leaf: AtomicBool,
    /// The last leaf of a B-tree, if this process has added a key at the tree's end lately; otherwise zero.
    last_leaf: AtomicU32,
    /// The beginning of the last leaf's lower bound, as [`key_start`] returns it.
    last_leaf_start: AtomicU64,
    /// Pages that this process has found to be unlinked and not yet freed.
    unlinked: Mutex<Vec<Unlinked>>,
    /// Empty leaves that stay in the tree because they are the first children of their parents, each with its LSN at
    /// the time when this was found.
    staying: Mutex<HashMap<u32, Lsn>>,
}

/// Returns the first eight bytes of a key as a number. The order of the numbers is the order of the keys. A shorter key
/// is filled up with zeros.
#[inline]
fn key_start(key: &[u8]) -> u64 {
    let eight = key.first_chunk().copied().unwrap_or_else(|| {
        let mut eight = [0; 8];
        eight[..key.len()].copy_from_slice(key);
        eight
    });
    u64::from_be_bytes(eight)
}

impl Database {
    pub(crate) fn new(id: FileId, name: String, page_bytes: u32, method: Method, pool: PoolId) -> Database {
        let nothing = Arithmetic { record_bytes: 0, per_page: 1 };
        let arithmetic = match method {
            Method::Btree | Method::Hash | Method::Pages => nothing,
            Method::Recno { record_bytes } => {
                Arithmetic::new(page_bytes as usize, record_bytes as usize).unwrap_or(nothing)
            }
        };
        Database {
            id,
            name,
            page_bytes,
            method,
            pool,
            granularity: Granularity::Record,
            lock_granularity: Granularity::Record,
            is_dense: false,
            escalates: true,
            arithmetic,
            geometry: (method == Method::Hash).then(|| Box::new(Geometry::new())),
            key_format: KeyFormat::default(),
            has_indices: Arc::default(),
            tail_hint: AtomicU32::new(0),
            root_is_leaf: AtomicBool::new(false),
            last_leaf: AtomicU32::new(0),
            last_leaf_start: AtomicU64::new(0),
            unlinked: Mutex::new(Vec::new()),
            staying: Mutex::default(),
        }
    }

    /// Sets the granularity of locks. All concurrent users of a database must use the same granularity.
    #[must_use]
    pub fn with_granularity(mut self, granularity: Granularity) -> Database {
        self.granularity = granularity;
        // A split of a bucket moves records to pages that no transaction has locked.
        self.lock_granularity = if self.method == Method::Hash { Granularity::Record } else { granularity };
        self
    }

    /// Makes full leaves share with their left neighbours before they split. This makes leaves fuller on average if
    /// keys are inserted in random order. The setting applies only to changes through this handle.
    #[must_use]
    pub fn with_dense_leaves(mut self, is_dense: bool) -> Database {
        self.is_dense = is_dense;
        self
    }

    /// Returns whether full leaves share before they split.
    #[inline]
    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Shares the flag `has_indices` with another handle of this process, which opened the same file under its earlier
    /// name.
    #[must_use]
    pub fn with_index_note(mut self, note: Arc<AtomicBool>) -> Database {
        self.has_indices = note;
        self
    }

    /// Forbids lock escalation, for a session that needs two concurrent transactions in the database.
    #[must_use]
    pub fn without_escalation(mut self) -> Database {
        self.escalates = false;
        self
    }

    /// Returns whether one lock on the database may replace locks on records.
    pub(crate) fn escalates(&self) -> bool {
        self.escalates
    }

    #[must_use]
    pub(crate) fn with_key_format(mut self, key_format: KeyFormat) -> Database {
        self.key_format = key_format;
        self
    }

    /// Returns the format of the keys.
    #[inline]
    pub fn key_format(&self) -> &KeyFormat {
        &self.key_format
    }

    /// Returns the file's number.
    #[inline]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// Returns the access method.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the buffer pool of the database's pages.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// Returns the granularity of locks.
    #[inline]
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// Returns the granularity of the locks that transactions take. For a hash file it is always records.
    #[inline]
    pub(crate) fn lock_granularity(&self) -> Granularity {
        self.lock_granularity
    }

    /// Returns the longest key of a B-tree or a hash file, in bytes.
    #[inline]
    pub fn key_bytes_max(&self) -> usize {
        self.page_bytes() / 4
    }

    /// Returns the arithmetic of a recno file's record numbers.
    #[inline]
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Returns the places of the buckets of a hash file, as this process last saw them.
    #[inline]
    pub(crate) fn geometry(&self) -> Option<&Geometry> {
        self.geometry.as_deref()
    }

    /// Returns whether the database has indices. The caller has locked the database for writing.
    #[inline]
    pub(crate) fn has_indices(&self) -> bool {
        // Relaxed: the storing session held the same lock as the caller.
        self.has_indices.load(Ordering::Relaxed)
    }

    pub(crate) fn note_has_indices(&self, has_indices: bool) {
        // Relaxed: see `has_indices`.
        self.has_indices.store(has_indices, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn tail_hint(&self) -> u32 {
        // Relaxed: a hint. Its user checks the page.
        self.tail_hint.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_tail_hint(&self, page: u32) {
        // Relaxed: a hint, see `tail_hint`.
        self.tail_hint.store(page, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn root_is_leaf(&self) -> bool {
        // Relaxed: a hint. Its user checks the page.
        self.root_is_leaf.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn note_root_is_leaf(&self, is_leaf: bool) {
        if self.root_is_leaf() != is_leaf {
            // Relaxed: a hint, see `root_is_leaf`.
            self.root_is_leaf.store(is_leaf, Ordering::Relaxed);
        }
    }

    /// Returns the last leaf of a B-tree, if keys were added at the tree's end lately and the leaf may have the key.
    #[inline]
    pub(crate) fn last_leaf_for(&self, key: &[u8]) -> Option<u32> {
        // Relaxed: hints. Their user checks the page.
        let number = self.last_leaf.load(Ordering::Relaxed);
        // An equal beginning is not enough: if all keys begin with the same bytes, each change would latch the last
        // leaf.
        let may_have = number != 0 && key_start(key) > self.last_leaf_start.load(Ordering::Relaxed);
        may_have.then_some(number)
    }

    /// Notes the last leaf, whose keys are at or above `low`.
    #[inline]
    pub(crate) fn note_last_leaf(&self, number: u32, low: &[u8]) {
        if self.last_leaf.load(Ordering::Relaxed) != number {
            // Relaxed: hints, see `last_leaf_for`.
            self.last_leaf_start.store(key_start(low), Ordering::Relaxed);
            self.last_leaf.store(number, Ordering::Relaxed);
        }
    }

    /// Forgets the last leaf.
    #[cold]
    pub(crate) fn forget_last_leaf(&self) {
        // Relaxed: a hint.
        self.last_leaf.store(0, Ordering::Relaxed);
    }

    /// Forgets which pages were unlinked and are to be freed, because the region that counted the epochs no longer
    /// exists.
    pub fn forget_unlinked(&self) {
        self.unlinked().clear();
        self.staying().clear();
        // The hints may be pages after the recovered end of the file.
        self.set_tail_hint(0);
        self.forget_last_leaf();
        if let Some(geometry) = self.geometry() {
            geometry.forget();
        }
    }

    pub(crate) fn unlinked(&self) -> MutexGuard<'_, Vec<Unlinked>> {
        self.unlinked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an empty leaf cannot be unlinked while it has this LSN.
    pub(crate) fn note_staying(&self, leaf: u32, lsn: Lsn) {
        self.staying().insert(leaf, lsn);
    }

    /// Forgets that the leaf cannot be unlinked: another page has absorbed its parent.
    pub(crate) fn forget_staying(&self, leaf: u32) {
        self.staying().remove(&leaf);
    }

    /// Returns whether it is known that an empty leaf cannot be unlinked.
    pub(crate) fn is_staying(&self, leaf: u32, lsn: Lsn) -> bool {
        self.staying().get(&leaf) == Some(&lsn)
    }

    fn staying(&self) -> MutexGuard<'_, HashMap<u32, Lsn>> {
        self.staying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
