//! The buffer manager: a page cache in shared memory, which obeys write-ahead logging.
//!
//! Paper: LIBTP 3.2.2 and 3.1.3. Departures: a latch, not a pin, keeps a page in its frame while it is used
//! (docs/design/0001-pages-latched-not-pinned.md); the table and the pool grow automatically up to a budget; every
//! page has a checksum; pages are first written to a double-write file, so that the log needs no page images.
//!
//! The crate knows the common header of a page ([`PageHeader`]) and nothing else on the page. It knows nothing of
//! transactions.
//!
//! | file | contents |
//! |---|---|
//! | `page_id`, `page_header` | the name of a page; its first 32 bytes and its checksum |
//! | `frame`, `area`, `version`, `lookup`, `pool` | a page's place, its state and its count of changes; the frame of each page; the number of frames, and their order of replacement |
//! | `get`, `content`, `glance` | getting a page; the latched or pinned page; a page that is read without its latch |
//! | `load`, `evict` | a page is read from the disk; a frame is freed for another page |
//! | `write_back`, `double_write`, `restore` | the only place where pages are written; their images; mending torn pages |
//! | `background`, `prefetch` | frames are cleaned, and pages read, before a session needs them |
//! | `files`, `registry`, `fate` | database files by number; their names on the disk; drops and new names |
//! | `repair`, `repair_one` | the repair after the death of all sessions; of one session |
//!
//! # Example
//! ```no_run
//! # use libtp_buffer::{BufferManager, Error, FileId, PageId, PageNo};
//! # use libtp_process::{Rank, Session};
//! fn first_byte(buffers: &BufferManager, session: &Session) -> Result<u8, Error> {
//!     let id = PageId::new(FileId::new(1), PageNo::new(7));
//!     let page = buffers.shared(session, id, Rank::page(0))?;
//!     Ok(page[32])
//! }
//! ```
#![forbid(unsafe_code)]

mod area;
mod background;
mod batch;
mod certain_count;
mod cleaned_frames;
mod content;
mod double_write;
mod error;
mod evict;
mod fate;
mod files;
mod forget_file;
mod frame;
mod get;
mod glance;
mod hints;
mod kept_images;
mod load;
mod lookup;
mod page_header;
mod page_id;
mod pool;
mod prefetch;
mod registry;
mod repair;
mod repair_one;
mod restore;
mod roles;
mod settings;
mod version;
mod write_ahead;
mod write_back;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use libtp_io::Directory;
use libtp_process::{Session, SessionId};
use rio::{Extent, Held, Link, Region, RootSlot, Word};

use batch::Batch;
use double_write::DoubleWrite;
use files::{FileTable, Files};
use lookup::{PageTable, TableHeader};
use pool::{PoolTable, Pools};

pub use content::{ExclusivePage, PageMut, Pin, Repeated, SharedPage};
pub use double_write::DOUBLE_WRITE_NAME;
pub use error::{Error, Result, DAMAGED_FILE_REMEDY};
pub use fate::Fate;
pub use files::{environment_of, FileInfo};
pub use glance::Glance;
pub use page_header::{
    belongs, check, checksum, is_page_size, is_zero, page_lsn, seal, Damage, PageHeader, PAGE_BYTES_DEFAULT,
    PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_HEADER_BYTES,
};
pub use page_id::{FileId, PageId, PageNo};
pub use pool::PoolId;
pub use registry::{file_name, Entry, Registry, NAME_BYTES_MAX, REGISTRY_NAME};
pub use restore::{restore_torn, Home, Restored};
pub use settings::{Policy, PoolSettings, Settings};
pub use write_ahead::WriteAhead;

rio::shared! {
    /// The buffer manager's root in the region.
    pub(crate) struct BufferHeader {
        /// The page table.
        table: Link<TableHeader>,
        /// The pools.
        pools: Link<PoolTable>,
        /// The files.
        files: Link<FileTable>,
        /// The session that writes pages now; `SessionId::NONE` if no session does.
        writer: Word<SessionId>,
        /// Number of the last batch; zero before the first batch.
        sequence: Word<u64>,
        /// The batch whose pages may not all have been written to their homes; zero if there is no such batch.
        open_batch: Word<u64>,
        /// Odd while pages are being written to their homes.
        home_writes: Word<u64>,
        /// Non-zero once a sync failed. Written once, read without a latch.
        failed: Word<u64>,
        /// Batches written.
        batches: Word<u64>,
        /// Not zero while there may be files of kept images.
        kept_images: Word<u64>,
        /// 1 while the double-write file certainly has, on the disk, no batch that a restart would use.
        double_is_empty: Word<u64>,
        /// The number of pages that were written whole, without the double-write file.
        whole: Word<u64>,
        /// Zero, kept for later.
        spare: [Word<u64>; 4],
    } size 128
}

