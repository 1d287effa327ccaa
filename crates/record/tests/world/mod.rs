//! A whole environment on real managers, in a directory that is removed when the test ends.
#![allow(dead_code, clippy::unwrap_used)] // each test, and an example, use a part

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use libtp_buffer::{BufferManager, PoolSettings, WriteAhead};
use libtp_io::{Directory, File, OpenMode, PosixDirectory};
use libtp_lock::{LockManager, Wait};
use libtp_log::{Control, ControlFile, LogManager, Lsn, CONTROL_NAME};
use libtp_process::ProcessManager;
use libtp_record::{Access, Database, Granularity, Method, OpenSettings};
use libtp_txn::{Durability, Managers, Parts, TxnSession};
use rio::Region;

/// A directory that is removed when the test ends.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Place {
        #[cfg(feature = "planted")]
        rio::planted::plant(
            ["LIBTP_TEST_PLANTED", "LIBTP_PLANTED"].iter().find_map(|it| std::env::var(it).ok()).as_deref(),
        );
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = std::path::Path::new("/dev/shm");
        let base = if base.is_dir() { base.to_path_buf() } else { std::env::temp_dir() };
        let path = base.join(format!("libtp-record-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
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

/// Bytes of an environment's region, which takes memory only as it is used.
const REGION_BYTES: u64 = 1 << 36;

/// The handles of one process.
pub struct World {
    pub managers: Arc<Managers>,
    pub directory: Arc<dyn Directory>,
    pub budget_bytes: u64,
}

fn control_file(directory: &Arc<dyn Directory>) -> ControlFile {
    let file: Arc<dyn File> = directory.open(CONTROL_NAME, OpenMode::Create).unwrap();
    ControlFile::new(file, CONTROL_NAME.to_string())
}

impl World {
    /// Makes a new environment.
    pub fn new(place: &Place, budget_bytes: u64) -> World {
        World::with_settings(place, budget_bytes, Default::default())
    }

    /// Makes a new environment with these settings of the transaction manager.
    pub fn with_settings(place: &Place, budget_bytes: u64, settings: libtp_txn::Settings) -> World {
        World::within(place, budget_bytes, REGION_BYTES, settings)
    }

    /// Makes a new environment with a limit of its region's bytes.
    pub fn within(place: &Place, budget_bytes: u64, region_bytes: u64, settings: libtp_txn::Settings) -> World {
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(&place.0).unwrap());
        let control = Control::new([0; 16], &libtp_log::Settings::default());
        control_file(&directory).create(&control).unwrap();
        World::start(directory, &control, Lsn::FIRST, (budget_bytes, region_bytes), settings)
    }

    /// Restarts after all processes died and the region was lost: replays the log.
    pub fn restart(place: &Place, budget_bytes: u64) -> (World, libtp_txn::Recovered) {
        World::restart_on(place, budget_bytes, None)
    }

    /// As `restart`, on `threads` threads.
    pub fn restart_on(place: &Place, budget_bytes: u64, threads: Option<u32>) -> (World, libtp_txn::Recovered) {
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(&place.0).unwrap());
        let file = control_file(&directory);
        let settings = libtp_log::Settings::default();
        let restarted = libtp_log::restart(&directory, &file, &settings).unwrap();
        let control = restarted.control;
        let registry = libtp_buffer::Registry::new(Arc::clone(&directory), [0; 16]);
        libtp_record::make_registry(&registry, &*directory, &[0; 16], control.next_file_id).unwrap();
        libtp_record::restore_torn(&registry, &*directory, &[0; 16]).unwrap();
        let txn_settings = libtp_txn::Settings { recovery_threads: threads, ..Default::default() };
        let world = World::start(directory, &control, restarted.end.end, (budget_bytes, REGION_BYTES), txn_settings);
        let txn = world.join();
        let checkpoint = Some(control.checkpoint).filter(|&lsn| lsn != Lsn::NONE);
        let recovered = libtp_txn::restart(&world.managers, &txn, checkpoint, control.oldest, &mut |_, _, _| {});
        libtp_record::after_restart(&world.managers, &txn).unwrap();
        world.managers.leave(txn);
        (world, recovered.unwrap())
    }

    fn start(
        directory: Arc<dyn Directory>,
        control: &Control,
        end: Lsn,
        (budget_bytes, region_bytes): (u64, u64),
        txn_settings: libtp_txn::Settings,
    ) -> World {
        let region = Region::anonymous(region_bytes).unwrap();
        let log_settings = libtp_log::Settings::default();
        ProcessManager::init(&region).unwrap();
        LogManager::init(&region, &log_settings, &directory, control, end).unwrap();
        LockManager::init(&region).unwrap();
        let pool = PoolSettings { budget_bytes, ..PoolSettings::default() };
        let buffer_settings = libtp_buffer::Settings { pool, ..libtp_buffer::Settings::default() };
        BufferManager::init(&region, &buffer_settings).unwrap();
        Managers::init(&region, end).unwrap();
        World::attach(region, directory, control, budget_bytes, txn_settings)
    }

    fn attach(
        region: Region,
        directory: Arc<dyn Directory>,
        control: &Control,
        budget_bytes: u64,
        txn_settings: libtp_txn::Settings,
    ) -> World {
        let processes = ProcessManager::attach(&region, &Default::default()).unwrap();
        let log_settings = libtp_log::Settings::default();
        let log = Arc::new(LogManager::attach(&region, &log_settings, &directory, control, &processes).unwrap());
        let locks = LockManager::attach(&region, &processes, Default::default()).unwrap();
        let pool = PoolSettings { budget_bytes, ..PoolSettings::default() };
        let buffer_settings = libtp_buffer::Settings { pool, ..libtp_buffer::Settings::default() };
        let ahead: Arc<dyn WriteAhead> = log.clone();
        let buffers = BufferManager::attach(&region, &buffer_settings, directory.clone(), ahead);
        // With barriers, inner pages are read without their latches.
        processes.join_barriers();
        let parts = Parts { region, processes, log, locks, buffers, control: control_file(&directory) };
        let managers = Managers::attach(parts, libtp_record::record_types(), txn_settings);
        World { managers, directory, budget_bytes }
    }

    /// Attaches another process: the same region at another address.
    pub fn again(&self) -> World {
        let control = control_file(&self.directory).read().unwrap();
        let region = self.managers.region.map_again().unwrap();
        World::attach(region, self.directory.clone(), &control, self.budget_bytes, self.managers.settings)
    }

    pub fn join(&self) -> TxnSession {
        self.managers.join().unwrap()
    }

    pub fn database(&self, txn: &TxnSession, name: &str, method: Method, page_bytes: u32) -> Database {
        let settings = OpenSettings { create: Some(method), page_bytes: Some(page_bytes), ..OpenSettings::default() };
        libtp_record::open(&self.managers, txn, &*self.directory, name, &settings).unwrap().unwrap()
    }

    pub fn paged(&self, txn: &TxnSession, name: &str, method: Method, page_bytes: u32) -> Database {
        self.database(txn, name, method, page_bytes).with_granularity(Granularity::Page)
    }

    pub fn access<'a>(&'a self, txn: &'a TxnSession, database: &'a Database) -> Access<'a> {
        Access::new(&self.managers, txn, database, Wait::Forever)
    }

    /// Runs `body` in a transaction and commits it.
    pub fn run<R>(&self, txn: &TxnSession, database: &Database, body: impl FnOnce(&Access<'_>) -> R) -> R {
        txn.begin(&self.managers);
        let result = body(&self.access(txn, database));
        txn.commit(&self.managers, Durability::Relaxed).unwrap();
        result
    }

    /// Asserts that the database has no fault.
    pub fn assert_sound(&self, txn: &TxnSession, database: &Database) -> libtp_record::Verified {
        let verified = libtp_record::verify(&self.access(txn, database)).unwrap();
        assert!(verified.findings.is_empty(), "{:#?}", verified.findings);
        verified
    }
}

/// A small generator of pseudo-random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
