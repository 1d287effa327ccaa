//! The peers. The file of a peer runs the bank, plain records ([`crate::rows`]) and OO1 ([`crate::oo1`]) on that peer.

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
