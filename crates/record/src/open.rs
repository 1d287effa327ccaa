//! Makes, finds and opens database files.
//!
//! A database is one file, `NAME.tp`. It is made under another name, `NAME.tp.new`, with page 0 (the static header) and
//! room for two more pages. Page 0 is synced before the file gets its name, and is never written again. So a file named
//! `NAME.tp` that has no page 0, or fewer than three pages, is damaged, never unfinished. The name is synced before any
//! session logs a change to the file, so a restart finds every file that the log can name. The meta page and a B-tree's
//! root are made by log records, like any other page.
//!
//! Byte table: docs/formats/file.md.
//!
//! If we die here: the next session that opens the database makes the unfinished file again. A file without a meta page
//! gets its meta page at the next opening or restart.

use std::time::{Duration, Instant};

use libtp_buffer::Entry as RegistryEntry;
use libtp_buffer::{file_name, is_page_size, FileId, PageId, PageNo, PoolSettings, NAME_BYTES_MAX, PAGE_BYTES_DEFAULT};
use libtp_io::{Directory, File, LockMode, OpenMode};
use libtp_lock::{Mode, Wait};
use libtp_process::{Patience, ProcessNumber, Rank};
use libtp_txn::{Change, Managers, TxnSession};
use rio::{failpoint, planted};
use zerocopy::{FromBytes, IntoBytes};

use crate::btree::descent::ROOT;
use crate::database::{Database, KeyFormat, Method};
use crate::file_header::{check_record_bytes, unsuitable, FileHeader, FoundFile, AT, END, PAGES_MIN};
use crate::found_files::{check_entry, copied, entry_of, find_file};
use crate::hash::log_records::{Create, CREATE};
use crate::hash::page::{FIRST_BUCKET, HEADER_PAGE};
use crate::lock_names;
use crate::page::free_pages::META_PAGE;
use crate::page::log_records::{encode_format, FORMAT};
use crate::pages::{rank, Pages};
use crate::{Error, Result};

pub use crate::file_header::{FILE_VERSION, FILE_VERSION_PLAIN, LIST};

/// The process that makes the file locks the byte at this offset, which is far after all pages. It also locks the byte
/// whose offset is [`MAKERS`] plus the process's number.
const LOCK_BYTE: u64 = 1 << 62;
const MAKERS: u64 = 1 << 60;
/// The pause between two attempts to lock the file that another process makes.
const MOMENT: Duration = Duration::from_millis(1);
/// Suffix of a file's name until the file is finished.
const UNFINISHED: &str = ".new";
/// Settings with which a database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenSettings {
    /// The method with which a missing database is made; `None` makes no database.
    pub create: Option<Method>,
    /// The key format of a B-tree that is made.
    pub key_format: KeyFormat,
    /// The page size of a file that is made; `None` for 8 KiB.
    pub page_bytes: Option<u32>,
    /// The settings of a separate buffer pool for the pages of the file, if no session has registered the file yet.
    pub own_pool: Option<PoolSettings>,
    /// The longest wait for a session that drops or renames the database; `None` for no limit.
    pub wait: Option<Wait>,
    /// The longest wait for another process that makes the file. `None`: the wait has no limit while that process is
    /// seen to run.
    pub making_limit: Option<Duration>,
}

/// Finishes the creation of files after a restart: makes their missing meta pages.
///
/// # Errors
/// Reading or logging failed.
pub fn after_restart(managers: &Managers, txn: &TxnSession) -> Result<()> {
    for info in managers.buffers.files() {
        let page = match managers.buffers.shared(txn.session(), PageId::new(info.id, PageNo::HEADER), rank(0)) {
            Err(libtp_buffer::Error::FileMissing { .. }) => continue,
            page => page?,
        };
        let header = page.get(AT..END).and_then(|bytes| FileHeader::ref_from_bytes(bytes).ok());
        let method = header.and_then(FileHeader::method);
        drop(page);
        let method = method.ok_or_else(|| {
            unsuitable(
                &info.file_name(),
                "its header names a kind of database that this build does not know; use the build that made the file",
            )
        })?;
        format(managers, txn, info.id, method)?;
    }
    Ok(())
}

