//! The papers' workloads, and the peers that are compared with libtp.
//!
//! TPC-B (LIBTP §5.1) uses every engine through the trait [`Engine`]. The workloads of recoverable memory are in
//! [`memory`], plain records in [`rows`], and databases of growing size in [`growth`]. Each peer has a file in
//! [`peers`], which opens the peer, loads it, and carries out a transfer. The driver, the measurement of latencies and
//! the audit are the same for all engines.
//!
//! SQLite, LMDB, redb and fjall need the feature `peers`, because they take long to compile, and two of them need a C
//! compiler. RocksDB, Berkeley DB and libpmemobj need the feature `peers-all`, because they need Debian packages.
//!
//! ```
//! use libtp_bench::{run_threads, Engine, InMemory, MapKind, RunSettings, Scale};
//! use std::time::Duration;
//!
//! let bank = InMemory::new(MapKind::Tree);
//! bank.load(&Scale::SMALL, &mut |_loaded| {})?;
//! let settings = RunSettings {
//!     scale: Scale::SMALL,
//!     warmup: Duration::ZERO,
//!     measured: Duration::from_millis(10),
//!     ..RunSettings::default()
//! };
//! let report = run_threads(&bank, &settings, &mut |_progress| {})?;
//! assert_eq!(report.audit, "ok");
//! # Ok::<(), libtp_bench::Error>(())
//! ```
#![cfg_attr(not(feature = "peers"), forbid(unsafe_code))]
#![cfg_attr(feature = "peers", deny(unsafe_code))]

pub mod bare_disk;
#[cfg(feature = "peers-all")]
mod c_path;
#[cfg(feature = "peers-all")]
mod c_tables;
pub mod catalogue;
mod cold;
pub mod engine_unprotected;
pub mod growth;
pub mod kinds;
mod median;
pub mod memory;
pub mod oo1;
pub mod paper;
mod peer_version;
pub mod peers;
pub mod processes;
pub mod processors;
mod random;
pub mod report;
pub mod rows;
pub mod run;
#[cfg(feature = "sql")]
pub mod sql;
pub mod window;

pub use bare_disk::BareDisk;
pub use catalogue::open_engine;
pub use kinds::{EngineKind, OpenSettings, Sharing};
pub use libtp_bank::{audit, engine, engine_in_memory, engine_libtp, error, tpcb};
pub use libtp_bank::{
    Audit, Durability, Engine, Error, Granularity, InMemory, MapKind, Outcome, Result, Scale, Session, Table, Tally,
    Transfer, Transfers,
};
pub use libtp_histogram::Histogram;
pub use median::median;
pub use memory::{run_memory, MemoryEngine, MemoryReport, MemorySettings, Workload, PMEMOBJ_VARIABLES};
pub use processes::{run_processes, serve_client};
pub use processors::line_transfer;
pub use random::Random;
pub use report::{ClientReport, ClientsAs, Report, RunSettings};
pub use run::{run_client, run_threads, Progress};
pub use window::Window;
