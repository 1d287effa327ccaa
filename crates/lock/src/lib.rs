//! The lock manager: locks on objects, held until the end of a transaction.
//!
//! Paper: LIBTP sections 3.2.3 and 4.1. Departures: six modes instead of two; names are opaque, so databases, pages,
//! records and gaps are locked alike; the table grows by itself; a waiter searches for a deadlock after a long wait.
//!
//! The lock manager knows neither pages nor transactions: an object is sixteen opaque bytes, and a *locker* holds
//! locks.
//!
//! The whole table is in the region and changes in sections, one for each call and object. So after the death of a
//! process the table is whole once the open section is rolled back.
//!
//! # Example
//! ```
//! use libtp_lock::{LockManager, LockName, Mode, Settings, Wait};
//! # use libtp_process::ProcessManager;
//! # let region = rio::Region::anonymous(1 << 24)?;
//! # ProcessManager::init(&region)?;
//! # let processes = ProcessManager::attach(&region, &libtp_process::Settings::default())?;
//! LockManager::init(&region)?;
//! let locks = LockManager::attach(&region, &processes, Settings::default())?;
//! let session = processes.join()?;
//! let (reader, writer) = (locks.new_locker(&session)?, locks.new_locker(&session)?);
//!
//! let record = LockName { space: 1, kind: 3, hash: 42 };
//! locks.lock(&session, reader, record, Mode::S, Wait::Forever)?;
//! assert!(locks.try_lock(&session, writer, record, Mode::X).is_err());
//! locks.unlock_all(&session, reader);
//! locks.try_lock(&session, writer, record, Mode::X)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod acquire;
mod alone;
mod backoff;
mod change;
mod check;
mod convert;
mod detector;
mod dump;
mod error;
mod inflate;
mod kept;
mod lane;
mod lanes;
mod locker;
mod mode;
mod name;
mod open_here;
mod overtake;
mod own_thread;
mod queue;
mod release;
mod repair;
mod repair_one;
mod request;
mod roles;
#[cfg(test)]
mod scene;
mod settings;
mod slots;
mod stack;
mod stuck_check;
mod table;
mod thin;
mod wait;
mod waits;
mod waits_for;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;

use rio::{bits, failpoint, Extent, HeldSlice, Region, RootSlot, Slab};

use libtp_process::{ProcessManager, Session};

use lane::{Lane, LaneWait, LANES};
use table::{Bucket, LockHeader, Table, FIRST_BUCKETS};
use thin::ThinWords;

pub use check::{Broken, Census};
pub use detector::Deadlock;
pub use dump::{LockInfo, Stats};
pub use error::{Error, Result};
pub use kept::KeptLock;
pub use mode::Mode;
pub use name::LockName;
pub use open_here::{OpenHere, OpenIn};
pub use repair::Repaired;
pub use settings::{Detect, Settings, Victim, Wait};
pub use wait::WAITS_FOR_LOCK;
pub use waits::WaitInfo;
pub use waits_for::Edge;

/// The name of a locker: the number of its slot, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockerId(pub u32);
bits!(LockerId: u32);

impl std::fmt::Display for LockerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "locker {}", self.0)
    }
}

/// One process's handle to the lock manager.
pub struct LockManager {
    table: Table,
    /// Lanes for transactions under contention, one for each processor.
    lanes: HeldSlice<Lane>,
    lane_count: u32,
    settings: Settings,
    processes: ProcessManager,
    keepers: OnceLock<Box<Keeps>>,
    /// Distinguishes the lock table from every other lock table that this process has, or had. In an environment, all
    /// handles that this process has of one table have the same number; without an environment, each handle has its
    /// own.
    number: usize,
}

/// The next number for a handle of a lock table without an environment. No handle has number zero.
static HANDLES: AtomicUsize = AtomicUsize::new(1);

/// Returns the number of the lock table in a region. A region has only one lock table.
fn number_of(region: &Region) -> usize {
    let header = region.header();
    let of_environment = [&header.environment[0], &header.environment[1], &header.incarnation].map(|word| word.load());
    if of_environment == [0; 3] {
        // Relaxed: the number publishes nothing else.
        return HANDLES.fetch_add(1, Ordering::Relaxed);
    }
    // The process id is part of the number: a child of a fork inherits its parent's notes of open transactions
    // (`open_here.rs`), and must not take them for its own transactions.
    let process = u64::from(std::process::id());
    let mixed = of_environment
        .iter()
        .fold(process, |mixed, &word| (mixed ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31));
    usize::try_from(mixed | 1 << 63).unwrap_or(usize::MAX)
}

/// Returns whether an existing session is about to take the locker over.
type Keeps = dyn Fn(LockerId) -> bool + Send + Sync;

impl LockManager {
    /// The layout of everything that the lock manager shares.
    pub const LAYOUT: u64 = rio::layout![LockHeader, Bucket, Lane, ThinWords, request::Request, locker::LockerSlot];

    /// Returns the bytes that a new lock table takes. The table grows with the number of locks held at once.
    pub fn size() -> u64 {
        let slots = u64::from(slots::FIRST_REQUESTS) * size_of::<request::Request>() as u64
            + u64::from(slots::FIRST_LOCKERS) * size_of::<locker::LockerSlot>() as u64
            + u64::from(FIRST_BUCKETS) * size_of::<Bucket>() as u64
            + u64::from(LANES) * size_of::<Lane>() as u64
            + size_of::<ThinWords>() as u64;
        slots + (size_of::<LockHeader>() + 3 * size_of::<rio::SlabHeader>()) as u64
    }