/// Opens a database. If the database is missing, makes it if `settings` give its method, and otherwise returns `None`.
///
/// # Errors
/// [`Error::Unsuitable`], [`Error::Corrupt`], or an error of disk, log or locks.
pub fn open(
    managers: &Managers,
    txn: &TxnSession,
    directory: &dyn Directory,
    name: &str,
    settings: &OpenSettings,
) -> Result<Option<Database>> {
    check_name(name)?;
    let found = match registered_file(managers, directory, name)? {
        Some(found) => Some(found),
        // The lock on the name excludes sessions that drop or rename the database between the check and the creation.
        None => with_name(managers, txn, name, settings.wait.unwrap_or(Wait::Forever), || {
            find_or_make(managers, txn, directory, name, settings)
        })?,
    };
    let Some(found) = found else { return Ok(None) };
    failpoint("create: registered, not formatted");
    format(managers, txn, found.info.id, found.method)?;
    let database = Database::new(found.info.id, name.to_string(), found.info.page_bytes, found.method, found.info.pool);
    Ok(Some(database.with_key_format(found.key_format)))
}

/// Runs `work` while no other session can drop or rename the database `name`. The session runs no transaction.
fn with_name<T>(
    managers: &Managers,
    txn: &TxnSession,
    name: &str,
    wait: Wait,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let lock = lock_names::name(name);
    managers.locks.lock(txn.session(), txn.locker(), lock, Mode::X, wait)?;
    failpoint("open: name locked");
    // If we die here, or the region is discarded: the lock ends with the session.
    let done = work();
    managers.locks.unlock(txn.session(), txn.locker(), lock)?;
    done
}

/// Returns the file that the buffer manager has registered under a name, if the directory has the same file under this
/// name.
fn registered_file(managers: &Managers, directory: &dyn Directory, name: &str) -> Result<Option<FoundFile>> {
    let Some(info) = managers.buffers.file_by_name(name) else { return Ok(None) };
    match find_file(directory, name, &environment_id(managers)) {
        Ok(mut found) if found.info.id == info.id && check_entry(managers.buffers.registry(), &found.info).is_ok() => {
            found.info.pool = info.pool;
            Ok(Some(found))
        }
        _ => Ok(None),
    }
}

fn find_or_make(
    managers: &Managers,
    txn: &TxnSession,
    directory: &dyn Directory,
    name: &str,
    settings: &OpenSettings,
) -> Result<Option<FoundFile>> {
    let full_name = file_name(name);
    let registry = managers.buffers.registry();
    let mut is_there = directory.exists(&full_name)?;
    if !is_there
        && registry.find(name)?.is_some()
        && !planted("record: a database with a missing file is created again")
    {
        // A file has its name before the register has its entry. Another process may have made both since the first
        // check.
        is_there = directory.exists(&full_name)?;
        if !is_there {
            return Err(
                libtp_buffer::Error::FileMissing { name: name.into(), what: "its file is missing".into() }.into()
            );
        }
    }
    if !is_there {
        let Some(method) = settings.create else { return Ok(None) };
        let page_bytes = settings.page_bytes.unwrap_or(PAGE_BYTES_DEFAULT);
        let making = Making { method, page_bytes, key_format: settings.key_format, limit: settings.making_limit };
        make(managers, txn, directory, name, &making)?;
    }
    let mut found = match find_file(directory, name, &environment_id(managers)) {
        Err(Error::Io(error @ libtp_io::Error::Unsuitable { .. })) if registry.find(name)?.is_some() => {
            return Err(libtp_buffer::Error::FileMissing { name: name.into(), what: error.to_string() }.into());
        }
        found => found?,
    };
    let id = found.info.id;
    check_entry(registry, &found.info)?;
    match managers.buffers.registered(id) {
        Some(info) if info.name == name => found.info.pool = info.pool,
        Some(info) => return Err(unsuitable(&full_name, copied(&info))),
        None => {
            if let Some(pool) = &settings.own_pool {
                found.info.pool = managers.buffers.add_pool(txn.session(), pool)?;
            }
            // The process that made the file may not have synced the name yet. A failed sync of the directory is final.
            if !planted("record: the name of a new file is not synced") {
                let synced = directory.sync();
                synced.inspect_err(|error| poison_after_sync(managers, error))?;
            }
            // The sync of the name may have failed in another process. Then the sync above may have succeeded without
            // writing the name.
            if !planted("record: a name is registered after a failed sync") {
                managers.log.check_poison()?;
            }
            // The log must have no record of a database that is not in the register.
            enter(managers, &entry_of(&found.info))?;
            failpoint("create: file has its name, not registered");
            managers.buffers.register_file(txn.session(), &found.info)?;
        }
    }
    Ok(Some(found))
}

