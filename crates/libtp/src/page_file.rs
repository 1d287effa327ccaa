//! Files of pages whose bytes are the program's: the primitive lock, log and buffer calls of LIBTP 4.4.

use std::sync::Arc;

use libtp_lock::Mode;
use libtp_record::{Access, Keying, Method, PageCopy, PageLock};
use libtp_txn::ApplicationType;

use crate::database::{access, open, wrong_kind, OpenDatabase};
use crate::environment::Inner;
use crate::{Env, Error, Result, Txn};

/// Pages by number, from 0, whose bytes are the program's own: what an access method is made of. The paper's six steps are in
/// `examples/protected.rs`.
///
/// A page is locked ([`PageFile::lock`]), copied ([`PageFile::get`]), changed as the program likes, and stored
/// ([`PageFile::put`]), which logs what has changed before it changes the page. What a transaction stored is undone with it, by
/// whoever is there if its process dies. Changes that several transactions make on one page at a time have a type of their own
/// ([`LogType`](crate::LogType), [`PageFile::apply`]).
///
/// A page that is locked first cannot change under its copy. Where it was not, and did, `put` refuses.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use libtp::PageLock;
/// let env = libtp::Env::open(dir.path())?;
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
    /// Opens a file of pages, and makes it if it is missing: the paper's `buf_open`. How large a page is, is said with
    /// [`Builder::page_size`](crate::Builder::page_size) when the file is made.
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn pages(&self, name: &str) -> Result<PageFile> {
        let open = open(&self.0, name, Some((Method::Pages, Keying::default())))?;
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
        txn.life().managers.types.applications.get(code).ok_or_else(|| Error::Settings {
            what: format!("no log-record type with the code {code} was registered when the environment was opened; nothing was changed (`Builder::log_type`)"),
        })
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// The bytes of a page that are the program's: 32 less than the page has.
    pub fn page_bytes(&self) -> usize {
        self.open.page_bytes() - libtp_record::paged::change::BEGIN
    }

    /// How many pages have been stored. One that was added by a transaction that aborted is counted, and is zeros.
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
        txn.guarded(|| Ok(self.access(txn).page_lock(page, lock)?))
    }

    /// Locks all pages until the transaction ends, also those that nobody has stored yet: who reads the file whole reads it as it was at
    /// one moment.
    ///
    /// # Errors
    /// As [`PageFile::lock`].
    pub fn lock_all(&self, txn: &Txn<'_>, lock: PageLock) -> Result<()> {
        let mode = match lock {
            PageLock::Read => Mode::S,
            PageLock::Write => Mode::X,
        };
        txn.guarded(|| Ok(self.access(txn).lock_database(mode)?))
    }

    /// Gives the lock of a page that was only read back before the transaction ends: the paper's `unlock`. What was read may
    /// change then, while the transaction goes on.
    ///
    /// # Errors
    /// `Database` when it was locked for more than reading, or not at all.
    pub fn unlock(&self, txn: &Txn<'_>, page: u32) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).page_unlock(page)?))
    }

    /// A copy of a page: the paper's `buf_get`. Zeros, if there is none of that number yet.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, `Full`.
    pub fn get(&self, txn: &Txn<'_>, page: u32) -> Result<PageCopy> {
        txn.guarded(|| Ok(self.access(txn).page_copy(page)?))
    }

    /// Stores a page: logs what was changed in the copy since, and changes the page. Returns the log sequence number; zero where
    /// nothing was changed. Taken back, the bytes that were there before come back.
    ///
    /// # Errors
    /// `Database` when the transaction does not hold the page's lock for writing, when the page is not what it was when it was
    /// copied, or when it would leave out pages before it; `Full`, `Failed`. Nothing was changed.
    pub fn put(&self, txn: &Txn<'_>, page: &PageCopy) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).page_put(page, None, &[])?.raw()))
    }

    /// As [`PageFile::put`], in a log record of a type of the program's, with an argument of up to 64 KiB for who reads the log. It is
    /// the bytes that are taken back, also where the type has an undo.
    ///
    /// # Errors
    /// As [`PageFile::put`]; `Settings` when no such type was registered.
    pub fn put_logged(&self, txn: &Txn<'_>, page: &PageCopy, code: u16, argument: &[u8]) -> Result<u64> {
        let known = self.known(txn, code)?;
        txn.guarded(|| Ok(self.access(txn).page_put(page, Some(known), argument)?.raw()))
    }

    /// Changes a page by the function of a registered log-record type, and logs that: the paper's *log* with the change it
    /// describes. A type that has an undo needs no lock before: several transactions make such changes of one page at once, and
    /// whoever reads or stores the page waits until they have ended. Without an undo the page is locked for writing.
    ///
    /// # Errors
    /// `Database` with what the function said when it refuses; `Settings` when no such type was registered; `Deadlock`,
    /// `LockTimeout`, `Full`, `Failed`. Nothing was changed.
    pub fn apply(&self, txn: &Txn<'_>, page: u32, code: u16, argument: &[u8]) -> Result<u64> {
        let known = self.known(txn, code)?;
        txn.guarded(|| Ok(self.access(txn).page_apply(page, known, argument)?.raw()))
    }
}
