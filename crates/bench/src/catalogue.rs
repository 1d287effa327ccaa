//! The engines by name.

use std::path::Path;
use std::str::FromStr;

use crate::engine::{Durability, Engine};
use crate::engine_in_memory::{InMemory, MapKind};
use crate::error::{Error, Result};
use crate::memory::PMEMOBJ_VARIABLES;
use crate::peer_version::{peer_version, pmemobj_version};

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
    /// No other process, and this one will be killed: its log is kept whole until then, for the next opening of the
    /// bank.
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

/// Opens an engine's bank, and creates it if the directory is empty; [`Engine::load`] loads it.
///
/// # Errors
/// `Settings` if the engine was left out of this build, or cannot be used by several processes; otherwise the engine's
/// error.
pub fn open_engine(kind: EngineKind, settings: &OpenSettings<'_>) -> Result<Box<dyn Engine>> {
    let OpenSettings { durability, sharing, .. } = *settings;
    if durability == Durability::Rio {
        return Err(Error::Settings("durability rio is libtp's alone".into()));
    }
    kind.check_built_in()?;
    if matches!(sharing, Sharing::First | Sharing::Joined) {
        check_shared(kind)?;
    }
    match kind {
        EngineKind::HashMap => Ok(Box::new(InMemory::new(MapKind::Hash))),
        EngineKind::BTreeMap => Ok(Box::new(InMemory::new(MapKind::Tree))),
        #[cfg(feature = "peers")]
        EngineKind::Sqlite => {
            Ok(Box::new(crate::engine_sqlite::Sqlite::open(settings.directory, durability, sharing)?))
        }
        #[cfg(feature = "peers")]
        EngineKind::Lmdb => Ok(Box::new(crate::engine_lmdb::Lmdb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers")]
        EngineKind::Redb => Ok(Box::new(crate::engine_redb::Redb::open(settings.directory, durability, sharing)?)),
        #[cfg(feature = "peers")]
        EngineKind::Fjall => Ok(Box::new(crate::engine_fjall::Fjall::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::RocksDb => Ok(Box::new(crate::engine_rocksdb::RocksDb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::Bdb if sharing == Sharing::Joined => {
            Ok(Box::new(crate::engine_bdb::Bdb::join(settings.directory, durability)?))
        }
        #[cfg(feature = "peers-all")]
        EngineKind::Bdb => Ok(Box::new(crate::engine_bdb::Bdb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::Postgres => Ok(Box::new(crate::engine_postgres::Postgres::open(settings.directory, durability)?)),
        #[cfg(not(all(feature = "peers", feature = "peers-all")))]
        _ => unreachable!("it was checked that this build has the engine"),
    }
}

/// Refuses an engine that serves only one process.
fn check_shared(kind: EngineKind) -> Result<()> {
    match kind {
        EngineKind::Sqlite | EngineKind::Lmdb | EngineKind::Redb | EngineKind::Bdb => Ok(()),
        EngineKind::Fjall | EngineKind::RocksDb | EngineKind::HashMap | EngineKind::BTreeMap => {
            let name = kind.name();
            Err(Error::Settings(format!("{name} serves one process only: what it has open nobody else can open")))
        }
        EngineKind::Postgres => {
            Err(Error::Settings("postgresql is measured by threads only, each a connection".into()))
        }
    }
}

/// The description of libtp, in the style of [`settings`].
const OURS: &str = "locks on records, and what else it is by itself, a cache of at most a quarter of the memory too; relaxed: the log is in \
                    memory that outlives the process, and is written and synced within 100 ms, so that a crash of the machine costs the last of \
                    the commits and no more; or synced at each commit, those that wait together at once";

/// Returns text for reports: an engine's version, from the build or from the library, its settings, and the fate of
/// commits that are not synced.
pub fn about(engine: &str) -> String {
    if engine == "libtp" {
        return format!("{}; {OURS}", env!("CARGO_PKG_VERSION"));
    }
    if engine == PMEMOBJ {
        let variables = PMEMOBJ_VARIABLES.map(|(name, value)| format!("{name}={value}")).join(", ");
        return format!("{}; undo logs in a pool in memory, {variables}; for recoverable memory", pmemobj_version());
    }
    match engine.parse() {
        Ok(kind) => match peer_version(kind) {
            version if version.is_empty() => settings(kind).to_owned(),
            version => format!("{version}; {}", settings(kind)),
        },
        Err(_) => "unknown".to_owned(),
    }
}

fn settings(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Sqlite => {
            "WAL, BEGIN IMMEDIATE, a connection for each client, 256 MiB of page cache, mapped, its log brought home after 16,384 pages; relaxed: \
             synchronous=OFF, after which a crash of the machine may leave a database that is damaged as a whole; or FULL"
        }
        EngineKind::Lmdb => {
            "integer keys, records written in place; relaxed: WRITEMAP and NOSYNC, no log, after which a crash of the machine may leave a database \
             that is damaged as a whole; or synced at each commit"
        }
        EngineKind::Redb => {
            "integer keys, 256 MiB of cache; relaxed: Durability::None, whose commits do not survive the process (less than asked), or \
             Immediate; by processes MultiWriter, which has Immediate alone (more than asked)"
        }
        EngineKind::Fjall => {
            "transactions with one writer at a time, 256 MiB of cache, LZ4; relaxed: PersistMode::Buffer, a log that survives the process, and \
             is not synced; or SyncData at each commit; one \
             process"
        }
        EngineKind::RocksDb => {
            "TransactionDB, pessimistic; 512 MiB of block cache, Bloom filters of 10 bits, no compression; relaxed: a log that is written, \
             survives the process, and is not synced; or synced at each commit; one process"
        }
        EngineKind::Bdb => {
            "transactions, B-trees of 4 KiB pages, DB_RMW; who only reads locks what it reads (its snapshots, DB_MULTIVERSION, make who writes \
             copy pages); relaxed: a log that is written, survives the process, and is not synced; or synced at each commit"
        }
        EngineKind::Postgres => {
            "a server of its own on a socket of the file system, a function that it carries out, 512 MB of shared buffers, 8 GB of log between \
             checkpoints; relaxed: fsync=off and full_page_writes=off, after which a crash of the machine may leave a database that is damaged as a whole; or its \
             default"
        }
        EngineKind::HashMap | EngineKind::BTreeMap => "std's, in the process, behind a mutex",
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
        assert!(error.contains("oracle") && error.contains("sqlite, lmdb"), "{error}");
    }

    #[test]
    fn an_engine_of_one_process_refuses_to_be_shared_in_a_sentence() {
        let directory = std::env::temp_dir();
        for sharing in [Sharing::First, Sharing::Joined] {
            let settings = OpenSettings { directory: &directory, durability: Durability::Relaxed, sharing };
            let refused = open_engine(EngineKind::BTreeMap, &settings).err().unwrap().to_string();
            assert!(refused.contains("btreemap serves one process only"), "{refused}");
        }
    }

    #[test]
    fn what_relaxed_means_is_said_of_every_engine_that_is_measured_so() {
        let engines = EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY).map(EngineKind::name);
        for engine in std::iter::once("libtp").chain(engines) {
            assert!(about(engine).contains("relaxed: "), "{engine}: {}", about(engine));
        }
    }

    #[test]
    fn a_peer_that_was_left_out_says_how_to_get_it() {
        let directory = std::env::temp_dir();
        let settings = OpenSettings { directory: &directory, durability: Durability::Sync, sharing: Sharing::Alone };
        for kind in EngineKind::ALL.into_iter().filter(|kind| !kind.is_built_in()) {
            let refused = open_engine(kind, &settings).err().unwrap().to_string();
            assert!(refused.contains(kind.name()) && refused.contains("--features peers"), "{refused}");
        }
    }
}