/// Enters a database in the register. If this process has reached a limit, or the disk is full, the log is not
/// poisoned: a repeated call writes the entry.
fn enter(managers: &Managers, entry: &RegistryEntry) -> Result<()> {
    let entered = managers.buffers.registry().enter(entry).inspect_err(|error| {
        if let libtp_buffer::Error::Io(error) = error {
            poison_after_sync(managers, error);
        }
    });
    Ok(entered?)
}

/// Poisons the log after the failed sync of a name or of the register: a repeated sync may succeed without writing.
fn poison_after_sync(managers: &Managers, error: &libtp_io::Error) {
    if error.is_failed_sync() || planted("record: a creation that meets a limit of its process poisons the log") {
        managers.log.poison();
    }
}

/// Refuses a name that no database can have.
///
/// # Errors
/// [`Error::Unsuitable`].
pub fn check_name(name: &str) -> Result<()> {
    let is_good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['/', '\0'])
        && !name.chars().any(char::is_control);
    if is_good {
        return Ok(());
    }
    let what = format!("the name of a database has 1 to {NAME_BYTES_MAX} bytes, has no slash and no control character, and does not begin with a dot; give another name");
    Err(unsuitable(name, what))
}

/// The file to make.
struct Making {
    method: Method,
    page_bytes: u32,
    key_format: KeyFormat,
    /// The longest wait for another process that makes the file.
    limit: Option<Duration>,
}

/// Makes the file under its unfinished name, and then renames it. The process holds a lock on the file meanwhile. Does
/// nothing if another process has made the file first.
fn make(managers: &Managers, txn: &TxnSession, directory: &dyn Directory, name: &str, making: &Making) -> Result<()> {
    let page_bytes = making.page_bytes;
    if !is_page_size(page_bytes) {
        return Err(unsuitable(
            name,
            format!("pages have 4, 8, 16, 32 or 64 KiB, and {page_bytes} bytes were asked for"),
        ));
    }
    if let Method::Recno { record_bytes } = making.method {
        check_record_bytes(name, page_bytes, record_bytes)?;
    }
    let new_name = format!("{}{UNFINISHED}", file_name(name));
    let file = directory.open(&new_name, OpenMode::Create)?;
    failpoint("create: other name exists");
    if !lock_to_make(directory, name, &*file, making.limit)? {
        return Ok(());
    }
    let own = MAKERS + ProcessNumber::this().raw();
    // If the process cannot lock this byte, it makes the file without the lock. Other processes then cannot name the
    // process that makes the file.
    let _ = file.lock(own, LockMode::Exclusive, false);
    let made = make_locked(managers, txn, directory, name, &*file, making);
    failpoint("create: made, still locked");
    let _ = file.unlock(own);
    file.unlock(LOCK_BYTE)?;
    made
}

/// Waits until no other process makes the file. Returns false if the file is finished although the process that made it
/// still holds the lock. Fails after a limited time if that process is stopped, or cannot be seen to run, and after the
/// time `limit` in any case.
fn lock_to_make(directory: &dyn Directory, name: &str, file: &dyn File, limit: Option<Duration>) -> Result<bool> {
    let maker = || {
        let byte = file.locked_by_other(MAKERS, ProcessNumber::END).ok().flatten()?;
        Some(ProcessNumber::from_raw(byte - MAKERS))
    };
    let (begun, mut patience) = (Instant::now(), Patience::new());
    while !file.lock(LOCK_BYTE, LockMode::Exclusive, false)? {
        if let Some(limit) = limit.filter(|limit| begun.elapsed() >= *limit) {
            return Err(libtp_lock::Error::Timeout { name: lock_names::name(name), mode: Mode::X, limit }.into());
        }
        if patience.is_over(maker) {
            let unknown = || "a process that cannot be named".into();
            let maker = maker().map_or_else(unknown, ProcessNumber::describe);
            let file = file_name(name);
            return if directory.exists(&file)? { Ok(false) } else { Err(Error::BeingMade { file, maker }) };
        }
        std::thread::sleep(MOMENT);
    }
    Ok(true)
}

