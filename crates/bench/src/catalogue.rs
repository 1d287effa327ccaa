//! The engines by name.

use std::path::Path;
use std::str::FromStr;

use crate::engine::{Durability, Engine};
use crate::engine_in_memory::{InMemory, MapKind};
use crate::error::{Error, Result};

/// An engine that this crate can open by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// LMDB.
    Lmdb,
    /// Berkeley DB 5.3.
    Bdb,
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
    /// What a commit has to survive.
    pub durability: Durability,
    /// Another process of this benchmark has it open already.
    pub join: bool,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [EngineKind; 4] = [EngineKind::Lmdb, EngineKind::Bdb, EngineKind::HashMap, EngineKind::BTreeMap];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Lmdb => "lmdb",
            EngineKind::Bdb => "bdb",
            EngineKind::HashMap => "hashmap",
            EngineKind::BTreeMap => "btreemap",
        }
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

/// Opens an engine's bank, which is created if the directory is empty; it is loaded by
/// [`Engine::load`].
///
/// # Errors
/// `Settings` if the engine was left out of this build; otherwise what the engine says.
pub fn open_engine(kind: EngineKind, settings: &OpenSettings<'_>) -> Result<Box<dyn Engine>> {
    if settings.durability == Durability::Rio {
        return Err(Error::Settings("durability rio is libtp's alone".into()));
    }
    match kind {
        EngineKind::HashMap => Ok(Box::new(InMemory::new(MapKind::Hash))),
        EngineKind::BTreeMap => Ok(Box::new(InMemory::new(MapKind::Tree))),
        EngineKind::Lmdb | EngineKind::Bdb => open_peer(kind, settings),
    }
}

#[cfg(feature = "peers")]
fn open_peer(kind: EngineKind, settings: &OpenSettings<'_>) -> Result<Box<dyn Engine>> {
    let (directory, durability) = (settings.directory, settings.durability);
    if kind == EngineKind::Lmdb {
        return Ok(Box::new(crate::engine_lmdb::Lmdb::open(directory, durability)?));
    }
    if settings.join {
        return Ok(Box::new(crate::engine_bdb::Bdb::join(directory, durability)?));
    }
    Ok(Box::new(crate::engine_bdb::Bdb::open(directory, durability)?))
}

#[cfg(not(feature = "peers"))]
fn open_peer(kind: EngineKind, settings: &OpenSettings<'_>) -> Result<Box<dyn Engine>> {
    Err(Error::Settings(format!(
        "the engine {} for {} is not in this build: install libdb5.3-dev and build with --features peers",
        kind.name(),
        settings.directory.display()
    )))
}

/// A peer's version, and how it is set, for reports.
pub fn about(peer: &str) -> String {
    match peer.parse() {
        Ok(EngineKind::Lmdb) => "0.9 by heed 0.23; WRITEMAP and NOSYNC, or synced at each commit".to_owned(),
        Ok(EngineKind::Bdb) => {
            "5.3; transactions, B-trees of 4 KiB pages, DB_RMW; the log written and not synced, or synced".to_owned()
        }
        Ok(EngineKind::HashMap | EngineKind::BTreeMap) => "std's, in the process, behind a mutex".to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_found_by_name_and_unknown_names_list_the_known_ones() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.name().parse::<EngineKind>().unwrap(), kind);
        }
        let error = "oracle".parse::<EngineKind>().unwrap_err().to_string();
        assert!(error.contains("oracle") && error.contains("lmdb, bdb"), "{error}");
    }

    #[cfg(not(feature = "peers"))]
    #[test]
    fn a_peer_that_was_left_out_says_how_to_get_it() {
        let directory = std::env::temp_dir();
        let settings = OpenSettings { directory: &directory, durability: Durability::Sync, join: false };
        let refused = open_engine(EngineKind::Lmdb, &settings).err().unwrap().to_string();
        assert!(refused.contains("--features peers"), "{refused}");
    }
}
