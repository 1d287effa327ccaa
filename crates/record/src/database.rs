//! A database as one process knows it: which file, which access method, what may be stored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_buffer::{FileId, PoolId};
use libtp_log::Lsn;

use crate::hash::geometry::Geometry;
use crate::order::OrderName;
use crate::recno::page::Arithmetic;

/// How records are organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Keys and values in key order.
    Btree,
    /// Records of one length, by number from 1.
    Recno {
        /// Bytes of every record.
        record_bytes: u32,
    },
    /// Keys and values in no order, found by the key alone.
    Hash,
    /// Pages by number, whose bytes are the program's.
    Pages,
}

impl Method {
    /// The name people use.
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
    /// It has one.
    #[default]
    None,
    /// It has a set of values, in the order of their bytes.
    Sorted,
    /// It has a list of values, in the order in which they came.
    AsTheyCame,
}

/// How the keys of a program stand in a B-tree. It is said in page 0 of the file; the tree itself has keys in the order of
/// their bytes, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Keying {
    /// Whether a key may have several values.
    pub duplicates: Duplicates,
    /// The order of the keys; none for that of their bytes.
    pub order: Option<OrderName>,
    /// Whether the tree holds the entries of a list (`list`), and keys are none of the program's.
    pub is_list: bool,
    /// The file whose index it is; none if it is no index.
    pub index_of: Option<FileId>,
}

impl Keying {
    /// Whether keys stand in it as they are.
    pub fn is_plain(&self) -> bool {
        *self == Keying::default()
    }
}

/// What a transaction locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Records, and gaps between them.
    #[default]
    Record,
    /// Leaf pages, as in the paper (LIBTP 3.1.2).
    Page,
}

/// A page that was unlinked, and the tree epoch after which nobody can be on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unlinked {
    /// The page that leads to it.
    pub(crate) left: u32,
    /// The page that is to become free.
    pub(crate) gone: u32,
    /// The log record that unlinked it: its page LSN, until it is used for something else.
    pub(crate) lsn: Lsn,
    /// See `ProcessManager::tree_epoch_passed`.
    pub(crate) epoch: u64,
}

/// An open database. Cheap to share between threads.
#[derive(Debug)]
pub struct Database {
    id: FileId,
    name: String,
    page_bytes: u32,
    method: Method,
    pool: PoolId,
    granularity: Granularity,
    /// Whether leaves share with their neighbours before they split.
    is_dense: bool,
    /// Whether who has very many locks may trade those here for one on all of it.
    escalates: bool,
    arithmetic: Arithmetic,
    /// Where the buckets of a hash file are, as this process last saw them.
    geometry: Option<Box<Geometry>>,
    keying: Keying,
    /// Whether there are indices, as this process knows it: see `indices`.
    has_indices: Arc<AtomicBool>,
    /// The last page of a recno file, as this process last saw it; zero if it never did.
    tail_hint: AtomicU32,
    /// Pages this process has seen unlinked and not yet freed.
    unlinked: Mutex<Vec<Unlinked>>,
    /// Empty leaves that stay, because they are their parents' first, and their LSNs when that was seen.
    staying: Mutex<HashMap<u32, Lsn>>,
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
            is_dense: false,
            escalates: true,
            arithmetic,
            geometry: (method == Method::Hash).then(|| Box::new(Geometry::new())),
            keying: Keying::default(),
            has_indices: Arc::default(),
            tail_hint: AtomicU32::new(0),
            unlinked: Mutex::new(Vec::new()),
            staying: Mutex::default(),
        }
    }

    /// The same database, with locks on pages instead of records. All who use it at one time do so with one granularity.
    #[must_use]
    pub fn with_granularity(mut self, granularity: Granularity) -> Database {
        self.granularity = granularity;
        self
    }

    /// The same database, whose full leaves share with their neighbours before they split, so that they are fuller on the average
    /// where keys come in any order. Each who puts decides for itself.
    #[must_use]
    pub fn with_dense_leaves(mut self, is_dense: bool) -> Database {
        self.is_dense = is_dense;
        self
    }

    /// Whether leaves share before they split.
    #[inline]
    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// The same database, which shares with others of the process whether there are indices: it is the same file, opened under the name
    /// that it had before.
    #[must_use]
    pub fn with_index_note(mut self, note: Arc<AtomicBool>) -> Database {
        self.has_indices = note;
        self
    }

    /// The same database, in which locks stay on records however many there are: for who needs two transactions in it at once.
    #[must_use]
    pub fn without_escalation(mut self) -> Database {
        self.escalates = false;
        self
    }

    /// Whether locks may be traded for one on all of it.
    pub(crate) fn escalates(&self) -> bool {
        self.escalates
    }

    #[must_use]
    pub(crate) fn with_keying(mut self, keying: Keying) -> Database {
        self.keying = keying;
        self
    }

    /// How keys stand in it.
    #[inline]
    pub fn keying(&self) -> &Keying {
        &self.keying
    }

    /// The file's number.
    #[inline]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// The access method.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The buffer pool its pages go to.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// What transactions lock.
    #[inline]
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// The longest key of a B-tree or a hash file, in bytes.
    #[inline]
    pub fn key_bytes_max(&self) -> usize {
        self.page_bytes() / 4
    }

    /// Where records of a recno file stand.
    #[inline]
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Where the buckets of a hash file are.
    #[inline]
    pub(crate) fn geometry(&self) -> Option<&Geometry> {
        self.geometry.as_deref()
    }

    /// Whether it has indices, for who has entered it for writing.
    #[inline]
    pub(crate) fn has_indices(&self) -> bool {
        // Relaxed: whoever noted it held the same lock as who asks.
        self.has_indices.load(Ordering::Relaxed)
    }

    pub(crate) fn note_has_indices(&self, has_indices: bool) {
        // Relaxed: see `has_indices`.
        self.has_indices.store(has_indices, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn tail_hint(&self) -> u32 {
        // Relaxed: a hint; whoever uses it looks at the page.
        self.tail_hint.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_tail_hint(&self, page: u32) {
        // Relaxed: a hint, see `tail_hint`.
        self.tail_hint.store(page, Ordering::Relaxed);
    }

    /// Forgets which pages were unlinked and are to be freed: the memory in which that was counted is gone.
    pub fn forget_unlinked(&self) {
        self.unlinked().clear();
        self.staying().clear();
        // It may be beyond what came back.
        self.set_tail_hint(0);
        if let Some(geometry) = self.geometry() {
            geometry.forget();
        }
    }

    pub(crate) fn unlinked(&self) -> MutexGuard<'_, Vec<Unlinked>> {
        self.unlinked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an empty leaf stays for as long as it has this LSN.
    pub(crate) fn note_staying(&self, leaf: u32, lsn: Lsn) {
        self.staying().insert(leaf, lsn);
    }

    /// Forgets that it stays: its parent has become part of another page.
    pub(crate) fn forget_staying(&self, leaf: u32) {
        self.staying().remove(&leaf);
    }

    /// Whether an empty leaf is known to stay.
    pub(crate) fn is_staying(&self, leaf: u32, lsn: Lsn) -> bool {
        self.staying().get(&leaf) == Some(&lsn)
    }

    fn staying(&self) -> MutexGuard<'_, HashMap<u32, Lsn>> {
        self.staying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
