//! The engines that have a bank, by name, and the settings for opening one.

use std::path::Path;
use std::str::FromStr;

use crate::engine::Durability;
use crate::error::{Error, Result};

/// The peer of recoverable memory, which has no bank.
pub(crate) const PMEMOBJ: &str = "pmemobj";

/// An engine that this crate can open by itself.
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
    /// PostgreSQL, in its own server, if it is installed.
    Postgres,
    /// std's `HashMap` behind a mutex.
    HashMap,
    /// std's `BTreeMap` behind a mutex.
    BTreeMap,
}

/// How to open an engine.
#[derive(Debug, Clone, Copy)]
pub struct OpenSettings<'a> {
    /// The bank's directory; it exists. Not used by the engines in memory.
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
    /// Other processes of this benchmark will join, after this one.
    First,
    /// Another process of this benchmark has the bank open already.
    Joined,
    /// This process is alone, and will be killed. Its log is kept whole until then, for the next opening of the bank.
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

    /// The engines that feature `peers-all` adds, with packages of Debian.
    pub const HEAVY: [EngineKind; 2] = [EngineKind::RocksDb, EngineKind::Bdb];

    /// The name in settings and reports.
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
    /// `Settings` if not, with the feature that adds it.
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
    fn engines_are_found_by_name_and_an_unknown_name_gets_a_list() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.name().parse::<EngineKind>().unwrap(), kind);
        }
        let error = "oracle".parse::<EngineKind>().unwrap_err().to_string();
        assert!(error.contains("oracle") && error.contains("sqlite, lmdb"), "{error}");
    }
}
