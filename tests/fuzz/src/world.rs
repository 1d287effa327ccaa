//! A small environment in memory, whose pages the fuzzer replaces.
//!
//! The managers, the record manager and the log are real. A page that the fuzzer changes is in the page cache as if it
//! had been read from the disk with a right checksum. The cache checks only the checksum. Between two inputs every page
//! gets its original bytes again.

use std::cell::Cell;
use std::sync::Arc;

use libtp_buffer::{BufferManager, FileId, PageId, PageNo, PoolSettings, WriteAhead};
use libtp_io::{Directory, OpenMode};
use libtp_lock::{LockManager, Wait};
use libtp_log::{Control, ControlFile, LogManager, Lsn, CONTROL_NAME};
use libtp_process::{ProcessManager, Rank};
use libtp_record::{Access, Database};
use libtp_txn::{Durability, Managers, Parts, TxnSession};
use rio::Region;
use tempfile::TempDir;

/// The size of the page cache. It is so large that no page is ever replaced.
const CACHE_BYTES: u64 = 64 << 20;
/// Bytes of a log segment of the small environment.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// A database, and its pages as they were made.
pub struct Scene {
    /// The database's name.
    pub name: &'static str,
    /// The kind of its contents.
    pub kind: Kind,
    /// Its file.
    pub file: FileId,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Its pages, by number.
    pub pages: Vec<Vec<u8>>,
    /// The number of pages of the file after the last input, if it is larger than the length of `pages`.
    pub used: Cell<u32>,
}

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A B-tree.
    Tree,
    /// A hash file.
    Hash,
    /// Records by number.
    Numbers,
    /// Records of any length by number.
    List,
    /// The program's own pages.
    Pages,
}

/// The small environment and a session.
pub struct World {
    /// Its managers.
    pub managers: Arc<Managers>,
    /// Its session.
    pub txn: TxnSession,
    /// The directory of its files.
    pub directory: Arc<dyn Directory>,
    /// Its databases.
    pub scenes: Vec<Scene>,
    /// The number of inputs so far.
    pub(crate) uses: u32,
    /// The temporary directory. It is dropped last, because files are open in it.
    pub place: TempDir,
}

/// Makes a temporary directory, in memory if possible.
pub fn place() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for temporary files can be made")
}

/// Opens the control file of a directory.
pub fn control_file(directory: &Arc<dyn Directory>) -> ControlFile {
    let file = directory.open(CONTROL_NAME, OpenMode::Create).expect("the directory is ours");
    ControlFile::new(file, CONTROL_NAME)
}

/// Returns the settings of the small environment's log.
pub fn log_settings() -> libtp_log::Settings {
    libtp_log::Settings { segment_bytes_first: SEGMENT_BYTES, segment_bytes_max: SEGMENT_BYTES, ..Default::default() }
}

/// Returns the settings of a log with a short segment, because a restart searches the whole segment.
pub fn short_log_settings() -> libtp_log::Settings {
    libtp_log::Settings { segment_bytes_first: 64 << 10, segment_bytes_max: 64 << 10, ..Default::default() }
}

/// Makes managers over a directory whose log ends at `end`.
///
/// # Errors
/// The manager's error, as text.
pub fn managers(directory: &Arc<dyn Directory>, control: &Control, end: Lsn) -> Result<Arc<Managers>, String> {
    let log_settings = libtp_log::Settings {
        segment_bytes_first: control.segment_bytes_first,
        segment_bytes_max: control.segment_bytes_max,
        ..Default::default()
    };
    let region = Region::anonymous(1 << 34).expect("there is address space");
    let pool = PoolSettings { budget_bytes: CACHE_BYTES, ..PoolSettings::default() };
    let buffer_settings = libtp_buffer::Settings { pool, ..libtp_buffer::Settings::default() };
    ProcessManager::init(&region).expect("the region is new");
    LogManager::init(&region, &log_settings, directory, control, end).map_err(|error| error.to_string())?;
    LockManager::init(&region).expect("the region is new");
    BufferManager::init(&region, &buffer_settings).expect("the region is new");
    Managers::init(&region, end).expect("the region is new");
    let processes = ProcessManager::attach(&region, &Default::default()).expect("the region was just made");
    let log = LogManager::attach(&region, &log_settings, directory, control, &processes);
    let log = Arc::new(log.map_err(|error| error.to_string())?);
    let locks = LockManager::attach(&region, &processes, Default::default()).expect("the region was just made");
    let ahead: Arc<dyn WriteAhead> = log.clone();
    let buffers = BufferManager::attach(&region, &buffer_settings, Arc::clone(directory), ahead);
    let parts = Parts { region, processes, log, locks, buffers, control: control_file(directory) };
    let settings = libtp_txn::Settings { recovery_threads: Some(1), ..Default::default() };
    Ok(Managers::attach(parts, libtp_record::record_types(), settings))
}

impl World {
    /// Opens the database of a scene again, so that the handle has no cached knowledge of its pages.
    ///
    /// # Errors
    /// The error of opening.
    pub fn open(&self, scene: &Scene) -> libtp_record::Result<Database> {
        let opened = libtp_record::open(&self.managers, &self.txn, &*self.directory, scene.name, &Default::default())?;
        Ok(opened.expect("every scene has a file"))
    }

    /// Returns access to a database for the session.
    pub fn access<'a>(&'a self, database: &'a Database) -> Access<'a> {
        Access::new(&self.managers, &self.txn, database, Wait::No)
    }

    /// Runs `body` in a transaction, and commits it.
    pub fn run<R>(&self, database: &Database, body: impl FnOnce(&Access<'_>) -> R) -> R {
        self.txn.begin(&self.managers);
        let result = body(&self.access(database));
        self.txn.commit(&self.managers, Durability::Relaxed).expect("the log has room");
        result
    }

    /// Runs `body` in a transaction, and aborts it.
    pub fn run_in_vain<R>(&self, database: &Database, body: impl FnOnce(&Access<'_>) -> R) -> R {
        self.txn.begin(&self.managers);
        let result = body(&self.access(database));
        self.txn.abort(&self.managers).expect("the work can be undone");
        result
    }

    /// Returns the bytes of a page in the cache.
    pub fn page(&self, id: PageId) -> Vec<u8> {
        let session = self.txn.session();
        self.managers
            .buffers
            .shared(session, id, Rank::page(0))
            .expect("every page of a scene is in the cache")
            .to_vec()
    }

    /// Replaces the bytes of a page.
    pub fn put_page(&self, id: PageId, bytes: &[u8]) {
        let session = self.txn.session();
        session.ensure_undo(4 * bytes.len() as u64).expect("there is memory");
        let pin = self.managers.buffers.pin_new(session, id).expect("there is memory");
        let mut page = pin.exclusive(Rank::page(0));
        let mut section = session.section();
        page.page_mut(&mut section).fresh().copy_from_slice(bytes);
        section.close();
    }

    /// Gives every page of a scene its original bytes, and clears pages that the last input added.
    pub fn restore(&self, scene: &Scene) {
        let number = |index| PageNo::new(u32::try_from(index).unwrap_or(u32::MAX));
        for (index, bytes) in scene.pages.iter().enumerate().skip(1) {
            self.put_page(PageId::new(scene.file, number(index)), bytes);
        }
        let end = scene.used.replace(0);
        for index in scene.pages.len()..usize::try_from(end).unwrap_or(0) {
            self.put_page(PageId::new(scene.file, number(index)), &vec![0; scene.page_bytes]);
        }
    }
}
