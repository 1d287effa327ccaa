//! One process's handles to the managers of an environment: the bundle that the layers above get.
//!
//! Three types refer to each other, and so are in one folder: the bundle has the table of record types, a type's undo
//! gets a [`Change`](record_table::Change), and a change has the bundle.

pub(crate) mod record_table;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtp_buffer::BufferManager;
use libtp_lock::LockManager;
use libtp_log::{ControlFile, LogManager};
use libtp_process::ProcessManager;
use rio::Region;

use self::record_table::RecordTable;
use crate::spares::Spares;
use crate::table::TxnTable;
use crate::Result;

/// Settings of the transaction manager.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The next checkpoint is due when this number of log bytes was written since the last checkpoint.
    pub checkpoint_log_bytes: u64,
    /// Whether the lock manager gets the number of log bytes of each transaction, to choose victims by it.
    pub count_log_bytes: bool,
    /// Threads that repeat history at a restart. If unset, the length of the log and the number of processors decide.
    pub recovery_threads: Option<u32>,
    /// Log bytes that are kept for snapshots. The ghosts and the replaced values of that part of the log are kept, too.
    pub snapshot_log_bytes: u64,
    /// How long that log is kept for one snapshot.
    pub snapshot_age: Duration,
    /// `snapshot_log_bytes` and `snapshot_age`, if the program or libtp.toml sets them. Every process then keeps that
    /// much log.
    pub asked_for_snapshots: (Option<u64>, Option<Duration>),
    /// Log bytes before the tail that are kept even if they are not needed: for a backup of the log since the last
    /// backup.
    pub keep_log_bytes: u64,
    /// Nothing is logged and nothing is locked: the paper's NOTP (LIBTP 5.1.1), for measurements.
    #[cfg(feature = "unprotected")]
    pub is_unprotected: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            checkpoint_log_bytes: 256 << 20,
            count_log_bytes: false,
            recovery_threads: None,
            snapshot_log_bytes: 4 << 30,
            snapshot_age: Duration::from_secs(3600),
            asked_for_snapshots: (None, None),
            keep_log_bytes: 0,
            #[cfg(feature = "unprotected")]
            is_unprotected: false,
        }
    }
}

/// One process's handles to all managers of an environment.
pub struct Managers {
    /// The shared memory.
    pub region: Region,
    /// Sessions and latches.
    pub processes: ProcessManager,
    /// The log.
    pub log: Arc<LogManager>,
    /// Locks.
    pub locks: LockManager,
    /// Pages.
    pub buffers: BufferManager,
    /// Every log-record type that this process knows.
    pub types: RecordTable,
    /// Settings.
    pub settings: Settings,
    pub(crate) txns: TxnTable,
    pub(crate) control: Mutex<ControlFile>,
    pub(crate) spares: Spares,
}

/// The managers below, to be bundled.
pub struct Parts {
    /// The shared memory.
    pub region: Region,
    /// Sessions and latches.
    pub processes: ProcessManager,
    /// The log.
    pub log: Arc<LogManager>,
    /// Locks.
    pub locks: LockManager,
    /// Pages.
    pub buffers: BufferManager,
    /// The control file.
    pub control: ControlFile,
}

impl Managers {
    /// Returns whether nothing is logged and nothing is locked: for measurements only, with feature `unprotected`.
    #[inline(always)]
    pub fn is_unprotected(&self) -> bool {
        #[cfg(feature = "unprotected")]
        return self.settings.is_unprotected;
        #[cfg(not(feature = "unprotected"))]
        false
    }

    /// Makes sure that this process can repair dead sessions when memory is full. Called when the process has attached.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn keep_spares(&self) -> Result<()> {
        self.spares.keep(&self.processes, self.buffers.largest_page_bytes())
    }

    /// Replaces spares that have died, and prepares all spares for larger pages. Does nothing if no spares are kept.
    ///
    /// # Errors
    /// As [`Managers::keep_spares`].
    pub fn refill_spares(&self) -> Result<()> {
        self.spares.refill(&self.processes, self.buffers.largest_page_bytes())
    }

    /// Ends the spares, before this process releases its attachment lock: after that, other processes would consider
    /// them dead.
    pub fn drop_spares(&self) {
        self.spares.drop_all();
    }
}