/// One process's handle to the buffer manager.
pub struct BufferManager {
    region: Region,
    header: Held<BufferHeader>,
    table: PageTable,
    pools: Pools,
    files: Files,
    log: Arc<dyn WriteAhead>,
    double: Mutex<Option<Arc<DoubleWrite>>>,
    spare_batches: Mutex<Vec<Batch>>,
    /// Whether this process repairs the region without other processes, and has not redone all noted records
    /// (`repair`).
    has_unrepeated: AtomicBool,
    settings: Settings,
}

impl BufferManager {
    /// The layout of the structures that the buffer manager shares between processes.
    pub const LAYOUT: u64 = rio::layout![
        BufferHeader,
        TableHeader,
        lookup::Bucket,
        frame::FrameSlot,
        PoolTable,
        pool::PoolSlot,
        pool::PoolPartSlot,
        FileTable,
        files::FileSlot,
    ];

    /// Returns the number of bytes that a new buffer manager needs before its first page.
    pub fn size() -> u64 {
        // The header, the three tables' headers, and their first chunks: buckets, pools. Files and frames come later.
        let fixed = size_of::<BufferHeader>() + size_of::<TableHeader>() + 2 * size_of::<rio::SlabHeader>();
        (fixed + 64 * size_of::<lookup::Bucket>() + 4 * size_of::<pool::PoolSlot>() + 256) as u64
    }

    /// Makes the buffer manager's part of a new region.
    ///
    /// # Errors
    /// [`Error::Full`] if the region cannot grow.
    pub fn init(region: &Region, settings: &Settings) -> Result<()> {
        let place = region.allocate::<BufferHeader>(1)?;
        let header = region.at(place);
        header.table.init(Some(PageTable::init(region)?));
        header.pools.init(Some(Pools::init(region, &settings.pool)?));
        header.files.init(Some(Files::init(region)?));
        region.set_root(RootSlot::Buffer, place);
        Ok(())
    }

    /// Returns the database files that are registered in a region, without attaching to it.
    pub fn files_in(region: &Region) -> Vec<FileInfo> {
        let place = region.root::<BufferHeader>(RootSlot::Buffer).and_then(|place| region.at(place).files.load());
        place.map_or(Vec::new(), |place| Files::listed_in(region, place))
    }

    /// Opens the buffer manager of a region. The database files are in `directory`. No page is written before `log` is
    /// durable beyond the page's LSN.
    ///
    /// # Panics
    /// If the region has no buffer manager. The caller has checked that the region is complete and of this build.
    pub fn attach(
        region: &Region,
        settings: &Settings,
        directory: Arc<dyn Directory>,
        log: Arc<dyn WriteAhead>,
    ) -> BufferManager {
        let place = region.root::<BufferHeader>(RootSlot::Buffer).expect("a complete region has a buffer manager");
        let header = region.hold(place);
        let made = "the buffer manager's parts were made before it";
        BufferManager {
            table: PageTable::attach(region, header.table.load().expect(made)),
            pools: Pools::attach(region, header.pools.load().expect(made)),
            files: Files::attach(region, header.files.load().expect(made), directory),
            region: region.clone(),
            header,
            log,
            double: Mutex::new(None),
            spare_batches: Mutex::new(Vec::new()),
            has_unrepeated: AtomicBool::new(false),
            settings: *settings,
        }
    }

    /// Checks the buffer manager's slabs for traces of a wild store, while other sessions work (PROTOCOLS F3).
    ///
    /// # Errors
    /// A clause that describes the damage.
    pub fn check_slabs(&self) -> std::result::Result<(), String> {
        self.table.check()?;
        self.pools.check()
    }

    /// Returns the page size of the largest pool part, or zero if there is no pool part.
    pub fn largest_page_bytes(&self) -> u32 {
        self.pools.parts().iter().map(|(_, part)| part.page_bytes()).max().unwrap_or(0)
    }

