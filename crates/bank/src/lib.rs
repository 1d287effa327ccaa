//! TPC-B's bank (LIBTP 5.1): its transfers, its audit, and the engines that every build has.
//!
//! `tp demo` and the benchmarks run the same bank. An [`Engine`] stores the bank's records. [`Libtp`] stores them in
//! libtp, and [`InMemory`] in maps that are neither logged nor written to disk. The peers' engines are in
//! `crates/bench`.
#![forbid(unsafe_code)]

pub mod audit;
pub mod clock;
pub mod engine;
pub mod engine_in_memory;
pub mod engine_libtp;
pub mod error;
pub mod history;
pub mod home;
pub mod tpcb;

pub use audit::{Audit, Tally};
pub use engine::{Durability, Engine, Granularity, Outcome, Session};
pub use engine_in_memory::{InMemory, MapKind};
pub use engine_libtp::Libtp;
pub use error::{Error, Result};
pub use home::BankDirectory;
pub use tpcb::{Scale, Table, Transfer, Transfers};
