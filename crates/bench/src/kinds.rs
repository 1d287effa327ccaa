//! The names of the engines that have a bank, and the settings for opening an engine.

use std::path::Path;
use std::str::FromStr;

use crate::engine::Durability;
use crate::error::{Error, Result};

/// The name of libpmemobj, the peer of recoverable memory. It has no bank.
pub(crate) const PMEMOBJ: &str = "pmemobj";

/// An engine that this crate opens, other than libtp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// SQLite.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
    /// fjall.
    Fjall,
    /// RocksDB.
    RocksDb,
    /// Berkeley DB 5.3.
    Bdb,
    /// PostgreSQL, if it is installed; the benchmark starts a server.
    Postgres,
    /// The standard library's `HashMap` behind a mutex.
    HashMap,
    /// The standard library's `BTreeMap` behind a mutex.
    BTreeMap,
}

/// The settings for opening an engine.
#[derive(Debug, Clone, Copy)]
pub struct OpenSettings<'a> {
    /// The bank's directory, which exists. The engines in memory do not use it.
    pub directory: &'a Path,
    /// The events that a commit must survive.
    pub durability: Durability,
    /// The other processes that use the bank.
    pub sharing: Sharing,
}

/// The other processes that use an engine's bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No other process.
    Alone,
    /// Other processes of this benchmark will open the bank after this process.
    First,
    /// Another process of this benchmark has the bank open already.
    Joined,
    /// No other process, and this process will be killed. Until then the engine keeps its whole log, so that the next
    /// opening of the bank has a long log to read.
    Doomed,
}

impl EngineKind {
    /// All engines.
    pub const ALL: [EngineKind; 9] = [
        EngineKind::Sqlite,
        EngineKind::Lmdb,
        EngineKind::Redb,
        EngineKind::Fjall,
        EngineKind::RocksDb,
        EngineKind::Bdb,
        EngineKind::Postgres,
        EngineKind::HashMap,
        EngineKind::BTreeMap,
    ];

    /// The engines of feature `peers`, which need only a C compiler.
    pub const LIGHT: [EngineKind; 4] = [EngineKind::Sqlite, EngineKind::Lmdb, EngineKind::Redb, EngineKind::Fjall];

    /// The engines that feature `peers-all` adds; they need Debian packages.
    pub const HEAVY: [EngineKind; 2] = [EngineKind::RocksDb, EngineKind::Bdb];

    /// Returns the name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Sqlite => "sqlite",
            EngineKind::Lmdb => "lmdb",
            EngineKind::Redb => "redb",
            EngineKind::Fjall => "fjall",
            EngineKind::RocksDb => "rocksdb",
            EngineKind::Bdb => "bdb",
            EngineKind::Postgres => "postgresql",
            EngineKind::HashMap => "hashmap",
            EngineKind::BTreeMap => "btreemap",
        }
    }

    /// Returns whether this build has the engine.
    pub fn is_built_in(self) -> bool {
        if EngineKind::LIGHT.contains(&self) {
            return cfg!(feature = "peers");
        }
        matches!(self, EngineKind::HashMap | EngineKind::BTreeMap) || cfg!(feature = "peers-all")
    }

    /// Checks that this build has the engine.
    ///
    /// # Errors
    /// `Settings` if this build does not have the engine; the message names the feature that adds it.
    pub fn check_built_in(self) -> Result<()> {
        if self.is_built_in() {
            return Ok(());
        }
        let how = match EngineKind::LIGHT.contains(&self) {
            true => "install a C compiler and build with --features peers",
            false => "install librocksdb-dev, libdb5.3-dev and libpmemobj-dev and build with --features peers-all",
        };
        Err(Error::Settings(format!("the engine {} is not in this build: {how}", self.name())))
    }
}

impl FromStr for EngineKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<EngineKind> {
        let known = EngineKind::ALL.map(EngineKind::name).join(", ");
        let unknown = || Error::Settings(format!("there is no engine {name:?}; there are {known}"));
        EngineKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_found_by_name_and_the_error_for_an_unknown_name_lists_the_engines() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.name().parse::<EngineKind>().unwrap(), kind);
        }
        let error = "oracle".parse::<EngineKind>().unwrap_err().to_string();
        assert!(error.contains("oracle") && error.contains("sqlite, lmdb"), "{error}");
    }
}