fn make_locked(
    managers: &Managers,
    txn: &TxnSession,
    directory: &dyn Directory,
    name: &str,
    file: &dyn File,
    making: &Making,
) -> Result<()> {
    let full_name = file_name(name);
    let new_name = format!("{full_name}{UNFINISHED}");
    if directory.exists(&full_name)? {
        // Another process made the file first. Our open file is that file, or a superfluous file with the unfinished
        // name.
        return match directory.remove(&new_name) {
            Ok(()) | Err(libtp_io::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    let id = FileId::new(managers.next_file_id(txn.session())?);
    failpoint("create: has a number");
    let header = FileHeader::new(environment_id(managers), making.page_bytes, making.method, &making.key_format);
    // A process that died here may have left a larger file.
    file.set_len(0)?;
    failpoint("create: emptied");
    file.write_at(&header.to_page(id), 0)?;
    failpoint("create: header written");
    file.allocate(0..PAGES_MIN * u64::from(making.page_bytes))?;
    failpoint("create: allocated, not synced");
    file.sync()?;
    failpoint("create: synced, not renamed");
    Ok(directory.rename(&new_name, &full_name)?)
}

/// Returns the environment's identifier from the region.
fn environment_id(managers: &Managers) -> [u8; 16] {
    let mut id = [0; 16];
    for (eight, word) in id.chunks_exact_mut(8).zip(&managers.region.header().environment) {
        eight.copy_from_slice(&word.get().to_le_bytes());
    }
    id
}

/// Makes the meta page and the root unless they exist.
fn format(managers: &Managers, txn: &TxnSession, file: FileId, method: Method) -> Result<()> {
    let pages = Pages::new(Change::new(managers, txn), file);
    let buffers = &managers.buffers;
    let session = txn.session();
    if !buffers.shared(session, pages.id(META_PAGE), Rank::META)?.lsn().is_none() {
        return Ok(());
    }
    pages.reserve_common(pages.page_bytes()?, 64)?;
    let (meta_pin, root_pin) = (pages.pin(META_PAGE)?, pages.pin(ROOT)?);
    let bucket_pin = match method {
        Method::Hash => Some(buffers.pin_new(session, pages.id(FIRST_BUCKET))?),
        _ => None,
    };
    let mut root = root_pin.exclusive(rank(0));
    let mut bucket = bucket_pin.as_ref().map(|pin| pin.exclusive(rank(0)));
    let mut meta = meta_pin.exclusive(Rank::META);
    if !meta.lsn().is_none() {
        return Ok(());
    }
    if !root.lsn().is_none() {
        // The first log record of a file makes the file's meta page. So if a later page has contents, the meta page
        // must have contents, too.
        return Err(pages.corrupt(META_PAGE, "it is empty, and the page after it is not"));
    }
    failpoint("create: root and meta latched");
    if method == Method::Hash {
        let Some(bucket) = &mut bucket else { return Ok(()) };
        let record =
            Create { page: pages.id(META_PAGE).raw().into(), header: HEADER_PAGE.into(), bucket: FIRST_BUCKET.into() };
        pages.change.apply_redo_only(CREATE, record.as_bytes(), &mut [&mut meta, &mut root, bucket]);
        failpoint("create: hash file formatted");
    } else if method == Method::Btree {
        let body = encode_format(file.raw(), ROOT, ROOT + 1);
        pages.change.apply_redo_only(FORMAT, &body, &mut [&mut meta, &mut root]);
        failpoint("create: tree formatted");
    } else {
        let body = encode_format(file.raw(), 0, ROOT);
        pages.change.apply_redo_only(FORMAT, &body, &mut [&mut meta]);
        failpoint("create: recno file formatted");
    }
    Ok(())
}