    /// Returns the places of the manager's structures, for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let mut all = vec![Extent::of("buffer header", &self.header)];
        all.extend(self.table.extents());
        all.extend(self.pools.extents());
        all
    }

    /// Makes a pool for databases that do not use the environment's own pool.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn add_pool(&self, session: &Session, settings: &PoolSettings) -> Result<PoolId> {
        self.pools.add(session, settings)
    }

    /// Registers a database file, which exists in the directory. Registering the same file again changes nothing.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] if the name, number or page size is not allowed or belongs to another file;
    /// [`Error::Full`].
    pub fn register_file(&self, session: &Session, info: &FileInfo) -> Result<()> {
        if !self.pools.has(info.pool) {
            let what = format!("its pool {} was not made", info.pool.0);
            return Err(Error::Unsuitable { name: info.name.clone(), what });
        }
        self.files.register(session, info)?;
        // The double-write file takes its room now: pages must be replaceable when the disk is full. If the disk is
        // full already or is read-only, the first write of a page reports it.
        if let Err(error) = self.double_write() {
            tracing::debug!(%error, "the double-write file could not be made ready");
        }
        Ok(())
    }

    /// Returns the registered file with the name `name`, without `.tp`.
    pub fn file_by_name(&self, name: &str) -> Option<FileInfo> {
        self.files.by_name(name)
    }

    /// Returns the file with the number `id` if it is registered, or is in the register of databases and not dropped.
    pub fn file_by_id(&self, id: FileId) -> Option<FileInfo> {
        let entered = || self.files.registry().entry(id).ok().flatten().filter(|entry| !entry.is_dropped);
        self.files.by_id(id).or_else(|| entered().map(|entry| FileInfo::of(&entry)))
    }

    /// Returns the registered file with the number `id`.
    pub fn registered(&self, id: FileId) -> Option<FileInfo> {
        self.files.by_id(id)
    }

    /// Registers a file that is in the register of databases.
    ///
    /// # Errors
    /// [`Error::UnknownFile`] if it is not in the register; [`Error::Dropped`]; [`Error::Full`].
    pub fn admit(&self, session: &Session, id: FileId) -> Result<()> {
        match self.files.open_entered(session, id) {
            Ok(_) | Err(Error::FileMissing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Checks that a database's file exists and has not been replaced.
    ///
    /// # Errors
    /// [`Error::FileMissing`], [`Error::UnknownFile`] or [`Error::Dropped`] if the check fails; [`Error::Full`],
    /// [`Error::Io`].
    pub fn check_place(&self, session: &Session, id: FileId) -> Result<()> {
        self.files.open_entered(session, id).map(|_| ())
    }

    /// Returns whether a database's file is registered, and the last restart skipped none of its log records because
    /// the file was missing. If so, pages of the database may be in memory.
    pub fn is_used(&self, id: FileId) -> bool {
        self.files.is_used(id)
    }

    /// Returns whether the database with the number `id` was dropped.
    ///
    /// # Errors
    /// The register cannot be read.
    pub fn is_dropped(&self, id: FileId) -> Result<bool> {
        Ok(self.files.registry().entry(id)?.is_some_and(|entry| entry.is_dropped))
    }

    /// Returns the register of databases.
    pub fn registry(&self) -> &Registry {
        self.files.registry()
    }

    /// Notes that a restart could not repeat the log record at `lsn`, because its file is missing. Until a new region
    /// is made, redo begins at `lsn` or before, and the file is not used.
    pub fn note_unrepeated(&self, session: &Session, id: FileId, lsn: libtp_log::Lsn) {
        if let Ok(Some(entry)) = self.files.registry().entry(id) {
            // Registering fails if memory is full. Then the file is not registered, but the log is still kept.
            let registered = self.files.register(session, &FileInfo::of(&entry));
            drop(registered);
        }
        self.files.note_unrepeated(id, lsn);
    }

    /// Forgets, at a restart, the records that could not be repeated and whose databases were dropped. No other session
    /// is attached.
    ///
    /// # Errors
    /// The register cannot be read.
    pub fn forgive_dropped(&self) -> Result<()> {
        self.files.forgive_dropped()
    }

    /// Returns every registered file.
    pub fn files(&self) -> Vec<FileInfo> {
        self.files.live().collect()
    }

    /// Returns the counts of each pool.
    pub fn stats(&self) -> Vec<PoolStats> {
        let mut pools: Vec<PoolStats> =
            (1..=self.pools.count()).map(|number| self.pool_stats(PoolId(number))).collect();
        for (id, part) in self.pools.parts() {
            let stats = &mut pools[(id.0 - 1) as usize];
            stats.frames += u64::from(part.frame_count());
            stats.misses += part.slot.misses.get();
            stats.reads += part.slot.reads.get();
            stats.writes += part.slot.writes.get();
            stats.evictions += part.slot.evictions.get();
        }
        pools
    }

    fn pool_stats(&self, pool: PoolId) -> PoolStats {
        let settings = self.pools.settings(pool);
        PoolStats { pool, settings, bytes: self.pools.bytes(pool), ..PoolStats::default() }
    }

    /// Returns the number of pages that were written whole, and not through the double-write file.
    pub fn whole_count(&self) -> u64 {
        self.header.whole.get()
    }

    /// Returns the number of written batches, and the number of buckets of the page table.
    pub fn batch_and_bucket_counts(&self) -> (u64, u32) {
        (self.header.batches.get(), self.table.bucket_count())
    }
}

/// Counts of a pool since the region was made. Hits are not counted: counting would cost as much as a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// The pool.
    pub pool: PoolId,
    /// The settings with which the pool was made.
    pub settings: PoolSettings,
    /// The number of frames of the pool.
    pub frames: u64,
    /// Bytes of its frames.
    pub bytes: u64,
    /// The number of requested pages that were not in memory.
    pub misses: u64,
    /// Pages read from the disk.
    pub reads: u64,
    /// Pages written to the disk.
    pub writes: u64,
    /// Pages that were replaced.
    pub evictions: u64,
}

impl Default for PoolStats {
    fn default() -> PoolStats {
        let settings = PoolSettings { budget_bytes: 0, policy: Policy::Clock };
        PoolStats { pool: PoolId::DEFAULT, settings, frames: 0, bytes: 0, misses: 0, reads: 0, writes: 0, evictions: 0 }
    }
}