    /// Makes the lock manager's part of a new region.
    ///
    /// # Errors
    /// `Full` if the region cannot grow.
    pub fn init(region: &Region) -> Result<()> {
        let header = region.allocate::<LockHeader>(1).map_err(Error::Full)?;
        let lanes = region.allocate::<Lane>(u64::from(LANES)).map_err(Error::Full)?;
        let thin = region.allocate::<ThinWords>(1).map_err(Error::Full)?;
        let buckets = Slab::<Bucket>::init(region, FIRST_BUCKETS).map_err(Error::Full)?;
        let requests = Slab::<request::Request>::init(region, slots::FIRST_REQUESTS).map_err(Error::Full)?;
        let lockers = Slab::<locker::LockerSlot>::init(region, slots::FIRST_LOCKERS).map_err(Error::Full)?;
        Table::init_buckets(&Slab::attach(region, buckets)).map_err(Error::Full)?;
        let words = region.at(header);
        words.buckets.init(Some(buckets));
        words.requests.init(Some(requests));
        words.lockers.init(Some(lockers));
        words.lanes.init(Some(lanes));
        words.words.init(Some(thin));
        words.bucket_count.init(FIRST_BUCKETS);
        region.set_root(RootSlot::Lock, header);
        Ok(())
    }

    /// Opens the lock manager of a region.
    ///
    /// # Errors
    /// `NotInitialised` if the region has no lock manager.
    pub fn attach(region: &Region, processes: &ProcessManager, settings: Settings) -> Result<LockManager> {
        let none = || Error::NotInitialised { path: region.path().to_path_buf() };
        let header = region.root::<LockHeader>(RootSlot::Lock).ok_or_else(none)?;
        let header = region.hold(header);
        let buckets = header.buckets.load().ok_or_else(none)?;
        let requests = header.requests.load().ok_or_else(none)?;
        let lockers = header.lockers.load().ok_or_else(none)?;
        let lanes = region.hold_slice(header.lanes.load().ok_or_else(none)?, LANES as usize);
        let processors =
            || std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(LANES));
        let lane_count = settings.lanes.unwrap_or_else(processors).clamp(1, LANES);
        let table = Table {
            region: region.clone(),
            buckets: Slab::attach(region, buckets),
            requests: Slab::attach(region, requests),
            lockers: Slab::attach(region, lockers),
            words: region.hold(header.words.load().ok_or_else(none)?),
            postponed_splits: AtomicU32::new(0),
            header,
        };
        let keepers = OnceLock::new();
        let number = number_of(region);
        Ok(LockManager { table, lanes, lane_count, settings, processes: processes.clone(), keepers, number })
    }

    /// Sets the function that recognises a locker which was given to another session and does not have that session's
    /// name yet. The function is set once. While it is not set, no locker counts as given to another session.
    pub fn set_keeper(&self, keeps: impl Fn(LockerId) -> bool + Send + Sync + 'static) {
        // A second call is from another handle of the same environment, and its function does the same.
        let _ = self.keepers.set(Box::new(keeps));
    }

    /// Checks the lock manager's slabs for traces of a wild store, while other sessions work (PROTOCOLS F3).
    ///
    /// # Errors
    /// The damage, as half a sentence.
    pub fn check_slabs(&self) -> std::result::Result<(), String> {
        let table = &self.table;
        table.buckets.check()?;
        table.requests.check()?;
        table.lockers.check()
    }

    /// Returns the places of the lock table's structures: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let table = &self.table;
        let mut all = vec![Extent::of("lock header", &table.header), Extent::of("lock words", &table.words)];
        all.extend(Extent::of_slab("lock slabs", "lock buckets", &table.buckets));
        all.extend(Extent::of_slab("lock slabs", "lock requests", &table.requests));
        all.extend(Extent::of_slab("lock slabs", "lockers", &table.lockers));
        all
    }

    /// Makes a locker, which holds nothing. One session at a time uses a locker.
    ///
    /// # Errors
    /// `Full` if the region cannot grow.
    pub fn new_locker(&self, session: &Session) -> Result<LockerId> {
        let number = self.table.take_locker(session)?;
        let slot = self.table.locker(number);
        slot.birth.init(0);
        slot.log_bytes.init(0);
        slot.lanes_until.init(0);
        slot.wants_lane.publish(LaneWait::NONE);
        Ok(LockerId(number))
    }

    /// Ends a locker, and releases the locks that it still holds.
    pub fn free_locker(&self, session: &Session, locker: LockerId) {
        self.unlock_all(session, locker);
        failpoint("lock: locker ends, intent locks kept");
        self.unkeep_all(session, locker);
        failpoint("lock: locker holds nothing");
        self.table.free_locker(session, locker.0);
    }

    /// Sets when the locker's transaction began (a later transaction has a larger number), and that it has logged
    /// nothing. [`Victim::Youngest`] uses the number.
    #[inline]
    pub fn set_birth(&self, locker: LockerId, birth: u64) {
        let slot = self.table.locker(locker.0);
        slot.birth.init(birth);
        slot.log_bytes.init(0);
    }

    /// Sets how many bytes the locker's transaction has logged. [`Victim::FewestLogBytes`] uses the number.
    #[inline]
    pub fn set_log_bytes(&self, locker: LockerId, bytes: u64) {
        self.table.locker(locker.0).log_bytes.init(bytes);
    }

    /// Returns how many locks the locker holds: the number that decides whether to escalate.
    #[inline]
    pub fn count(&self, locker: LockerId) -> u32 {
        let slot = self.table.locker(locker.0);
        slot.count.get() + slot.active_count()
    }

    /// Returns whether the locker holds at least `many` locks. Skips the exact count for a locker that holds few.
    #[inline]
    pub fn holds_at_least(&self, locker: LockerId, many: u32) -> bool {
        let others = self.table.locker(locker.0).count.get();
        others.saturating_add(u64::BITS) >= many && self.count(locker) >= many
    }
}
