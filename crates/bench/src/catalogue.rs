//! Opens the engines by name, and describes them.

#[cfg(feature = "peers-all")]
use crate::c_tables::{PartsInC, RowsInC};
use crate::engine::{Durability, Engine};
use crate::engine_in_memory::{InMemory, MapKind};
use crate::error::{Error, Result};
use crate::kinds::{EngineKind, OpenSettings, Sharing, PMEMOBJ};
use crate::memory::PMEMOBJ_VARIABLES;
use crate::oo1::OpenParts;
use crate::peer_version::{peer_version, pmemobj_version};
#[cfg(feature = "peers-all")]
use crate::peers::{bdb, rocksdb};
#[cfg(feature = "peers")]
use crate::peers::{fjall, lmdb, redb, sqlite};
use crate::rows::{self, Contender as RowsContender};

/// Opens an engine's bank, and creates it if the directory is empty; [`Engine::load`] loads it.
///
/// # Errors
/// `Settings` if the build does not have the engine, if the durability is Rio, or if several processes will share the
/// bank and the engine cannot be shared; otherwise the engine's error.
pub fn open_engine(kind: EngineKind, settings: &OpenSettings<'_>) -> Result<Box<dyn Engine>> {
    let OpenSettings { durability, sharing, .. } = *settings;
    if durability == Durability::Rio {
        return Err(Error::Settings("only libtp has durability rio: choose sync or relaxed".into()));
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
            Ok(Box::new(crate::peers::sqlite::Sqlite::open(settings.directory, durability, sharing)?))
        }
        #[cfg(feature = "peers")]
        EngineKind::Lmdb => Ok(Box::new(crate::peers::lmdb::Lmdb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers")]
        EngineKind::Redb => Ok(Box::new(crate::peers::redb::Redb::open(settings.directory, durability, sharing)?)),
        #[cfg(feature = "peers")]
        EngineKind::Fjall => Ok(Box::new(crate::peers::fjall::Fjall::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::RocksDb => Ok(Box::new(crate::peers::rocksdb::RocksDb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::Bdb if sharing == Sharing::Joined => {
            Ok(Box::new(crate::peers::bdb::Bdb::join(settings.directory, durability)?))
        }
        #[cfg(feature = "peers-all")]
        EngineKind::Bdb => Ok(Box::new(crate::peers::bdb::Bdb::open(settings.directory, durability)?)),
        #[cfg(feature = "peers-all")]
        EngineKind::Postgres => Ok(Box::new(crate::peers::postgres::Postgres::open(settings.directory, durability)?)),
        #[cfg(not(all(feature = "peers", feature = "peers-all")))]
        _ => unreachable!("the check above refuses engines that are not in this build"),
    }
}

/// Returns the contenders of the workload of plain records, libtp first.
pub fn rows() -> Vec<RowsContender> {
    let peers: Vec<RowsContender> = vec![
        #[cfg(feature = "peers")]
        RowsContender::peer(EngineKind::Lmdb, |path| Ok(Box::new(lmdb::LmdbRows::open(path)?))),
        #[cfg(feature = "peers")]
        RowsContender::peer(EngineKind::Redb, |path| Ok(Box::new(redb::RedbRows::open(path)?))),
        #[cfg(feature = "peers")]
        RowsContender::peer(EngineKind::Fjall, |path| Ok(Box::new(fjall::FjallRows::open(path)?))),
        #[cfg(feature = "peers")]
        RowsContender::peer(EngineKind::Sqlite, |path| Ok(Box::new(sqlite::SqliteRows::open(path)?))),
        #[cfg(feature = "peers-all")]
        RowsContender::peer(EngineKind::RocksDb, |path| Ok(Box::new(RowsInC::<rocksdb::RocksTables>::open(path)?))),
        #[cfg(feature = "peers-all")]
        RowsContender::peer(EngineKind::Bdb, |path| Ok(Box::new(RowsInC::<bdb::BdbTables>::open(path)?))),
    ];
    rows::ours().into_iter().chain(peers).collect()
}

/// Returns the peers for OO1, each with the function that opens its database of parts.
pub fn parts() -> Vec<(&'static str, OpenParts)> {
    vec![
        #[cfg(feature = "peers")]
        (EngineKind::Sqlite.name(), |path| Ok(Box::new(sqlite::SqliteParts::open(path)?))),
        #[cfg(feature = "peers")]
        (EngineKind::Lmdb.name(), |path| Ok(Box::new(lmdb::LmdbParts::open(path)?))),
        #[cfg(feature = "peers")]
        (EngineKind::Redb.name(), |path| Ok(Box::new(redb::RedbParts::open(path)?))),
        #[cfg(feature = "peers")]
        (EngineKind::Fjall.name(), |path| Ok(Box::new(fjall::FjallParts::open(path)?))),
        #[cfg(feature = "peers-all")]
        (EngineKind::RocksDb.name(), |path| Ok(Box::new(PartsInC::<rocksdb::RocksTables>::open(path)?))),
        #[cfg(feature = "peers-all")]
        (EngineKind::Bdb.name(), |path| Ok(Box::new(PartsInC::<bdb::BdbTables>::open(path)?))),
    ]
}

/// Refuses an engine whose clients must be threads of one process.
fn check_shared(kind: EngineKind) -> Result<()> {
    match kind {
        EngineKind::Sqlite | EngineKind::Lmdb | EngineKind::Redb | EngineKind::Bdb => Ok(()),
        EngineKind::Fjall | EngineKind::RocksDb => Err(Error::Settings(format!(
            "{} serves one process only, because a second process cannot open its files: use --as threads",
            kind.name()
        ))),
        EngineKind::HashMap | EngineKind::BTreeMap => Err(Error::Settings(format!(
            "{} serves one process only, because its records are in that process's memory: use --as threads",
            kind.name()
        ))),
        EngineKind::Postgres => Err(Error::Settings(
            "postgresql is measured only by threads, each with its own connection: use --as threads".into(),
        )),
    }
}

/// The description of libtp, in the style of [`settings`].
const OURS: &str = "locks on records and the other default settings, with a cache of at most a quarter of the memory; \
                    relaxed: the log is in memory that outlives the process, and is written and synced within 100 ms, \
                    so a crash of the machine loses only the last commits; or synced at each commit, with one sync \
                    for all commits that wait together";

/// Returns a description of an engine for reports: its version, its settings, and the crashes that its relaxed commits
/// survive.
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
            "WAL, BEGIN IMMEDIATE, a connection for each client, 256 MiB of page cache, mapped, a checkpoint of its \
             log after 16,384 pages; relaxed: synchronous=OFF, after which a crash of the machine may damage the \
             whole database; or FULL"
        }
        EngineKind::Lmdb => {
            "integer keys, records written in place; relaxed: WRITEMAP and NOSYNC, no log, after which a crash of the \
             machine may damage the whole database; or synced at each commit"
        }
        EngineKind::Redb => {
            "integer keys, 256 MiB of cache; relaxed: Durability::None, whose commits do not survive the process \
             (less durable than asked), or Immediate; with several processes MultiWriter, which has only Immediate \
             (more durable than asked)"
        }
        EngineKind::Fjall => {
            "transactions with one writer at a time, 256 MiB of cache, LZ4; relaxed: PersistMode::Buffer, a log that \
             survives the process, and is not synced; or SyncData at each commit; only one process can use the \
             database"
        }
        EngineKind::RocksDb => {
            "TransactionDB, pessimistic; 512 MiB of block cache, Bloom filters of 10 bits, no compression; relaxed: a \
             log that is written, survives the process, and is not synced; or synced at each commit; only one process \
             can use the database"
        }
        EngineKind::Bdb => {
            "transactions, B-trees of 4 KiB pages, DB_RMW; a read-only transaction locks the data that it reads \
             (Berkeley DB's snapshots, DB_MULTIVERSION, make writers copy pages); relaxed: a log that is written, \
             survives the process, and is not synced; or synced at each commit"
        }
        EngineKind::Postgres => {
            "a server started for the benchmark, with a Unix socket; a stored function runs the transaction; 512 MB \
             of shared buffers, 8 GB of log between checkpoints; relaxed: fsync=off and full_page_writes=off, after \
             which a crash of the machine may damage the whole database; or the server's default"
        }
        EngineKind::HashMap | EngineKind::BTreeMap => "the standard library's map, in the process, behind a mutex",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cold::forget_files;
    use crate::oo1::{ours, Graph, Seen, VisitedPart, Way, INSERTED, TRAVERSED};
    use crate::rows::{bytes_in, shuffled, sorted, Pair};

    const VALUE_BYTES: usize = crate::rows::VALUE_BYTES;

    #[test]
    fn the_error_for_sharing_an_engine_of_one_process_is_a_sentence() {
        let directory = std::env::temp_dir();
        for sharing in [Sharing::First, Sharing::Joined] {
            let settings = OpenSettings { directory: &directory, durability: Durability::Relaxed, sharing };
            let refused = open_engine(EngineKind::BTreeMap, &settings).err().unwrap().to_string();
            assert!(refused.contains("btreemap serves one process only"), "{refused}");
        }
    }

    #[test]
    fn every_engine_describes_its_relaxed_durability() {
        let engines = EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY).map(EngineKind::name);
        for engine in std::iter::once("libtp").chain(engines) {
            assert!(about(engine).contains("relaxed: "), "{engine}: {}", about(engine));
        }
    }

    #[test]
    fn the_error_for_a_peer_that_is_not_built_in_names_the_feature() {
        let directory = std::env::temp_dir();
        let settings = OpenSettings { directory: &directory, durability: Durability::Sync, sharing: Sharing::Alone };
        for kind in EngineKind::ALL.into_iter().filter(|kind| !kind.is_built_in()) {
            let refused = open_engine(kind, &settings).err().unwrap().to_string();
            assert!(refused.contains(kind.name()) && refused.contains("--features peers"), "{refused}");
        }
    }

    #[test]
    fn every_engine_of_plain_records_returns_the_values_that_were_put() -> Result<()> {
        let pairs = sorted(5000);
        let each = u64::try_from(size_of::<Pair>()).unwrap_or(0);
        for RowsContender { name, open, .. } in rows() {
            for is_sorted in [true, false] {
                let dir = tempfile::tempdir().map_err(Error::file("make", Path::new("a directory")))?;
                let rows = open(dir.path())?;
                match is_sorted {
                    true => rows.load_sorted(&pairs)?,
                    false => rows.insert(&shuffled(pairs.clone()))?,
                }
                rows.settle()?;
                assert_eq!(rows.scan()?, 5000 * each, "{name}");
                assert_eq!(rows.get(&mut pairs[..100].iter().map(|(key, _)| key))?, 100 * 84, "{name}");
                // Files may be smaller than keys and values together: fjall's tables store bytes that consecutive keys
                // share once.
                let bytes = bytes_in(dir.path())?;
                assert!(bytes > 5000 * VALUE_BYTES as u64, "{name}: {bytes} bytes, sorted: {is_sorted}");
            }
        }
        Ok(())
    }

    #[test]
    fn every_peer_of_the_build_is_a_contender_for_plain_records() {
        let peers: Vec<_> = rows().into_iter().filter_map(|engine| engine.peer).collect();
        for kind in EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY) {
            assert_eq!(peers.contains(&kind), kind.is_built_in(), "{}", kind.name());
        }
    }

    const PARTS: u32 = 1000;

    /// Returns the count and the sum of the parts that a contender met in an operation.
    fn seen_by(work: impl FnOnce(&mut dyn FnMut(VisitedPart)) -> Result<()>) -> Result<Seen> {
        let mut seen = Seen::default();
        work(&mut |part| seen.see(part))?;
        Ok(seen)
    }

    #[test]
    fn every_peer_of_the_build_is_a_contender_for_oo1_exactly_once() {
        let peers: Vec<_> = parts().into_iter().map(|(name, _)| name).collect();
        for kind in EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY) {
            let times = peers.iter().filter(|name| **name == kind.name()).count();
            assert_eq!(times, usize::from(kind.is_built_in()), "{}", kind.name());
        }
    }

    #[test]
    fn every_contender_meets_the_expected_parts_before_and_after_inserts_and_when_opened_again() -> Result<()> {
        let graph = Graph::make(PARTS, 2);
        for (name, open) in ours().into_iter().chain(parts()) {
            let dir = tempfile::tempdir().map_err(Error::file("make", Path::new("a directory")))?;
            open(dir.path())?.client()?.load(&graph, 1..PARTS + 1)?;
            let mut last = PARTS;
            for _ in 0..3 {
                forget_files(dir.path())?;
                let database = open(dir.path())?;
                let client = database.client()?;
                for root in [1, 17, PARTS / 2, PARTS] {
                    for way in [Way::Forward, Way::Backward] {
                        let met = seen_by(|seen| client.traverse(root, way, seen))?;
                        assert_eq!(met, graph.traversed(root, way, last), "{name}, {way:?} from part {root} of {last}");
                        assert!(way == Way::Backward || met.count == TRAVERSED, "{name}: {met:?}");
                    }
                }
                let ids: Vec<u32> = (1..=last).rev().step_by(7).collect();
                assert_eq!(seen_by(|seen| client.lookup(&ids, seen))?, graph.looked_up(&ids), "{name}");
                assert!(
                    seen_by(|seen| client.lookup(&[last + 1], seen)).is_err(),
                    "{name} found a part that was not inserted"
                );
                if last < graph.last() {
                    client.insert(&graph, last + 1..last + 1 + INSERTED)?;
                    last += INSERTED;
                    database.settle()?;
                }
            }
        }
        Ok(())
    }
}
