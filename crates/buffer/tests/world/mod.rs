//! An environment without transactions: region, sessions, log and pages. [`World::set`] changes a page by the same
//! steps as every change of the library.
#![allow(dead_code, clippy::unwrap_used)] // each test uses a part of this module, and fails if an `unwrap` fails

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use libtp_buffer::{
    BufferManager, ExclusivePage, FileId, FileInfo, PageHeader, PageId, PageNo, PoolId, PoolSettings, Settings,
    WriteAhead, PAGE_HEADER_BYTES,
};
use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{Control, LogManager, Lsn, TxnId};
use libtp_process::{ProcessManager, Rank, Session};
use rio::Region;
use zerocopy::IntoBytes;

/// One process's handles. A second process is [`World::again`].
pub struct World {
    pub region: Region,
    pub processes: ProcessManager,
    pub log: Arc<LogManager>,
    pub buffers: Arc<BufferManager>,
    pub directory: Arc<dyn Directory>,
    settings: Settings,
}

pub const FILE: FileId = FileId::new(1);
pub const NAME: &str = "pages";
pub const PAGE_BYTES: u32 = 8192;
pub const LEAF: Rank = Rank::page(0);

pub fn page_id(page: u32) -> PageId {
    PageId::new(FILE, PageNo::new(page))
}

/// Returns settings for a pool of `count` frames.
pub fn frames(count: u64) -> Settings {
    let pool = PoolSettings { budget_bytes: count * u64::from(PAGE_BYTES), ..PoolSettings::default() };
    Settings { pool, ..Settings::default() }
}

/// A directory that is removed when the test ends.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> (Place, Arc<dyn Directory>) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("libtp-buffer-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(&path).unwrap());
        (Place(path), directory)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl World {
    /// Makes a new environment in `directory`, with the file [`FILE`] in it.
    pub fn new(directory: Arc<dyn Directory>, settings: &Settings) -> World {
        World::with_reserve(directory, settings, 1 << 32)
    }

    /// Like [`World::new`], but in a region that cannot grow beyond `reserve` bytes.
    pub fn with_reserve(directory: Arc<dyn Directory>, settings: &Settings, reserve: u64) -> World {
        let region = Region::anonymous(reserve).unwrap();
        ProcessManager::init(&region).unwrap();
        let log_settings = libtp_log::Settings::default();
        let control = Control::new([7; 16], &log_settings);
        LogManager::init(&region, &log_settings, &directory, &control, Lsn::FIRST).unwrap();
        BufferManager::init(&region, settings).unwrap();
        directory.open(&format!("{NAME}.tp"), OpenMode::Create).unwrap();
        let world = World::attach(region, directory, settings);
        let session = world.join();
        world.buffers.register_file(&session, &file_info(FILE, NAME, PAGE_BYTES)).unwrap();
        drop(session);
        world
    }

    fn attach(region: Region, directory: Arc<dyn Directory>, settings: &Settings) -> World {
        let processes = ProcessManager::attach(&region, &Default::default()).unwrap();
        let log_settings = libtp_log::Settings::default();
        let control = Control::new([7; 16], &log_settings);
        let log = LogManager::attach(&region, &log_settings, &directory, &control, &processes).unwrap();
        let log = Arc::new(log);
        let buffers = Arc::new(BufferManager::attach(&region, settings, directory.clone(), log.clone()));
        World { region, processes, log, buffers, directory, settings: *settings }
    }

    /// Attaches another process: the same region at another address.
    pub fn again(&self) -> World {
        World::attach(self.region.map_again().unwrap(), self.directory.clone(), &self.settings)
    }

    /// Attaches in the same process, with another log, which must be durable before pages are written.
    pub fn with_log(&self, log: Arc<dyn WriteAhead>) -> Arc<BufferManager> {
        Arc::new(BufferManager::attach(&self.region, &self.settings, self.directory.clone(), log))
    }

    /// Frees every frame of the file, so that its pages are read again. The pages were written before.
    pub fn drop_pages(&self, session: &Session) {
        self.buffers.forget_file(session, FILE);
        self.buffers.register_file(session, &file_info(FILE, NAME, PAGE_BYTES)).unwrap();
    }

    pub fn join(&self) -> Session {
        self.processes.join().unwrap()
    }

    /// Sets the page's value: reserves space in the log, marks the page dirty, appends a record, and changes the page.
    pub fn set(&self, session: &Session, id: PageId, value: u64) -> Result<Lsn, libtp_buffer::Error> {
        self.log.reserve(session, 256).unwrap();
        let page = self.buffers.exclusive(session, id, LEAF)?;
        Ok(self.set_latched(session, page, value))
    }

    /// Makes a new page without reading it, and sets its value.
    pub fn set_new(&self, session: &Session, id: PageId, value: u64) -> Result<Lsn, libtp_buffer::Error> {
        self.log.reserve(session, 256).unwrap();
        let page = self.buffers.pin_new(session, id)?.exclusive(LEAF);
        Ok(self.set_latched(session, page, value))
    }

    pub fn set_latched(&self, session: &Session, mut page: ExclusivePage<'_>, value: u64) -> Lsn {
        page.mark_dirty_with(|| self.log.tail());
        let id = page.id();
        let mut section = session.section();
        let lsn = self.log.log(session, 1024, TxnId::NONE, Lsn::NONE, &[id.raw().as_bytes(), value.as_bytes()]);
        let mut bytes = page.page_mut(&mut section);
        if bytes.lsn().is_none() {
            bytes.fresh()[..PAGE_HEADER_BYTES].copy_from_slice(PageHeader::new(id, 1, 0).as_bytes());
        }
        bytes.range(64..72).copy_from_slice(value.as_bytes());
        let last = bytes.bytes().len();
        bytes.range(last - 8..last).copy_from_slice(value.as_bytes());
        bytes.set_lsn(lsn);
        section.close();
        session.clear_append();
        lsn
    }

    /// Returns the page's value; zero if it was never set.
    pub fn get(&self, session: &Session, id: PageId) -> Result<u64, libtp_buffer::Error> {
        Ok(value_of(&self.buffers.shared(session, id, LEAF)?))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Every test ends with this check, unless it has failed already or has dead sessions.
        if !std::thread::panicking() && self.processes.sessions().is_empty() {
            self.buffers.check_at_rest();
        }
    }
}

pub fn file_info(id: FileId, name: &str, page_bytes: u32) -> FileInfo {
    FileInfo { id, name: name.into(), page_bytes, pool: PoolId::DEFAULT }
}

/// Returns the value of a page, which is stored at both ends.
pub fn value_of(page: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    assert_eq!(word(64), word(page.len() - 8), "the page has half a change");
    word(64)
}
