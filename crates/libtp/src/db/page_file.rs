//! Files of pages with the program's bytes: the primitive lock, log and buffer calls of LIBTP 4.4.

use std::sync::Arc;

use libtp_record::{Access, KeyFormat, Method, PageCopy};
use libtp_txn::ApplicationType;

use crate::db::opening::{access, open, wrong_kind};
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::{Env, Error, PageLock, Result, Txn};

/// Numbered pages, counted from 0, with the program's own bytes. A program builds access methods from them. The six
/// steps of LIBTP 4.4, by which a program protects its own access method, are in `examples/protected.rs`.
///
/// A program locks a page ([`PageFile::lock`]), copies it ([`PageFile::get`]), changes the copy, and stores it
/// ([`PageFile::put`]), which logs the changed bytes before it changes the page. An abort of the transaction undoes its
/// stores; if its process dies, another process undoes them. Changes that several transactions make on one page at the
/// same time need a log-record type of the program ([`LogType`](crate::LogType), [`PageFile::apply`]).
///
/// A page that is locked before it is copied cannot change between `get` and `put`. If an unlocked page has changed
/// since it was copied, `put` refuses to store the copy.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use libtp::PageLock;
/// let env = libtp::Env::create(dir.path())?;
/// let notes = env.pages("notes")?;
/// env.run(|txn| {
///     notes.lock(txn, 0, PageLock::Write)?;
///     let mut page = notes.get(txn, 0)?;
///     page.bytes[..5].copy_from_slice(b"hello");
///     notes.put(txn, &page).map(|_| ())
/// })?;
/// let page = env.run(|txn| {
///     notes.lock(txn, 0, PageLock::Read)?;
///     notes.get(txn, 0)
/// })?;
/// assert_eq!(&page.bytes[..6], b"hello\0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PageFile {
    env: Arc<Inner>,
    open: Arc<OpenDatabase>,
}

impl Env {
    /// Opens a file of pages; creates it if it is missing: the paper's `buf_open`.
    /// [`Builder::page_size`](crate::Builder::page_size) sets the page size of a new file.
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn pages(&self, name: &str) -> Result<PageFile> {
        let open = open(&self.0, name, Some((Method::Pages, KeyFormat::default())))?;
        match open.method() {
            Method::Pages => Ok(PageFile { env: Arc::clone(&self.0), open }),
            other => Err(wrong_kind(name, other.name(), "pages")),
        }
    }
}

impl PageFile {
    fn access<'a>(&'a self, txn: &'a Txn<'_>) -> Access<'a> {
        access(&self.env, &self.open, txn)
    }

    fn known<'a>(&self, txn: &'a Txn<'_>, code: u16) -> Result<&'a ApplicationType> {
        txn.generation().managers.types.applications.get(code).ok_or_else(|| Error::Settings {
            what: format!("no log-record type with the code {code} was registered when the environment was opened; nothing was changed. Register it first (`Builder::log_type`)"),
        })
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// Returns the number of bytes of a page that the program can use: 32 less than the page size.
    pub fn page_bytes(&self) -> usize {
        self.open.page_bytes() - libtp_record::paged::change::BEGIN
    }

    /// Returns the number of stored pages. A page that an aborted transaction has added is counted, and has only zeros.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn count(&self, txn: &Txn<'_>) -> Result<u32> {
        txn.guarded(|| Ok(self.access(txn).page_count()?))
    }

    /// Locks a page until the transaction ends: the paper's `tp_lock`.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, `Full`.
    pub fn lock(&self, txn: &Txn<'_>, page: u32, lock: PageLock) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).page_lock(page, lock.into())?))
    }

    /// Locks all pages until the transaction ends, also pages that are not stored yet: a transaction that reads the
    /// whole file then reads one state of it.
    ///
    /// # Errors
    /// As [`PageFile::lock`].
    pub fn lock_all(&self, txn: &Txn<'_>, lock: PageLock) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).lock_database(lock.mode())?))
    }

    /// Releases the read lock of a page before the transaction ends: the paper's `unlock`. Other transactions may then
    /// change the page while this transaction still runs.
    ///
    /// # Errors
    /// `Database` when the page was locked for more than reading, or not at all.
    pub fn unlock(&self, txn: &Txn<'_>, page: u32) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).page_unlock(page)?))
    }

    /// Returns a copy of a page: the paper's `buf_get`. The copy of a page that does not exist yet has only zeros.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, `Full`.
    pub fn get(&self, txn: &Txn<'_>, page: u32) -> Result<PageCopy> {
        txn.guarded(|| Ok(self.access(txn).page_copy(page)?))
    }

    /// Stores a page: logs the bytes that were changed in the copy, and changes the page. Returns the log sequence
    /// number; zero if no byte was changed. Undo restores the former bytes.
    ///
    /// # Errors
    /// `Database` when the transaction does not hold the page's lock for writing, when the page has changed since it
    /// was copied, or when the store would leave a gap before the page; `Full`, `Failed`. Nothing was changed.
    pub fn put(&self, txn: &Txn<'_>, page: &PageCopy) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).page_put(page, None, &[])?.raw()))
    }

    /// As [`PageFile::put`], but the log record has a type of the program, and an argument of up to 64 KiB for readers
    /// of the log. Undo restores the bytes, even if the type has an undo function.
    ///
    /// # Errors
    /// As [`PageFile::put`]; `Settings` when the type was not registered.
    pub fn put_logged(&self, txn: &Txn<'_>, page: &PageCopy, code: u16, argument: &[u8]) -> Result<u64> {
        let known = self.known(txn, code)?;
        txn.guarded(|| Ok(self.access(txn).page_put(page, Some(known), argument)?.raw()))
    }

    /// Changes a page with the redo function of a registered log-record type, and logs the change: the paper's *log*,
    /// together with the change that the record describes. For a type with an undo function, the page need not be
    /// locked first: several transactions can make such changes on one page at the same time, and a transaction that
    /// reads or stores the page waits until they have ended. For a type without an undo function, the call locks the
    /// page for writing.
    ///
    /// # Errors
    /// `Database` with the function's message when it refuses; `Settings` when the type was not registered; `Deadlock`,
    /// `LockTimeout`, `Full`, `Failed`. Nothing was changed.
    pub fn apply(&self, txn: &Txn<'_>, page: u32, code: u16, argument: &[u8]) -> Result<u64> {
        let known = self.known(txn, code)?;
        txn.guarded(|| Ok(self.access(txn).page_apply(page, known, argument)?.raw()))
    }
}
