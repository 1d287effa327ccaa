//! The peers, one file each: the bank, plain records ([`crate::rows`]) and OO1 ([`crate::oo1`]) on an engine.

#[cfg(feature = "peers-all")]
pub mod bdb;
#[cfg(feature = "peers")]
pub mod fjall;
#[cfg(feature = "peers")]
pub mod lmdb;
#[cfg(feature = "peers-all")]
pub mod postgres;
#[cfg(feature = "peers-all")]
pub(crate) mod postgres_server;
#[cfg(feature = "peers")]
pub mod redb;
#[cfg(feature = "peers-all")]
pub mod rocksdb;
#[cfg(feature = "peers")]
pub mod sqlite;
